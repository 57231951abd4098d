"""Models of tables that secure sums of counts or noised steps make: what of a task they need, and what not.

Their arguments and their loss follow from the task's schema, so a task need not say them. Without privacy
nothing is trained locally: keys of local training would have no effect and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from node.system.errors import ConfigError, shown
from node.task.data_schema import (
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    Column,
    NumberColumn,
    TableSchema,
)
from node.task.sections import ADDITIVE, Task

TREES = "node.models:Trees"
TABLE_MODELS = (ADDITIVE, TREES)
LEVELS = (31, 24, 16, 12, 8, 6, 4)
"""How many cells a column of numbers may have at most; the first that suits all members is taken."""
OF_LOCAL_TRAINING = (
    *("rounds", "epochs", "seconds", "batch_size", "optimizer", "learning_rate", "momentum", "weight_decay"),
    *("grad_clip", "proximal", "local", "optimizer_args", "schedule", "schedule_args"),
)
"""Keys of [train] that have no effect where exact sums make the model."""
SAME_MEMBERS = "the same in all sums; the run ends with a member that is gone for good"
"""Who takes part in exact sums."""
CELLS_OF_TREES = 63
_CELLS_IN_ALL = 1000
_MOST_TREES, _DEPTH, _RATE = 100, 4, 0.1
_MECHANISMS = ("none", "distributed-dp-sgd")


def is_exact(task: Task) -> bool:
    """Returns whether sums without noise, of the same members, make the task's model."""
    return task.model.cls in TABLE_MODELS and task.privacy.mechanism == "none"


def opened(task: Task) -> str:
    """Returns what the exact sums of a task open, for everybody who is about to take part."""
    pairs, groups = "every pair of columns", "every group of rows that a tree parts, some of them small"
    totals = f"{pairs}, and of {groups}" if task.model.args.get("trees") else pairs
    if task.model.cls == TREES:
        totals = groups
    return f"each member's computer sees exact totals of {totals}; all the others together can compute yours"


def most_cells(columns: int) -> int:
    """Returns how many cells a column of numbers may have in an additive model of so many columns."""
    return min(LEVELS[0], max(LEVELS[-1], _CELLS_IN_ALL // columns))


def cells_allowed(task: Task, schema: TableSchema) -> int:
    """Returns how many cells a column of numbers may have in a task's model of tables."""
    return CELLS_OF_TREES if task.model.cls == TREES else most_cells(len(schema.columns))


def model_arguments(schema: TableSchema, *, exact: bool) -> dict[str, Any]:
    """Returns model.args for an additive model of tables of this schema.

    `exact`: whether exact sums make it, which take each class against the rest; steps take all at once.
    """
    target = schema.target
    outputs = len(target.values) if isinstance(target, ClassTarget) and len(target.values) > 2 else 1
    columns = [[kind_of(column), column.width] for column in schema.columns]
    args: dict[str, Any] = {"columns": columns, "outputs": outputs, "cells": most_cells(len(columns))}
    return args | ({"one_against_rest": exact} if outputs > 1 else {})


def fitted_arguments(task: Task, schema: TableSchema) -> dict[str, Any]:
    """Returns the arguments of a task's model of tables for rows of another schema."""
    args, found = task.model.args, model_arguments(schema, exact=is_exact(task))
    kept = {name: value for name, value in args.items() if name not in (*found, "one_against_rest")}
    return {**kept, **found, "cells": min(args["cells"], cells_allowed(task, schema))}


def tree_arguments(task: Task) -> dict[str, object]:
    """Returns the model.args of trees that a task need not say: those of `Trees`, or after curves."""
    after_curves: dict[str, object] = {"trees": _MOST_TREES, "depth": _DEPTH} if is_exact(task) else {}
    return (
        after_curves
        if task.model.cls == ADDITIVE
        else {"cells": CELLS_OF_TREES, **after_curves, "rate": _RATE}
    )


def kind_of(column: Column) -> str:
    """Returns the kind of a column as the additive model names it."""
    match column:
        case NumberColumn():
            return "number"
        case BooleanColumn():
            return "boolean"
        case CategoryColumn():
            return "category"
    raise ValueError(f"a column of kind {column.kind} has no part in a model of tables")


def with_model_keys(task: Task, table: Mapping[str, object]) -> Task:
    """Returns the task with the keys set that its model of tables needs; another one as it is.

    `table`: the TOML that `task` was read from. Raises ConfigError for a mechanism that the model does not
    have, and for keys without an effect.
    """
    schema, model, train = task.data.schema, task.model, task.train
    if model.cls not in TABLE_MODELS:
        return task
    if model.cls == TREES and not is_exact(task):
        raise ConfigError(
            f"privacy.mechanism = {shown(task.privacy.mechanism)} is refused with model.class = {TREES!r}: "
            f"trees lose by noise what {ADDITIVE} keeps; take that, or privacy.mechanism = 'none'"
        )
    if task.privacy.mechanism not in _MECHANISMS:
        raise ConfigError(
            f"privacy.mechanism = {shown(task.privacy.mechanism)} is refused with model.class = "
            f"{ADDITIVE!r}, of which no member has updates; allowed: 'none', 'distributed-dp-sgd'"
        )
    if model.args.get("trees") and not is_exact(task):
        raise ConfigError(
            f"model.args.trees = {shown(model.args['trees'])} is refused with privacy.mechanism = "
            f"{shown(task.privacy.mechanism)}: trees lose by noise what curves keep; allowed: 0"
        )
    if is_exact(task):
        _check_training(task, table.get("train"))
    if not isinstance(schema, TableSchema):
        return task
    if schema.vectors:
        raise ConfigError(
            f"data.schema: column {shown(schema.vectors[0].name)} of kind {shown(schema.vectors[0].kind)} is "
            f"refused with model.class = {model.cls!r}, whose parts are of single numbers; leave the column "
            "out, or take 'node.models:Linear' or 'node.models:MLP'"
        )
    has_two = isinstance(schema.target, ClassTarget) and len(schema.target.values) == 2
    return replace(
        task,
        model=replace(
            model,
            args=model_arguments(schema, exact=is_exact(task)) | tree_arguments(task) | dict(model.args),
        ),
        train=replace(train, loss="bce") if has_two and train.loss == "auto" else train,
    )


def _check_training(task: Task, table: object) -> None:
    given = table if isinstance(table, Mapping) else {}
    for name in OF_LOCAL_TRAINING:
        if name in given:
            raise ConfigError(
                f"train.{name} = {shown(getattr(task.train, name))} has no effect with model.class = "
                f"{task.model.cls!r} without privacy, which exact sums make; leave it out"
            )
