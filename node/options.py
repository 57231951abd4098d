"""The command line of a node: all options, checked before the node does anything."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from node.cli.layers import config_option, layered
from node.cli.logs import LogOptions
from node.cli.options import (
    Place,
    a_path,
    option,
    part,
    repeated,
    seconds,
    seconds_or,
    switch,
    whole,
)
from node.cli.options import command_line as parser_of
from node.cli.overrides import Override
from node.cli.parser import NodeParser
from node.data.in_memory import InMemory
from node.learners.learner import Learner
from node.net.tls import covers, tls_option
from node.storage.swarm_file import Swarm
from node.system.addresses import (
    PeerAddress,
    any_endpoint,
    is_loopback,
    parse_endpoint,
    parse_key,
    parse_peer,
)
from node.system.distribution import NAME
from node.system.errors import ConfigError, shown
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
FIRST_WAIT = "600"
"""How long a node waits for its first group unless told otherwise (s)."""
ALONE = "60"
"""How long a node trains its own rows alone, to compare, unless told otherwise (s)."""
REPORTERS = {"tensorboard": "tensorboard", "mlflow": "mlflow"}
"""Maps the names of --report to the modules that they need; each is an extra of the same name."""


@dataclass(frozen=True)
class ReportTo:
    """A program that plots, one of REPORTERS, and the folder where it gets each round's figures."""

    name: str
    folder: Path


def peers_of(written: str, place: str) -> tuple[PeerAddress, ...]:
    """Returns the entries of --peers; raises ConfigError if an endpoint or a pinned key occurs twice."""
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


def tracker_of(written: str, place: str) -> PeerAddress:
    """Returns the tracker's "host:port" and pinned key, from KEY@URL, URL, KEY@HOST:PORT or HOST:PORT."""
    key, at, url = written.rpartition("@")
    endpoint = url.removeprefix("https://").removeprefix("http://").removesuffix("/")
    pinned = parse_key(key)
    if "/" in endpoint or (at and pinned is None):
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: KEY@https://HOST:PORT, KEY@http://HOST:PORT or "
            "KEY@HOST:PORT, KEY being the 64 hex digits of the tracker's public key, needed off this machine"
        )
    return PeerAddress(parse_endpoint(endpoint, place), pinned)


def _reports(written: str, place: str) -> tuple[ReportTo, ...]:
    """Returns the entries of --report."""
    return tuple(_report_to(entry, place) for entry in written.split(","))


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


def _charges(written: str, place: str) -> ChargeCount:
    """Returns the count of charges in SAMPLED+PLAIN."""
    match = re.fullmatch(r"([0-9]{1,7})\+([0-9]{1,7})", written)
    if match is None or max(int(match[1]), int(match[2])) > MAX_CHARGES:
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: the two numbers that the node named when it "
            f"refused to go on, such as 12+0, each at most {MAX_CHARGES}"
        )
    return ChargeCount(int(match[1]), int(match[2]))


def _shard(written: str, place: str) -> tuple[int, int]:
    """Returns (part, parts) from I/N, the part 0-based."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", written)
    if match is None or not int(match[1]) < int(match[2]):
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: I/N with I from 0 to N-1, such as 0/5"
        )
    return int(match[1]), int(match[2])


def cells_option() -> Any:
    """Returns the field of the option that says how the file of --data is written."""
    return option(
        "how the cells of your own file are written, where that is not as the task says, such as "
        "decimal=comma,thousands=point,dates=day-first,missing=k.A.; also months, encoding, separator, "
        "sheet. python -m node.check says what to type. Default: as the task says",
        cells_table,
        metavar="KEY=VALUE[,...]",
    )


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """The options of a node. Either `peers` is not empty or `tracker` is given."""

    peers: tuple[PeerAddress, ...] = option(
        "the peers of the swarm, in any order, this node among them or not; KEY@HOST:PORT pins a peer's "
        "public key (64 hex digits). They find each other without a tracker",
        peers_of,
        absent=(),
        begins="who to learn with (one of the first two is needed)",
        metavar="HOST:PORT[,HOST:PORT...]",
    )
    tracked_by: PeerAddress | None = option(
        "a tracker that introduces the peers, as it prints itself: KEY@https://10.0.0.5:9000, KEY being "
        "the 64 hex digits of its public key. On this machine and with --open, KEY@ may be left out: the "
        "--out folder then keeps the first key that the tracker shows",
        tracker_of,
        name="tracker",
        metavar="KEY@URL",
    )
    listen: str | None = option(
        "the address at which others reach this node; port 0 takes a free one. Default: the --peers entry "
        "that can be bound on this machine, else 127.0.0.1:0",
        any_endpoint,
        metavar="HOST:PORT",
    )
    allow: Path | None = option(
        "learn only with the public keys in FILE, one per line, # for comments. Off loopback a node starts "
        "only with --allow, with every peer pinned, or with --open. Default: no list",
        a_path,
        metavar="FILE",
    )
    names: Path | None = option(
        "names for the keys of peers, NAME = KEY on each line, # for comments: what you read shows them in "
        "place of the first digits of a key. Default: none",
        a_path,
        metavar="FILE",
    )
    open: bool = switch("learn with anyone who connects, off loopback too. Default: no")
    relay: bool = switch(
        "be a relay, too, for invited swarms whose inviter knows its word, which is made beside the key "
        "(KEY.word); needs --listen. Default: no"
    )
    tls: str = tls_option()
    task: Task = option(
        f"a built-in task ({', '.join(built_in_tasks())}) or a task file. Default: digits, handwritten "
        "digits that come with the installation",
        read=None,
        begins="what to learn",
        default="digits",
        metavar="NAME|FILE.toml",
    )
    overrides: tuple[Override, ...] = repeated(
        "change a value of the task, in TOML syntax or as a bare word; repeatable. Default: no changes",
        name="set",
        metavar="section.key=value",
    )
    data: Path | InMemory | None = option(
        "this node's own data: CSV with a header line (.gz too), Parquet, npz with arrays x and y, or a "
        "folder of images or texts by class; values other than numbers need a task made by python -m "
        "node.init. Default: the task's own",
        a_path,
        metavar="PATH",
    )
    blank_person: str | None = option(
        "what a row is whose data.person is blank: refused, or a person of its own. Default: refuse",
        choices=BLANK_PERSON,
    )
    cells: Mapping[str, object] | None = cells_option()
    encoder: str | None = option(
        "where this node has the sentence encoder that the task's columns of text name: its folder, or "
        "package:NAME. Default: the usual package",
        metavar="WHERE",
    )
    shard: tuple[int, int] | None = option(
        "use part I (0 to N-1) of the task's own data, which all peers divide alike into N unequal parts. "
        "Default: none",
        _shard,
        metavar="I/N",
    )
    rounds: int | None = option(
        "how many agreed sums the run has. Default: the task's train.rounds",
        whole(1, 1_000_000),
        begins="this run",
        metavar="N",
    )
    wait_s: float = option(
        "how long to wait for the others before the first group, at least; meanwhile no round is spent, "
        "and the node says who is missing. If none came, it ends with exit status 1. With forever it waits "
        "so for each later group, too. With 0 each round waits for aggregation.group_timeout_s, and then "
        "the node goes on with its own update. Default: "
        "%(default)s",
        seconds_or("forever", math.inf, 0, 30 * 24 * 3600),
        name="wait",
        default=FIRST_WAIT,
        metavar="SECONDS|forever",
    )
    require_aggregation: bool = switch(
        "end with exit status 1 if not one round was aggregated with others. Default: no"
    )
    again: bool = switch(
        "where a job without noise stopped because a member is gone: keep what it has in the --out folder, "
        "say what its totals and those of another job tell together, ask, and begin another without that "
        "member; it must be given at all that are left, and at who comes back later. Default: no"
    )
    yes: bool = switch("answer the question of --again by yes. Default: ask at the terminal")
    out: Path | None = option(
        "the folder for model, history and state; a node with the same folder resumes where it stopped. "
        "Default: runs/<task>-<first digits of the key>",
        a_path,
        metavar="DIR",
    )
    key: Path | None = option(
        "this node's private key, made at the first start. Default: node.key in the --out folder",
        a_path,
        metavar="FILE",
    )
    spent_before: ChargeCount | None = option(
        "your word that this key has been charged so often for this task, if its ledger and its .spent "
        "file are lost: what this folder does not know of counts as spent. A node names the two numbers "
        "when it stops because a member shows that its key has spent more than it knows of. Default: none",
        _charges,
        metavar="N+M",
    )
    seed: int = option(
        "seeds the order in which this node trains on its rows; task.seed fixes the rest. Default: "
        "%(default)s",
        whole(0, 2**32 - 1),
        default="0",
        metavar="N",
    )
    alone_s: float = option(
        "when the run is over, train the same model on this node's rows alone, with the lowest priority "
        "and for at most this long, and say how good it is beside the common one. Default: %(default)s",
        seconds_or("no", 0.0, 1, 24 * 3600),
        name="alone",
        default=ALONE,
        metavar="SECONDS|no",
    )
    json: bool = switch("print one JSON object per line. Default: no")
    log: LogOptions = part(LogOptions)
    drain_timeout_s: float = option(
        "how long the node may take to finish the current round after SIGTERM or Ctrl-C; a second signal "
        "ends it at once. Default: %(default)s",
        seconds(0, 3600),
        name="drain-timeout",
        default="30",
        metavar="SECONDS",
    )
    linger_s: float = option(
        "keep the page up this long after the last round; Ctrl-C ends it. Default: %(default)s",
        seconds(0, 7 * 24 * 3600),
        name="linger",
        default="0",
        metavar="SECONDS",
    )
    reports: tuple[ReportTo, ...] = option(
        "also write each round's figures into the folder DIR for a program that plots them: "
        f"{' or '.join(REPORTERS)}. Default: none",
        _reports,
        name="report",
        absent=(),
        metavar="NAME:DIR[,NAME:DIR...]",
    )
    config: str | None = config_option(ENVIRONMENT)
    debug: bool = switch("log dropped messages, and tracebacks of errors. Default: no")
    learner: Learner | None = None
    """What learns, if a program gave it; None: what the task names."""
    swarm: Swarm | None = None
    """A swarm by invitation: its members are reached by its relays; None: by `peers`."""
    swarm_folder: Path | None = None
    """Where the file of that swarm is, whose members may change while the node runs; None: nowhere."""
    privacy_note: str = ""
    """A line about privacy that was switched off on a task made for it."""

    @property
    def roster(self) -> bytes | None:
        """The digest of the signed list of members, in a swarm by invitation; None: there is no list."""
        return None if self.swarm is None else self.swarm.roster.digest

    @property
    def tracker(self) -> str | None:
        """The "host:port" of the tracker."""
        return None if self.tracked_by is None else self.tracked_by.endpoint

    @property
    def tracker_key(self) -> bytes | None:
        """The Ed25519 public key (32 bytes) that the tracker must have; None if none is pinned."""
        return None if self.tracked_by is None else self.tracked_by.key

    @classmethod
    def changes(cls, given: Mapping[str, Any], place: Place) -> Iterator[Override]:
        """Yields what --blank-person, --cells and --encoder change in the task."""
        for name in ("blank_person", "cells", "encoder"):
            if given[name] is not None:
                yield Override(("data", name), given[name], place(name))

    def folder(self, key: bytes) -> Path:
        """Returns the folder of the run of a node with this public key."""
        return self.out or Path("runs") / f"{self.task.task.name}-{key.hex()[:8]}"


_Node = TypeVar("_Node", bound=NodeOptions)


def parse_arguments(argv: Sequence[str]) -> NodeOptions:
    """Reads the options from `argv` (without the program's name), the environment and the --config file.

    Raises ConfigError; --help prints and raises SystemExit(0).
    """
    return read_options(argv, os.environ)


def read_options(argv: Sequence[str], environ: Mapping[str, str]) -> NodeOptions:
    """Reads the options as `parse_arguments` does, with the environment `environ`."""
    return read_kind(NodeOptions, argv, environ)


def read_kind(kind: type[_Node], argv: Sequence[str], environ: Mapping[str, str]) -> _Node:
    """Reads the options of `kind`, which may have more than a node's, as `read_options` does."""
    asked = layered(parser_of("node", kind, _DESCRIPTION, _EPILOG), argv, environ, ENVIRONMENT)
    given = asked.read(kind)
    loaded = load_changed_task(asked.values.task, (*asked.overrides, *kind.changes(given, asked.place)))
    options = kind(
        **given | {"overrides": asked.overrides, "task": loaded.task, "log": given["log"].at(given["debug"])},
        privacy_note=loaded.privacy_note,
    )
    _check_combinations(options, asked.place)
    _check_relay(options, asked.place)
    _check_trust(options, asked.place)
    _check_tracker(options, asked.place)
    return options


def command_line() -> NodeParser:
    """Returns the parser of a node's options."""
    return parser_of("node", NodeOptions, _DESCRIPTION, _EPILOG)


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


def _check_relay(options: NodeOptions, place: Place) -> None:
    """Refuses a relay that members cannot reach by HTTPS."""
    if options.relay and (options.listen is None or not covers(options.tls, options.listen)):
        raise ConfigError(
            f"{place('relay')} needs an address that others reach by HTTPS: give {place('listen')} HOST:PORT "
            "beyond this machine, or --tls on"
        )


def _check_trust(options: NodeOptions, place: Place) -> None:
    """Refuses addresses beyond loopback unless the options say who may join."""
    pinned = bool(options.peers) and all(peer.key is not None for peer in options.peers)
    if options.allow is not None or options.open or pinned:
        return
    for named, endpoint in _endpoints(options):
        if not is_loopback(endpoint):
            raise ConfigError(
                f"{place(named)} {shown(endpoint)} is not on this machine, so say who may join: "
                "--allow FILE, every peer pinned as KEY@HOST:PORT, or --open for anyone"
            )


def _check_tracker(options: NodeOptions, place: Place) -> None:
    """Refuses a tracker beyond loopback whose key is not pinned, unless --open is given."""
    tracker = options.tracked_by
    if tracker is None or tracker.key is not None or options.open or is_loopback(tracker.endpoint):
        return
    raise ConfigError(
        f"{place('tracker')} {shown(tracker.endpoint)} is not on this machine, so give its key: "
        "KEY@URL, as the tracker prints it at its start, or --open to accept the key that it shows first"
    )


def _endpoints(options: NodeOptions) -> Iterable[tuple[str, str]]:
    """Yields every endpoint in `options`, with the option that names it."""
    if options.listen is not None:
        yield "listen", options.listen
    if options.tracker is not None:
        yield "tracker", options.tracker
    yield from (("peers", peer.endpoint) for peer in options.peers)
