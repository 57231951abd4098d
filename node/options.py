"""The command line of a node: all options, checked before the node does anything."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from node.addresses import PeerAddress, is_loopback, parse_endpoint, parse_key, parse_peer
from node.cli.commands import program
from node.cli.layers import Place, add_config, layered
from node.cli.overrides import Override
from node.cli.parser import NodeParser, Options
from node.data.in_memory import InMemory
from node.distribution import NAME
from node.errors import ConfigError, reason, shown
from node.logs import LogOptions, add_log_options, log_options
from node.net.tls import add_tls
from node.task.dialect import cells_table
from node.task.load import built_in_tasks, load_changed_task
from node.task.sections import BLANK_PERSON, Task
from protocol.wire.limits import MAX_CHARGES, MAX_MEMBERS
from protocol.wire.messages import ChargeCount

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
    python -m node --tracker KEY@https://10.0.0.5:9000 --listen 10.0.0.7:9001 \\
                   --task ward.toml --data ward.csv --allow peers.txt
  Half the learning rate, and a model with a wider hidden layer:
    python -m node ... --set train.learning_rate=0.05 --set "model.args.sizes=[64,128,10]"

Every option can also be set in the environment (--log-level is MURMURATION_NODE_LOG_LEVEL, and
--set train.epochs=1 is MURMURATION_NODE_SET_train__epochs=1) or in a --config file (task keys under
[set]). The first wins of: command line, environment, file, default.

exit status: 0 done, 1 failed at run time, 2 bad arguments or configuration, 130 interrupted
(nothing is lost: the same command line resumes where the node stopped)."""


ENVIRONMENT = "MURMURATION_NODE"
FOREVER = "forever"
FIRST_WAIT = "600"
"""How long a node waits for its first group unless told otherwise (s)."""
NOT_ALONE = "no"
ALONE = "60"
"""How long a node trains its own rows alone, to compare, unless told otherwise (s)."""
_LONGEST_DRAIN_S = 3600
_LONGEST_LINGER_S = 7 * 24 * 3600
_LONGEST_ALONE_S = 24 * 3600
_LONGEST_WAIT_S = 30 * 24 * 3600
REPORTERS = {"tensorboard": "tensorboard", "mlflow": "mlflow"}
"""Maps the names of --report to the modules that they need; each is an extra of the same name."""


@dataclass(frozen=True)
class ReportTo:
    """A program that plots, one of REPORTERS, and the folder where it gets each round's figures."""

    name: str
    folder: Path


@dataclass(frozen=True)
class NodeOptions:
    """The options of a node. Either `peers` is not empty or `tracker` is given.

    `tracker` and `listen` are "host:port"; `shard` is (part, parts), the part 0-based;
    `rounds` is how many agreed sums the run has, None for the task's own; `wait_s` is how long the first
    offer of this start waits for a group at least, infinite for ever; `drain_timeout_s` is how long an
    interrupted node may take to finish the current round.
    """

    peers: tuple[PeerAddress, ...]
    tracker: str | None
    tracker_key: bytes | None
    """The Ed25519 public key (32 bytes) that the tracker must have; None if none is pinned."""
    listen: str | None
    task: Task
    data: Path | InMemory | None
    shard: tuple[int, int] | None
    rounds: int | None
    wait_s: float
    require_aggregation: bool
    """Whether a run without one aggregated round counts as failed: exit status 1."""
    out: Path | None
    key: Path | None
    allow: Path | None
    names: Path | None
    """The file of the names that the owner gives to keys."""
    open: bool
    tls: str
    seed: int
    json: bool
    log: LogOptions
    drain_timeout_s: float
    debug: bool
    privacy_note: str = ""
    """A line about privacy that was switched off on a task made for it."""
    linger_s: float = 0.0
    """How long the page stays up after the end of the run."""
    reports: tuple[ReportTo, ...] = ()
    spent_before: ChargeCount | None = None
    """The owner's word on what a key whose ledger is lost has charged (node.runtime.privacy.spent_before)."""
    alone_s: float = 0.0
    """How long the node may train its own rows alone when the run is over, to compare; 0: it does not."""

    def folder(self, key: bytes) -> Path:
        """Returns the folder of the run of a node with this public key."""
        return self.out or Path("runs") / f"{self.task.task.name}-{key.hex()[:8]}"


def parse_arguments(argv: Sequence[str]) -> NodeOptions:
    """Reads the options from `argv` (without the program's name), the environment and the --config file.

    Raises ConfigError; --help prints and raises SystemExit(0).
    """
    return read_options(argv, os.environ)


def read_options(argv: Sequence[str], environ: Mapping[str, str]) -> NodeOptions:
    """Reads the options as `parse_arguments` does, with the environment `environ`."""
    asked = layered(command_line(), argv, environ, ENVIRONMENT)
    given, place = asked.values, asked.place
    loaded = load_changed_task(given.task, (*asked.overrides, *_of_own_data(given, place)))
    tracker = tracker_of(given.tracker, place("tracker"))
    options = NodeOptions(
        peers=peers_of(given.peers, place("peers")),
        tracker=None if tracker is None else tracker.endpoint,
        tracker_key=None if tracker is None else tracker.key,
        listen=None if given.listen is None else parse_endpoint(given.listen, place("listen"), any_port=True),
        task=loaded.task,
        data=path_of(given.data, place("data")),
        shard=_shard(given.shard, place("shard")),
        rounds=None if given.rounds is None else whole_number(given.rounds, place("rounds"), 1, 1_000_000),
        wait_s=_wait_s(given.wait, place("wait")),
        require_aggregation=given.require_aggregation,
        out=path_of(given.out, place("out")),
        key=path_of(given.key, place("key")),
        allow=path_of(given.allow, place("allow")),
        names=path_of(given.names, place("names")),
        open=given.open,
        tls=given.tls,
        seed=whole_number(given.seed, place("seed"), 0, 2**32 - 1),
        json=given.json,
        log=log_options(asked),
        drain_timeout_s=float(whole_number(given.drain_timeout, place("drain_timeout"), 0, _LONGEST_DRAIN_S)),
        debug=given.debug,
        privacy_note=loaded.privacy_note,
        linger_s=float(whole_number(given.linger, place("linger"), 0, _LONGEST_LINGER_S)),
        reports=_reports(given.report, place("report")),
        spent_before=_charges(given.spent_before, place("spent_before")),
        alone_s=_alone_s(given.alone, place("alone")),
    )
    _check_combinations(options, place)
    _check_trust(options, place)
    _check_tracker(options, place)
    return options


def _of_own_data(given: argparse.Namespace, place: Place) -> Iterator[Override]:
    """Yields what --blank-person and --cells change in the task."""
    if given.blank_person is not None:
        yield Override(("data", "blank_person"), given.blank_person, place("blank_person"))
    if given.cells is not None:
        yield Override(("data", "cells"), cells_table(given.cells, place("cells")), place("cells"))


def command_line() -> NodeParser:
    """Returns the parser. The functions below read the values and name option and value in their errors."""
    parser = NodeParser(
        prog=program("node"),
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_meeting(parser.group("who to learn with (one of the first two is needed)"))
    _add_learning(parser.group("what to learn"))
    _add_running(parser.group("this run"))
    return parser


def _add_meeting(group: Options) -> None:
    """Adds the options about the other peers."""
    group.add_argument(
        "--peers",
        metavar="HOST:PORT[,HOST:PORT...]",
        help="the peers of the swarm, in any order, this node among them or not; KEY@HOST:PORT pins a "
        "peer's public key (64 hex digits). They find each other without a tracker",
    )
    group.add_argument(
        "--tracker",
        metavar="KEY@URL",
        help="a tracker that introduces the peers, as it prints itself: KEY@https://10.0.0.5:9000, KEY being "
        "the 64 hex digits of its public key. On this machine and with --open, KEY@ may be left out: the "
        "--out folder then keeps the first key that the tracker shows",
    )
    group.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="the address at which others reach this node; port 0 takes a free one. Default: the --peers "
        "entry that can be bound on this machine, else 127.0.0.1:0",
    )
    group.add_argument(
        "--allow",
        metavar="FILE",
        help="learn only with the public keys in FILE, one per line, # for comments. Off loopback a node "
        "starts only with --allow, with every peer pinned, or with --open. Default: no list",
    )
    group.add_argument(
        "--names",
        metavar="FILE",
        help="names for the keys of peers, NAME = KEY on each line, # for comments: what you read shows them "
        "in place of the first digits of a key. Default: none",
    )
    group.add_argument(
        "--open", action="store_true", help="learn with anyone who connects, off loopback too. Default: no"
    )
    add_tls(group)


def _add_learning(group: Options) -> None:
    """Adds the options about task and data."""
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
        help="change a value of the task, in TOML syntax or as a bare word; repeatable. Default: no changes",
    )
    group.add_argument(
        "--data",
        metavar="PATH",
        help="this node's own data: CSV with a header line (.gz too), Parquet, npz with arrays x and y, or a "
        "folder of images by class; values other than numbers need a task made by python -m node.init. "
        "Default: the task's own",
    )
    group.add_argument(
        "--blank-person",
        choices=BLANK_PERSON,
        help="what a row is whose data.person is blank: refused, or a person of its own. Default: refuse",
    )
    add_cells(group)
    group.add_argument(
        "--shard",
        metavar="I/N",
        help="use part I (0 to N-1) of the task's own data, which all peers divide alike into N unequal "
        "parts. Default: none",
    )


def add_cells(group: Options) -> None:
    """Adds the option about how the file of --data is written."""
    group.add_argument(
        "--cells",
        metavar="KEY=VALUE[,...]",
        help="how the cells of your own file are written, where that is not as the task says, such as "
        "decimal=comma,thousands=point,dates=day-first,missing=k.A.; also months, encoding, separator, "
        "sheet. python -m node.check says what to type. Default: as the task says",
    )


def _add_running(group: Options) -> None:
    """Adds the options about this run."""
    group.add_argument(
        "--rounds", metavar="N", help="how many agreed sums the run has. Default: the task's train.rounds"
    )
    group.add_argument(
        "--wait",
        default=FIRST_WAIT,
        metavar="SECONDS|forever",
        help="how long to wait for the others before the first group, at least; meanwhile no round is spent, "
        "and the node says who is missing. If none came, it ends with exit status 1. With 0 each round waits "
        "for aggregation.group_timeout_s, and then the node goes on with its own update. Default: "
        f"{FIRST_WAIT}",
    )
    group.add_argument(
        "--require-aggregation",
        action="store_true",
        help="end with exit status 1 if not one round was aggregated with others. Default: no",
    )
    group.add_argument(
        "--out",
        metavar="DIR",
        help="the folder for model, history and state; a node with the same folder resumes where it stopped. "
        "Default: runs/<task>-<first digits of the key>",
    )
    group.add_argument(
        "--key",
        metavar="FILE",
        help="this node's private key, made at the first start. Default: node.key in the --out folder",
    )
    group.add_argument(
        "--spent-before",
        metavar="N+M",
        help="your word that this key has been charged so often for this task, if its ledger and its .spent "
        "file are lost: what this folder does not know of counts as spent. A node names the two numbers when "
        "it stops because a member shows that its key has spent more than it knows of. Default: none",
    )
    group.add_argument(
        "--seed",
        default="0",
        metavar="N",
        help="seeds the order in which this node trains on its rows; task.seed fixes the rest. Default: 0",
    )
    group.add_argument(
        "--alone",
        default=ALONE,
        metavar="SECONDS|no",
        help="when the run is over, train the same model on this node's rows alone, with the lowest priority "
        f"and for at most this long, and say how good it is beside the common one. Default: {ALONE}",
    )
    group.add_argument("--json", action="store_true", help="print one JSON object per line. Default: no")
    add_log_options(group)
    group.add_argument(
        "--drain-timeout",
        default="30",
        metavar="SECONDS",
        help="how long the node may take to finish the current round after SIGTERM or Ctrl-C; a second "
        "signal ends it at once. Default: 30",
    )
    group.add_argument(
        "--linger",
        default="0",
        metavar="SECONDS",
        help="keep the page up this long after the last round; Ctrl-C ends it. Default: 0",
    )
    group.add_argument(
        "--report",
        metavar="NAME:DIR[,NAME:DIR...]",
        help="also write each round's figures into the folder DIR for a program that plots them: "
        f"{' or '.join(REPORTERS)}. Default: none",
    )
    add_config(group, ENVIRONMENT)
    group.add_argument(
        "--debug", action="store_true", help="log dropped messages, and tracebacks of errors. Default: no"
    )


def peers_of(written: str | None, place: str) -> tuple[PeerAddress, ...]:
    """Returns the entries of --peers; raises ConfigError if an endpoint or a pinned key occurs twice."""
    if written is None:
        return ()
    entries = written.split(",")
    if len(entries) > MAX_MEMBERS:
        raise ConfigError(
            f"{place} names {len(entries)} peers; allowed: at most {MAX_MEMBERS}; larger swarms come later"
        )
    peers = tuple(parse_peer(entry.strip(), place) for entry in entries)
    _refuse_twice(place, "address", [peer.endpoint for peer in peers])
    _refuse_twice(place, "pinned key", [peer.key.hex() for peer in peers if peer.key is not None])
    return peers


def _refuse_twice(place: str, kind: str, values: Sequence[str]) -> None:
    """Raises ConfigError if one of `values` occurs in --peers more than once."""
    for position, value in enumerate(values):
        if value in values[:position]:
            raise ConfigError(f"{place}: the {kind} {value} occurs twice; name each peer once")


def tracker_of(written: str | None, place: str) -> PeerAddress | None:
    """Returns the tracker's "host:port" and pinned key, from KEY@URL, URL, KEY@HOST:PORT or HOST:PORT."""
    if written is None:
        return None
    key, at, url = written.rpartition("@")
    endpoint = url.removeprefix("https://").removeprefix("http://").removesuffix("/")
    pinned = parse_key(key)
    if "/" in endpoint or (at and pinned is None):
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: KEY@https://HOST:PORT, KEY@http://HOST:PORT or "
            "KEY@HOST:PORT, KEY being the 64 hex digits of the tracker's public key, needed off this machine"
        )
    return PeerAddress(parse_endpoint(endpoint, place), pinned)


def _reports(written: str | None, place: str) -> tuple[ReportTo, ...]:
    """Returns the entries of --report."""
    return () if written is None else tuple(_report_to(entry, place) for entry in written.split(","))


def _report_to(written: str, place: str) -> ReportTo:
    """Returns the reporter of NAME:DIR; raises ConfigError if it is unknown or not installed."""
    name, _, folder = written.partition(":")
    if name not in REPORTERS or not folder:
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: NAME:DIR, NAME being {' or '.join(REPORTERS)}"
        )
    if find_spec(REPORTERS[name]) is None:
        raise ConfigError(
            f"{place} {shown(written)} needs the package {REPORTERS[name]}, which is not installed: "
            f"pip install '{NAME}[{name}]'"
        )
    return ReportTo(name, a_path(folder, place))


def path_of(written: str | None, option: str) -> Path | None:
    """Returns the path, or None if none is given."""
    return None if written is None else a_path(written, option)


def a_path(written: str, option: str) -> Path:
    """Returns a path; refuses an empty one, which an unset shell variable leaves behind."""
    if not written or "\0" in written:
        raise ConfigError(f"{option} {shown(written)} is refused; allowed: a path")
    return Path(written)


def reachable_path(written: str, option: str) -> Path:
    """Returns a path that the system can look up, whether or not it exists; raises ConfigError."""
    path = a_path(written, option)
    try:
        path.exists()
    except OSError as error:
        raise ConfigError(f"{option} {shown(written)} cannot be used: {reason(error)}") from None
    return path


def whole_number(written: str, option: str, low: int, high: int) -> int:
    """Returns a whole number from `low` to `high`; raises ConfigError."""
    if not re.fullmatch(r"[0-9]{1,18}", written) or not low <= int(written) <= high:
        raise ConfigError(
            f"{option} {shown(written)} is refused; allowed: a whole number from {low} to {high}"
        )
    return int(written)


def _wait_s(written: str, place: str) -> float:
    """Returns how long to wait for the first group (s); infinite for `forever`."""
    if written == FOREVER:
        return math.inf
    if re.fullmatch(r"[0-9]{1,18}", written) is None or int(written) > _LONGEST_WAIT_S:
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: a whole number of seconds from 0 to "
            f"{_LONGEST_WAIT_S}, or {FOREVER}"
        )
    return float(written)


def _alone_s(written: str, place: str) -> float:
    """Returns how long a node may train alone (s); 0 for `no`."""
    if written == NOT_ALONE:
        return 0.0
    if re.fullmatch(r"[0-9]{1,18}", written) is None or not 1 <= int(written) <= _LONGEST_ALONE_S:
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: a whole number of seconds from 1 to "
            f"{_LONGEST_ALONE_S}, or {NOT_ALONE}"
        )
    return float(written)


def _charges(written: str | None, place: str) -> ChargeCount | None:
    """Returns the count of charges in SAMPLED+PLAIN."""
    if written is None:
        return None
    match = re.fullmatch(r"([0-9]{1,7})\+([0-9]{1,7})", written)
    if match is None or max(int(match[1]), int(match[2])) > MAX_CHARGES:
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: the two numbers that the node named when it "
            f"refused to go on, such as 12+0, each at most {MAX_CHARGES}"
        )
    return ChargeCount(int(match[1]), int(match[2]))


def _shard(written: str | None, place: str) -> tuple[int, int] | None:
    """Returns (part, parts) from I/N."""
    if written is None:
        return None
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", written)
    if match is None or not int(match[1]) < int(match[2]):
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: I/N with I from 0 to N-1, such as 0/5"
        )
    return int(match[1]), int(match[2])


def _check_combinations(options: NodeOptions, place: Place) -> None:
    """Refuses options that contradict each other."""
    if options.peers and options.tracker is not None:
        raise ConfigError(
            f"both are given: {place('peers')} HOST:PORT,... and {place('tracker')} URL; "
            "give exactly one of them"
        )
    if not options.peers and options.tracker is None:
        raise ConfigError(
            "neither is given: --peers HOST:PORT,... or --tracker KEY@URL; give exactly one of them"
        )
    if isinstance(options.data, Path) and options.shard is not None:
        raise ConfigError(
            f"{place('data')} {shown(str(options.data))} and {place('shard')} contradict each other: --shard "
            "takes a part of the task's own data; give one of them"
        )
    if options.allow is not None and options.open:
        raise ConfigError(
            f"{place('allow')} {shown(str(options.allow))} and {place('open')} contradict each other: keep "
            "--allow to learn with the listed keys only, or --open to learn with anyone"
        )


def _check_trust(options: NodeOptions, place: Place) -> None:
    """Refuses addresses beyond loopback unless the options say who may join."""
    pinned = bool(options.peers) and all(peer.key is not None for peer in options.peers)
    if options.allow is not None or options.open or pinned:
        return
    for option, endpoint in _endpoints(options):
        if not is_loopback(endpoint):
            raise ConfigError(
                f"{place(option)} {shown(endpoint)} is not on this machine, so say who may join: "
                "--allow FILE, every peer pinned as KEY@HOST:PORT, or --open for anyone"
            )


def _check_tracker(options: NodeOptions, place: Place) -> None:
    """Refuses a tracker beyond loopback whose key is not pinned, unless --open is given."""
    named = options.tracker is None or options.tracker_key is not None
    if options.tracker is None or named or options.open or is_loopback(options.tracker):
        return
    raise ConfigError(
        f"{place('tracker')} {shown(options.tracker)} is not on this machine, so give its key: "
        "KEY@URL, as the tracker prints it at its start, or --open to accept the key that it shows first"
    )


def _endpoints(options: NodeOptions) -> Iterable[tuple[str, str]]:
    """Yields every endpoint in `options`, with the option that names it."""
    if options.listen is not None:
        yield "listen", options.listen
    if options.tracker is not None:
        yield "tracker", options.tracker
    yield from (("peers", peer.endpoint) for peer in options.peers)
