"""Encodes the rows of a table as numbers by the task's schema alone, so that all peers encode alike.

- number, date: (value - mean) / std, clipped to +-10; 0, the mean, for a missing value
- boolean: 1 for yes, -1 for no, 0 for a missing value
- category: 1 in the feature of its value, or in the last one for a value not in the list; else all 0
- text, embedding: a vector (node.data.text.vectors); all 0 for a missing value
- with `missing`, a further feature is 1 for a missing value
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from node.data.files.csv_and_parquet import Frame, fail
from node.data.remedies import other_class
from node.data.report import Entry
from node.data.rows import Labels, Rows, encoded_rows
from node.data.swaps import Seen, swapped
from node.data.text.cells import a_number, is_word, number, number_reader, without_sign
from node.data.text.columns import Bad, Floats, Words, days_of, hours_of, numbers_of, truths_of, words_of
from node.data.text.shapes import shapes_of
from node.data.text.vectors import Encoded, list_vectors, text_vectors
from node.system.errors import ConfigError, counted, shown
from node.system.free_memory import free_bytes
from node.task.data_schema import (
    FARTHEST,
    HASHED,
    ArraySchema,
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    Column,
    EmbeddingColumn,
    NumberColumn,
    NumberTarget,
    TableSchema,
    TextColumn,
    VectorColumn,
)
from node.task.dialect import Dialect

_MANY_CUT, _MANY_OTHER, _HALF = 0.05, 0.2, 0.5
"""Shares of a column's values: so many that are cut, or are other values, are a warning, half a problem."""
_FEWEST = 10  # values below which a share says little
_ANEW = "if it is none, make the task anew with python -m node.init, which says how it reads the column"
_FEW_NUMBERS = 20
"""Up to so many whole numbers may be names of categories."""
MOST_ENCODED_BYTES = 32 << 30


def encode(schema: TableSchema, frame: Frame) -> Rows:
    """Encodes the rows of `frame` that have a target; ConfigError names the first wrong column and value."""
    y, kept, entry = targets(schema, frame)
    x, entries = features(schema, frame)
    without = frame.rows - len(kept)
    draws = frame.draws[kept] if len(frame.draws) else frame.draws
    persons = None if frame.persons is None else frame.persons.of(kept)
    remarks: tuple[str, ...] = ()
    if without:
        x = x[kept]
        remarks = (f"{counted(without, 'row')} left out: no value in {shown(schema.target.name)}",)
    return encoded_rows(schema, frame.path.name, x, y, (entry, *entries), remarks, draws, persons)


def features(schema: TableSchema, frame: Frame) -> tuple[NDArray[np.float32], list[Entry]]:
    """Returns (n, features) of all rows, with or without a target, and the report entry of each column."""
    check_size(frame.path, frame.rows, schema.shape)
    x = np.zeros((frame.rows, *schema.shape), np.float32)
    entries: list[Entry] = []
    held: list[Seen] = []
    start = 0
    for column in schema.columns:
        part = x[:, start : start + column.width]
        entry, seen = _fill(part, column, schema, frame)
        entries.append(entry)
        held.append(seen)
        start += column.width
    pairs = swapped(schema.columns, held)
    for place, entry in enumerate(entries):
        if entry.column in pairs:
            other = shown(pairs[entry.column])
            why = f"looks swapped with {other}: each holds what the task expects in the other"
            remark = "; ".join(filter(None, (why, entry.remark)))
            entries[place] = replace(entry, remark=remark, lost=f"{why}; swap them back")
    return x, entries


def check_size(path: object, rows: int, shape: tuple[int, ...]) -> None:
    """Raises ConfigError if the encoded rows would take more than `MOST_ENCODED_BYTES`, or than is free."""
    size, free = 4 * rows * prod(shape), free_bytes()
    most = MOST_ENCODED_BYTES if free is None else min(MOST_ENCODED_BYTES, free)
    if size > most:
        raise ConfigError(
            f"data {shown(str(path))} has {rows} rows of {prod(shape)} features, {size / 2**30:.3g} GiB "
            f"encoded; allowed: at most {MOST_ENCODED_BYTES >> 30} GiB, and what memory is free; take fewer "
            "or smaller rows"
        )


def standardise(x: NDArray[np.float32], schema: ArraySchema) -> None:
    """Scales `x` (n, ...) in place to (x - mean) / std, by the schema's first axis, clipped to +-10."""
    for place in range(schema.shape[0]):
        part = x[:, place]
        if schema.low is not None and schema.high is not None:
            low, high = (values[place if len(values) > 1 else 0] for values in (schema.low, schema.high))
            np.clip(part, low, high, out=part)
        mean, std = (values[place if len(values) > 1 else 0] for values in (schema.mean, schema.std))
        part -= np.float32(mean)
        part /= np.float32(std)
        np.clip(part, -FARTHEST, FARTHEST, out=part)


def targets(schema: TableSchema, frame: Frame) -> tuple[Labels, NDArray[np.int64], Entry]:
    """Returns (targets of the rows that have one, the numbers of these rows, report entry)."""
    target = schema.target
    if isinstance(target, ClassTarget):
        words = target_words(target, schema.written, frame)
        table = np.array([class_number(target, word) for word in words.words] + [-1])
        labels = table[words.codes]
        unknown = np.flatnonzero((labels < 0) & ~words.missing)
        if len(unknown):
            row, word = int(unknown[0]), words.words[words.codes[unknown[0]]]
            fail(
                frame.path,
                f", row {row + 1}, column {shown(target.name)}: {shown(word)} {other_class(target.values)}",
            )
        kept = np.flatnonzero(labels >= 0)
        _enough(frame, len(kept), target.name)
        counts = class_counts(target, labels[kept])
        return labels[kept], kept, Entry(target.name or "", "target, classes", counts)
    values = cut(target_values(target, schema, frame), target.low, target.high)
    kept = np.flatnonzero(~np.isnan(values))
    scaled = ((values[kept] - target.mean) / target.std).astype(np.float32)
    _enough(frame, len(kept), target.name)
    return scaled, kept, Entry(target.name or "", "target, a number", "learned as (value - mean) / std")


def target_words(target: ClassTarget, dialect: Dialect, frame: Frame) -> Words:
    """Returns the words of the target's column."""
    return words_of(_cells(frame, target.name or "", "the target"), dialect, target.written)


def target_values(target: NumberTarget, schema: TableSchema, frame: Frame) -> Floats:
    """Returns (n,) numbers of the target's column, NaN if missing; ConfigError for a bad cell."""
    name, dialect = target.name or "", schema.written_in(target)
    values, bad = numbers_of(_cells(frame, name, "the target"), dialect)
    return _checked(
        values, bad, frame, name, f"{_wanted_number(bad, dialect)}; mend it, or leave the row out"
    )


def _wanted_number(bad: Bad | None, dialect: Dialect, unit: str | None = None) -> str:
    """Returns what a number is in `dialect`, and a hint if `bad` would be one in another."""
    if bad is not None and dialect.below is None and without_sign(bad.word)[0]:
        return (
            f"{a_number(dialect)}; to learn from limits make the task with --below half, which writes "
            "data.schema.dialect.below for all"
        )
    if unit is not None:
        return f"{a_number(dialect)}, alone or with {shown(unit)}; another unit would be another number"
    other = Dialect(decimal="point", thousands="comma")
    if dialect.decimal == "point":
        other = Dialect(decimal="comma", thousands="point")
    if bad is None or number_reader(other)(bad.word) is None:
        return a_number(dialect)
    return (
        f"{a_number(dialect)} as the task says; this file has decimals with a {other.decimal}: say so with "
        f"--cells decimal={other.decimal} (python -m node.check says what else), or write them as others do"
    )


def _cells(frame: Frame, name: str, what: str) -> pa.ChunkedArray:
    kind = frame.type_of(name)
    if kind is not None:
        fail(frame.path, f", column {shown(name)}: {kind} is no kind of value for {what}")
    return frame.columns[name]


def class_number(target: ClassTarget, word: str) -> int:
    """Returns the number of the class that `word` names, -1 for none; 1.0 is the same as 1."""
    value = number(word)
    whole = str(int(value)) if value is not None and value.is_integer() else word
    places = (place for place in map(target.place, (word, whole)) if place < len(target.values))
    return next(places, -1)


def class_counts(target: ClassTarget, labels: NDArray[np.int64]) -> str:
    """Returns text such as `yes 12, no 30`, at most six classes, and how many have no row here."""
    counts = np.bincount(labels, minlength=len(target.values))
    told = ", ".join(f"{shown(name)} {counts[place]}" for place, name in enumerate(target.values[:6]))
    more = f", and {len(target.values) - 6} more" if len(target.values) > 6 else ""
    absent = int((counts == 0).sum())
    return told + more + (f"; without a row: {absent}" if absent else "")


def _enough(frame: Frame, rows: int, name: str | None) -> None:
    if rows < 2:
        fail(frame.path, f" has {rows} rows with a value in {shown(name)}; at least 2 are needed")


def _checked(values: Floats, bad: Bad | None, frame: Frame, name: str, wanted: str) -> Floats:
    """Returns `values`; raises ConfigError if there is a bad cell."""
    if bad is not None:
        wordy = not any(map(str.isdigit, bad.word))
        hint = "; if it means no value, --cells missing=... says so of your file" if wordy else ""
        fail(frame.path, f", row {bad.row}, column {shown(name)}: {shown(bad.word)} is not {wanted}{hint}")
    return values


def _fill(part: NDArray[np.float32], column: Column, schema: TableSchema, frame: Frame) -> tuple[Entry, Seen]:
    """Writes the features of `column` into `part` (n, width), which is 0.

    Returns the report entry, and what tells whether it is another column.
    """
    match column:
        case NumberColumn():
            values = number_values(column, schema, frame)
            there = values[~np.isnan(values)]
            words = _unread(column, schema, frame)
            return _fill_numbers(part, column, values, words), float(there.mean()) if len(there) else None
        case BooleanColumn():
            values = truth_values(column, schema, frame)
            missing = np.isnan(values)
            part[:, 0] = np.where(missing, 0.0, 2 * values - 1)
            told = _filled(part, missing, column.missing, "taken as neither")
            return Entry(column.name, "boolean", told), None
        case CategoryColumn():
            found = category_words(column, schema, frame)
            held = dict(zip(found.words, found.counts().tolist(), strict=True))
            return _fill_categories(part, column, found), held
        case TextColumn():
            texts = words_of(_cells(frame, column.name, "a text"), schema.written)
            encoded = text_vectors(column, texts, schema.encoder_at)
            how = "by its words" if column.encoder == HASHED else "by the sentence encoder"
            return _fill_vectors(part, column, encoded, how), None
        case EmbeddingColumn():
            return _fill_vectors(part, column, _embeddings(column, frame), "its direction"), None


def _embeddings(column: EmbeddingColumn, frame: Frame) -> Encoded:
    wanted = f"{column.width} numbers in each cell, or none"
    if column.name not in frame.vectors:
        kind = frame.unusable.get(column.name, "single values")
        fail(frame.path, f", column {shown(column.name)}: {kind}; allowed: a list of {wanted}")
    found = list_vectors(frame.vectors[column.name], column.width)
    if not isinstance(found, Encoded):
        fail(frame.path, f", row {found + 1}, column {shown(column.name)}: no list of {wanted}, all finite")
    return found


def _fill_vectors(part: NDArray[np.float32], column: VectorColumn, found: Encoded, how: str) -> Entry:
    part[:] = found.vectors
    missing = int(found.missing.sum())
    absent = f"{missing} missing, all features 0" if missing else ""
    if missing == len(found.missing):
        absent = "NO VALUE in any row"
    told = "; ".join(filter(None, (absent, f"{how}, as {column.width} features", found.remark)))
    return Entry(column.name, column.kind, told)


def _unread(column: NumberColumn, schema: TableSchema, frame: Frame) -> int:
    """Returns how many cells of a column of numbers have a word that counts as no value."""
    if schema.written.words is None or column.kind != "number":
        return 0
    words = words_of(frame.columns[column.name], schema.written)
    counts = zip(words.words, words.counts().tolist(), strict=True)
    return sum(count for word, count in counts if is_word(word))


def number_values(column: NumberColumn, schema: TableSchema, frame: Frame) -> Floats:
    """Returns (n,) numbers, dates (days) or times (hours) of a column, NaN if missing.

    Raises ConfigError for a bad cell.
    """
    cells, dialect = _cells(frame, column.name, "a feature"), schema.written_in(column)
    match column.kind:
        case "number":
            values, bad = numbers_of(cells, dialect, column.unit)
            wanted = _wanted_number(bad, dialect, column.unit)
        case "date":
            values, bad = days_of(cells, dialect)
            wanted = _A_DATE[dialect.dates]
            if dialect.months is not None:
                wanted += f", or with a month's name in {dialect.months.capitalize()}"
        case _:
            values, bad = hours_of(cells, dialect)
            wanted = "a time of day such as 14:30"
    return _checked(values, bad, frame, column.name, f"{wanted}; mend it, or leave it empty")


_A_DATE = {
    None: "a date such as 2026-01-31",
    "day-first": "a date such as 2026-01-31 or 31.01.2026, the day before the month",
    "month-first": "a date such as 2026-01-31 or 1/31/2026, the month before the day",
}


def cut(values: Floats, low: float | None, high: float | None) -> Floats:
    """Returns (n,) `values` clipped to the public range, if there is one; NaN stays."""
    return values if low is None else np.clip(values, low, high)


def _fill_numbers(part: NDArray[np.float32], column: NumberColumn, values: Floats, words: int) -> Entry:
    inside = cut(values, column.low, column.high)
    outside = int((~np.isnan(values) & (inside != values)).sum())
    scaled = (inside - column.mean) / column.std
    missing = np.isnan(scaled)
    far = int((np.abs(scaled) > FARTHEST).sum())
    part[:, 0] = np.where(missing, 0.0, np.clip(scaled, -FARTHEST, FARTHEST))
    told = (
        _filled(part, missing, column.missing, "filled with the mean"),
        f"of these {counted(words, 'word')}" if words else "",
        f"{outside} outside {column.low:g} to {column.high:g}, cut" if outside else "",
        f"{far} beyond {FARTHEST:g} std, cut" if far else "",
    )
    there = ~missing
    cut_off = int((there & ((inside != values) | (np.abs(scaled) > FARTHEST))).sum())
    entry = Entry(column.name, column.kind, "; ".join(filter(None, told)))
    lost, most = cut_off + words, int(there.sum()) + words
    if lost < max(_FEWEST, _MANY_CUT * most):
        return entry
    return _with_loss(entry, lost > _HALF * most, _cut_off(column, values[there], cut_off, words))


def _cut_off(column: NumberColumn, there: Floats, cut_off: int, words: int) -> str:
    """Returns what many values of a column are, beside what the task expects, and what to do."""
    if words > cut_off:
        return (
            f"{counted(words, 'cell')} are words, which count as no value: write numbers, or have the column "
            "made a category by all"
        )
    if column.kind != "number":
        return (
            f"{cut_off} of {counted(len(there), 'value')} lie far from the task's: look for another order of "
            "day and month"
        )
    return (
        f"{cut_off} of {counted(len(there), 'value')} are cut; the middle one is {np.median(there):.4g}, and "
        f"the task expects {column.mean:.4g} +- {column.std:.2g}: write them in the unit of the others, or "
        "all run node.agree with ranges that hold for all"
    )


def _with_loss(entry: Entry, is_half: bool, why: str) -> Entry:
    """Returns `entry` with a doubt, or a loss if it is more than half of the column."""
    return replace(entry, lost=why) if is_half else replace(entry, doubt=why)


def truth_values(column: BooleanColumn, schema: TableSchema, frame: Frame) -> Floats:
    """Returns (n,): 1 for yes, 0 for no, NaN for a missing value; ConfigError for a bad cell."""
    wanted = "yes or no (true, t, y, 1, ja or false, f, n, 0, nein); mend it, or leave it empty"
    values, bad = truths_of(_cells(frame, column.name, "a feature"), schema.written)
    return _checked(values, bad, frame, column.name, wanted)


def category_words(column: CategoryColumn, schema: TableSchema, frame: Frame) -> Words:
    """Returns the words of a text column; ConfigError if its type is not one for a feature."""
    return words_of(_cells(frame, column.name, "a feature"), schema.written, column.written)


def category_codes(column: CategoryColumn, words: Words) -> NDArray[np.int64]:
    """Returns (n,) positions in the column's list, its length for another word, -1 for a missing value."""
    return np.array([column.place(word) for word in words.words] + [-1])[words.codes]


def _filled(part: NDArray[np.float32], missing: NDArray[np.bool_], marked: bool, how: str) -> str:
    """Marks missing values if the schema has a feature for them; returns the remark on them."""
    if marked:
        part[:, 1] = missing
    count = int(missing.sum())
    if count == len(missing):
        return f"NO VALUE in any row, {how}"
    return f"{count} missing, {how}" + (" and marked" if marked else "") if count else ""


def _fill_categories(part: NDArray[np.float32], column: CategoryColumn, words: Words) -> Entry:
    chosen, places = category_codes(column, words), column.values
    there = np.flatnonzero(chosen >= 0)
    part[there, chosen[there]] = 1.0
    other, missing = int((chosen == len(places)).sum()), int(words.missing.sum())
    strange = next((word for word in words.words if column.place(word) == len(places)), None)
    told = f"{other} of other values such as {shown(strange)}" if other else ""
    absent = f"{missing} missing, all features 0" if missing else ""
    if missing == len(chosen):
        absent = "NO VALUE in any row"
    kind = f"category of {len(places)} values"
    numeric = _doubt(column, words)
    doubt = f"{numeric}; {_ANEW}" if numeric else ""
    entry = Entry(column.name, kind, "; ".join(filter(None, (numeric, told, absent))), doubt)
    if other < max(_FEWEST, _MANY_OTHER * len(there)):
        return entry
    why = (
        f"{other} of {counted(len(there), 'value')} are none of the task's {_first(places)}, such as "
        f"{shown(strange)}: write them as the others do, or have them added to the column's values by all"
    )
    return _with_loss(entry, other > _HALF * len(there), why)


def _first(values: Sequence[str]) -> str:
    return ", ".join(map(shown, values[:3])) + (f" and {len(values) - 3} more" if len(values) > 3 else "")


def _doubt(column: CategoryColumn, words: Words) -> str:
    """Returns a remark on a category most of whose words are numbers: many, or with a decimal mark."""
    numbers = shapes_of(words.words).numbers
    many = len(words.words) > _FEW_NUMBERS and len(words.words) > len(column.values)
    if 2 * numbers.count < max(1, len(words.words)) or not (numbers.marked or many):
        return ""
    word = next(word for word in words.words if shapes_of([word]).numbers.count)
    return f"looks like numbers such as {shown(word)}, but the task's schema calls it a category"
