"""Derives the task that all peers of a swarm agree on from its sums: scales, lists, the remaining budget.

With n rows that have a value, and u = (value - middle) / half of a public range,

    mean = middle + half sum(u) / n          std = half sqrt(sum(u^2) / n - (sum(u) / n)^2)

Each sum has a public standard error, `doubt`, from the noise of all peers and the rounding of each row.
Figures smaller than that are not used. Every peer computes from the same bits (the agreed base), so all
derive the same task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from node.agree.width import fitted
from node.data.report import Entry
from node.init.loss_choice import ChosenLoss, loss_for_classes, loss_for_numbers
from node.system.errors import UserError, counted
from node.task.agreed_sums import Part, absence_part, array_ranges, class_part, parts, range_of
from node.task.agreement_noise import give_or_take, is_drowned
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
from node.task.scaling import Range, from_zero, rounded_scale
from node.task.sections import AgreementSection, Task
from node.task.table_models import TABLE_MODELS

_Ranged = TypeVar("_Ranged", NumberColumn, NumberTarget)

_SURE = 4.0
"""Standard errors above 0 from which a count is significant, where a mistake costs a feature."""
_LEAST_SURE = 0.25
"""The largest standard error of a mean, in halves of the range; beyond it only the range is used."""


@dataclass(frozen=True)
class Totals:
    """The sums (d,) over all peers' rows, and the standard error of each."""

    sums: NDArray[np.float64]
    doubt: float
    peers: int


@dataclass(frozen=True)
class Agreed:
    """The task to learn, and the report entry of each column."""

    task: Task
    entries: tuple[Entry, ...]


def totals(sums: NDArray[np.float64], peers: int, noise_std: float, unit: float) -> Totals:
    """Returns the totals (d,) over the rows of `peers`, with what they are off by.

    `noise_std` is that of one peer's sum. Each row's numbers are rounded to `unit`: their rounding has the
    standard deviation unit / sqrt(12). The first total is that of rows.
    """
    rounding = unit * math.sqrt(max(0.0, float(sums[0])) / 12)
    return Totals(sums, math.hypot(noise_std * math.sqrt(peers), rounding), peers)


def agreed(task: Task, found: Totals) -> Agreed:
    """Returns `task` with scales and lists from the sums, and its budget less the share that they cost.

    If the task's model cannot adapt its width to shorter lists, the lists stay unchanged. Sums that the noise
    drowns change no scale, no list and no loss. Columns that a peer lacks are left out if the task says so.
    `task` has the classes of `agreement.classes` (with_classes). Raises UserError if each column is lacking
    somewhere.
    """
    schema, drowned = schema_of(task), is_drowned(found.doubt, found.sums[0])
    columns = schema.columns if isinstance(schema, TableSchema) else ()
    as_it_was = schema, tuple(Entry(column.name, column.kind, "as it was") for column in columns)
    chosen, entries = as_it_was if drowned else _schema(schema, found, task.agreement, wider=True)
    chosen = _from_zero(chosen) if task.train.counts else chosen
    chosen, entries = _without_absent(task, chosen, entries, found)
    arguments = fitted(task, schema, chosen)
    if arguments is None:
        chosen, entries = _schema(schema, found, task.agreement, wider=False)
        chosen = _from_zero(chosen) if task.train.counts else chosen
        arguments = task.model.args
    share = task.agreement.share if task.privacy.mechanism != "none" else 0.0
    is_free = task.train.loss == "auto" and not drowned and task.model.cls not in TABLE_MODELS
    loss = _loss(chosen, class_part(schema), found) if is_free else None
    left = replace(
        task,
        model=replace(task.model, args=arguments),
        data=replace(task.data, schema=chosen),
        train=task.train if loss is None else replace(task.train, loss=loss.name, loss_args=loss.args),
        privacy=replace(
            task.privacy, epsilon=task.privacy.epsilon * (1 - share), delta=task.privacy.delta * (1 - share)
        ),
        agreement=AgreementSection(),
    )
    told = () if loss is None else (Entry("", f"loss {loss.name}", loss.why),)
    return Agreed(left, (_rows(found, drowned), *_added_classes(task, chosen, found), *entries, *told))


def _from_zero(schema: Schema) -> Schema:
    """Returns the schema with the scale of counts, which begin at 0."""
    target = schema.target
    if not isinstance(target, NumberTarget):
        return schema
    mean, std = from_zero(target.mean, target.std)
    return replace(schema, target=replace(target, mean=mean, std=std))


def _without_absent(
    task: Task, schema: Schema, entries: tuple[Entry, ...], found: Totals
) -> tuple[Schema, tuple[Entry, ...]]:
    """Returns schema and entries without the columns that a peer lacks, if they are to be left out."""
    part = absence_part(schema_of(task), task.agreement)
    if part is None or not isinstance(schema, TableSchema):
        return schema, entries
    lacking = np.rint(found.sums[part.place] / task.agreement.records).astype(int).tolist()
    absent = {column.name: count for column, count in zip(schema.columns, lacking, strict=True) if count > 0}
    kept = tuple(column for column in schema.columns if column.name not in absent)
    if not kept:
        raise UserError(
            "each column of the task is lacking at some peer, so nothing is left to learn from; name columns "
            "alike at all peers, and agree again"
        )
    told = (
        Entry(entry.column, "left out", f"{absent[entry.column]} of {found.peers} peers lack it")
        if entry.column in absent
        else entry
        for entry in entries
    )
    return replace(schema, columns=kept), tuple(told)


def _added_classes(task: Task, schema: Schema, found: Totals) -> tuple[Entry, ...]:
    """Returns a report entry for each class of `agreement.classes`: whether the sums show rows of it."""
    part, target = class_part(schema_of(task)), schema.target
    if part is None or not isinstance(target, ClassTarget):
        return ()
    counts = dict(zip(target.values, found.sums[part.place].tolist(), strict=True))
    least = max(1.0, found.doubt)
    return tuple(
        Entry(
            name,
            "class",
            f"added; about {counts[name]:,.0f} rows" if counts[name] >= least else "added; no rows are seen",
        )
        for name in task.agreement.classes
    )


def schema_of(task: Task) -> Schema:
    """Returns the task's schema; raises ValueError if it has none."""
    if task.data.schema is None:
        raise ValueError("a task without a schema has nothing to agree on")
    return task.data.schema


def _loss(schema: Schema, classes: Part | None, found: Totals) -> ChosenLoss | None:
    """Returns the loss that the agreed `schema` and the sums ask for; None for the plain one.

    `classes`: where the sums have the rows of each class, which follows from the schema before the agreement.

    No class counts as rarer than one standard error. So the largest must exceed four of them to be too large.
    """
    target = schema.target
    if isinstance(target, NumberTarget):
        extent = range_of(target)
        return loss_for_numbers(max(extent.high - target.mean, target.mean - extent.low) / target.std)
    if classes is None:
        return None
    return loss_for_classes(target.values, np.maximum(found.sums[classes.place], max(1.0, found.doubt)))


def _rows(found: Totals, drowned: bool) -> Entry:
    text = f"{give_or_take(found.sums[0], found.doubt)}, of {found.peers} peers"
    return Entry("", "all rows", f"{text}: too few for this noise, all stays as it was" if drowned else text)


def _schema(
    schema: Schema, found: Totals, section: AgreementSection, wider: bool
) -> tuple[Schema, tuple[Entry, ...]]:
    """Returns the schema from the totals; without `wider` the width of its rows stays the same."""
    _, *rest = parts(schema)
    target, entries = schema.target, []
    if isinstance(target, NumberTarget):
        part, *rest = rest
        target, entry = _number(target, part, found)
        entries.append(entry)
    match schema:
        case TableSchema():
            columns: list[Column] = []
            for column, part in zip(schema.columns, rest, strict=True):
                chosen, entry = _column(column, part, found, section.least_records, wider)
                columns.append(chosen)
                entries.append(entry)
            return replace(schema, target=target, columns=tuple(columns)), tuple(entries)
        case ArraySchema():
            scaled, entry = _array(schema, rest, found)
            return replace(scaled, target=target), (*entries, entry)


def _column(
    column: Column, part: Part, found: Totals, least_records: int, wider: bool
) -> tuple[Column, Entry]:
    match column:
        case NumberColumn():
            number, entry = _number(column, part, found)
            return (replace(number, missing=True) if wider and _missing(part, found) else number), entry
        case BooleanColumn():
            marked = column.missing or (wider and _missing(part, found))
            return replace(column, missing=marked), Entry(column.name, "boolean", "")
        case CategoryColumn():
            return _category(column, part, found, least_records, wider)
        case TextColumn() | EmbeddingColumn():
            return column, Entry(column.name, column.kind, "as it was: it has no scale")


def _missing(part: Part, found: Totals) -> bool:
    """Returns whether some rows have no value in this column."""
    return bool(found.sums[0] - found.sums[part.start] > max(0.5, _SURE * math.sqrt(2) * found.doubt))


def _number(item: _Ranged, part: Part, found: Totals) -> tuple[_Ranged, Entry]:
    """Returns `item` with the mean and spread of all rows that have a value, and its report entry."""
    there, total, squares = found.sums[part.place].tolist()
    mean, std, remark = _scale(range_of(item), there, total, squares, found.doubt)
    told = f"mean {mean:g}, std {std:g}" + (f" ({remark})" if remark else "")
    return replace(item, mean=mean, std=std), Entry(item.name or "", item.kind, told)


def _scale(
    extent: Range, there: float, total: float, squares: float, doubt: float
) -> tuple[float, float, str]:
    """Returns (mean, standard deviation, remark) of `there` values with these sums of u and of u^2."""
    if there < 2 or doubt > _LEAST_SURE * there:
        return *extent.scale, "from its range alone: too few rows for the precision of the sums"
    u = min(1.0, max(-1.0, total / there))
    least = doubt / there
    variance = min(1.0, squares / there - u * u)
    mean, std = rounded_scale(extent.middle + extent.half * u, extent.half * math.sqrt(max(variance, least)))
    return (
        mean,
        std,
        "its spread is too small for the precision of the sums: narrow the range" if variance < least else "",
    )


def _category(
    column: CategoryColumn, part: Part, found: Totals, least_records: int, wider: bool
) -> tuple[CategoryColumn, Entry]:
    """Returns the column with the values that enough rows have in total, and its report entry."""
    enough = max(float(least_records), found.doubt)
    counts = found.sums[part.place]
    kept = tuple(value for value, count in zip(column.values, counts, strict=True) if count >= enough)
    if not wider or not kept:
        why = "kept: the model has a width of its own" if kept else f"kept: none is seen {enough:,.0f} times"
        return column, Entry(column.name, f"category of {len(column.values)} values", why)
    dropped = len(column.values) - len(kept)
    told = f"{counted(dropped, 'value')} with fewer than {enough:,.0f} rows count as other" if dropped else ""
    return replace(column, values=kept), Entry(column.name, f"category of {len(kept)} values", told)


def _array(schema: ArraySchema, places: Sequence[Part], found: Totals) -> tuple[ArraySchema, Entry]:
    """Returns the schema with the mean and spread of each place; all values of a row have equal weight."""
    rows, scales = float(found.sums[0]), []
    for part, extent in zip(places, array_ranges(schema), strict=True):
        total, squares = found.sums[part.place].tolist()
        scales.append(_scale(extent, rows, total, squares, found.doubt))
    told = "; ".join(sorted({remark for _, _, remark in scales if remark}))
    means, stds = tuple(mean for mean, _, _ in scales), tuple(std for _, std, _ in scales)
    return replace(schema, mean=means, std=stds), Entry("x", counted(len(scales), "scale"), told)
