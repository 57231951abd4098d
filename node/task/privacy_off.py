"""Switching privacy off on a task that was made for it: what hung on the noise changes with it.

Steps with noise have a rate, batches and a clip that suit noise. Without it, a task takes those of
`node.task.plain_defaults`; a key that is overridden beside the mechanism stays as it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from math import prod
from typing import Any

from node.system.errors import ConfigError, shown
from node.task.plain_defaults import plain_defaults
from node.task.rules import read_section
from node.task.sections import DataSection, TrainSection
from node.task.shared_noise_keys import DISTRIBUTED, SHARED_NOISE_KEYS
from node.task.table_models import OF_LOCAL_TRAINING, TABLE_MODELS

Table = Mapping[str, Any]
Path = tuple[str, ...]

_WITH_NOISY_STEPS = ("dp-sgd", DISTRIBUTED)
_ROWS_IN_A_BATCH = 20  # batches of dp-sgd in an epoch, as node.init proposes them
_LEAST_PEERS = 3
_WIDE = 1_000_000
_OF_NOISE = ("epsilon", "delta", "clipping_radius")


def without_noise(before: Table, after: Table, asked: Collection[Path]) -> dict[str, Any]:
    """Returns the table `after` for training without noise if overrides switched it off, else unchanged.

    `before` is the table without overrides, `asked` the paths of the keys that they set.
    """
    was, now = _mechanism(before), _mechanism(after)
    if now != "none" or was == "none":
        return dict(after)
    changed = {name: dict(values) if isinstance(values, dict) else values for name, values in after.items()}
    for section, name in [*(("privacy", name) for name in after["privacy"]), *SHARED_NOISE_KEYS]:
        kept = (section, name) in asked or name == "mechanism" or not isinstance(changed.get(section), dict)
        if not kept:
            changed[section].pop(name, None)
    if _section(after, "model").get("class") in TABLE_MODELS:  # nothing is trained: sums make it
        for name in OF_LOCAL_TRAINING:
            if ("train", name) not in asked and isinstance(changed.get("train"), dict):
                changed["train"].pop(name, None)
    elif was in _WITH_NOISY_STEPS and isinstance(changed.setdefault("train", {}), dict):
        found = asdict(_defaults(after))
        changed["train"] |= {name: value for name, value in found.items() if ("train", name) not in asked}
    return changed


def privacy_note(before: Table, after: Table) -> str:
    """Says what `without_noise` changed, or which keys hint at noise that there is not; "" for neither."""
    was, now = _mechanism(before), _mechanism(after)
    if now != "none":
        return ""
    if was != "none":
        names = ("optimizer", "learning_rate", "schedule", "batch_size", "epochs")
        train = after["train"] if was in _WITH_NOISY_STEPS else {}
        told = ", ".join(f"{name} = {shown(train[name])}" for name in names if name in train)
        return f"switched off: {shown(was)} has no effect" + (f"; without noise {told}" if told else "")
    left = [name for name in _OF_NOISE if name in after.get("privacy", {})]
    if not left:
        return ""
    return (
        f"off, although the task has privacy.{left[0]}: if it was made for noise, its learning rate and "
        "batches are too; python -m node.init --privacy none proposes others"
    )


def _mechanism(table: Table) -> str:
    privacy = table.get("privacy")
    return str(privacy.get("mechanism", "none")) if isinstance(privacy, dict) else "none"


def _defaults(table: Table) -> Any:
    """Returns the defaults for the task's model and sizes, as far as the task tells them."""
    train, model = _section(table, "train"), _section(table, "model")
    rounds = _whole(train.get("rounds"), TrainSection().rounds)
    rows = _whole(train.get("expected_rows"), 0) // _LEAST_PEERS
    rows = rows or _ROWS_IN_A_BATCH * _whole(train.get("batch_size"), TrainSection().batch_size)
    width = _WIDE  # if the schema does not tell how many numbers a row has: for short steps
    with suppress(ConfigError):  # told when the whole task is read
        schema = read_section(DataSection, "data", table.get("data", {})).schema
        if schema is not None and "body" not in model:
            width = prod(schema.shape)
    return plain_defaults(str(model.get("class")), width, max(1, rows), rounds)


def _section(table: Table, name: str) -> Table:
    section = table.get(name)
    return section if isinstance(section, dict) else {}


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else otherwise
