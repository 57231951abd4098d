"""What the processes of a test run share: each worker of pytest-xdist has fixtures of its own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def is_worker() -> bool:
    """Whether this process runs some of the tests, and others run the rest."""
    return "PYTEST_XDIST_WORKER" in os.environ


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """Returns the folder that all workers of this run see."""
    own = factory.getbasetemp()
    return own.parent if is_worker() else own


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Holds a file's lock in the context: others wait, in whatever process."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
