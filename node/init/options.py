"""The options of `python -m node.init`, and the questions that it asks for missing ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from node.cli.options import chosen, option, part, reachable_path, repeated, switch, whole
from node.cli.options import command_line as parser_of
from node.cli.parser import NodeParser
from node.data.text.cells import number
from node.init.asked import NONE, Asked, AskedStatistics
from node.system.errors import ConfigError, shown
from node.task.dialect import MOST_WORDS
from node.task.shared_noise_keys import DISTRIBUTED
from protocol.wire.limits import MAX_MEMBERS

if TYPE_CHECKING:
    from node.init.guess import TargetKind
    from node.init.proposal import ModelKind

_DESCRIPTION = """\
Looks at your data and writes a commented task file that is ready to run: columns and how they become numbers,
a model, training, privacy. On a terminal it asks for missing options. Nothing leaves this machine; the file
marks the lines that reveal something about your data."""
_EPILOG = """\
examples:
  python -m node.init --data ward.csv --target outcome --peers 3 --out ward.toml
  python -m node.init --data ward.csv --target outcome --agree --out ward.toml
  python -m node.init --data scans/ --model cnn            (scans/healthy/*.png, scans/ill/*.png)
  python -m node.init --data export.csv --missing 9999 --dates day-first
  python -m node.init --data ward.parquet --leave-out name --leave-out address --epsilon 2"""
LEAST_SHARING = 3
"""Of fewer peers none can share noise with others: a round needs as many."""
USUAL_ROUNDS = 20
YES, NO = "yes", "no"
_DATA = "your data (CSV, Excel, Parquet, npz, or a folder of images)"
_OUT = "task.toml"
_UNSAID = Path()
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def _data(written: str, place: str) -> Path:
    if not written or "\0" in written:
        raise ConfigError(f"--data is missing; allowed: {_DATA}")
    return reachable_path(written, place)


def _epsilon(written: str, place: str) -> float:
    value = number(written)
    if value is None or not 1e-6 <= value <= 1e6:
        raise ConfigError(f"{place} {shown(written)} is refused; allowed: a number from 1e-06 to 1e+06")
    return value


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """The options, from the command line or from answers on the terminal."""

    data: Path = option(
        "a CSV (.csv, .tsv, .txt, also .gz), .xlsx, .parquet, .npz, or a folder of images",
        _data,
        absent=_UNSAID,
        metavar="PATH",
    )
    target: str | None = option(
        "the column to predict. Default: the last one; of an npz, the array y", metavar="NAME"
    )
    target_kind: TargetKind = option(
        "Default: %(default)s", choices=("auto", "classes", "number", "count"), default="auto"
    )
    leave_out: tuple[str, ...] = repeated("a column not to learn from; repeatable", metavar="NAME")
    person: str | None = option(
        "the column that says whose a row is: it is not learned from, and epsilon is for a person. With "
        f"{NONE}, epsilon is for a row. Default: a column whose name and cells say so",
        metavar="NAME",
    )
    asked: Asked = part(Asked)
    out: Path = option(
        "the task file. Default: %(default)s", reachable_path, begins="", default=_OUT, metavar="FILE"
    )
    name: str = option(
        "the task's name. Default: that of --out, or without it that of the data", metavar="NAME"
    )
    model: ModelKind = option(
        "Default: %(default)s, by the data",
        choices=("auto", "additive", "trees", "network", "linear", "mlp", "cnn", "scattering"),
        default="auto",
    )
    text: str = option(
        "how free text is read: hashed (by its words), leave-out, or by a sentence encoder: package:NAME or "
        "its folder. Default: %(default)s, beside few other columns by an installed encoder, else hashed",
        default="auto",
        metavar="HOW",
    )
    come_and_go: str | None = option(
        "may members come and go? Without privacy an additive model ends with a member that is gone for "
        f"good; with a privacy budget, or a network, they may. Default: {NO}",
        choices=(YES, NO),
    )
    peers: int | None = option(
        f"how many peers will learn, you among them. {LEAST_SHARING} and more share the noise",
        whole(1, MAX_MEMBERS),
        metavar="N",
    )
    rounds: int | None = option(f"Default: {USUAL_ROUNDS}", whole(1, 1_000_000), metavar="N")
    privacy: str = option(
        f"Default: {DISTRIBUTED} with --peers {LEAST_SHARING} and more, else dp-sgd",
        choices=(DISTRIBUTED, "dp-sgd", "none"),
    )
    epsilon: float | None = option(
        "the privacy budget of the run. Default: 1, 2, 4 or 8, by the rows", _epsilon, metavar="E"
    )
    agree: bool = switch(
        "write public ranges instead of means and spreads of your rows; python -m node.agree then computes "
        "means, spreads and common categories over the rows of all peers"
    )
    statistics: bool = switch(
        "write a task for statistics alone, with public ranges and what murmuration stats can compute of "
        "these columns"
    )
    asked_statistics: AskedStatistics = part(AskedStatistics)
    search: bool = switch(
        "without privacy: try a third and three times the proposed learning rate on your own rows", begins=""
    )
    force: bool = switch("replace the task file if it is there")
    debug: bool = switch("show where an error came from")


def parse_init(argv: Sequence[str], asking: bool) -> InitOptions:
    """Returns the options; with `asking`, asks on the terminal for missing ones. Raises ConfigError."""
    given = chosen(InitOptions, argv, command_line())
    data = _data(_asked(_DATA) if asking else "", "--data") if given.data is _UNSAID else given.data
    target = given.target
    if target is None and asking and _may_be_table(data):
        target = _asked("the column to predict (empty: the last one)") or None
    peers = given.peers
    if peers is None and asking:
        written = _asked("how many peers will learn, you among them (empty: not known)")
        peers = whole(1, MAX_MEMBERS)(written, "--peers") if written else None
    name = given.name or _task_name(data if str(given.out) == _OUT else given.out)
    if not re.fullmatch(_NAME, name):
        raise ConfigError(f"--name {shown(name)} is refused; allowed: 64 letters, digits, '.', '_' and '-'")
    if given.out.exists() and not given.force:
        raise ConfigError(
            f"--out {shown(str(given.out))} exists already; give another, or --force to replace it"
        )
    if given.statistics and given.privacy not in (None, "none"):
        raise ConfigError(
            f"--statistics is refused with --privacy {given.privacy}: write [privacy] into the file "
            "(docs/statistics.md says what table one then costs), or give --privacy none"
        )
    if not given.statistics and (said := given.asked_statistics.first):
        raise ConfigError(f"{said} has no effect without --statistics; give that too, or leave it out")
    given.asked_statistics.check()
    privacy = "none" if given.statistics else _privacy(given.privacy, peers)
    come_and_go = given.come_and_go
    if come_and_go is None and asking and privacy == "none" and given.model == "auto" and _may_be_table(data):
        written = _asked(f"may members come and go, {YES} or {NO} (empty: {NO}, for an exact additive model)")
        come_and_go = _yes_or_no(written) if written else None
    if given.search and privacy != "none":
        raise ConfigError(
            f"--search is refused with --privacy {privacy}: a rate that was found on your rows tells about "
            "them, and no noise covers it; leave it out, or give --privacy none"
        )
    asked = _checked(given.asked)
    return replace(
        given,
        data=data,
        target=target,
        asked=asked,
        peers=peers,
        come_and_go=come_and_go,
        name=name,
        privacy=privacy,
    )


def command_line() -> NodeParser:
    """Returns the parser; `parse_init` checks the values."""
    return parser_of("node.init", InitOptions, _DESCRIPTION, _EPILOG)


def _checked(asked: Asked) -> Asked:
    """Returns how cells are written, each word once. Raises ConfigError for two options that contradict."""
    if asked.thousands is not None and asked.decimal == asked.thousands:
        raise ConfigError(
            f"--thousands {asked.thousands} is refused beside --decimal {asked.decimal}; allowed: another "
            "mark"
        )
    if len(asked.missing) > MOST_WORDS // 2:
        raise ConfigError(
            f"--missing is given {len(asked.missing)} times; allowed: at most {MOST_WORDS // 2}"
        )
    return replace(asked, missing=tuple(dict.fromkeys(asked.missing)))


def _may_be_table(data: Path) -> bool:
    return data.suffix.lower() != ".npz" and not data.is_dir()


def _yes_or_no(written: str) -> str:
    if written.lower() not in (YES, NO):
        raise ConfigError(f"--come-and-go {shown(written)} is refused; allowed: {YES} or {NO}")
    return written.lower()


def _asked(what: str) -> str:
    try:
        return input(f"{what}: ").strip()
    except EOFError:
        return ""


def _task_name(path: Path) -> str:
    """Returns a task name made from a file's name."""
    bare = path.absolute().name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", bare).strip("-._")[:64] or "task"


def _privacy(asked: str | None, peers: int | None) -> str:
    """Returns the mechanism: the one asked for, or shared noise if there are enough peers for it."""
    enough = peers is not None and peers >= LEAST_SHARING
    if asked == DISTRIBUTED and not enough:
        told = "missing" if peers is None else f"{peers}"
        raise ConfigError(
            f"--privacy {DISTRIBUTED} is refused with --peers {told}: members share the noise; allowed: "
            f"--peers from {LEAST_SHARING} to {MAX_MEMBERS}, or --privacy dp-sgd"
        )
    return asked or (DISTRIBUTED if enough else "dp-sgd")
