"""How long a round's local training is: so many epochs, or so many seconds. A task sets one of the two."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from node.system.errors import ConfigError, shown

if TYPE_CHECKING:
    from node.task.sections import Task, TrainSection

_LENGTHS = ("epochs", "seconds")


def chosen_length(changed: dict[str, Any], asked: Collection[tuple[str, ...]]) -> dict[str, Any]:
    """Returns a task's table in which an override of one length has replaced the task's own, the other.

    `asked`: the paths of the keys that overrides set.
    """
    chosen = [name for name in _LENGTHS if ("train", name) in asked]
    if len(chosen) != 1:
        return changed
    kept = {name: value for name, value in changed["train"].items() if name not in _LENGTHS or name in chosen}
    return {**changed, "train": kept}


def replaced_length(section: TrainSection) -> str:
    """Returns the key that has no effect beside the length that the section has."""
    return "seconds" if section.seconds is None else "epochs"


def check_length(task: Task, train: object) -> None:
    """Refuses both lengths at once, and seconds where a guarantee needs the number of steps.

    `train`: the section in the TOML from which `task` was read.
    """
    seconds = task.train.seconds
    if seconds is None:
        return
    if isinstance(train, Mapping) and "epochs" in train:
        raise ConfigError(
            f"train.seconds = {seconds:g} is refused beside train.epochs = {shown(task.train.epochs)}: a "
            "round has so many seconds or so many epochs; set one of the two"
        )
    if task.privacy.mechanism == "dp-sgd":
        raise ConfigError(
            f"train.seconds = {seconds:g} is refused with privacy.mechanism = 'dp-sgd', whose noise is made "
            "for a known number of steps; set train.epochs, or privacy.mechanism=ldp or aldp"
        )
