"""A room for cells in this process: the data sets that they share, and threads that train blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from mechanisms.noise.clipping import Floats
from mechanisms.servers.server import Indices
from node.task.sections import DataSection
from scenarios.clients.work import ClientWork, Crew
from scenarios.data import sources
from scenarios.data.criteo import Criteo
from scenarios.data.dataset import FederatedDataset
from scenarios.data.own import DataName, own_dataset
from scenarios.engines.clock import clocked
from scenarios.federated.rounds import in_order, remembered, train_block
from scenarios.frame.work import Say
from scenarios.study.cells import Cell, Outcome
from scenarios.study.threads import one_thread

TEST_SPLIT = 1
"""The stream of random numbers that draws test rows, the same as in nodes with that task.seed."""


@dataclass(frozen=True)
class ThreadCrew:
    """A crew that trains blocks side by side in `workers`, each with one torch thread.

    kept: what each client remembers, by its number.
    """

    work: ClientWork
    workers: ThreadPoolExecutor
    kept: dict[int, Floats] = field(default_factory=dict)

    def uploads(self, number: int, given: Floats, chosen: Indices) -> Mapping[int, Floats]:
        """See Crew.uploads."""
        blocks = self.work.blocks(chosen)
        sent = self.workers.map(
            lambda members: train_block(self.work, number, given, members, self.kept), blocks
        )
        return remembered(in_order(chosen, blocks, list(sent)), self.kept)


@dataclass(frozen=True)
class LocalRoom:
    """A room for cells in this process, with `threads` threads; it calls `say` at the end of each round.

    With a folder alone it serves as a library: it loads data sets.
    """

    data_dir: Path
    threads: int = 1
    say: Say = lambda number, figure: None
    _loaded: dict[tuple[DataName, int], FederatedDataset] = field(default_factory=dict)
    _vertical: dict[str, Criteo] = field(default_factory=dict)

    def dataset(self, name: DataName, seed: int) -> FederatedDataset:
        """See Room.dataset; loaded once."""
        if (name, seed) not in self._loaded:
            self._loaded.clear()
            self._loaded[name, seed] = load(name, self.data_dir, seed)
        return self._loaded[name, seed]

    def vertical(self, name: str) -> Criteo:
        """See Room.vertical; loaded once."""
        if name not in self._vertical:
            self._vertical[name] = sources.load_vertical(name, self.data_dir)
        return self._vertical[name]

    def either(self, name: DataName, seed: int) -> FederatedDataset | Criteo:
        """The data set of that name, of either kind. Raises ConfigError."""
        if isinstance(name, str) and name in sources.VERTICAL:
            return self.vertical(name)
        return self.dataset(name, seed)

    @contextmanager
    def crew(self, work: ClientWork) -> Iterator[Crew]:
        """See Room.crew."""
        with ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            yield ThreadCrew(work, workers)


def replayed(cell: Cell, data_dir: Path, threads: int, say: Say) -> Outcome:
    """Replay a cell on this machine; a function of a Call."""
    with one_thread():
        return clocked(lambda tell: cell.replay(LocalRoom(data_dir, threads, tell)), say)


def load(name: DataName, data_dir: Path, seed: int) -> FederatedDataset:
    """Load a data set with the test rows of that seed. Raises ConfigError."""
    if isinstance(name, DataSection):
        return own_dataset(name, seed)
    return sources.load(name, data_dir, np.random.default_rng([seed, TEST_SPLIT]))
