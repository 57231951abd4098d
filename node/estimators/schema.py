"""The schema that the members of a swarm share: from what their sums have found, or from what all declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from node.estimators.table import LEAST_ROWS, Labels
from node.jobs.column_survey import KINDS, ColumnFacts, Word
from node.system.errors import ConfigError, shown
from node.task.data_schema import (
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    Column,
    NumberColumn,
    NumberTarget,
    TableSchema,
    Target,
)
from node.task.scaling import Range, rounded_scale

Declared = Mapping[str, Any]
"""By column: (least, greatest) of numbers, a list of categories, or bool."""
_DECLARED = "(least, greatest) for numbers, a list of text for categories, or bool"


def surveyed_schema(
    names: Sequence[str], facts: Sequence[ColumnFacts], words: Sequence[Word], target: Target
) -> TableSchema:
    """Returns the schema of what the members have in the columns `names`. Raises ConfigError.

    `facts` may have the target's after those of the columns.
    """
    found = tuple(
        _column(name, one, [word for column, word in words if column == place])
        for place, (name, one) in enumerate(zip(names, facts, strict=False))
    )
    return TableSchema("table", target, found)


def number_target(name: str, facts: ColumnFacts) -> NumberTarget:
    """Returns the target whose numbers have these facts."""
    mean, std = rounded_scale(*facts.scale)
    return NumberTarget("number", mean, std, name)


def class_target(name: str, labels: Labels) -> ClassTarget:
    """Returns the target with these classes."""
    return ClassTarget("classes", labels.values, name)


def _column(name: str, facts: ColumnFacts, words: Sequence[str]) -> Column:
    numbers, truths, texts = facts.kinds
    if texts and (numbers or truths):
        told = ", ".join(
            f"{kind} at {count}" for kind, count in zip(KINDS, facts.kinds, strict=True) if count
        )
        raise ConfigError(
            f"column {shown(name)} has several kinds: {told} members; give it one at all of them"
        )
    if not any(facts.kinds):
        raise ConfigError(f"column {shown(name)} has no value at any member; leave it out at all of them")
    if texts:
        if not words:
            raise ConfigError(
                f"column {shown(name)} has no text that {LEAST_ROWS} rows of a member have; leave it out at "
                "all members, or declare its categories (columns)"
            )
        return CategoryColumn(name, "category", tuple(sorted(words)))
    if truths and not numbers:
        return BooleanColumn(name, "boolean", missing=facts.gaps > 0)
    mean, std = rounded_scale(*facts.scale)
    return NumberColumn(name, "number", mean, std, missing=facts.gaps > 0)


def declared_schema(names: Sequence[str], columns: Declared, target: Target) -> TableSchema:
    """Returns the schema that all members declare; any column may have gaps. Raises ConfigError."""
    lacking = [name for name in names if name not in columns]
    unknown = [name for name in columns if name not in names]
    if lacking or unknown:
        what = f"lacks {shown(lacking[0])}" if lacking else f"has {shown(unknown[0])}, which X has not"
        raise ConfigError(f"columns {what}; allowed: each column of X, as {_DECLARED}")
    return TableSchema("table", target, tuple(_declared(name, columns[name]) for name in names))


def declared_number(name: str, given: object) -> NumberTarget:
    """Returns the target with the range that all members declare. Raises ConfigError."""
    extent = _range("target_range", given)
    return NumberTarget("number", *extent.scale, name, extent.low, extent.high)


def _declared(name: str, given: Any) -> Column:
    where = f"columns[{shown(name)}]"
    if given is bool:
        return BooleanColumn(name, "boolean", missing=True)
    if isinstance(given, list | tuple) and given and all(isinstance(word, str) for word in given):
        return CategoryColumn(name, "category", tuple(given))
    extent = _range(where, given)
    return NumberColumn(name, "number", *extent.scale, missing=True, low=extent.low, high=extent.high)


def _range(where: str, given: object) -> Range:
    try:
        low, high = map(float, given)  # type: ignore[call-overload]
        if low < high:
            return Range(low, high)
    except (TypeError, ValueError):
        pass
    raise ConfigError(f"{where} = {shown(given)} is refused; allowed: {_DECLARED}")
