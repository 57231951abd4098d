"""The X and y of scikit-learn as columns of numbers, truth values and text, and back to what it expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from node.data.in_memory import FrameRows, is_frame
from node.data.text.columns import words_of
from node.jobs.column_survey import LARGEST, LONGEST_WORD, MOST_WORDS, OwnColumn, Word
from node.system.errors import ConfigError, counted, reason, shown
from node.task.data_schema import Column, TableSchema
from node.task.dialect import PLAIN

LEAST_ROWS = 10
"""The least rows of a member in which it has a category that it names to the others."""
_LEAST_OF_ALL = 2
_ALLOWED = "numbers, truth values, text and dates"
_A_DAY = 86_400_000_000  # microseconds
_TAGS = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}
_TEXT = "s"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name: float64, truth values or text, with nulls for missing values."""

    columns: Mapping[str, pa.ChunkedArray]

    def kind(self, name: str) -> str | None:
        """Returns "number", "boolean" or "text"; None for a column without a value."""
        column = self.columns[name]
        if column.null_count == len(column):
            return None
        kinds = {pa.float64(): "number", pa.bool_(): "boolean", pa.string(): "text"}
        return kinds[column.type]

    def own(self, name: str) -> OwnColumn:
        """Returns what an agreement asks of a column."""
        column, kind = self.columns[name], self.kind(name)
        numbers = np.empty(0) if kind in (None, "text") else _floats(column)
        return OwnColumn(kind, bool(column.null_count), numbers)

    def words(self) -> list[Word]:
        """Returns the categories that LEAST_ROWS rows have, with their columns' positions."""
        found: list[Word] = []
        for place, name in enumerate(self.columns):
            if self.kind(name) == "text":
                words = words_of(self.columns[name], PLAIN)
                pairs = zip(words.words, words.counts().tolist(), strict=True)
                kept = [word for word, count in pairs if count >= LEAST_ROWS]
                check_words(kept, f"column {shown(name)}")
                found += [(place, word) for word in kept]
        return found

    def rows(self, schema: TableSchema, target: pa.Array | None = None) -> FrameRows:
        """Returns the rows that `schema` encodes; `target` (n,): what is to be learned, if it is known.

        Raises ConfigError for a column that is not there, or is of another kind.
        """
        arrays = {column.name: self._as(column) for column in schema.columns}
        if target is not None:
            arrays[schema.target.name or ""] = target
        return FrameRows(pa.table(arrays))

    def _as(self, column: Column) -> pa.ChunkedArray:
        there = self.columns.get(column.name)
        if there is None:
            raise ConfigError(
                f"X has no column {shown(column.name)}; it has {shown(', '.join(self.columns))}; name the "
                "columns as they were when the model was learned"
            )
        wanted = {"boolean": "boolean", "category": "text", "text": "text"}.get(column.kind, "number")
        kind = self.kind(column.name) or wanted
        if kind != wanted and (kind, wanted) != ("boolean", "number"):
            raise ConfigError(
                f"column {shown(column.name)} of X is of the kind {kind}; allowed: {wanted}, as the members "
                "agreed"
            )
        return there if there.type == pa.string() or wanted == "boolean" else there.cast(pa.float64())


def table_of(given: Any, names: Sequence[str]) -> Table:
    """Returns the columns of a data frame or an array (n, columns), called `names`. Raises ConfigError."""
    if not is_frame(given):
        columns = [pa.array(given[:, place]) for place in range(given.shape[1])]
    else:
        columns = [_arrow(given[label], label) for label in _labels(given)]
    pairs = zip(names, columns, strict=True)
    return Table({name: _canonical(name, column) for name, column in pairs})


def check_frame(given: Any) -> None:
    """Raises ConfigError for a data frame whose columns cannot be told apart, or that is too small."""
    names = [str(label) for label in _labels(given)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"X has two columns called {shown(twice)}; rename one")
    if not names or len(given) < _LEAST_OF_ALL:
        size = f"{counted(len(given), 'row')} and {counted(len(names), 'column')}"
        raise ConfigError(f"X has {size}; allowed: {_LEAST_OF_ALL} rows or more, and a column")


def _labels(given: Any) -> Sequence[Any]:
    return list(getattr(given, "column_names", given.columns))


def _arrow(column: Any, label: object) -> pa.Array | pa.ChunkedArray:
    """Returns a frame's column; a category in the sense of pandas is text, even if it is a number."""
    if isinstance(column, pa.ChunkedArray):
        return column
    values = np.asarray(column)
    if str(getattr(column, "dtype", "")) == "category":
        values = np.array([one if one is None or one != one else str(one) for one in values.tolist()], object)
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ConfigError(
            f"column {shown(label)} of X cannot be read ({reason(error)}); allowed: {_ALLOWED}"
        ) from None


def _canonical(name: str, column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    column = column.cast(kind)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        column = pc.divide(column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64()), float(_A_DAY))
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = column.cast(pa.string())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    elif pa.types.is_null(kind):
        column = column.cast(pa.float64())
    elif not pa.types.is_boolean(kind):
        raise ConfigError(f"column {shown(name)} of X holds {shown(str(kind))}; allowed: {_ALLOWED}")
    if column.type == pa.float64():
        values = _floats(column)
        if (np.abs(values) > LARGEST).any():
            raise ConfigError(f"column {shown(name)} of X has infinity, or a number beyond {LARGEST:.1g}")
        column = pa.array(values, from_pandas=True)
    return pa.chunked_array([column]) if isinstance(column, pa.Array) else column


def _floats(column: pa.ChunkedArray | pa.Array) -> NDArray[np.float64]:
    """Returns (n,) with NaN for nulls."""
    found: NDArray[np.float64] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found.astype(np.float64)


def check_words(words: Sequence[str], where: str) -> None:
    """Raises ConfigError for words that an agreement does not take."""
    if len(words) > MOST_WORDS:
        raise ConfigError(
            f"{where} has {len(words)} different words that {counted(LEAST_ROWS, 'row')} or more have; "
            f"allowed: {MOST_WORDS} in all; leave free text out"
        )
    for word in words:
        if len(word.encode()) > LONGEST_WORD:
            raise ConfigError(f"{where} has {shown(word)}; allowed: at most {LONGEST_WORD} bytes; shorten it")


# -- labels


@dataclass(frozen=True)
class Labels:
    """The classes of a target, in their order: `tag` says what they are, `values` how they are written."""

    tag: str
    values: tuple[str, ...]

    def array(self, like: np.dtype[Any] | None = None) -> NDArray[Any]:
        """Returns the classes as numpy has them, in the type `like` if that can hold them."""
        if self.tag == _TEXT:
            return np.array(self.values, object if like is not None and like.kind == "O" else str)
        found: NDArray[Any] = np.array([_value(self.tag, value) for value in self.values], _TAGS[self.tag])
        return found.astype(like) if like is not None and like.kind in "iuf" else found


def label_words(y: NDArray[Any]) -> list[str]:
    """Returns the classes of `y` (n,), each as it is written after the tag of its type. Raises ConfigError.

    Labels are whole numbers, numbers, truth values or text.
    """
    values: list[Any] = list(dict.fromkeys(y.tolist()))
    kind: str = y.dtype.kind
    if kind == "O":
        kinds = {type(value) for value in values}
        kind = "b" if kinds == {bool} else "i" if kinds == {int} else _TEXT
    if kind in _TAGS:
        return [f"{'i' if kind == 'u' else kind}{value!r}" for value in values]
    for value in values:
        if not isinstance(value, str):
            raise ConfigError(
                f"y holds {shown(value)}; allowed: labels that are all text, all numbers or all truth values"
            )
    return [_TEXT + value for value in values]


def labels_of(words: Sequence[str]) -> Labels:
    """Returns the classes that all members have, from words as `label_words` makes. Raises ConfigError."""
    tags = sorted({word[0] for word in words})
    if len(tags) != 1 or tags[0] not in (*_TAGS, _TEXT):
        raise ConfigError(
            "y has labels of several types, here or among the members; give all of them the same type"
        )
    values = [word[1:] for word in words]
    ordered = sorted(values, key=lambda value: _value(tags[0], value))
    if len(ordered) < 2:
        raise ConfigError(
            f"the labels of all members are one class, {shown(ordered[0])}; a classifier needs 2 or more"
        )
    read = words_of(pa.chunked_array([pa.array(ordered, pa.string())]), PLAIN).words
    if read != ordered:
        bad = next(value for value in ordered if value not in read)
        raise ConfigError(f"the label {shown(bad)} is refused: it reads as no value; give it another name")
    return Labels(tags[0], tuple(ordered))


def label_texts(y: NDArray[Any]) -> pa.Array:
    """Returns (n,) labels as they are written."""
    return pa.array([value if isinstance(value, str) else repr(value) for value in y.tolist()], pa.string())


def _value(tag: str, value: str) -> Any:
    match tag:
        case "b":
            return value == "True"
        case "i":
            return int(value)
        case "f":
            return float(value)
    return value


# -- frames


def frame_like(given: Any, columns: Mapping[str, NDArray[Any]]) -> Any:
    """Returns `columns` as a data frame of the kind of `given`, with the index that it has."""
    if isinstance(given, pa.Table):
        return pa.table(dict(columns))
    index = getattr(given, "index", None)
    return type(given)(dict(columns)) if index is None else type(given)(dict(columns), index=index)
