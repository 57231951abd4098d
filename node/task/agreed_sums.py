"""The sums by which peers agree on scales and lists: which there are, and how far one row moves them.

By part of the schema, in its order:

- all rows: 1
- number, date, time, a numeric target: 1, u, u^2, where u = (value - middle) / half of the public
  range; 0 for a missing value
- yes or no: 1 if there is a value
- category: 1 for its value, if the list has it
- text, embedding: none, as they have no scale
- an array's values: the row's means of u and of u^2, for each number of mean and std
- a target of up to 100 classes: 1 for its class

With `agreement.leave_out_missing` each column has one more number at the end, which no row moves: 0, or the
most records of a peer if this peer's file lacks the column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from node.system.errors import ConfigError, shown
from node.task.data_schema import (
    ArraySchema,
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    Column,
    EmbeddingColumn,
    NumberColumn,
    NumberTarget,
    Schema,
    TableSchema,
    TextColumn,
)
from node.task.scaling import Range
from node.task.sections import AgreementSection

Ranged = NumberColumn | NumberTarget
_MOST_CLASSES = 100  # beyond that a class has few rows, and there are as many sums as classes
_NUMBER = 3  # sums of a column of numbers: how many there are, u, u^2


@dataclass(frozen=True)
class Part:
    """The position of one part's sums, and how many of them one row can move by 1 at once."""

    start: int
    width: int
    moved: int

    @property
    def place(self) -> slice:
        """The slice of this part in all sums."""
        return slice(self.start, self.start + self.width)


def parts(schema: Schema) -> tuple[Part, ...]:
    """Returns the parts: all rows, a numeric target, then each column, or each of an array's mean and std.

    Raises ConfigError for a schema without the public ranges that they need.
    """
    sizes = [(1, 1)]  # of each part the number of its sums, and how many of them a row moves
    if isinstance(schema.target, NumberTarget):
        range_of(schema.target)
        sizes.append((_NUMBER, _NUMBER))
    match schema:
        case TableSchema():
            sizes += map(sums_of, schema.columns)
        case ArraySchema(kind="array"):
            sizes += [(2, 2)] * len(array_ranges(schema))
    found: list[Part] = []
    for width, moved in sizes:
        start = found[-1].start + found[-1].width if found else 0
        found.append(Part(start, width, moved))
    if sum(part.width for part in found) == 1:
        raise ConfigError("data.schema has no number and no category to agree on: learn with it as it is")
    return tuple(found)


def class_part(schema: Schema) -> Part | None:
    """Returns the part with the rows of each class, after all others; None for other targets."""
    target = schema.target
    if not isinstance(target, ClassTarget) or len(target.values) > _MOST_CLASSES:
        return None
    last = parts(schema)[-1]
    return Part(last.start + last.width, len(target.values), 1)


def absence_part(schema: Schema, section: AgreementSection) -> Part | None:
    """Returns the part, after all others, that says which columns a peer lacks; None if nobody asks."""
    if not section.leave_out_missing or not isinstance(schema, TableSchema):
        return None
    last = class_part(schema) or parts(schema)[-1]
    return Part(last.start + last.width, len(schema.columns), 0)


def sums_of(column: Column) -> tuple[int, int]:
    """Returns how many sums a column has, and how many of them one row moves."""
    match column:
        case NumberColumn():
            range_of(column)
            return _NUMBER, _NUMBER
        case BooleanColumn():
            return 1, 1
        case CategoryColumn():
            return len(column.values), 1
        case TextColumn() | EmbeddingColumn():
            return 0, 0


def range_of(item: Ranged) -> Range:
    """Returns the public range of `item`; raises ConfigError if it has none."""
    if item.low is None or item.high is None:
        raise ConfigError(
            f"data.schema: {shown(item.name)} has no low and high, so nothing bounds what one row adds to a "
            "sum; give a public range, as python -m node.init --agree writes it"
        )
    return Range(item.low, item.high)


def array_ranges(schema: ArraySchema) -> tuple[Range, ...]:
    """Returns one range for each of mean and std; raises ConfigError if there is none."""
    if schema.low is None or schema.high is None:
        raise ConfigError(
            "data.schema has no low and high, so nothing bounds what one row adds to a sum; give a public "
            "range, as python -m node.init --agree writes it"
        )
    pairs = tuple(map(Range, schema.low, schema.high))
    return pairs * len(schema.mean) if len(pairs) == 1 else pairs


def norm(schema: Schema) -> float:
    """Returns the largest L2 norm of a row's vector."""
    classes = class_part(schema)
    return math.sqrt(sum(part.moved for part in parts(schema)) + (0 if classes is None else classes.moved))
