"""A task's columns and target as the additive model takes them."""

from __future__ import annotations

from node.jobs.additive.cells import ROWS_A_COEFFICIENT
from node.jobs.additive.state import Plan
from node.system.errors import ConfigError, shown
from node.task.data_schema import (
    FARTHEST,
    NumberColumn,
    NumberTarget,
    TableSchema,
    Target,
)
from node.task.sections import Task
from node.task.table_models import LEVELS, TREES, cells_allowed, is_exact, kind_of, model_arguments
from node.training.figures.calibration import class_weights


def plan_of(task: Task) -> Plan:
    """Returns what all members of a task know. Raises ConfigError if it is none of a model of tables."""
    schema = fitting_schema(task)
    return Plan(
        tuple((kind_of(column), column.width) for column in schema.columns),
        task.model.args["cells"],
        encoded_ranges(schema),
        _weights(task, schema.target),
        rows_a_value=0 if task.model.cls == TREES else ROWS_A_COEFFICIENT,
    )


def fitting_schema(task: Task) -> TableSchema:
    """Returns the task's schema. Raises ConfigError unless its model's arguments are those of its columns."""
    schema, model = task.data.schema, task.model
    if not isinstance(schema, TableSchema):
        raise ConfigError(f"model.class = {model.cls!r} is refused: it needs a table with a data.schema")
    most = cells_allowed(task, schema)
    for name, value in model_arguments(schema, exact=is_exact(task)).items():
        found = model.args.get(name)
        fits = (
            type(found) is int and LEVELS[-1] <= found <= most if name == "cells" else _plain(found) == value
        )
        if not fits:
            allowed = f"{LEVELS[-1]} to {most}" if name == "cells" else shown(value)
            raise ConfigError(
                f"model.args.{name} = {shown(found)} does not suit the data.schema of this table; "
                f"allowed: {allowed}"
            )
    return schema


def encoded_ranges(schema: TableSchema) -> tuple[tuple[float, float], ...]:
    """Returns the range of each column of numbers as rows encode it: the public one, or as far as they go."""
    return tuple(
        (_encoded(column, column.low, -FARTHEST), _encoded(column, column.high, FARTHEST))
        for column in schema.columns
        if isinstance(column, NumberColumn)
    )


def _encoded(column: NumberColumn, end: float | None, farthest: float) -> float:
    return farthest if end is None else min(FARTHEST, max(-FARTHEST, (end - column.mean) / column.std))


def _weights(task: Task, target: Target) -> tuple[float, ...]:
    """Returns the weight of each class's rows; () for numbers. Raises ConfigError for another loss."""
    section, model = task.train, task.model.cls
    if isinstance(target, NumberTarget):
        if section.loss in ("auto", "mse"):
            return ()
        raise ConfigError(
            f"train.loss = {shown(section.loss)} is refused with {model}, which fits numbers by least "
            "squares; allowed: 'auto' or 'mse'"
        )
    classes = len(target.values)
    weights = class_weights(section.loss, section.loss_args, classes)
    if weights is None or (classes == 2 and section.loss != "bce"):
        allowed = (
            "'bce', with loss_args.pos_weight or none" if classes == 2 else "'auto', or one with weights"
        )
        raise ConfigError(
            f"train.loss = {shown(section.loss)} is refused with {model} for {classes} classes; "
            f"allowed: {allowed}"
        )
    return tuple(weights[:classes])


def _plain(value: object) -> object:
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
