"""A study as a file without code: `python -m scenarios run study.toml`.

name = "two-mechanisms"
seeds = 3
peers = 4

[data], [model], [train], ...   as in a task, for all arms
[[arms]]                        `grid`: lists of values by dotted keys; `set`: values of all of its arms;
                                    `factors`: further words to select its arms by; `name`: their beginning
[[claims]]                      `claim`: a maker of scenarios.study.makers or .bounds, and its arguments
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, reason, shown
from node.task.rules import Rule, choice, key, plain_table, read_section, real, text, unknown_name, whole
from scenarios.data.sources import SOURCES
from scenarios.frame.spec import Claim
from scenarios.own.grid import grid
from scenarios.own.tables import PEERS, SECTIONS
from scenarios.study.arms import Arm, Factors, Where
from scenarios.study.bounds import above, below
from scenarios.study.makers import (
    alike,
    apart,
    at_least,
    best_inside,
    falls,
    lacking_arms,
    lacking_line,
    lacking_pairs,
    never_falls,
    no_worse,
    rises,
    within,
)
from scenarios.study.sweep import FINAL, Quick, Study, Sweep

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_OWN_KEYS = ("name", "summary", "source", "seeds", "quick", "arms", "claims")


def _levels(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    for wanted in value.values():
        levels = wanted if isinstance(wanted, list) else [wanted]
        if not levels or not all(isinstance(one, str | int | float) for one in levels):
            raise ValueError
    return value


_where = Rule("a table of factors, each with a value or a list of values", _levels)


@dataclass(frozen=True)
class HeadSection:
    """What a study is called and how often each arm is run."""

    name: str = key(text("letters, digits, '.', '_' and '-', at most 64", NAME))
    summary: str = key(text("a line of text"), "A study of one's own.")
    source: str = key(text("a line of text"), "a study of one's own")
    seeds: int = key(whole(2, 1000, because=", as a mean needs its standard error"), 3)


@dataclass(frozen=True)
class QuickSection:
    """The short form: `--quick`."""

    seeds: int = key(whole(2, 1000), 2)
    rounds: int = key(whole(1, 1_000_000), 2)


@dataclass(frozen=True)
class ArmsSection:
    """Arms: one for each combination of the values of `grid`, all with the values of `set` and `factors`."""

    grid: Mapping[str, Any] = key(plain_table("a table of lists, by dotted keys"), factory=dict)
    fixed: Mapping[str, Any] = key(plain_table("a table of values, by dotted keys"), factory=dict, name="set")
    factors: Mapping[str, Any] = key(Rule("a table of factors, each with a value", _levels), factory=dict)
    name: str = key(text("letters, digits, '.', '_' and '-', at most 64", NAME), "")


_NEEDS: Mapping[str, tuple[str, ...]] = {
    "falls": ("over",),
    "rises": ("over",),
    "never_falls": ("over",),
    "best_inside": ("over",),
    "at_least": ("bound",),
    "above": ("bound",),
    "below": ("bound",),
    "apart": ("higher", "lower"),
    "no_worse": ("one", "other"),
    "alike": ("one", "other"),
    "within": ("by", "one", "other"),
}
"""The makers of claims, each with the keys that it needs; all take `fact` and `name`, too."""


@dataclass(frozen=True)
class ClaimSection:
    """A claim: the name of its maker and the maker's arguments."""

    claim: str = key(choice(*_NEEDS))
    over: str | None = key(text("the name of a factor"), None)
    where: Mapping[str, Any] = key(_where, factory=dict)
    bound: float | None = key(real(), None)
    higher: Mapping[str, Any] | None = key(_where, None)
    lower: Mapping[str, Any] | None = key(_where, None)
    one: Mapping[str, Any] | None = key(_where, None)
    other: Mapping[str, Any] | None = key(_where, None)
    by: float | None = key(real(above=0), None)
    fact: str = key(text("the name of a fact"), FINAL)
    name: str = key(text("a line of text"), "")


_ALL = ("over", "bound", "higher", "lower", "one", "other", "by")


def read_study(path: Path) -> Study:
    """The study of a TOML file. Raises ConfigError, one line that names the file.

    A relative data.source and model.weights are relative to the file.
    """
    table = _parsed(path)
    try:
        return study_of(_anchored(table, path.parent))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _parsed(path: Path) -> dict[str, Any]:
    try:
        check_regular(path)
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not valid TOML: {reason(error)}") from None


def _anchored(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """`table` with the paths of its base against the folder of the file."""
    changed = dict(table)
    for section, name in (("data", "source"), ("model", "weights")):
        values = table.get(section)
        path = values.get(name) if isinstance(values, dict) else None
        if isinstance(values, dict) and isinstance(path, str) and path and path not in SOURCES:
            changed[section] = {**values, name: str(folder / path)}
    return changed


def study_of(table: Mapping[str, Any]) -> Study:
    """The study that a parsed table describes. Raises ConfigError."""
    known = [*_OWN_KEYS, PEERS, *SECTIONS]
    for name in table:
        if name not in known:
            raise unknown_name("key", name, name, known)
    own = {name: table[name] for name in ("name", "summary", "source", "seeds") if name in table}
    try:
        head = read_section(HeadSection, "", own)
    except ConfigError as error:  # the keys stand above all sections, and are named so
        raise ConfigError(str(error).removeprefix(".")) from None
    quick = read_section(QuickSection, "quick", table.get("quick", {}))
    base = {name: value for name, value in table.items() if name not in _OWN_KEYS}
    arms = _arms(base, _tables("arms", table.get("arms", [{}])))
    factors = {arm.arm: arm.factors for arm in arms}
    claims = [
        _claim(read_section(ClaimSection, f"claims[{number}]", one), f"claims[{number}]", factors)
        for number, one in enumerate(_tables("claims", table.get("claims", [])), start=1)
    ]
    return Study(
        name=head.name,
        summary=head.summary,
        source=head.source,
        arms=arms,
        seeds=head.seeds,
        quick=Quick(quick.seeds, quick.rounds),
        claims=tuple(claims),
    )


def _tables(name: str, value: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ConfigError(f"{name} = {shown(value)} is refused; allowed: tables, each under [[{name}]]")
    return value


def _arms(base: Mapping[str, Any], tables: Sequence[Mapping[str, Any]]) -> tuple[Arm, ...]:
    arms: list[Arm] = []
    for number, table in enumerate(tables, start=1):
        own = read_section(ArmsSection, f"arms[{number}]", table)
        try:
            arms += grid(base, _flat(own.grid), _flat(own.fixed), own.factors, own.name)
        except ConfigError as error:
            raise ConfigError(f"arms[{number}]: {error}") from None
    names = [arm.arm for arm in arms]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two arms are called {name}; give their [[arms]] a `name` each")
    return tuple(arms)


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys: an unquoted `privacy.epsilon` in TOML is a table in a table."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= _flat(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": value}
    return found


def _claim(own: ClaimSection, where: str, factors: Mapping[str, Factors]) -> Claim[Sweep]:
    """The claim of a section. Raises ConfigError for one that no run of these arms could judge."""
    needs = _NEEDS[own.claim]
    for name in _ALL:
        given = getattr(own, name) is not None
        if given != (name in needs):
            what = "has no effect on" if given else "is missing for"
            raise ConfigError(f"{where}.{name} {what} claim {own.claim!r}; it takes {', '.join(needs)}")
    if own.where and own.claim not in (*_ALONG, *_BOUNDED):
        raise ConfigError(f"{where}.where has no effect on claim {own.claim!r}; it takes {', '.join(needs)}")
    made, lacking = _made(own, factors)
    if lacking:
        raise ConfigError(f"{where}: {lacking}")
    return made


def _made(own: ClaimSection, factors: Mapping[str, Factors]) -> tuple[Claim[Sweep], str]:
    """The claim, and what it lacks among the arms; "" if nothing."""
    over, higher, lower = own.over or "", own.higher or {}, own.lower or {}
    one, other = own.one or {}, own.other or {}
    match own.claim:
        case maker if maker in _BOUNDED:
            lacking = lacking_arms(factors, own.where)
            return _BOUNDED[maker](own.bound or 0.0, own.where, own.fact, own.name), lacking
        case "apart":
            return apart(higher, lower, own.fact, own.name), lacking_pairs(factors, higher, lower)
        case "within":
            lacking = lacking_pairs(factors, one, other)
            return within(own.by or 0.0, one, other, own.fact, own.name), lacking
        case "no_worse":
            return no_worse(one, other, own.fact, own.name), lacking_pairs(factors, one, other)
        case "alike":
            return alike(one, other, own.fact, own.name), lacking_pairs(factors, one, other)
        case maker:
            least = 3 if maker == "best_inside" else 2
            lacking = lacking_line(factors, over, own.where, least)
            return _ALONG[maker](over, own.where, own.fact, own.name), lacking


_BOUNDED: Mapping[str, Callable[[float, Where, str, str], Claim[Sweep]]] = {
    "at_least": at_least,
    "above": above,
    "below": below,
}
_ALONG: Mapping[str, Callable[[str, Where, str, str], Claim[Sweep]]] = {
    "falls": falls,
    "rises": rises,
    "never_falls": never_falls,
    "best_inside": best_inside,
}
