"""The model of a run, as a node leaves it."""

from __future__ import annotations

from pathlib import Path

from node.storage.folder_lock import MODELS
from node.task.load import load_task
from node.training.build import make
from node.training.model_file import Card, task_table, write_model
from protocol.wire.messages import Base

BASE = Base(3, bytes(range(32)), 4, bytes(32))


def saved_model(folder: Path, task_file: Path) -> Path:
    """Writes the first model of a task for two classes, as if it were a run's; returns its file."""
    task = load_task(str(task_file), [])
    schema = task.data.schema
    assert schema is not None
    tensors = {name: part.numpy() for name, part in make(task.model, 0).state_dict().items()}
    card = Card(task_table(task), 2, schema.shape, ())
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder / MODELS[0], tensors, card.filled("common", BASE, None))
    return folder / MODELS[0]
