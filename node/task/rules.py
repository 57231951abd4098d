"""The rules for the values of a task file, and the one function that reads a section.

A section is a frozen dataclass; each field carries its rule as metadata, so a new key takes one line.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from node.system.errors import ConfigError, shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Section = TypeVar("_Section", bound="DataclassInstance")
_KEY = "node.task.sections.key"


@dataclass(frozen=True)
class Rule:
    """The rule for the values of one key.

    `accept` returns the value to store, or raises ValueError or ArithmeticError; `allowed` describes the
    allowed values in words.
    """

    allowed: str
    accept: Callable[[object], Any]


@dataclass(frozen=True)
class _Key:
    """The metadata of a field: its rule, its name in TOML, and whether the swarm must share the value."""

    rule: Rule
    name: str | None
    shared: bool


def key(
    rule: Rule,
    default: Any = MISSING,
    *,
    factory: Any = MISSING,
    name: str | None = None,
    shared: bool = True,
) -> Any:
    """Returns a dataclass field for one key; without `default` and `factory` the key is required.

    `name` is the key in TOML if the field cannot have this name; `shared` keys are part of the parameters
    that a whole swarm must have in common.
    """
    return field(default=default, default_factory=factory, metadata={_KEY: _Key(rule, name, shared)})


def key_name(entry: Field[Any]) -> str:
    """The name in TOML of the key that `entry`, a field made by `key`, holds."""
    return entry.metadata[_KEY].name or entry.name


def toml_name(entry: Field[Any]) -> str:
    """The name in TOML of a field of any dataclass, made by `key` or not."""
    return key_name(entry) if _KEY in entry.metadata else entry.name


def rule_of(entry: Field[Any]) -> Rule:
    """The rule of `entry`, a field made by `key`."""
    rule: Rule = entry.metadata[_KEY].rule
    return rule


def is_shared(entry: Field[Any]) -> bool:
    """Returns whether a swarm must share the value of `entry`, a field made by `key`."""
    shared: bool = entry.metadata[_KEY].shared
    return shared


def shared_values(section: Any) -> dict[str, Any]:
    """Returns the values of `section` that a swarm must share, by their names in TOML."""
    return {key_name(entry): getattr(section, entry.name) for entry in fields(section) if is_shared(entry)}


def whole(low: int, high: int, *, because: str = "") -> Rule:
    """A whole number from `low` to `high`; `because` adds the reason for the bound to the message."""

    def accept(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError
        return value

    return Rule(f"a whole number from {low} to {high}{because}", accept)


def real(
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Rule:
    """A finite number within the given bounds; whole numbers become floats."""
    bounds = (
        ("above", operator.gt, above),
        ("at least", operator.ge, at_least),
        ("below", operator.lt, below),
        ("at most", operator.le, at_most),
    )
    given = [(word, holds, limit) for word, holds, limit in bounds if limit is not None]

    def accept(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        number = float(value) + 0.0  # -0.0 and 0.0 must not make two parameter sets
        if not math.isfinite(number) or not all(holds(number, limit) for _, holds, limit in given):
            raise ValueError
        return number

    return Rule("a number " + " and ".join(f"{word} {limit:g}" for word, _, limit in given), accept)


def choice(*values: str | int) -> Rule:
    """One of `values`, all texts or all whole numbers."""
    kind = type(values[0])

    def accept(value: object) -> str | int:
        if type(value) is not kind or value not in values:
            raise ValueError
        return value

    return Rule(" or ".join(repr(value) for value in values), accept)


def some_of(*values: str) -> Rule:
    """A list of one or more of `values`, each at most once, kept as a tuple."""

    def accept(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not value or not all(item in values for item in value):
            raise ValueError
        if len(set(value)) < len(value):
            raise ValueError
        return tuple(value)

    return Rule(f"a list of one or more of {', '.join(values)}, each once", accept)


def boolean() -> Rule:
    """true or false."""

    def accept(value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return Rule("true or false", accept)


def text(allowed: str, pattern: str = r".+") -> Rule:
    """A string that `pattern` matches completely; `allowed` describes it in words."""

    def accept(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError
        return value

    return Rule(allowed, accept)


def names(allowed: str) -> Rule:
    """A list of one or more different strings, kept as a tuple."""

    def accept(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not value or len(set(map(str, value))) < len(value):
            raise ValueError
        if not all(isinstance(name, str) and name for name in value):
            raise ValueError
        return tuple(value)

    return Rule(allowed, accept)


def unique_texts(least: int, most: int, longest: int) -> Rule:
    """A list of `least` to `most` different strings of at most `longest` characters, as an NFC tuple."""

    def accept(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not least <= len(value) <= most:
            raise ValueError
        if not all(isinstance(item, str) and 0 < len(item) <= longest for item in value):
            raise ValueError
        composed = tuple(unicodedata.normalize("NFC", item) for item in value)
        if len(set(composed)) < len(composed):
            raise ValueError
        return composed

    return Rule(f"{least} to {most} different texts of at most {longest} characters", accept)


def lists(most: int, each: Rule) -> Rule:
    """At most `most` lists that the rule `each` accepts, kept as a tuple."""

    def accept(value: object) -> tuple[tuple[str, ...], ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            raise ValueError
        return tuple(each.accept(item) for item in value)

    return Rule(f"at most {most} lists of {each.allowed}", accept)


def numbers(least: int, most: int, each: Rule) -> Rule:
    """A list of `least` to `most` numbers that the rule `each` accepts, kept as a tuple."""

    def accept(value: object) -> tuple[float, ...]:
        if not isinstance(value, list | tuple) or not least <= len(value) <= most:
            raise ValueError
        return tuple(each.accept(item) for item in value)

    return Rule(f"a list of {least} to {most} values, each {each.allowed}", accept)


def plain_table(allowed: str) -> Rule:
    """A table of text, finite numbers, booleans, lists and tables that JSON can represent."""

    def accept(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        return {name: _plain(item) for name, item in value.items()}

    return Rule(allowed, accept)


def _plain(value: object) -> Any:
    """Returns `value`, with copied tables and lists; raises ValueError if JSON cannot represent it."""
    match value:
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case str() | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
    raise ValueError


def read_section(section: type[_Section], name: str, table: object) -> _Section:
    """Returns the dataclass `section` from its TOML `table`; `name` is the section's name.

    Raises ConfigError for an unknown or missing key and for a value that its rule refuses.
    """
    by_name = {key_name(entry): entry for entry in fields(section)}
    if not isinstance(table, dict):
        raise ConfigError(f"{name} = {shown(table)} is refused; allowed: a table with {', '.join(by_name)}")
    for given in table:
        if given not in by_name:
            raise unknown_name("key", f"{name}.{given}", given, list(by_name))
    for wanted, entry in by_name.items():
        if wanted not in table and entry.default is entry.default_factory is MISSING:
            raise ConfigError(f"{name}.{wanted} is missing; allowed: {rule_of(entry).allowed}")
    return section(**{by_name[given].name: _read(by_name[given], name, table) for given in table})


def _read(entry: Field[Any], section: str, table: Mapping[str, object]) -> Any:
    """Returns the value of the key of `entry`; raises ConfigError if its rule refuses it."""
    name, rule = key_name(entry), rule_of(entry)
    try:
        return rule.accept(table[name])
    except (ValueError, ArithmeticError, RecursionError):
        line = f"{section}.{name} = {shown(table[name])} is refused; allowed: {rule.allowed}"
        raise ConfigError(line) from None


def unknown_name(kind: str, dotted: str, name: str, allowed: list[str]) -> ConfigError:
    """Returns the error for an unknown section or key, with the nearest allowed name as a hint."""
    near = difflib.get_close_matches(name, allowed, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return ConfigError(f"{shown(dotted)} is not a known {kind}{hint}; allowed: {', '.join(allowed)}")
