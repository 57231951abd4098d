"""Options, each declared once: as a field of a dataclass, with how its value is read and its line of help.

The parser follows from the fields, and from the parser the keys of a --config file, the variables of the
environment (node.cli.layers), the completion in a shell and the page of all commands.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from node.cli.commands import program
from node.cli.parser import NodeParser, Options
from node.system.errors import ConfigError, reason, shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Chosen = TypeVar("_Chosen", bound="DataclassInstance")
_OPTION, _PART = "node.cli.options.option", "node.cli.options.part"
Read = Callable[[str, str], Any]
"""Returns the value of a text as it was typed, at a place that its ConfigError names."""
Place = Callable[[str], str]
"""Returns where an option was given, by its name with `_` for `-`."""


@dataclass(frozen=True)
class _Declared:
    name: str | None
    read: Read | None
    absent: object
    begins: str | None
    how: Mapping[str, Any]

    @property
    def default(self) -> Any:
        """The value of the field where an object is made without it; MISSING: it has to be given."""
        if self.read is None or self.name == "" or self.how.get("required"):
            return MISSING
        return self.value(self.how.get("default"), "")

    def value(self, written: Any, place: str) -> Any:
        """Returns the value of what was `written`: a text, a list of them, or nothing."""
        if written is None:
            return self.absent
        if isinstance(written, bool) or self.read is None:
            return written
        if isinstance(written, str):
            return self.read(written, place)
        return tuple(self.read(each, place) for each in written)


def as_typed(written: str, place: str) -> str:
    """Returns the text itself."""
    return written


def option(
    help: str,  # noqa: A002 - as in argparse
    read: Read | None = as_typed,
    *,
    name: str | None = None,
    absent: object = None,
    begins: str | None = None,
    **how: Any,
) -> Any:
    """Returns a dataclass field for one option.

    `read` makes the value of what is typed, None: its owner does; `absent` is the value of nothing. `name`:
    the option's, if it is not the field's. `begins`: the title of the group of options that begins with this
    one; "": of none. `how`: as argparse's add_argument takes it, with `default` as it would be typed.
    """
    declared = _Declared(name, read, absent, begins, {"help": help, **how})
    return field(default=declared.default, metadata={_OPTION: declared})


def switch(help: str, **how: Any) -> Any:  # noqa: A002
    """Returns a dataclass field for an option without a value, off unless it is given."""
    return option(help, action="store_true", absent=False, **how)


def repeated(help: str, read: Read = as_typed, **how: Any) -> Any:  # noqa: A002
    """Returns a dataclass field, a tuple, for an option that may be given many times."""
    return option(help, read, action="append", absent=(), **how)


def argument(help: str, read: Read, **how: Any) -> Any:  # noqa: A002
    """Returns a dataclass field for what is given without an option; errors call it by its metavar."""
    return option(help, read, name="", **how)


def part(kind: type[DataclassInstance]) -> Any:
    """Returns a dataclass field for a value of `kind`, whose own options stand here."""
    return field(default_factory=kind, metadata={_PART: kind})


DEBUG = "print tracebacks of errors. Default: no"
FOLDERS = "the --out of a node, or a folder of such"


def command_line(
    package: str, kind: type[DataclassInstance], description: str, epilog: str = ""
) -> NodeParser:
    """Returns the parser of the command that takes the options of `kind`, in the order of their fields."""
    parser = NodeParser(
        prog=program(package),
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    group: Options = parser
    for name, declared in _options_of(kind):
        if declared.begins is not None:
            group = parser.group(declared.begins) if declared.begins else parser
        group.add_argument(f"--{name}" if declared.name != "" else name, **declared.how)
    return parser


def _options_of(kind: type[DataclassInstance]) -> Iterator[tuple[str, _Declared]]:
    for entry in fields(kind):
        if _PART in entry.metadata:
            yield from _options_of(entry.metadata[_PART])
        elif _OPTION in entry.metadata:
            declared = entry.metadata[_OPTION]
            yield declared.name or entry.name.replace("_", "-"), declared


def chosen(kind: type[_Chosen], argv: Sequence[str], parser: NodeParser) -> _Chosen:
    """Returns the options of `kind` in `argv`. Raises ConfigError; --help prints and raises SystemExit(0)."""
    given = vars(parser.parse_args(argv))
    places = {
        action.dest: next(iter(action.option_strings), str(action.metavar)) for action in parser.declared
    }
    return kind(**values(kind, given, places.__getitem__))


def values(kind: type[DataclassInstance], given: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Returns the fields of `kind` that are options, read from the `given` texts by destination."""
    found: dict[str, Any] = {}
    for entry in fields(kind):
        if _PART in entry.metadata:
            within = entry.metadata[_PART]
            found[entry.name] = within(**values(within, given, place))
        elif _OPTION in entry.metadata:
            declared = entry.metadata[_OPTION]
            name = (declared.name or entry.name).replace("-", "_")
            found[entry.name] = declared.value(given[name], place(name))
    return found


# -- how values are read -----------------------------------------------------------------------------------


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


def one_of(*words: str) -> Read:
    """One of the `words`."""

    def read(written: str, place: str) -> str:
        if written not in words:
            allowed = (" or " if len(words) == 2 else ", ").join(words)
            raise ConfigError(f"{place} {shown(written)} is refused; allowed: {allowed}")
        return written

    return read


def whole(low: int, high: int) -> Read:
    """A whole number from `low` to `high`."""
    return _whole(low, high, f"a whole number from {low} to {high}")


def seconds(low: int, high: int) -> Read:
    """A whole number from `low` to `high`, as a float."""
    read = whole(low, high)
    return lambda written, place: float(read(written, place))


def seconds_or(word: str, meaning: float, low: int, high: int) -> Read:
    """A whole number of seconds from `low` to `high`, as a float, or a `word` with its `meaning`."""
    read = _whole(low, high, f"a whole number of seconds from {low} to {high}, or {word}")
    return lambda written, place: meaning if written == word else float(read(written, place))


def _whole(low: int, high: int, allowed: str) -> Read:
    def read(written: str, place: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", written) or not low <= int(written) <= high:
            raise ConfigError(f"{place} {shown(written)} is refused; allowed: {allowed}")
        return int(written)

    return read
