"""One session of Ray at a time: two that start side by side keep each other waiting."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.workers import held


@contextmanager
def only_session() -> Iterator[None]:
    """Waits until no other test of this machine uses Ray, and keeps others waiting in the context.

    Ray gives its workers the niceness 15; beside other work of a machine they would take ten times as long.
    """
    with (
        held(Path(tempfile.gettempdir(), "murmuration-tests-ray.lock")),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RAY_worker_niceness", "0")
        yield
