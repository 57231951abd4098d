"""Changes a model's arguments to rows of another width, or to another number of classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from node.system.errors import ConfigError, shown
from node.task.data_schema import ClassTarget, Schema, TableSchema
from node.task.sections import ADDITIVE, Task
from node.task.table_models import TABLE_MODELS, fitted_arguments

_INPUTS: Mapping[str, str] = MappingProxyType({"node.models:Linear": "inputs", "node.models:MLP": "sizes"})
"""Models whose first layer can adapt to the width of another schema's rows, and the argument that sets it."""
_OUTPUTS: Mapping[str, str] = MappingProxyType(
    {
        "node.models:Linear": "outputs",
        "node.models:MLP": "sizes",
        "node.models:ConvNet": "outputs",
        "node.models:Scattering": "outputs",
    }
)
"""Models whose last layer can adapt to another number of classes, and the argument that sets it."""
_BY_CLASS = ("prior", "weight")
"""Arguments of losses that have a number for each class."""


def fitted(task: Task, before: Schema, after: Schema) -> Mapping[str, Any] | None:
    """Returns the model's arguments for rows of another width; None if they are not known."""
    (old, *rest), (new, *_) = before.shape, after.shape
    if task.model.cls in TABLE_MODELS and isinstance(after, TableSchema):
        return fitted_arguments(task, after)
    if old == new or not task.learns:
        return task.model.args
    name = _INPUTS.get(task.model.cls)
    value = task.model.args.get(name) if name else None
    match value:
        case int() if value == old and not rest:
            return {**task.model.args, str(name): new}
        case [first, *others] if first == old and not rest:
            return {**task.model.args, str(name): [new, *others]}
    return None


def with_classes(task: Task) -> Task:
    """Returns the task with the classes of `agreement.classes` in its schema and its model's width.

    They come after the others, so that these keep their numbers. Raises ConfigError if there is nothing to
    add to, or the model's width is not known.
    """
    added, schema = task.agreement.classes, task.data.schema
    if not added or schema is None:
        return task
    refused = f"agreement.classes = {shown(list(added))} is refused"
    target = schema.target
    if not isinstance(target, ClassTarget):
        raise ConfigError(f"{refused}: the target is a number; leave it out")
    known = [name for name in added if target.place(name) < len(target.values)]
    if known:
        raise ConfigError(f"{refused}: {shown(known[0])} is a class of the task already; allowed: others")
    if any(name in task.train.loss_args for name in _BY_CLASS):
        raise ConfigError(
            f"{refused} beside train.loss_args, which has a number for each class; allowed: train.loss = "
            "'auto', for which node.agree chooses"
        )
    values = (*target.values, *added)
    widened = replace(schema, target=replace(target, values=values))
    arguments = _more_outputs(task, widened, len(target.values), len(values))
    of_two = task.model.cls in TABLE_MODELS and task.train.loss == "bce"
    if arguments is None:
        raise ConfigError(
            f"{refused}: the number of outputs of model.class = {shown(task.model.cls)} is not known; "
            f"allowed: {ADDITIVE}, or {', '.join(_OUTPUTS)} with {len(target.values)} outputs; else add the "
            "classes and outputs to the task by hand"
        )
    return replace(
        task,
        model=replace(task.model, args=arguments),
        data=replace(task.data, schema=widened),
        train=replace(task.train, loss="auto") if of_two else task.train,
    )


def check_narrowing(task: Task) -> None:
    """Raises ConfigError if a column cannot be left out of the task's rows (`leave_out_missing`)."""
    schema = task.data.schema
    if not task.agreement.leave_out_missing or schema is None:
        return
    refused = "agreement.leave_out_missing = true is refused"
    if not isinstance(schema, TableSchema):
        raise ConfigError(f"{refused}: the task's data have no columns; leave it out")
    if fitted(task, schema, replace(schema, columns=schema.columns[1:])) is None:
        raise ConfigError(
            f"{refused}: the width of model.class = {shown(task.model.cls)} is not known; allowed: "
            f"{ADDITIVE}, or {', '.join(_INPUTS)} with {schema.shape[0]} inputs; else run node.init again "
            "with --leave-out"
        )


def _more_outputs(task: Task, schema: Schema, before: int, after: int) -> Mapping[str, Any] | None:
    """Returns the model's arguments for `after` classes, as `schema` has; None if they are not known."""
    if not task.learns:
        return task.model.args
    if task.model.cls in TABLE_MODELS and isinstance(schema, TableSchema):
        return fitted_arguments(task, schema)
    name = _OUTPUTS.get(task.model.cls)
    value = task.model.args.get(name) if name else None
    match value:
        case int() if value == before:
            return {**task.model.args, str(name): after}
        case [*others, last] if last == before:
            return {**task.model.args, str(name): [*others, after]}
    return None
