"""Engine `inline`: cells in this process or in child processes, clients trained in blocks by threads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from mechanisms.noise.clipping import Floats
from mechanisms.servers.server import Indices
from scenarios.clients.work import ClientWork, Crew
from scenarios.data import sources
from scenarios.data.criteo import Criteo
from scenarios.data.dataset import Dataset
from scenarios.engines.engine import Place, SweepDisplay, one_line
from scenarios.federated.rounds import in_order, train_block
from scenarios.frame.work import do_all
from scenarios.study.cells import Cell, cell_name
from scenarios.study.threads import one_thread

TEST_SPLIT = 1
"""The stream of random numbers that holds out test rows, as nodes with that task.seed do."""

PRELOAD = ("scenarios.engines.workers", "sklearn.datasets", "torch._dynamo")
"""Imported once for all children: what takes seconds."""

_ROUND_LINE = re.compile(r"^round (\d+): (\S+)\n", re.MULTILINE)


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
    _vertical: dict[str, Criteo] = field(default_factory=dict)

    def dataset(self, name: str, seed: int) -> Dataset:
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

    def either(self, name: str, seed: int) -> Dataset | Criteo:
        """The data set of that name, of whichever kind it is. Raises ConfigError."""
        return self.vertical(name) if name in sources.VERTICAL else self.dataset(name, seed)

    @contextmanager
    def crew(self, work: ClientWork) -> Iterator[Crew]:
        """See Room.crew."""
        with ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            yield ThreadCrew(work, workers)


def load(name: str, data_dir: Path, seed: int) -> Dataset:
    """A data set with the test rows of that seed. Raises ConfigError."""
    return sources.load(name, data_dir, np.random.default_rng([seed, TEST_SPLIT]))


@dataclass(frozen=True)
class InlineEngine:
    """`jobs` cells side by side, each in a process of its own with its part of the `cores`.

    A single one runs in this process and has all cores for its blocks.
    """

    jobs: int
    cores: int

    def run(self, cells: Sequence[Cell], place: Place, display: SweepDisplay) -> None:
        """See Engine.run."""
        at_once = min(self.jobs, len(cells))
        if at_once > 1:
            jobs = [CellJob(cell, place, max(1, self.cores // at_once)) for cell in cells]
            do_all(jobs, at_once, Watch(jobs, display), PRELOAD)
            return
        for cell in cells:
            with one_line(cell, place.shelf.log(cell)):
                self._run(cell, place, display)

    def _run(self, cell: Cell, place: Place, display: SweepDisplay) -> None:
        def say(number: int, figure: float) -> None:
            display.round_ended(cell, number, figure)

        with one_thread():
            outcome = cell.replay(LocalRoom(place.data_dir, self.cores, say))
        place.shelf.put(cell, outcome)
        display.cell_ended(cell, outcome)


# -- cells in child processes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellJob:
    """A cell for a child process that has so many `threads`; see scenarios.frame.work.Work."""

    cell: Cell
    place: Place
    threads: int

    @property
    def name(self) -> str:
        """What the user sees."""
        return cell_name(self.cell)

    @property
    def rounds(self) -> int:
        """How many lines it will say."""
        return self.cell.rounds

    @property
    def path(self) -> Path:
        """Its result."""
        return self.place.shelf.path(self.cell)

    @property
    def log(self) -> Path:
        """Its lines."""
        return self.place.shelf.log(self.cell)

    @property
    def worker(self) -> str:
        """What runs it in a process of its own."""
        return "scenarios.engines.workers:run_cell"


@dataclass
class Watch:
    """Tells a display what `jobs` have said in their logs since the last look."""

    jobs: Sequence[CellJob]
    display: SweepDisplay

    def __post_init__(self) -> None:
        self._told = dict.fromkeys(range(len(self.jobs)), 0)  # rounds of each that has not ended

    def __call__(self) -> None:
        """Look once."""
        for index, told in list(self._told.items()):
            job = self.jobs[index]
            ended = job.path.exists()  # before the log is read: then all of it is there
            for number, figure in rounds_said(job.log)[told:]:
                self.display.round_ended(job.cell, number, figure)
                self._told[index] = number
            if ended:
                self.display.cell_ended(job.cell, job.place.shelf.get(job.cell))
                del self._told[index]


def round_line(number: int, figure: float) -> str:
    """What a child says at the end of a round."""
    return f"round {number}: {float(figure)!r}"


def rounds_said(log: Path) -> list[tuple[int, float]]:
    """The rounds in a log, in order: number and figure."""
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    return [(int(number), float(figure)) for number, figure in _ROUND_LINE.findall(text)]
