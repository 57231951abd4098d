"""One session of Ray at a time: two that start side by side keep each other waiting."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_session() -> Iterator[None]:
    """Waits until no other test of this machine uses Ray, and keeps others waiting in the context."""
    with Path(tempfile.gettempdir(), "murmuration-tests-ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
