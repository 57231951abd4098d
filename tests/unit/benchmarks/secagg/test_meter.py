"""What the benchmark of secure sums counts for a round."""

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.secagg.cells import SEED, Cell
from benchmarks.secagg.meter import Meter, settle
from node.storage.file_shelf import FileShelves

CELL = Cell(SEED, 4, 4_000_000)
VECTOR_BYTES = 4 * CELL.d


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def peak_vectors(rest: int, round: int) -> float:
    meter = Meter(CELL, 1, round, rest)
    meter.start({}, FileShelves(Path()))
    return meter.sample(meter.hand_over(), {}, 0.0).peak_bytes / VECTOR_BYTES


def test_a_round_is_charged_for_what_the_one_before_left_behind() -> None:
    """Measured from its own start, a round that frees the last one's vectors would seem to cost nothing."""
    rest = settle()
    assert 0.9 < peak_vectors(rest, 0) < 1.5
    kept = [np.ones(CELL.d, "<f4") for _ in range(3)]
    assert 3.9 < peak_vectors(rest, 1) < 4.5
    del kept
    assert 0.9 < peak_vectors(rest, 2) < 1.5
