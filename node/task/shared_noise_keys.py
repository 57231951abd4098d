"""The keys of `privacy.mechanism = "distributed-dp-sgd"`: what they must be, and what unset ones become.

One secure sum is one step, so some keys of local training have no effect and are refused. Unset keys come
from the table of `node.task.step_defaults`, by the rows of all members and epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from node.system.errors import ConfigError, shown
from node.task.round_length import replaced_length
from node.task.step_defaults import step_defaults_of
from node.task.table_models import OF_LOCAL_TRAINING, is_exact

if TYPE_CHECKING:
    from node.task.sections import Task

DISTRIBUTED = "distributed-dp-sgd"
DIGITS_ROWS = 1797
SHARED_NOISE_KEYS = (
    ("privacy", "honest"),
    ("privacy", "sampling_probability"),
    ("train", "steps"),
    ("train", "report_every"),
    ("train", "expected_batch"),
    ("train", "expected_rows"),
)
_OF_LOCAL_TRAINING = {
    "epochs": "a step makes no pass over the rows; set train.steps",
    "seconds": "a step has the rows that are sampled, however long it takes; set train.steps",
    "batch_size": "each row is sampled on its own; set train.expected_batch",
    "rounds": "a round is train.report_every steps; set train.steps",
    "grad_clip": "each row's gradient is clipped; set privacy.clipping_radius",
    "proximal": "a step begins at the agreed model, from which nothing has moved yet; leave it out",
    "local": "all that is trained goes into the sum",
    "optimizer_args": "all members compute the same bits; allowed are train.momentum and train.weight_decay",
}
_OPTIMIZERS, _SCHEDULES = ("sgd", "adam"), ("constant", "linear", "step")


def is_distributed(task: Task) -> bool:
    """Returns whether the members of this task's swarm share noise."""
    return task.privacy.mechanism == DISTRIBUTED


def resolved(task: Task, table: Mapping[str, object]) -> Task:
    """Returns the task with all keys set that shared noise needs; raises ConfigError.

    `table`: the TOML that `task` was read from, which says which keys are set. Another mechanism's task is
    returned as it is, and must set none of these keys.
    """
    if not is_distributed(task):
        for section, name in SHARED_NOISE_KEYS:
            if _is_set(table, section, name):
                value = getattr(getattr(task, section), name)
                raise ConfigError(
                    f"{section}.{name} = {shown(value)} has no effect without privacy.mechanism = "
                    f"{DISTRIBUTED!r}; set that or leave it out"
                )
        return task
    _check_training(task, table)
    _check_aggregation(task)
    found = _with_batch(_with_group(task, table), table)
    if (found.train.steps or 0) <= found.cell_sums:
        raise ConfigError(
            f"train.steps = {found.train.steps} is refused with {found.model.cls}, whose first "
            f"{found.cell_sums} sums find its cells; allowed: at least {found.cell_sums + 1}"
        )
    honest, group = found.privacy.honest or 0, found.aggregation
    if group.min_participants < honest + 1:
        raise ConfigError(
            f"privacy.honest = {honest} is refused with aggregation.min_participants = "
            f"{group.min_participants}, in which a node has {group.min_participants - 1} others; "
            f"allowed: at most {group.min_participants - 1}, or a larger aggregation.min_participants"
        )
    if group.dropouts is not None and 2 * group.dropouts > honest:
        raise ConfigError(
            f"aggregation.dropouts = {group.dropouts} is refused with privacy.honest = {honest}: a group "
            f"would withstand fewer colluders than its noise does; allowed: at most {honest // 2}"
        )
    return found


def readable(task: Task, section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a section's values, as a whole task has them, without those that a task file must not set."""
    forbidden: Collection[str] = ()
    if section == "train":
        local = OF_LOCAL_TRAINING if is_exact(task) else (replaced_length(task.train),)
        forbidden = _OF_LOCAL_TRAINING if is_distributed(task) else local
    return {name: value for name, value in values.items() if name not in forbidden}


def _is_set(table: Mapping[str, object], section: str, name: str) -> bool:
    values = table.get(section)
    return isinstance(values, Mapping) and name in values


def _refused(name: str, value: object, why: str) -> ConfigError:
    return ConfigError(f"{name} = {shown(value)} is refused with privacy.mechanism = {DISTRIBUTED!r}: {why}")


def _check_training(task: Task, table: Mapping[str, object]) -> None:
    section = task.train
    for name, why in _OF_LOCAL_TRAINING.items():
        if _is_set(table, "train", name):
            raise _refused(f"train.{name}", getattr(section, name), why)
    for name, allowed in (("optimizer", _OPTIMIZERS), ("schedule", _SCHEDULES)):
        if getattr(section, name) not in allowed:
            words = ", ".join(map(repr, allowed))
            why = f"all members must compute the same bits; allowed: {words}"
            raise _refused(f"train.{name}", getattr(section, name), why)


def _check_aggregation(task: Task) -> None:
    section = task.aggregation
    if section.loss_gate is not None:
        why = "all members take the same step; leave it out"
        raise _refused("aggregation.loss_gate", section.loss_gate, why)
    if section.weighting != "uniform":
        why = "each row counts the same already; allowed: aggregation.weighting=uniform"
        raise _refused("aggregation.weighting", section.weighting, why)
    if section.shares == "float":
        why = "sums are of whole numbers; allowed: aggregation.shares=seed or ring"
        raise _refused("aggregation.shares", section.shares, why)


def _with_group(task: Task, table: Mapping[str, object]) -> Task:
    """Fills `honest` from `min_participants`, or that from `honest`."""
    least, honest = task.aggregation.min_participants, task.privacy.honest
    if honest is None:
        honest = max(1, (least - 1) // 2)
    elif not _is_set(table, "aggregation", "min_participants"):
        least = max(least, honest + 1)
    return replace(
        task,
        privacy=replace(task.privacy, honest=honest),
        aggregation=replace(task.aggregation, min_participants=least),
    )


def _with_batch(task: Task, table: Mapping[str, object]) -> Task:
    """Fills the keys of a step: its rows, their number, the rate and the clip."""
    train, privacy = task.train, task.privacy
    rows, q, batch = train.expected_rows, privacy.sampling_probability, train.expected_batch
    if rows is None and task.data.source == "digits":  # those that all shards have together
        rows = DIGITS_ROWS - round(task.data.test_fraction * DIGITS_ROWS)
    known = rows or (round(batch / q) if q is not None and batch is not None else None)
    if known is None:
        raise ConfigError(
            f"train.expected_rows is missing, which privacy.mechanism = {DISTRIBUTED!r} needs: about how "
            "many training rows all members have together, which counts as public; allowed: a whole number "
            "from 1 to 1000000000, or both privacy.sampling_probability and train.expected_batch"
        )
    found = step_defaults_of(task.model, known, privacy.epsilon)
    if batch is None:
        batch = float(found.expected_batch) if q is None else q * known
    steps = train.steps or found.steps
    usual = found.report_every if steps == found.steps else max(1, steps // 20)
    report_every = min(steps, train.report_every or usual)
    return replace(
        task,
        train=replace(
            train,
            steps=steps,
            report_every=report_every,
            rounds=math.ceil(steps / report_every),
            expected_batch=batch,
            expected_rows=known,
            learning_rate=train.learning_rate
            if _is_set(table, "train", "learning_rate")
            else found.learning_rate,
        ),
        privacy=replace(
            privacy,
            sampling_probability=min(1.0, batch / known) if q is None else q,
            clipping_radius=privacy.clipping_radius
            if _is_set(table, "privacy", "clipping_radius")
            else found.clipping_radius,
        ),
    )
