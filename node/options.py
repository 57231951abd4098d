"""The command line of a node: what is asked for, checked before anything is done."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from node.addresses import PeerAddress, is_loopback, parse_endpoint, parse_peer
from node.config import Task, built_in_tasks, load_task
from node.errors import ConfigError, shown
from protocol.shares import MAX_MEMBERS

_DESCRIPTION = """\
A peer of a swarm: it trains a model on its own data and learns with others through
secure aggregation. There is no server, and nobody sees anybody's update."""

_EPILOG = """\
examples:
  Three peers on this machine learn to read digits (one line in each of three terminals):
    python -m node --peers 127.0.0.1:9001,127.0.0.1:9002,127.0.0.1:9003 --shard 0/3
    python -m node --peers 127.0.0.1:9001,127.0.0.1:9002,127.0.0.1:9003 --shard 1/3
    python -m node --peers 127.0.0.1:9001,127.0.0.1:9002,127.0.0.1:9003 --shard 2/3
  Data and task of your own, peers on other machines, met through a tracker:
    python -m node --tracker http://10.0.0.5:9000 --listen 10.0.0.7:9001 \\
                   --task ward.toml --data ward.csv --allow peers.txt
  Half the learning rate, and a model with a wider hidden layer:
    python -m node ... --set train.learning_rate=0.05 --set "model.args.sizes=[64,128,10]"

exit status: 0 done, 1 failed at run time, 2 bad arguments or configuration, 130 interrupted
(nothing is lost: the same command line goes on where it stopped)."""


@dataclass(frozen=True)
class NodeOptions:
    """What a node was asked to do. Either `peers` is not empty or `tracker` is given.

    `tracker` and `listen` are "host:port"; `shard` is (part, parts), the part 0-based;
    `rounds` is the last round number to take part in, None for the task's own.
    """

    peers: tuple[PeerAddress, ...]
    tracker: str | None
    listen: str | None
    task: Task
    data: Path | None
    shard: tuple[int, int] | None
    rounds: int | None
    out: Path | None
    key: Path | None
    allow: Path | None
    open: bool
    seed: int
    json: bool
    debug: bool


class NodeParser(argparse.ArgumentParser):
    """An argument parser whose complaints are ConfigErrors, so that they are one line."""

    def error(self, message: str) -> NoReturn:
        """One line, with where to read on."""
        raise ConfigError(f"{message}; {self.prog} --help tells what is allowed")


def parse_arguments(argv: Sequence[str]) -> NodeOptions:
    """The options in `argv` (without the program's name); raises ConfigError.

    --help prints and raises SystemExit(0).
    """
    given = _parser().parse_args(argv)
    options = NodeOptions(
        peers=_peers(given.peers),
        tracker=_tracker(given.tracker),
        listen=None if given.listen is None else parse_endpoint(given.listen, "--listen", any_port=True),
        task=load_task(given.task, given.overrides),
        data=_path(given.data, "--data"),
        shard=_shard(given.shard),
        rounds=None if given.rounds is None else whole_number(given.rounds, "--rounds", 1, 1_000_000),
        out=_path(given.out, "--out"),
        key=_path(given.key, "--key"),
        allow=_path(given.allow, "--allow"),
        open=given.open,
        seed=whole_number(given.seed, "--seed", 0, 2**32 - 1),
        json=given.json,
        debug=given.debug,
    )
    _check_combinations(options)
    _check_trust(options)
    return options


def _parser() -> argparse.ArgumentParser:
    """The parser; values are read by the functions below, which name option and value."""
    parser = NodeParser(
        prog="python -m node",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_meeting(parser.add_argument_group("who to learn with (one of the first two is needed)"))
    _add_learning(parser.add_argument_group("what to learn"))
    _add_running(parser.add_argument_group("this run"))
    return parser


def _add_meeting(group: argparse._ArgumentGroup) -> None:
    """Options about the other peers."""
    group.add_argument(
        "--peers",
        metavar="HOST:PORT[,HOST:PORT...]",
        help="the peers of the swarm, in any order, this node among them or not; KEY@HOST:PORT pins a "
        "peer's public key (64 hex digits). They find each other without a tracker",
    )
    group.add_argument(
        "--tracker", metavar="URL", help="a tracker that introduces the peers, such as http://10.0.0.5:9000"
    )
    group.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where others reach this node; port 0 takes a free one. Default: the --peers entry that can be "
        "bound on this machine, else 127.0.0.1:0",
    )
    group.add_argument(
        "--allow",
        metavar="FILE",
        help="learn only with the public keys in FILE, one a line, # for comments. Off loopback a node "
        "starts only with --allow, every peer pinned, or --open. Default: no list",
    )
    group.add_argument(
        "--open", action="store_true", help="learn with anyone who comes, off loopback too. Default: no"
    )


def _add_learning(group: argparse._ArgumentGroup) -> None:
    """Options about task and data."""
    group.add_argument(
        "--task",
        default="digits",
        metavar="NAME|FILE.toml",
        help=f"a built-in task ({', '.join(built_in_tasks())}) or a task file. Default: digits, handwritten "
        "digits that come with the installation",
    )
    group.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="section.key=value",
        help="change a value of the task, in TOML syntax or as a bare word; may be given many times. "
        "Default: the task as it stands",
    )
    group.add_argument(
        "--data",
        metavar="PATH",
        help="this node's own data: CSV with a header line (.gz too), Parquet, npz with arrays x and y, or a "
        "folder of images by class; what is not numbers needs a task by python -m node.init. "
        "Default: the task's own",
    )
    group.add_argument(
        "--shard",
        metavar="I/N",
        help="take part I (0 to N-1) of the task's own data, divided into N unequal parts that all peers "
        "work out alike. Default: none",
    )


def _add_running(group: argparse._ArgumentGroup) -> None:
    """Options about this run."""
    group.add_argument(
        "--rounds", metavar="N", help="the last round to take part in. Default: the task's train.rounds"
    )
    group.add_argument(
        "--out",
        metavar="DIR",
        help="where model, history and state are kept; the same folder again goes on where it stopped. "
        "Default: runs/<task>-<first digits of the key>",
    )
    group.add_argument(
        "--key",
        metavar="FILE",
        help="this node's private key, made at the first start. Default: node.key in the --out folder",
    )
    group.add_argument(
        "--seed",
        default="0",
        metavar="N",
        help="the order in which this node's rows are trained on; the rest hangs on task.seed. Default: 0",
    )
    group.add_argument("--json", action="store_true", help="print one JSON object a line. Default: no")
    group.add_argument(
        "--debug", action="store_true", help="log each message, and tracebacks of errors. Default: no"
    )


def _peers(written: str | None) -> tuple[PeerAddress, ...]:
    """The entries of --peers, each endpoint and each pinned key once."""
    if written is None:
        return ()
    entries = written.split(",")
    if len(entries) > MAX_MEMBERS:
        raise ConfigError(
            f"--peers names {len(entries)} peers; allowed: at most {MAX_MEMBERS}; larger swarms come later"
        )
    peers = tuple(parse_peer(entry.strip(), "--peers") for entry in entries)
    _refuse_twice("address", [peer.endpoint for peer in peers])
    _refuse_twice("pinned key", [peer.key.hex() for peer in peers if peer.key is not None])
    return peers


def _refuse_twice(kind: str, values: Sequence[str]) -> None:
    """ConfigError if one of `values` stands in --peers more than once."""
    for position, value in enumerate(values):
        if value in values[:position]:
            raise ConfigError(f"--peers: the {kind} {value} stands there twice; name each peer once")


def _tracker(written: str | None) -> str | None:
    """The tracker's "host:port", from a URL or as it stands."""
    if written is None:
        return None
    endpoint = written.removeprefix("http://").removesuffix("/")
    if "/" in endpoint:
        raise ConfigError(f"--tracker {shown(written)} is refused; allowed: http://HOST:PORT or HOST:PORT")
    return parse_endpoint(endpoint, "--tracker")


def _path(written: str | None, option: str) -> Path | None:
    """A path; an empty one, as an unset shell variable leaves it, is refused."""
    if written is None:
        return None
    if not written or "\0" in written:
        raise ConfigError(f"{option} {shown(written)} is refused; allowed: a path")
    return Path(written)


def whole_number(written: str, option: str, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    if not re.fullmatch(r"[0-9]{1,18}", written) or not low <= int(written) <= high:
        raise ConfigError(
            f"{option} {shown(written)} is refused; allowed: a whole number from {low} to {high}"
        )
    return int(written)


def _shard(written: str | None) -> tuple[int, int] | None:
    """(part, parts) of I/N."""
    if written is None:
        return None
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", written)
    if match is None or not int(match[1]) < int(match[2]):
        raise ConfigError(
            f"--shard {shown(written)} is refused; allowed: I/N with I from 0 to N-1, such as 0/5"
        )
    return int(match[1]), int(match[2])


def _check_combinations(options: NodeOptions) -> None:
    """Refuse options that contradict each other."""
    if bool(options.peers) == (options.tracker is not None):
        given = "both are given" if options.peers else "neither is given"
        raise ConfigError(f"{given}: --peers HOST:PORT,... or --tracker URL; give exactly one of them")
    if options.data is not None and options.shard is not None:
        raise ConfigError(
            f"--data {shown(str(options.data))} and --shard contradict each other: --shard takes a part of "
            "the task's own data; give one of them"
        )
    if options.allow is not None and options.open:
        raise ConfigError(
            f"--allow {shown(str(options.allow))} and --open contradict each other: keep --allow to learn "
            "with the listed keys only, or --open to learn with anyone"
        )


def _check_trust(options: NodeOptions) -> None:
    """Off loopback, refuse to start before it is said who may join."""
    pinned = bool(options.peers) and all(peer.key is not None for peer in options.peers)
    if options.allow is not None or options.open or pinned:
        return
    for option, endpoint in _endpoints(options):
        if not is_loopback(endpoint):
            raise ConfigError(
                f"{option} {shown(endpoint)} is not on this machine, so say who may join: "
                "--allow FILE, every peer pinned as KEY@HOST:PORT, or --open for anyone"
            )


def _endpoints(options: NodeOptions) -> Iterable[tuple[str, str]]:
    """Every endpoint in `options`, with the option that names it."""
    if options.listen is not None:
        yield "--listen", options.listen
    if options.tracker is not None:
        yield "--tracker", options.tracker
    yield from (("--peers", peer.endpoint) for peer in options.peers)
