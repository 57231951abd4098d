"""The public schema of a task's data, by which every peer encodes its rows in the same way.

The task file holds it under [data.schema], and it is part of the parameters that a swarm must share. No part
of it is computed from a peer's own rows at the start of a run: scales and category lists are values of the
task, wherever they came from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, Literal

from node.system.errors import ConfigError, shown
from node.task.dialect import (
    DATE_ORDERS,
    DECIMALS,
    PLAIN,
    Cells,
    Dialect,
    check_dialect,
    of_target,
)
from node.task.rules import (
    Rule,
    boolean,
    choice,
    key,
    lists,
    numbers,
    read_section,
    real,
    text,
    unique_texts,
    whole,
)

MOST_COLUMNS = 2000
MOST_VALUES = 1000
MOST_CLASSES = 10_000
MOST_FEATURES = 50_000_000
"""The most numbers in one encoded row."""
LONGEST_NAME = 200  # characters, of a column or a category
_LONGEST_TOLD = 6000  # characters of a schema that nodes send in full; a hello has at most 16 Ki
MOST_WIDTH = 16_384
"""The most numbers in the vector of one cell."""
HASHED = "hashed"
FARTHEST = 10.0
"""Standard deviations from the mean, to which values are clipped as rows are encoded."""
_HERE = "data.schema"

_name = text(f"a column's name, at most {LONGEST_NAME} characters", rf"(?s).{{1,{LONGEST_NAME}}}")
_mean = real(at_least=-1e30, at_most=1e30)
_std = real(above=0, at_most=1e30)
_edge = real(at_least=-1e30, at_most=1e30)
_decimal = choice(*DECIMALS)
_words = unique_texts(1, MOST_VALUES, LONGEST_NAME)
_encoder = text("'hashed', or the 64 hex digits by which a sentence encoder is known", r"hashed|[0-9a-f]{64}")


@dataclass(frozen=True)
class NumberColumn:
    """One feature, (value - mean) / std: a number, a date as days since 1970-01-01, a time of day in hours.

    With `missing` a second feature is 1 for a missing value. `low` and `high`: a public range, to which
    values are clipped. `decimal` and `dates`: where the column differs from the table's dialect. `unit`: what
    may stand after a number.
    """

    name: str = key(_name)
    kind: Literal["number", "date", "time"] = key(choice("number", "date", "time"))
    mean: float = key(_mean)
    std: float = key(_std)
    missing: bool = key(boolean(), False)
    low: float | None = key(_edge, None)
    high: float | None = key(_edge, None)
    decimal: Literal["point", "comma"] | None = key(_decimal, None)
    dates: Literal["day-first", "month-first"] | None = key(choice(*DATE_ORDERS), None)
    unit: str | None = key(text("a unit of at most 20 characters", r"\D.{0,19}"), None)

    @property
    def width(self) -> int:
        """The number of features."""
        return 1 + self.missing


@dataclass(frozen=True)
class BooleanColumn:
    """Yes or no: one feature, 1 or -1. With `missing` a second one is 1 for a missing value."""

    name: str = key(_name)
    kind: Literal["boolean"] = key(choice("boolean"))
    missing: bool = key(boolean(), False)

    @property
    def width(self) -> int:
        """The number of features."""
        return 1 + self.missing


class _Listed:
    """A list of `values` by name, with the `spellings` of some.

    `spellings`: lists of words that are one value, the first of them, in upper or lower case. A list whose
    first word is none of the `values` has no effect.
    """

    values: tuple[str, ...]
    spellings: tuple[tuple[str, ...], ...] | None

    @property
    def written(self) -> tuple[str, ...]:
        """All words that stand for a value."""
        return (*self.values, *(word for group in self.spellings or () for word in group))

    def place(self, word: str) -> int:
        """Returns the position of `word` in the list, its length for another value."""
        exact, folded = _places(self.values, self.spellings)
        return exact.get(word, folded.get(word.casefold(), len(self.values)))


@lru_cache(maxsize=MOST_COLUMNS)
def _places(
    values: tuple[str, ...], spellings: tuple[tuple[str, ...], ...] | None
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Returns the position of each value, as it is, and that of each word in `spellings`, in lower case."""
    exact = {value: place for place, value in enumerate(values)}
    groups = [group for group in spellings or () if group[0] in exact]
    return exact, {word.casefold(): exact[group[0]] for group in groups for word in group}


@dataclass(frozen=True)
class CategoryColumn(_Listed):
    """One of `values`: one feature for each, in this order, and a last one for any other value."""

    name: str = key(_name)
    kind: Literal["category"] = key(choice("category"))
    values: tuple[str, ...] = key(unique_texts(1, MOST_VALUES, LONGEST_NAME))
    spellings: tuple[tuple[str, ...], ...] | None = key(lists(MOST_VALUES, _words), None)

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.values) + 1


@dataclass(frozen=True)
class TextColumn:
    """Free text, as a vector of `width` features; all 0 for a missing text.

    `encoder`: "hashed", by the words (node.data.text.hashing), or the digest of a frozen sentence encoder
    (node.data.text.sentences), which each node has in a folder of its own.
    """

    name: str = key(_name)
    kind: Literal["text"] = key(choice("text"))
    width: int = key(whole(8, MOST_WIDTH))
    encoder: str = key(_encoder, HASHED)


@dataclass(frozen=True)
class EmbeddingColumn:
    """A list of `width` numbers in each cell, of which the direction counts: a vector as a text has."""

    name: str = key(_name)
    kind: Literal["embedding"] = key(choice("embedding"))
    width: int = key(whole(1, MOST_WIDTH))


VectorColumn = TextColumn | EmbeddingColumn
Column = NumberColumn | BooleanColumn | CategoryColumn | VectorColumn


@dataclass(frozen=True)
class ClassTarget(_Listed):
    """The class labels, as text, in the order of their numbers. `name` is a column, or an array of an npz."""

    kind: Literal["classes"] = key(choice("classes"))
    values: tuple[str, ...] = key(unique_texts(2, MOST_CLASSES, LONGEST_NAME))
    name: str | None = key(_name, None)
    spellings: tuple[tuple[str, ...], ...] | None = key(lists(MOST_CLASSES, _words), None)


@dataclass(frozen=True)
class NumberTarget:
    """A numeric target, learned as (value - mean) / std. `low`, `high` and `decimal`: as for a column."""

    kind: Literal["number"] = key(choice("number"))
    mean: float = key(_mean)
    std: float = key(_std)
    name: str | None = key(_name, None)
    low: float | None = key(_edge, None)
    high: float | None = key(_edge, None)
    decimal: Literal["point", "comma"] | None = key(_decimal, None)


Target = ClassTarget | NumberTarget


@dataclass(frozen=True)
class TableSchema:
    """Rows of a CSV, Excel or Parquet file, or of a folder of texts.

    `dialect`: how its cells are written, None for the default. `encoder_at`: where this node has the sentence
    encoder, None for the usual place; no peer is told, and no file has it here.
    """

    kind: Literal["table"]
    target: Target
    columns: tuple[Column, ...]
    dialect: Dialect | None = None
    encoder_at: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one encoded row."""
        return (sum(column.width for column in self.columns),)

    @property
    def written(self) -> Dialect:
        """How the cells are written."""
        return self.dialect or PLAIN

    @property
    def vectors(self) -> tuple[VectorColumn, ...]:
        """The columns whose cells become vectors."""
        return tuple(column for column in self.columns if isinstance(column, VectorColumn))

    @property
    def texts(self) -> tuple[TextColumn, ...]:
        """The columns of free text."""
        return tuple(column for column in self.columns if isinstance(column, TextColumn))

    @property
    def numbers(self) -> tuple[NumberColumn | NumberTarget, ...]:
        """What has numbers, dates or times, the target too."""
        parts = (self.target, *self.columns)
        return tuple(part for part in parts if isinstance(part, NumberColumn | NumberTarget))

    def written_in(self, column: NumberColumn | NumberTarget) -> Dialect:
        """How the cells of one column of numbers, dates or times are written."""
        if isinstance(column, NumberTarget):
            return of_target(self.written.of_column(column.decimal, None))
        return self.written.of_column(column.decimal, column.dates)

    def of_file(self, cells: Cells) -> TableSchema:
        """Returns the schema by which to read a file that is written as `cells` say: in all its columns."""

        def of(column: Column) -> Column:
            if not isinstance(column, NumberColumn):
                return column
            decimal = column.decimal if cells.decimal is None else None
            return replace(column, decimal=decimal, dates=column.dates if cells.dates is None else None)

        target = self.target
        if isinstance(target, NumberTarget) and cells.decimal is not None:
            target = replace(target, decimal=None)
        columns = tuple(map(of, self.columns))
        return replace(self, target=target, columns=columns, dialect=cells.over(self.written))


@dataclass(frozen=True)
class ArraySchema:
    """An npz ("array") or a folder of images, channels first, pixels from 0 to 1 ("images").

    Values are scaled to (value - mean) / std. `mean` and `std` are one number or one for each of shape[0],
    and so are `low` and `high`, a public range to which values are clipped; None: no range.
    """

    kind: Literal["array", "images"]
    target: Target
    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None


Schema = TableSchema | ArraySchema


@dataclass(frozen=True)
class _Array:
    """The keys of an array's or of images' schema, except kind and target."""

    shape: tuple[float, ...] = key(numbers(1, 8, real(at_least=1, at_most=1e8)))
    mean: tuple[float, ...] = key(numbers(1, 1_000_000, _mean))
    std: tuple[float, ...] = key(numbers(1, 1_000_000, _std))
    low: tuple[float, ...] | None = key(numbers(1, 1_000_000, _edge), None)
    high: tuple[float, ...] | None = key(numbers(1, 1_000_000, _edge), None)


def schema_rule() -> Rule:
    """The rule for data.schema; its errors name the wrong column."""
    return Rule("a table with kind, target and columns", _schema)


def _schema(value: object) -> Schema:
    if not isinstance(value, dict):
        raise ConfigError(f"{_HERE} = {shown(value)} is refused; allowed: a table, as node.init writes it")
    kind, target = value.get("kind"), _target(value.get("target"))
    rest = {name: item for name, item in value.items() if name not in {"kind", "target"}}
    match kind:
        case "table":
            _only(rest, ("columns", "dialect"))
            columns = _columns(rest.get("columns"), target)
            return TableSchema("table", target, columns, _dialect(rest.get("dialect")))
        case "array" | "images":
            return _array(kind, target, rest)
    raise ConfigError(f"{_HERE}.kind = {shown(kind)} is refused; allowed: 'table', 'array' or 'images'")


def _dialect(value: object) -> Dialect | None:
    if value is None:
        return None
    dialect = read_section(Dialect, f"{_HERE}.dialect", value)
    check_dialect(f"{_HERE}.dialect", dialect)
    return dialect


def _only(given: Mapping[str, object], allowed: tuple[str, ...]) -> None:
    for name in given:
        if name not in allowed:
            raise ConfigError(
                f"{shown(f'{_HERE}.{name}')} is not a known key; allowed: kind, target, {', '.join(allowed)}"
            )


def _kind(where: str, value: object, kinds: Mapping[str, type]) -> type:
    """Returns the dataclass for the table `value`, by its kind."""
    if not isinstance(value, dict):
        raise ConfigError(f"{where} = {shown(value)} is refused; allowed: a table with a kind")
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        allowed = " or ".join(repr(name) for name in kinds)
        raise ConfigError(f"{where}.kind = {shown(kind)} is refused; allowed: {allowed}")
    return kinds[kind]


def _target(value: object) -> Target:
    where = f"{_HERE}.target"
    cls = _kind(where, value, {"classes": ClassTarget, "number": NumberTarget})
    target: Target = read_section(cls, where, value)
    if isinstance(target, NumberTarget):
        _check_range(where, target.low, target.high)
    return target


def _columns(value: object, target: Target) -> tuple[Column, ...]:
    if target.name is None:
        raise ConfigError(f"{_HERE}.target.name is missing; allowed: the name of the target's column")
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_COLUMNS:
        raise ConfigError(f"{_HERE}.columns is refused; allowed: a list of 1 to {MOST_COLUMNS} tables")
    columns = tuple(_column(number, item) for number, item in enumerate(value))
    names = [target.name, *(column.name for column in columns)]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ConfigError(f"{_HERE}: the column {shown(twice)} occurs twice; name each once")
    return columns


def _column(number: int, item: object) -> Column:
    name = item.get("name") if isinstance(item, dict) else None
    where = f"{_HERE}.columns.{number}" + (f" ({shown(name)})" if isinstance(name, str) else "")
    kinds: dict[str, type] = {
        "number": NumberColumn,
        "date": NumberColumn,
        "time": NumberColumn,
        "boolean": BooleanColumn,
    }
    kinds |= {"category": CategoryColumn, "text": TextColumn, "embedding": EmbeddingColumn}
    cls = _kind(where, item, kinds)
    column: Column = read_section(cls, where, item)
    if isinstance(column, NumberColumn):
        _check_range(where, column.low, column.high)
    return column


def _check_range(where: str, low: float | None, high: float | None) -> None:
    """Raises ConfigError for half a range, or an empty one."""
    if (low is None) != (high is None):
        name, other = ("low", "high") if high is None else ("high", "low")
        raise ConfigError(f"{where}.{name} is given without {other}; allowed: both, or none")
    if low is not None and high is not None and not low < high:
        raise ConfigError(f"{where}.low = {low:g} is refused beside high = {high:g}; allowed: less than that")


def _array(kind: Literal["array", "images"], target: Target, rest: Mapping[str, object]) -> ArraySchema:
    read = read_section(_Array, _HERE, rest)
    shape = tuple(int(size) for size in read.shape)
    if shape != read.shape or prod(shape) > MOST_FEATURES:
        raise ConfigError(
            f"{_HERE}.shape = {shown(list(read.shape))} is refused; allowed: whole numbers, with at most "
            f"{MOST_FEATURES} values a row"
        )
    if kind == "images" and (len(shape) != 3 or shape[0] not in (1, 3)):
        raise ConfigError(
            f"{_HERE}.shape = {shown(list(shape))} is refused for images; allowed: [1, height, width] for "
            "grey or [3, height, width] for colour"
        )
    if kind == "images" and not isinstance(target, ClassTarget):
        raise ConfigError(f"{_HERE}.target.kind = 'number' is refused for images; allowed: 'classes'")
    _check_scale(read, shape)
    return ArraySchema(kind, target, shape, read.mean, read.std, read.low, read.high)


def _check_scale(read: _Array, shape: tuple[int, ...]) -> None:
    """Raises ConfigError for a list of the wrong length or an invalid range."""
    named = {"mean": read.mean, "std": read.std, "low": read.low, "high": read.high}
    for name, values in named.items():
        if values is not None and len(values) not in (1, shape[0]):
            raise ConfigError(
                f"{_HERE}.{name} has {len(values)} numbers; allowed: 1, or {shape[0]} as the shape begins"
            )
    if read.low is None or read.high is None:
        _check_range(_HERE, *(None if values is None else values[0] for values in (read.low, read.high)))
    elif len(read.low) != len(read.high) or len(read.low) not in (1, len(read.mean)):
        raise ConfigError(
            f"{_HERE}.low has {len(read.low)} numbers, high {len(read.high)} and mean {len(read.mean)}; "
            "allowed: low and high 1 each, or as many as mean"
        )
    else:
        for low, high in zip(read.low, read.high, strict=True):
            _check_range(_HERE, low, high)


def agreed_schema(schema: Schema) -> dict[str, Any]:
    """Returns what nodes compare: the full schema, or its SHA-256 if it is long."""
    plain: dict[str, Any] = json.loads(json.dumps(_given(asdict(schema)), allow_nan=False))
    written = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    if len(written) <= _LONGEST_TOLD:
        return plain
    return {"kind": schema.kind, "sha256": hashlib.sha256(written.encode()).hexdigest()}


def _given(value: Any) -> Any:
    """Returns `value` without the keys whose value is None."""
    match value:
        case dict():
            return {name: _given(item) for name, item in value.items() if item is not None}
        case list() | tuple():
            return [_given(item) for item in value]
    return value
