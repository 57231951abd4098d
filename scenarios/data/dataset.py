"""The type of a data set, and the tools that its readers share."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from node.data.partition import RowNumbers

Integers = NDArray[np.int64]

TEST_SHARE = 0.2
"""The share of rows that is held out for tests if the publisher names no test rows."""

UNREADABLE = (
    *(OSError, EOFError, ValueError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, RuntimeError),  # RuntimeError: encrypted, or an unknown compression
)
"""The exceptions that reading a damaged file may raise."""


class Damaged(Exception):
    """A file is damaged; `str(error)` says which one and why."""


@dataclass(frozen=True)
class FederatedDataset:
    """All rows of a data set.

    `train_x` and `test_x` are float32 (n, ...), `train_y` and `test_y` int64 (n,) in 0..classes-1.
    `clients`, int64 (training rows,), has the number of each training row's owner; None without owners.
    """

    train_x: NDArray[np.float32]
    train_y: Integers
    test_x: NDArray[np.float32]
    test_y: Integers
    clients: Integers | None
    classes: int
    description: str

    def only(self, rows: RowNumbers) -> FederatedDataset:
        """With these training rows alone, whose owners it does not tell."""
        return replace(self, train_x=self.train_x[rows], train_y=self.train_y[rows], clients=None)


def split(
    x: NDArray[np.float32],
    y: Integers,
    kept: RowNumbers,
    held_out: RowNumbers,
    clients: Integers | None,
    classes: int,
    description: str,
) -> FederatedDataset:
    """Divide rows (n, ...) and labels (n,) into those `kept` for training and those `held_out` for tests."""
    return FederatedDataset(x[kept], y[kept], x[held_out], y[held_out], clients, classes, description)
