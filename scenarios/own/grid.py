"""Grids: one arm for each combination of values of any keys of a table."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from node.system.errors import ConfigError, shown
from scenarios.own.tables import PEERS, SECTIONS, Table, cell_of
from scenarios.study.arms import Arm, Factors, Level, is_number, level_text

_MOST_ARMS = 10_000
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

Axes = Mapping[str, Sequence[Any]]
"""Values by dotted keys, such as "privacy.epsilon" or "server.parameters.epsilon"; `peers` has no section."""
NOTHING: Mapping[str, Any] = {}


def grid(
    base: Table,
    axes: Axes = NOTHING,
    fixed: Mapping[str, Level] = NOTHING,
    factors: Factors = NOTHING,
    name: str = "",
) -> tuple[Arm, ...]:
    """An arm for each combination of the values of `axes`, the last key changing fastest.

    base: the sections of a task, and of a server and an attack (scenarios.own.tables). fixed: values by
    dotted keys that all arms have besides. Each key of `axes` is a factor, with its last part as its name, or
    all of it if two have the same last part; `factors`: further ones, the same for all arms. name: the
    beginning of each arm's name. Raises ConfigError.
    """
    named = factor_names(list(axes))
    combinations = list(itertools.product(*(_values(key, axes[key]) for key in axes)))
    if len(combinations) > _MOST_ARMS:
        raise ConfigError(f"the grid has {len(combinations)} arms; allowed: at most {_MOST_ARMS}")
    arms = []
    for values in combinations:
        chosen = dict(zip(axes, values, strict=True))
        table = copy.deepcopy(dict(base))
        for key, value in {**fixed, **chosen}.items():
            _put(table, key, value)
        varied = {named[key]: value for key, value in chosen.items()}
        arm = arm_name(name, varied)
        try:
            arms.append(Arm(cell_of(arm, table), {**factors, **varied}))
        except ConfigError as error:
            raise ConfigError(f"arm {arm}: {error}") from None
    return tuple(arms)


def factor_names(keys: Sequence[str]) -> dict[str, str]:
    """The factor of each dotted key: its last part, or all of it if that is not unique."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: own if last.count(own) == 1 else key for key, own in zip(keys, last, strict=True)}


def arm_name(prefix: str, factors: Factors) -> str:
    """A name of an arm: texts as they are, import paths by their last part, numbers with their factor."""
    parts = [prefix] if prefix else []
    for name, level in factors.items():
        number = is_number(level) or isinstance(level, bool)
        said = f"{name}{level_text(level)}" if number else str(level).rpartition(":")[2]
        parts.append(_NOT_IN_NAMES.sub("-", said).strip("-"))
    return "-".join(parts) or "arm"


def _values(key: str, values: object) -> Sequence[Level]:
    if (
        isinstance(values, list | tuple)
        and values
        and all(isinstance(one, str | int | float) for one in values)
    ):
        return tuple(values)
    raise ConfigError(
        f"grid {key} = {shown(values)} is refused; allowed: a list of numbers, text or booleans"
    )


def _put(table: dict[str, Any], key: str, value: Level) -> None:
    """Set a dotted key, in tables of tables that are made where they are missing."""
    *sections, last = key.split(".")
    if (not sections and last != PEERS) or (sections and sections[0] not in SECTIONS):
        raise ConfigError(
            f"{shown(key)} is no key of an arm; allowed: {PEERS}, and keys of {', '.join(SECTIONS)}, such as "
            "'privacy.epsilon'"
        )
    inner = table
    for section in sections:
        inner = inner.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{shown(key)} is no key of an arm: {section} is no table")
    inner[last] = value
