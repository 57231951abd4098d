"""All rows of a source as numbers, before some of them are held back (node.data.dataset)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from node.data.persons import Persons
from node.data.report import Entry, Report
from node.data.sides import NOT_DRAWN, Draws
from node.system.errors import counted, shown
from node.task.data_schema import ClassTarget, Schema, TableSchema

Labels = NDArray[np.int64] | NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Rows:
    """`x` (n, ...) float32; `y` (n,) int64 class numbers or float32 numbers; all finite, n >= 2.

    Without a schema `y` is float64 as it was read, or a program's text (node.data.data_frames), until
    node.data.sources tells classes from numbers. The first entry of the report is the target.
    """

    x: NDArray[np.float32]
    y: NDArray
    label: str
    """"digits", or the file's name."""
    report: Report
    draws: Draws = field(default_factory=lambda: NOT_DRAWN)
    """The draw of each row under the task's seed, if they were asked for: (n,)."""
    persons: Persons | None = None
    """The person of each row, where data.person names a column."""
    names: tuple[str, ...] = ()
    """Those of the classes, if they have any."""

    @property
    def classes(self) -> int | None:
        """How many classes there are; None for numbers."""
        if self.y.dtype.kind != "i":
            return None
        return len(self.names) or max(2, int(self.y.max()) + 1)


@dataclass(frozen=True, eq=False)
class RowsToPredict:
    """`x` (n, ...) float32; `y` (n,) targets as in training, None unless each row has one.

    `names`: the file of each row, where each is a file; `remarks`: what was left out.
    """

    x: NDArray[np.float32]
    y: Labels | None
    names: Sequence[str] = ()
    remarks: Sequence[str] = ()


def bare_rows(
    label: str,
    x: NDArray[np.float32],
    y: NDArray,
    features: Sequence[str] = ("x",),
    target: str = "y",
    draws: Draws = NOT_DRAWN,
    persons: Persons | None = None,
) -> Rows:
    """Returns rows without a schema; `features` and `target` are names of columns, or of arrays."""
    kind = "number" if x.ndim == 2 else f"{' x '.join(map(str, x.shape[1:]))} numbers"
    content = f"{len(features)} features ({shown(features[0])} to {shown(features[-1])})"
    if x.ndim > 2 or len(features) == 1:
        content = f"features {shown(features[0])} of shape {x.shape[1:]}"
    entries = (Entry(target, "target", ""), *(Entry(name, kind, "") for name in features))
    return Rows(x, y, label, Report(content, entries, ()), draws, persons)


def encoded_rows(
    schema: Schema,
    label: str,
    x: NDArray[np.float32],
    y: Labels,
    entries: Sequence[Entry],
    remarks: Sequence[str],
    draws: Draws,
    persons: Persons | None,
) -> Rows:
    """Returns rows that a schema encodes."""
    what = f"{schema.kind} of {' x '.join(map(str, schema.shape))}"
    if isinstance(schema, TableSchema):
        what = f"{counted(len(schema.columns), 'column')} as {counted(schema.shape[0], 'feature')}"
    target = schema.target
    named = f"target {shown(target.name)}" if target.name else "target: the folder's name"
    names = target.values if isinstance(target, ClassTarget) else ()
    kind = f"{len(names)} classes" if names else "any number"
    report = Report(f"{what}, {named} ({kind})", tuple(entries), tuple(remarks))
    return Rows(x, y, label, report, draws, persons, names)
