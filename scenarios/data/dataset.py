"""What a data set is, for those that read one and those that use one."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

TEST_SHARE = 0.2
"""The share of the rows that is held out where the publisher names no test rows."""

UNREADABLE = (
    *(OSError, EOFError, ValueError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, RuntimeError),  # RuntimeError: encrypted, or packed in an unknown way
)
"""What reading a damaged file may raise."""


class Damaged(Exception):
    """A file is not what it should be; `str(error)` says which and why."""


@dataclass(frozen=True)
class Dataset:
    """All rows of a data set.

    `train_x` and `test_x` are float32 (n, ...), `train_y` and `test_y` int64 (n,) in 0..classes-1.
    `clients`, int64 (training rows,), names whose each training row is; None where nobody's.
    """

    train_x: NDArray[np.float32]
    train_y: Rows
    test_x: NDArray[np.float32]
    test_y: Rows
    clients: Rows | None
    classes: int
    description: str


def split(
    x: NDArray[np.float32],
    y: Rows,
    kept: Rows,
    held_out: Rows,
    clients: Rows | None,
    classes: int,
    description: str,
) -> Dataset:
    """Rows (n, ...) and labels (n,) in two: those `kept` for training, and those `held_out`."""
    return Dataset(x[kept], y[kept], x[held_out], y[held_out], clients, classes, description)
