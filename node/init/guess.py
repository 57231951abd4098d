"""Guesses a schema for one owner's table: which columns are features and how best to encode them.

Only `python -m node.init` guesses; the result becomes a schema, and later only the schema decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from node.data.cells import A_NUMBER, number
from node.data.columns import Floats, Words, days, parsed, truth, words_of
from node.data.csv_and_parquet import Frame
from node.data.report import Entry, counted
from node.errors import ConfigError, shown
from node.init.scaling import Scale, Scaling
from node.task.schema import (
    MOST_CLASSES,
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    Column,
    NumberColumn,
    NumberTarget,
    TableSchema,
    Target,
)

MOST_CATEGORIES = 100
LEAST_ROWS = 5
"""A schema does not name a category with fewer rows: it could be one person."""
_FEW_CLASSES = 20
_ENOUGH_TO_JUDGE = 20  # rows from which "different in every row" is significant
_NEARLY_ALL = 0.9
_IDENTIFIER = re.compile(
    r"(?i:(^|[^a-z])(id|uuid|guid|key|index|number|nr)($|[^a-z]))|[a-z](Id|ID)$|^Unnamed"
)

TargetKind = Literal["auto", "classes", "number"]


@dataclass(frozen=True)
class Understood:
    """A schema for a table, the report entries of kept and left-out columns, and the number of rows."""

    schema: TableSchema
    kept: tuple[Entry, ...]
    left_out: tuple[Entry, ...]
    rows: int


def understand(
    frame: Frame, target: str, kind: TargetKind, unwanted: Sequence[str], scaling: Scaling
) -> Understood:
    """Returns a schema for the rows of `frame`. Raises ConfigError if no column can be learned from."""
    for name in (target, *unwanted):
        if name not in frame.columns and name not in frame.left_out:
            raise ConfigError(
                f"data file {shown(str(frame.path))} has no column {shown(name)}; it has "
                f"{shown(', '.join(frame.columns))}"
            )
    aim, aim_entry = _target(frame, target, kind, scaling)
    columns: list[Column] = []
    kept, left_out = (
        [aim_entry],
        [Entry(name, what, "left out: no single values") for name, what in frame.left_out.items()],
    )
    for name, cells in frame.columns.items():
        found = _column(name, cells, frame.rows, name in unwanted, scaling) if name != target else None
        if isinstance(found, Entry):
            left_out.append(found)
        elif found is not None:
            columns.append(found[0])
            kept.append(found[1])
    if not columns:
        raise ConfigError(
            f"data file {shown(str(frame.path))}: no column is left to learn from; {left_out[0].column}: "
            f"{left_out[0].remark}"
        )
    return Understood(TableSchema("table", aim, tuple(columns)), tuple(kept), tuple(left_out), frame.rows)


def _target(frame: Frame, name: str, kind: TargetKind, scaling: Scaling) -> tuple[Target, Entry]:
    """Returns the target's schema and its report entry."""
    if name not in frame.columns:
        raise ConfigError(f"the target {shown(name)} is of type {frame.left_out[name]}; name another column")
    words = words_of(frame.columns[name])
    values, bad = parsed(words, number)
    whole = bad is None and bool(np.all(np.isnan(values) | (values == np.floor(values))))
    few = len(words.words) <= _FEW_CLASSES and len(words.words) * 5 <= len(words.codes)
    missing = int(words.missing.sum())
    remark = f"; {counted(missing, 'row')} without it left out" if missing else ""
    if kind == "classes" or (kind == "auto" and (bad is not None or (whole and few))):
        classes = _classes(name, words)
        return classes, Entry(
            name, f"target, {len(classes.values)} classes", _listed(classes.values) + remark
        )
    if bad is not None:
        raise ConfigError(
            f"the target {shown(name)}, row {bad.row}: {shown(bad.word)} is not {A_NUMBER}; mend it, or use "
            "--target-kind classes"
        )
    scale = _scale(values, name, scaling)
    aim = NumberTarget("number", scale.mean, scale.std, name, scale.low, scale.high)
    return aim, Entry(name, "target, a number", remark.lstrip("; "))


def _classes(name: str, words: Words) -> ClassTarget:
    if not 2 <= len(words.words) <= MOST_CLASSES:
        raise ConfigError(
            f"the target {shown(name)} has {counted(len(words.words), 'different value')}; allowed: 2 to "
            f"{MOST_CLASSES} classes; name another column with --target, or use --target-kind number"
        )
    return ClassTarget("classes", in_order(words.words), name)


def in_order(words: Sequence[str]) -> tuple[str, ...]:
    """Returns `words` sorted, as numbers if all are: an order that does not reveal their frequencies."""
    read = {word: number(word) for word in words}
    if all(value is not None for value in read.values()):
        return tuple(sorted(words, key=lambda word: (read[word] or 0.0, word)))
    return tuple(sorted(words))


def _listed(values: Sequence[str]) -> str:
    told = ", ".join(shown(value) for value in values[:6])
    return told + (f", and {len(values) - 6} more" if len(values) > 6 else "")


def _column(
    name: str, cells: pa.ChunkedArray, rows: int, unwanted: bool, scaling: Scaling
) -> tuple[Column, Entry] | Entry:
    """Returns the column's schema and its report entry; only an Entry if the column is left out."""
    if unwanted:
        return Entry(name, "left out", "as asked")
    words = words_of(cells)
    missing = int(words.missing.sum())
    if len(words.words) < 2:
        same = f"the same in every row that has a value: {shown(words.words[0])}" if words.words else ""
        return Entry(name, "left out", same or "no value in any row")
    for read, make in _KINDS:
        values, bad = parsed(words, read)
        if bad is None:
            return _without_identifiers(name, values) or make(name, values, missing, scaling)
    return _category(name, words, missing, rows)


def _truths(name: str, _values: Floats, missing: int, _scaling: Scaling) -> tuple[Column, Entry] | Entry:
    return BooleanColumn(name, "boolean", missing > 0), Entry(name, "boolean", _absent(missing))


def _numbers(name: str, values: Floats, missing: int, scaling: Scaling) -> tuple[Column, Entry] | Entry:
    return _scaled(name, "number", values, missing, scaling)


def _dates(name: str, values: Floats, missing: int, scaling: Scaling) -> tuple[Column, Entry] | Entry:
    return _scaled(name, "date", values, missing, scaling)


_Make = Callable[[str, Floats, int, Scaling], tuple[Column, Entry] | Entry]
_KINDS: tuple[tuple[Callable[[str], float | None], _Make], ...] = (
    (truth, _truths),
    (number, _numbers),
    (days, _dates),
)


def _without_identifiers(name: str, values: Floats) -> Entry | None:
    """Returns why to leave the column out if it counts rows, or has unique values and a key-like name."""
    there = values[~np.isnan(values)]
    if len(there) < _ENOUGH_TO_JUDGE or len(np.unique(there)) < len(there):
        return None
    counts = float(there.max() - there.min()) == len(there) - 1 and bool(np.all(there == np.floor(there)))
    if counts or _IDENTIFIER.search(name):
        return Entry(name, "left out", "an identifier: a different number in every row")
    return None


def _scaled(
    name: str, kind: Literal["number", "date"], values: Floats, missing: int, scaling: Scaling
) -> tuple[Column, Entry] | Entry:
    there = values[~np.isnan(values)]
    if float(there.std()) == 0.0:
        return Entry(name, "left out", "the same number in every row that has one")
    scale = _scale(values, name, scaling)
    column = NumberColumn(name, kind, scale.mean, scale.std, missing > 0, scale.low, scale.high)
    return column, Entry(name, kind, _absent(missing))


def _absent(missing: int) -> str:
    return f"{missing} missing: a feature marks them" if missing else ""


def _scale(values: Floats, name: str, scaling: Scaling) -> Scale:
    """Returns the scale that `scaling` gives; raises ConfigError if all values are equal."""
    there = values[~np.isnan(values)]
    if len(there) < 2 or float(there.std()) == 0.0:
        raise ConfigError(
            f"the target {shown(name)} is the same in every row; name another column with --target"
        )
    return scaling(there)


def _category(name: str, words: Words, missing: int, rows: int) -> tuple[Column, Entry] | Entry:
    """Returns the schema of a text column and its report entry; only an Entry if it is left out."""
    different, there = len(words.words), rows - missing
    readable = sum(number(word) is not None for word in words.words)
    if different > _FEW_CLASSES and readable >= _NEARLY_ALL * different:
        odd = next(word for word in words.words if number(word) is None)
        return Entry(
            name, "left out", f"numbers, but for some cells such as {shown(odd)}; mend them, or empty them"
        )
    if there >= _ENOUGH_TO_JUDGE and different >= _NEARLY_ALL * there:
        return Entry(name, "left out", "an identifier, or free text: different in nearly every row")
    if different > MOST_CATEGORIES:
        return Entry(
            name, "left out", f"{different} different values; at most {MOST_CATEGORIES} become features"
        )
    return _named(name, words, missing)


def _named(name: str, words: Words, missing: int) -> tuple[Column, Entry] | Entry:
    counts = words.counts()
    common = in_order([word for word, count in zip(words.words, counts, strict=True) if count >= LEAST_ROWS])
    if not common:
        return Entry(name, "left out", f"no value has {LEAST_ROWS} rows or more")
    rare = len(words.words) - len(common)
    told = f"{rare} with fewer than {LEAST_ROWS} rows count as other" if rare else ""
    absent = f"{missing} missing: all its features are 0" if missing else ""
    column = CategoryColumn(name, "category", common)
    return column, Entry(name, f"category of {len(common)} values", "; ".join(filter(None, (told, absent))))


def array_scales(x: NDArray, scaling: Scaling) -> tuple[Scale, ...]:
    """Returns one scale for each place of the second axis of `x` (n, ...) if it is short, else one in all.

    Constant values get a standard deviation of 1.
    """
    own = x.shape[1] <= 256 if x.ndim == 2 else x.ndim == 4 and x.shape[1] <= 4
    parts = [x[:, place] for place in range(x.shape[1])] if own else [x]
    return tuple(_array_scale(part, scaling) for part in parts)


def _array_scale(values: NDArray, scaling: Scaling) -> Scale:
    low, high = float(values.min()), float(values.max())
    return scaling(values) if low < high else Scale(low, 1.0, low - 1, low + 1)
