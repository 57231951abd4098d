"""Reads the cells of one column as words, numbers, days, or yes and no, and finds the first bad cell.

The rules are the same at every peer and for every file format: docs/data.md.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from node.data.text.cells import MISSING_WORDS, no_numbers, number, number_reader, number_text
from node.data.text.dates import day_reader, hours
from node.task.dialect import Dialect

_YES = frozenset({"true", "yes", "t", "y", "1", "ja", "j", "wahr", "oui", "vrai", "si", "s\u00ed", "s\u00ec"})
_NO = frozenset({"false", "no", "f", "n", "0", "nein", "falsch", "non", "faux"})
_ZEROS = re.compile(r"(?:\.|(\.\d*[1-9]))0+(?!\d)")
"""The zeros at the end of a fraction of a second, of which an Arrow type has as many as its unit asks for."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Words:
    """Text as a list of distinct words, and for each row the word's index, -1 for a missing value: (n,)."""

    words: list[str]
    codes: NDArray[np.int64]

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which rows have no value: (n,)."""
        return self.codes < 0

    def counts(self) -> NDArray[np.int64]:
        """Returns how many rows have each word."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.words)).astype(np.int64)


@dataclass(frozen=True)
class Bad:
    """The first cell that its column cannot hold; `row` counts from 1, without the header."""

    row: int
    word: str


def words_of(column: pa.ChunkedArray, dialect: Dialect, values: Collection[str] = ()) -> Words:
    """Returns the cells as text (NFC) without surrounding white space.

    Words for a missing value are no words, unless the dialect alone says so and they are among the `values`
    of the column. Whole numbers have no point; days are written as 2026-01-31.
    """
    absent = {word.casefold() for word in dialect.missing} - {value.casefold() for value in values}
    written = _written(column)
    places: dict[str, int] = {}  # each word once, by its first row
    new = np.full(len(written.words) + 1, -1, np.int64)  # code -1 selects the last one
    for place, word in enumerate(written.words):
        bare = unicodedata.normalize("NFC", word).strip()
        if bare not in MISSING_WORDS and not (absent and bare.casefold() in absent):
            new[place] = places.setdefault(bare, len(places))
    return Words(list(places), new[written.codes])


def _written(column: pa.ChunkedArray) -> Words:
    """Returns the cells as unchanged text, with -1 for a null."""
    flat = _as_text(column)
    encoded = flat if pa.types.is_dictionary(flat.type) else pc.dictionary_encode(flat)
    array = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    if isinstance(array, pa.ChunkedArray):  # no chunk at all, or several that do not fit into one array
        array = array.unify_dictionaries().chunk(0)
    codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Words([word or "" for word in array.dictionary.to_pylist()], codes)


def raw_words(column: pa.ChunkedArray) -> Words:
    """Returns the cells as unchanged text: numbers and times of any type alike where their values are."""
    kind = _kind(column)
    if pa.types.is_integer(kind):
        return _written(column.cast(kind).cast(pa.float64(), safe=False))
    found = _written(column)
    if not pa.types.is_temporal(kind):
        return found
    return replace(found, words=[_ZEROS.sub(r"\1", word) for word in found.words])


def is_text(column: pa.ChunkedArray) -> bool:
    """Returns whether a file holds the column's cells as text, so that their dialect matters."""
    kind = _kind(column)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _kind(column: pa.ChunkedArray) -> pa.DataType:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if is_text(column):
        return column
    kind = _kind(column)
    plain = column.cast(kind)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = plain.cast(pa.float64()).to_pylist()
        words = [None if value is None or math.isnan(value) else number_text(value) for value in values]
        return pa.chunked_array([words])
    return plain.cast(pa.string())


def numbers_of(
    column: pa.ChunkedArray, dialect: Dialect, unit: str | None = None
) -> tuple[Floats, Bad | None]:
    """Returns (n,) numbers, NaN for missing ones, and the first cell that is no number (see `cells`)."""
    if _is_numeric(column):
        values, bad = _stored(column)
    else:
        values, bad = parsed(words_of(column, dialect), reader_of(column, dialect, unit))
    return with_value(values, dialect), bad


def reader_of(
    column: pa.ChunkedArray, dialect: Dialect, unit: str | None = None
) -> Callable[[str], float | None]:
    """Returns the function that reads a number; cells that a file stores as numbers have a point."""
    return number_reader(dialect, unit) if is_text(column) else number


def with_value(values: Floats, dialect: Dialect) -> Floats:
    """Returns (n,) numbers with NaN for those that mean no value in `dialect`, such as 9999."""
    read = number_reader(dialect)
    absent = [value for value in map(read, dialect.missing) if value is not None]
    return np.where(np.isin(values, absent), np.nan, values) if absent else values


def bare_numbers_of(column: pa.ChunkedArray) -> tuple[Floats, Bad | None]:
    """Returns the numbers, but refuses words for a missing value like any other word; a null is still NaN."""
    return _stored(column) if _is_numeric(column) else parsed(_written(column), number)


def _is_numeric(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))


def _stored(column: pa.ChunkedArray) -> tuple[Floats, Bad | None]:
    """Returns the values of a column of integers or floats, and the first that is no number."""
    values = column.cast(pa.float64(), safe=False).to_numpy()
    outside = np.flatnonzero(no_numbers(values) & ~np.isnan(values))
    bad = Bad(int(outside[0]) + 1, f"{values[outside[0]]:g}") if len(outside) else None
    return values, bad


def days_of(column: pa.ChunkedArray, dialect: Dialect) -> tuple[Floats, Bad | None]:
    """Returns (n,) days since 1970-01-01, NaN for missing values, and the first cell that is no date."""
    return parsed(words_of(column, dialect), day_reader(dialect.dates, dialect.months))


def hours_of(column: pa.ChunkedArray, dialect: Dialect) -> tuple[Floats, Bad | None]:
    """Returns (n,) hours from midnight, NaN for missing values, and the first cell that is no time of day."""
    return parsed(words_of(column, dialect), hours)


def truths_of(column: pa.ChunkedArray, dialect: Dialect) -> tuple[Floats, Bad | None]:
    """Returns (n,) 1 for yes and 0 for no, NaN for missing values, and the first cell that is neither."""
    return parsed(words_of(column, dialect), truth)


def parsed(words: Words, read: Callable[[str], float | None]) -> tuple[Floats, Bad | None]:
    """Returns (n,) the results of `read`, NaN for missing values, and the first cell that `read` refuses."""
    values = [read(word) for word in words.words]
    table = np.array([math.nan if value is None else value for value in values] + [math.nan])
    refused = np.array([value is None for value in values] + [False])
    wrong = np.flatnonzero(refused[words.codes])
    bad = Bad(int(wrong[0]) + 1, words.words[words.codes[wrong[0]]]) if len(wrong) else None
    return table[words.codes], bad


def truth(word: str) -> float | None:
    """Returns 1 or 0 for a word that means yes or no, in upper or lower case; None for any other."""
    lower = word.lower()
    return 1.0 if lower in _YES else 0.0 if lower in _NO else None
