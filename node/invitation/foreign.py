"""A task that somebody else wrote: what it says of its writer's data, and what it would run here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from node.init.task_file import MARK
from node.system.errors import ConfigError
from node.task.sections import Task

_OWN_MODELS = "node.models"


def marked_lines(task: bytes) -> list[str]:
    """The lines of a task file that tell something about the data from which it was made."""
    lines = [line.strip() for line in task.decode("utf-8", "replace").splitlines()]
    return [line for line in lines if MARK in line and line != MARK and not line.startswith(f"#   {MARK}")]


def foreign_code(task: Task) -> list[str]:
    """The code that a task names by import path, but for the models that come with this program.

    Whoever writes a task chooses what such a name calls, and with which arguments.
    """
    named = [
        task.model.cls,
        task.train.optimizer,
        task.train.schedule,
        task.train.loss,
        task.privacy.mechanism,
    ]
    return [name for name in dict.fromkeys(named) if ":" in name and not _is_own(name)]


def check_portable(task: Task, path: Path) -> None:
    """Raises ConfigError if a task needs files beside it, which an invitation does not carry."""
    if task.model.weights is not None:
        raise ConfigError(
            f"{path} names model.weights, a file that an invitation does not carry; allowed: a task without "
            "it, or --peers, where everybody has the same files (docs/operating.md)"
        )


def _is_own(name: str) -> bool:
    module = name.partition(":")[0]
    return module == _OWN_MODELS or module.startswith(f"{_OWN_MODELS}.")


def learned_with_in_words(task: Task, others: int) -> Iterator[str]:
    """Says what is learned, and under which guarantee."""
    yield f"Task {task.task.name}: {others}"
