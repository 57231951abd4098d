"""One warm fork-server for all tests here; whatever a test started is ended with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.processes import PRELOAD, warm_up
from tests.e2e.processes import ROOT, Nursery
from tests.e2e.swarm import Swarm


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:
    os.environ["PYTHONPATH"] = str(ROOT)  # the fork-server takes the packages from this tree
    warm_up((*PRELOAD, "pytest", "pytest.__main__", "node.tracker", "node.__main__", "tests.e2e.dying_peer"))


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    try:
        yield nursery
    finally:
        nursery.end_all()


@pytest.fixture
def make_swarm(nursery: Nursery, tmp_path: Path):
    def make(
        count: int, rounds: int, *overrides: str, tracker: str | None = None, listed: int | None = None
    ) -> Swarm:
        return Swarm(nursery, tmp_path, count, rounds, overrides, tracker, listed)

    return make
