"""Rows of one's own as a data set for clients of a server, read as a node reads them."""

from __future__ import annotations

from dataclasses import replace

from node.data import dataset as node_data
from node.system.errors import ConfigError, shown
from node.task.load import read_task
from node.task.sections import DataSection
from scenarios.data.dataset import FederatedDataset

DataName = str | DataSection
"""A data set of `scenarios.data.sources` by its name, or rows of one's own as [data] of a task names them."""


def own_dataset(section: DataSection, seed: int) -> FederatedDataset:
    """The rows of `section`, with the test rows that nodes with this task.seed hold out.

    Raises ConfigError if they cannot be read, or if their targets are not class labels.
    """
    plain = read_task({"task": {"name": "own", "seed": seed}, "model": {"class": "node.models:MLP"}})
    found = node_data.load_dataset(replace(plain, data=section), None, (0, 1))
    if found.classes is None:
        raise ConfigError(
            f"data.source = {shown(section.source)}: clients of a server learn classes, and the target is "
            "of numbers that are not all whole; name another data.target, or arms without [server]"
        )
    train_x, train_y, test_x, test_y = (
        tensor.numpy() for tensor in (found.train_x, found.train_y, found.test_x, found.test_y)
    )
    return FederatedDataset(train_x, train_y, test_x, test_y, None, found.classes, found.description)


def name_of(data: DataName) -> str:
    """The name of a data set for the user."""
    return data if isinstance(data, str) else str(data.source)
