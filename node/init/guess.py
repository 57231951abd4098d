"""Guesses a schema for one owner's table: which columns are features and how best to encode them.

Only `python -m node.init` guesses; the result becomes a schema, and later only the schema decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from node.data.files.csv_and_parquet import Frame
from node.data.files.formats import kind_of
from node.data.free_text import is_free_text
from node.data.report import Entry
from node.data.text.cells import a_number, number
from node.data.text.columns import (
    Floats,
    Words,
    is_text,
    parsed,
    raw_words,
    reader_of,
    truth,
    with_value,
    words_of,
)
from node.data.text.dates import day_reader, hours
from node.data.text.shapes import OTHER_MARKS, odd_number, shapes_of
from node.data.text.vectors import width_of
from node.init.counts import COUNT_REMARK, are_whole, count_scale, is_count
from node.init.dialect import Found
from node.init.spellings import alike, named
from node.init.texts import Texts
from node.system.errors import ConfigError, counted, shown
from node.task.data_schema import (
    MOST_CLASSES,
    MOST_WIDTH,
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    Column,
    EmbeddingColumn,
    NumberColumn,
    NumberTarget,
    TableSchema,
    Target,
)
from node.task.dialect import PLAIN, Dialect, of_target
from node.task.scaling import Scale, Scaling

MOST_CATEGORIES = 100
LEAST_ROWS = 5
"""A schema does not name a category with fewer rows: it could be one person."""
_FEW_CLASSES = 20
_ENOUGH_TO_JUDGE = 20  # rows from which "different in every row" is significant
_NEARLY_ALL = 0.9
_IDENTIFIER = re.compile(
    r"(?i:(^|[^a-z])(id|uuid|guid|key|index|number|nr)($|[^a-z]))|[a-z](Id|ID)$|^Unnamed"
)

_CLOCK = Scale(12.0, 6.9, 0.0, 24.0)
"""Of a time of day: that of a uniform distribution over a day, which is public."""
_NINES = frozenset({99.0, 999.0, 9999.0, 99999.0, 999999.0})
_ARE_WORDS = "cannot be read as one"
_REMEDY = "write the value alone, or empty the cell"
_REMEDIES = {
    _ARE_WORDS: "--missing WORD for a word that means no value; mend or empty the others",
    OTHER_MARKS: "--decimal and --thousands name the marks",
}

TargetKind = Literal["auto", "classes", "number", "count"]


@dataclass(frozen=True)
class Understood:
    """A schema for a table, the report entries of kept and left-out columns, and the number of rows."""

    schema: TableSchema
    kept: tuple[Entry, ...]
    omitted: tuple[Entry, ...]
    rows: int
    counts: bool = False
    """Whether the target counts something."""


def understand(
    frame: Frame,
    target: str,
    kind: TargetKind,
    unwanted: Sequence[str],
    scaling: Scaling,
    found: Found,
    texts: Texts | None = None,
) -> Understood:
    """Returns a schema for the rows of `frame`, written as `found`, with free text read as `texts`.

    Raises ConfigError if no column can be learned from.
    """
    for name in (target, *unwanted):
        if not {name} & (frame.columns.keys() | frame.vectors.keys() | frame.unusable.keys()):
            raise ConfigError(
                f"data file {shown(str(frame.path))} has no column {shown(name)}; it has "
                f"{shown(', '.join(frame.columns))}"
            )
    aim, aim_entry, counts = _target(frame, target, kind, scaling, found)
    columns: list[Column] = []
    kept, omitted = (
        [aim_entry],
        [Entry(name, what, "left out: no single values") for name, what in frame.unusable.items()],
    )
    for guessed in _guesses(frame, target, unwanted, scaling, found):
        if isinstance(guessed, Entry):
            omitted.append(guessed)
        else:
            columns.append(guessed[0])
            kept.append(guessed[1])
    if texts is not None and (texts.most_others is None or len(columns) <= texts.most_others):
        read = [entry for entry in omitted if _is_free_text(entry.column, frame, unwanted)]
        columns += [texts.column(entry.column) for entry in read]
        kept += [Entry(entry.column, "text", f"as {texts.width} features") for entry in read]
        omitted = [entry for entry in omitted if entry not in read]
    if not columns:
        raise ConfigError(
            f"data file {shown(str(frame.path))}: no column is left to learn from; {omitted[0].column}: "
            f"{omitted[0].remark}"
        )
    dialect = None if found.dialect == PLAIN else found.dialect
    schema = TableSchema("table", aim, tuple(columns), dialect)
    return Understood(schema, tuple(kept), tuple(omitted), frame.rows, counts)


def _guesses(
    frame: Frame, target: str, unwanted: Sequence[str], scaling: Scaling, found: Found
) -> Iterator[tuple[Column, Entry] | Entry]:
    """Yields for each column but the target its schema and report entry, or why it is left out."""
    for name, cells in frame.columns.items():
        if name in unwanted:
            yield Entry(name, "left out", "as asked")
        elif name != target:
            yield _column(name, cells, found, scaling)
    for name, lists in frame.vectors.items():
        width = width_of(lists)
        if name in unwanted:
            yield Entry(name, "left out", "as asked")
        elif width is None or width > MOST_WIDTH:
            yield Entry(name, "left out", "lists of unlike lengths, or longer than an embedding")
        else:
            told = Entry(name, f"embedding of {width} numbers", "its direction")
            yield EmbeddingColumn(name, "embedding", width), told


def _is_free_text(name: str, frame: Frame, unwanted: Sequence[str]) -> bool:
    cells = frame.columns.get(name)
    if cells is None or name in unwanted or not is_text(cells):
        return False
    return kind_of(frame.path) == "texts" or is_free_text(raw_words(cells))


def _target(
    frame: Frame, name: str, kind: TargetKind, scaling: Scaling, found: Found
) -> tuple[Target, Entry, bool]:
    """Returns the target's schema, its report entry, and whether it counts something."""
    if name not in frame.columns:
        raise ConfigError(f"the target {shown(name)} is of type {frame.type_of(name)}; name another column")
    cells, dialect = frame.columns[name], of_target(found.of_column(name))
    words = _words(cells, dialect)
    values, bad = parsed(words, reader_of(cells, dialect))
    values = with_value(values, dialect)
    whole = bad is None and bool(np.all(np.isnan(values) | (values == np.floor(values))))
    few = len(words.words) <= _FEW_CLASSES and len(words.words) * 5 <= len(words.codes)
    missing, there = int(words.missing.sum()), values[~np.isnan(values)]
    remark = f"; {counted(missing, 'row')} without it left out" if missing else ""
    if kind == "classes" or (kind == "auto" and (bad is not None or (whole and few))):
        classes, spelt = classes_of(name, dict(zip(words.words, words.counts().tolist(), strict=True)))
        if not 2 <= len(classes.values) <= MOST_CLASSES:
            raise ConfigError(
                f"the target {shown(name)} has {counted(len(classes.values), 'different value')}; allowed: 2 "
                f"to {MOST_CLASSES} classes; name another column with --target, or use --target-kind number"
            )
        remark += f"; {spelt}" if spelt else ""
        if kind == "auto" and bad is None and is_count(name, there):
            remark += "; if it counts something: --target-kind count"
        told = _listed(classes.values) + remark
        return classes, Entry(name, f"target, {len(classes.values)} classes", told), False
    if bad is not None:
        raise ConfigError(
            f"the target {shown(name)}, row {bad.row}: {shown(bad.word)} is not {a_number(dialect)}; mend "
            "it, or use --target-kind classes"
        )
    if kind == "count" and not are_whole(there):
        odd = there[(there < 0) | (there != np.floor(there))]
        raise ConfigError(
            f"the target {shown(name)} has {odd[0]:g}, which is no count; allowed with --target-kind count: "
            "whole numbers from 0 on; mend it, or use --target-kind number"
        )
    counts = kind == "count" or (kind == "auto" and is_count(name, there))
    scale = _scale(values, name, scaling)
    scale = count_scale(scale) if counts else scale
    mark = found.decimals.get(name)
    aim = NumberTarget("number", scale.mean, scale.std, name, scale.low, scale.high, mark)
    if counts:
        return aim, Entry(name, "target, a count", COUNT_REMARK + remark), True
    return aim, Entry(name, "target, a number", remark.lstrip("; ")), False


def classes_of(name: str | None, rows: Mapping[str, int]) -> tuple[ClassTarget, str]:
    """Returns the classes among labels with so many `rows`, and what to tell of their spellings."""
    found = alike(rows)
    values = in_order(list(found))
    spelt = named(found, values)
    return ClassTarget("classes", values, name, spelt.spellings), spelt.told


def in_order(words: Sequence[str]) -> tuple[str, ...]:
    """Returns `words` sorted, as numbers if all are: an order that does not reveal their frequencies."""
    read = {word: number(word) for word in words}
    if all(value is not None for value in read.values()):
        return tuple(sorted(words, key=lambda word: (read[word] or 0.0, word)))
    return tuple(sorted(words))


def _listed(values: Sequence[str]) -> str:
    told = ", ".join(shown(value) for value in values[:6])
    return told + (f", and {len(values) - 6} more" if len(values) > 6 else "")


def _words(cells: pa.ChunkedArray, dialect: Dialect) -> Words:
    """Returns a column's words; those for no value are values if there would be fewer than two without them.

    So a rhesus factor of + or - keeps both, in a file whose numbers have - for no value.
    """
    words = words_of(cells, dialect)
    if len(words.words) >= 2 or not dialect.missing:
        return words
    every = words_of(cells, PLAIN)
    are_signs = not any(map(str.isalnum, "".join(every.words)))
    return every if len(every.words) == 2 and are_signs else words


def _column(
    name: str, cells: pa.ChunkedArray, found: Found, scaling: Scaling
) -> tuple[Column, Entry] | Entry:
    """Returns the column's schema and its report entry; only an Entry if the column is left out."""
    dialect = found.of_column(name)
    words = _words(cells, dialect)
    if len(words.words) < 2:
        same = f"the same in every row that has a value: {shown(words.words[0])}" if words.words else ""
        return Entry(name, "left out", same or "no value in any row")
    readers = _readers(cells, dialect, found.units.get(name))
    for kind, read in readers.items():
        if read(words.words[0]) is None:
            continue
        values, bad = parsed(words, read)
        if bad is None:
            values = with_value(values, dialect) if kind == "number" else values
            return _without_identifiers(name, values) or _valued(name, kind, values, found, scaling)
    if name in found.undecided:
        why = f"dates such as {shown(words.words[0])}, and nothing says whether day or month comes first"
        return Entry(name, "left out", f"{why}: say --dates day-first or month-first")
    return _category(name, words, _unread(words, readers))


ValueKind = Literal["boolean", "number", "date", "time"]


def _readers(
    cells: pa.ChunkedArray, dialect: Dialect, unit: str | None
) -> dict[ValueKind, Callable[[str], float | None]]:
    """Returns the functions that read a cell, in the order in which a column's kind is tried."""
    return {
        "boolean": truth,
        "number": reader_of(cells, dialect, unit),
        "date": day_reader(dialect.dates, dialect.months),
        "time": hours,
    }


def _valued(
    name: str, kind: ValueKind, values: Floats, found: Found, scaling: Scaling
) -> tuple[Column, Entry] | Entry:
    missing = int(np.isnan(values).sum())
    if kind == "boolean":
        return BooleanColumn(name, "boolean", missing > 0), Entry(name, "boolean", _absent(missing))
    there = values[~np.isnan(values)]
    if not len(there) or float(there.std()) == 0.0:
        return Entry(name, "left out", "the same number in every row that has one")
    scale = _CLOCK if kind == "time" else _scale(values, name, scaling)
    column = NumberColumn(
        name=name,
        kind=kind,
        mean=scale.mean,
        std=scale.std,
        missing=missing > 0,
        low=scale.low,
        high=scale.high,
        decimal=found.decimals.get(name) if kind == "number" else None,
        dates=found.dates.get(name) if kind == "date" else None,
        unit=found.units.get(name) if kind == "number" else None,
    )
    told = (_absent(missing), _far_nines(there) if kind == "number" else "")
    return column, Entry(name, kind, "; ".join(filter(None, told)))


def _far_nines(values: Floats) -> str:
    """Returns a remark on a number such as 9999 far from all others, which often means no value."""
    for nines in (float(values.max()), float(values.min())):
        rest = values[values != nines]
        if abs(nines) not in _NINES or len(rest) < _ENOUGH_TO_JUDGE or len(rest) > len(values) - 2:
            continue
        if float(np.abs(rest - nines).min()) > 2 * float(rest.max() - rest.min()):
            count = counted(len(values) - len(rest), "cell")
            return f"{nines:g} in {count}, far from all others: --missing {nines:g} if it means no value"
    return ""


def _without_identifiers(name: str, values: Floats) -> Entry | None:
    """Returns why to leave the column out if it counts rows, or has unique values and a key-like name."""
    there = values[~np.isnan(values)]
    if len(there) < _ENOUGH_TO_JUDGE or len(np.unique(there)) < len(there):
        return None
    counts = float(there.max() - there.min()) == len(there) - 1 and bool(np.all(there == np.floor(there)))
    if counts or _IDENTIFIER.search(name):
        return Entry(name, "left out", "an identifier: a different number in every row")
    return None


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


@dataclass(frozen=True)
class _Unread:
    """Why a column is not read as the values that it looks like."""

    remark: str
    nearly: bool
    """Whether nearly all of its words can be read."""


def _unread(words: Words, readers: Mapping[ValueKind, Callable[[str], float | None]]) -> _Unread | None:
    """Returns why a column of text holds no numbers, dates or times; None if it does not look so."""
    different = len(words.words)
    few = different <= _FEW_CLASSES
    if few and not shapes_of(words.words).numbers.marked:
        return None
    for kind in ("number", "date", "time"):
        read = readers[kind]
        unread = [place for place, word in enumerate(words.words) if read(word) is None]
        odd = sum(odd_number(words.words[place]) is not None for place in unread) if kind == "number" else 0
        if 2 * (different - len(unread) + odd) >= different:
            nearly = not few and different - len(unread) >= _NEARLY_ALL * different
            return _Unread(f"looks like {kind}s, but {_reasons(words, unread)}", nearly)
    return None


def _reasons(words: Words, unread: Sequence[int]) -> str:
    """Returns the two most common reasons why cells cannot be read, with examples, and the remedies."""
    counts, cells, examples = words.counts(), Counter[str](), dict[str, str]()
    for place in unread:
        why = odd_number(words.words[place]) or _ARE_WORDS
        cells[why] += int(counts[place])
        examples.setdefault(why, words.words[place])
    found = cells.most_common(2)
    told = (f"{counted(count, 'cell')} such as {shown(examples[why])} {why}" for why, count in found)
    remedies = (_REMEDIES.get(why, _REMEDY) for why, _ in found)
    return f"{' and '.join(told)}: {'; '.join(dict.fromkeys(remedies))}"


def _category(name: str, words: Words, unread: _Unread | None) -> tuple[Column, Entry] | Entry:
    """Returns the schema of a text column and its report entry; only an Entry if it is left out."""
    different, there = len(words.words), int((~words.missing).sum())
    if unread is not None and (unread.nearly or different > MOST_CATEGORIES):
        return Entry(name, "left out", unread.remark)
    if there >= _ENOUGH_TO_JUDGE and different >= _NEARLY_ALL * there:
        why = "an identifier, or free text: different in nearly every row"
        return Entry(name, "left out", unread.remark if unread else why)
    if different > MOST_CATEGORIES:
        return Entry(
            name, "left out", f"{different} different values; at most {MOST_CATEGORIES} become features"
        )
    return _named(name, words, unread)


def _named(name: str, words: Words, unread: _Unread | None) -> tuple[Column, Entry] | Entry:
    counts, missing = words.counts(), int(words.missing.sum())
    looks = unread.remark if unread else ""
    found = alike(dict(zip(words.words, counts.tolist(), strict=True)))
    common = in_order([value for value, each in found.items() if each.rows >= LEAST_ROWS])
    if not common:
        return Entry(name, "left out", f"no value has {LEAST_ROWS} rows or more")
    rare = len(found) - len(common)
    spelt = named(found, common)
    told = f"{rare} with fewer than {LEAST_ROWS} rows count as other" if rare else ""
    absent = f"{missing} missing: all its features are 0" if missing else ""
    column = CategoryColumn(name, "category", common, spelt.spellings)
    return column, Entry(
        name, f"category of {len(common)} values", "; ".join(filter(None, (looks, spelt.told, told, absent)))
    )


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
