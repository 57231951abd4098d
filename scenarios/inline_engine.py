"""Engine `inline`: cells in this process, clients trained in blocks by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from mechanisms.clipping import Floats
from mechanisms.server import Indices
from scenarios import datasets
from scenarios.cells import Cell
from scenarios.datasets import Dataset
from scenarios.engines import Place, SweepDisplay
from scenarios.federated import ClientWork, Crew, in_order, train_block

TEST_SPLIT = 1
"""The stream of random numbers that holds out test rows, as nodes with that task.seed do."""


@dataclass(frozen=True)
class ThreadCrew:
    """Trains blocks side by side in `workers`, each of which has one torch thread."""

    work: ClientWork
    workers: ThreadPoolExecutor

    def uploads(self, number: int, model: Floats, chosen: Indices) -> Mapping[int, Floats]:
        """See Crew.uploads."""
        blocks = self.work.blocks(chosen)
        sent = self.workers.map(lambda members: train_block(self.work, number, model, members), blocks)
        return in_order(chosen, blocks, list(sent))


@dataclass(frozen=True)
class LocalRoom:
    """A place to run cells in this process, with so many threads; `say` is told the end of each round."""

    data_dir: Path
    threads: int
    say: Callable[[int, float], None]
    _loaded: dict[tuple[str, int], Dataset] = field(default_factory=dict)

    def dataset(self, name: str, seed: int) -> Dataset:
        """See Room.dataset; loaded once."""
        if (name, seed) not in self._loaded:
            self._loaded.clear()
            self._loaded[name, seed] = load(name, self.data_dir, seed)
        return self._loaded[name, seed]

    @contextmanager
    def crew(self, work: ClientWork) -> Iterator[Crew]:
        """See Room.crew."""
        with ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            yield ThreadCrew(work, workers)


def load(name: str, data_dir: Path, seed: int) -> Dataset:
    """A data set with the test rows of that seed. Raises ConfigError."""
    return datasets.load(name, data_dir, np.random.default_rng([seed, TEST_SPLIT]))


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch's operations in one thread: what they give must not depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class InlineEngine:
    """`jobs` cells side by side; a single one has all `threads` for its blocks."""

    jobs: int
    threads: int

    def run(self, cells: Sequence[Cell], place: Place, display: SweepDisplay) -> None:
        """See Engine.run."""
        with one_thread():
            for cell in cells:
                self._run(cell, place, display)

    def _run(self, cell: Cell, place: Place, display: SweepDisplay) -> None:
        room = LocalRoom(
            place.data_dir, self.threads, lambda number, figure: display.round_ended(cell, number, figure)
        )
        outcome = cell.replay(room)
        place.shelf.put(cell, outcome)
        display.cell_ended(cell, outcome)
