"""A task that somebody else wrote: what it says of its writer's data, and what it would run here."""

from __future__ import annotations

from pathlib import Path

from node.init.task_file import MARK
from node.system.errors import ConfigError, one_line
from node.task.sections import ModelSection, Task

_OWN_MODELS = "node.models"
_WIDTH = 100


def marked_lines(task: bytes) -> list[str]:
    """The lines of a task file that tell something about the data from which it was made, shortened."""
    lines = [line.strip() for line in task.decode("utf-8", "replace").splitlines()]
    marked = [line.partition(MARK)[0].strip() for line in lines if MARK in line.removeprefix(f"#   {MARK}")]
    return [one_line(line) if len(line) <= _WIDTH else f"{one_line(line)[:_WIDTH]}..." for line in marked]


def check_portable(task: Task, path: Path) -> None:
    """Raises ConfigError if a task needs a file beside it, which an invitation does not carry."""
    if task.model.weights is not None:
        raise ConfigError(
            f"{path} names model.weights, a file that an invitation does not carry; allowed: a task without "
            "it, or --peers, where each owner has the file (docs/operating.md)"
        )


def foreign_code(task: Task) -> list[str]:
    """The code that a task names by import path, but for the models that come with this program.

    Whoever writes a task chooses what such a name calls, and with which arguments.
    """
    train, privacy = task.train, task.privacy
    named = (
        task.model.cls,
        *_of_learner(task.model),
        train.optimizer,
        train.schedule,
        train.loss,
        privacy.mechanism,
    )
    return [name for name in dict.fromkeys(named) if ":" in name and not _is_own(name)]


def _of_learner(model: ModelSection) -> list[str]:
    """What makes a learner, and the texts that it gets, as one may be the path of what it adapts."""
    if model.learner is None:
        return []
    return [model.learner, *(value for value in model.args.values() if isinstance(value, str))]


def _is_own(path: str) -> bool:
    module, _, name = path.partition(":")
    return (module == _OWN_MODELS or module.startswith(f"{_OWN_MODELS}.")) and name.isidentifier()
