"""The options of `python -m node.init`, and the questions that it asks for missing ones."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from node.cli.commands import program
from node.cli.parser import NodeParser
from node.data.text.cells import number
from node.errors import ConfigError, shown
from node.init.asked import NONE, Asked
from node.options import reachable_path, whole_number
from node.task.dialect import (
    BELOW,
    DATE_ORDERS,
    DECIMALS,
    ENCODINGS,
    LONGEST_WORD,
    MONTHS,
    MOST_WORDS,
    SEPARATORS,
    THOUSANDS,
    WORDS,
)
from node.task.shared_noise import DISTRIBUTED
from protocol.wire.limits import MAX_MEMBERS

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
_OUT = "task.toml"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


@dataclass(frozen=True)
class InitOptions:
    """The options, from the command line or from answers on the terminal."""

    data: Path
    target: str | None
    target_kind: str
    leave_out: tuple[str, ...]
    person: str | None
    """The column that says whose a row is, NONE for none; None: to be found out."""
    asked: Asked
    """How cells are written, as far as it is said."""
    name: str
    model: str
    peers: int | None
    """How many peers are expected, this one among them; None: not known."""
    rounds: int
    privacy: str
    epsilon: float | None
    agree: bool
    search: bool
    out: Path
    force: bool


def parse_init(argv: Sequence[str], asking: bool) -> InitOptions:
    """Returns the options; with `asking`, asks on the terminal for missing ones. Raises ConfigError."""
    given = command_line().parse_args(argv)
    wanted = _wanted(
        given.data, "--data", "your data (CSV, Excel, Parquet, npz, or a folder of images)", asking
    )
    data = reachable_path(wanted, "--data")
    target = given.target
    if target is None and asking and data.suffix.lower() != ".npz" and not data.is_dir():
        target = _asked("the column to predict (empty: the last one)") or None
    written = given.peers
    if written is None and asking:
        written = _asked("how many peers will learn, you among them (empty: not known)") or None
    peers = None if written is None else whole_number(written, "--peers", 1, MAX_MEMBERS)
    name = given.name or _task_name(data if given.out == _OUT else Path(given.out))
    if not re.fullmatch(_NAME, name):
        raise ConfigError(f"--name {shown(name)} is refused; allowed: 64 letters, digits, '.', '_' and '-'")
    out = reachable_path(given.out, "--out")
    if out.exists() and not given.force:
        raise ConfigError(f"--out {shown(str(out))} exists already; give another, or --force to replace it")
    privacy = _privacy(given.privacy, peers)
    if given.search and privacy != "none":
        raise ConfigError(
            f"--search is refused with --privacy {privacy}: a rate that was found on your rows tells about "
            "them, and no noise covers it; leave it out, or give --privacy none"
        )
    return InitOptions(
        data=data,
        target=target,
        target_kind=given.target_kind,
        leave_out=tuple(given.leave_out),
        person=given.person,
        asked=_asked_dialect(given),
        name=name,
        model=given.model,
        peers=peers,
        rounds=whole_number(given.rounds, "--rounds", 1, 1_000_000),
        privacy=privacy,
        epsilon=_epsilon(given.epsilon),
        agree=given.agree,
        search=given.search,
        out=out,
        force=given.force,
    )


def command_line() -> NodeParser:
    """Returns the parser; `parse_init` checks the values."""
    parser = NodeParser(
        prog=program("node.init"),
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_data(parser.add_argument)
    _add_dialect(parser.add_argument_group("how cells are written (found out from the file)").add_argument)
    _add_task(parser.add_argument)
    return parser


def _add_data(add: Callable[..., object]) -> None:
    """Adds the options about the rows."""
    add(
        "--data",
        metavar="PATH",
        help="a CSV (.csv, .tsv, .txt, also .gz), .xlsx, .parquet, .npz, or a folder of images",
    )
    add(
        "--target",
        metavar="NAME",
        help="the column to predict. Default: the last one; of an npz, the array y",
    )
    add("--target-kind", choices=("auto", "classes", "number", "count"), default="auto", help="Default: auto")
    add(
        "--leave-out",
        metavar="NAME",
        action="append",
        default=[],
        help="a column not to learn from; repeatable",
    )
    add(
        "--person",
        metavar="NAME",
        help="the column that says whose a row is: it is not learned from, and epsilon is for a person. With "
        f"{NONE}, epsilon is for a row. Default: a column whose name and cells say so",
    )


def _add_dialect(add: Callable[..., object]) -> None:
    """Adds the options about marks, dates and words for no value, which a look at the file else tells."""
    add("--decimal", choices=tuple(DECIMALS), help="the decimal mark")
    add("--thousands", choices=(*THOUSANDS, NONE), help="the mark between groups of three digits")
    add("--dates", choices=DATE_ORDERS, help="which comes first in 3/4/2023")
    add("--months", choices=MONTHS, help="the language of the months' names in 25 Jul 2023")
    add(
        "--missing",
        metavar="WORD",
        action="append",
        default=[],
        help="a word or number for no value, such as k.A. or 9999 (negative: --missing=-9); repeatable",
    )
    add("--below", choices=(*BELOW, NONE), help="what <0.6 is among numbers: half of it, 0.6, or no value")
    add("--words", choices=(*WORDS, NONE), help="what a word without a digit is among numbers")
    add("--encoding", metavar="NAME", help="of text that is not Unicode. Default: cp1252")
    add("--separator", choices=tuple(SEPARATORS), help="between cells")
    add("--sheet", metavar="NAME", help="of a workbook. Default: the first one")


def _asked_dialect(given: argparse.Namespace) -> Asked:
    if given.thousands is not None and given.decimal == given.thousands:
        raise ConfigError(
            f"--thousands {given.thousands} is refused beside --decimal {given.decimal}; "
            "allowed: another mark"
        )
    encoding = given.encoding.lower() if given.encoding is not None else None
    if encoding is not None and encoding not in ENCODINGS:
        raise ConfigError(
            f"--encoding {shown(given.encoding)} is refused; allowed: {', '.join(ENCODINGS)}; "
            "Unicode is recognised"
        )
    for word in given.missing:
        if not 0 < len(word.strip()) <= LONGEST_WORD:
            raise ConfigError(
                f"--missing {shown(word)} is refused; allowed: a word of at most {LONGEST_WORD} characters"
            )
    if len(given.missing) > MOST_WORDS // 2:
        raise ConfigError(
            f"--missing is given {len(given.missing)} times; allowed: at most {MOST_WORDS // 2}"
        )
    return Asked(
        decimal=given.decimal,
        thousands=given.thousands,
        dates=given.dates,
        months=given.months,
        missing=tuple(dict.fromkeys(word.strip() for word in given.missing)),
        encoding=encoding,
        separator=given.separator,
        sheet=given.sheet,
        below=given.below,
        words=given.words,
    )


def _add_task(add: Callable[..., object]) -> None:
    """Adds the options about the task that is written."""
    add("--out", metavar="FILE", default=_OUT, help=f"the task file. Default: {_OUT}")
    add(
        "--name",
        metavar="NAME",
        help="the task's name. Default: that of --out, or without it that of the data",
    )
    add(
        "--model",
        choices=("auto", "linear", "mlp", "cnn", "scattering"),
        default="auto",
        help="Default: auto, by the data",
    )
    add(
        "--peers",
        metavar="N",
        help=f"how many peers will learn, you among them. {LEAST_SHARING} and more share the noise",
    )
    add("--rounds", metavar="N", default="20", help="Default: 20")
    add(
        "--privacy",
        choices=(DISTRIBUTED, "dp-sgd", "none"),
        help=f"Default: {DISTRIBUTED} with --peers {LEAST_SHARING} and more, else dp-sgd",
    )
    add("--epsilon", metavar="E", help="the privacy budget of the run. Default: 1, 2, 4 or 8, by the rows")
    add(
        "--agree",
        action="store_true",
        help="write public ranges instead of means and spreads of your rows; python -m node.agree then "
        "computes means, spreads and common categories over the rows of all peers",
    )
    add(
        "--search",
        action="store_true",
        help="without privacy: try a third and three times the proposed learning rate on your own rows",
    )
    add("--force", action="store_true", help="replace the task file if it is there")
    add("--debug", action="store_true", help="show where an error came from")


def _wanted(value: str | None, option: str, what: str, asking: bool) -> str:
    answer = value or (_asked(what) if asking and value is None else "")
    if not answer or "\0" in answer:
        raise ConfigError(f"{option} is missing; allowed: {what}")
    return answer


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


def _epsilon(written: str | None) -> float | None:
    if written is None:
        return None
    value = number(written)
    if value is None or not 1e-6 <= value <= 1e6:
        raise ConfigError(f"--epsilon {shown(written)} is refused; allowed: a number from 1e-06 to 1e+06")
    return value
