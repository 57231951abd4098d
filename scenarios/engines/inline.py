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
"""The stream of random numbers that draws test rows, the same as in nodes with that task.seed."""

PRELOAD = ("scenarios.engines.workers", "sklearn.datasets", "torch._dynamo")
"""Modules whose import takes seconds; they are imported once for all children."""

_ROUND_LINE = re.compile(r"^round (\d+): (\S+)\n", re.MULTILINE)


@dataclass(frozen=True)
class ThreadCrew:
    """A crew that trains blocks side by side in `workers`, each with one torch thread."""

    work: ClientWork
    workers: ThreadPoolExecutor

    def uploads(self, number: int, model: Floats, chosen: Indices) -> Mapping[int, Floats]:
        """See Crew.uploads."""
        blocks = self.work.blocks(chosen)
        sent = self.workers.map(lambda members: train_block(self.work, number, model, members), blocks)
        return in_order(chosen, blocks, list(sent))


@dataclass(frozen=True)
class LocalRoom:
    """A room for cells in this process, with `threads` threads; it calls `say` at the end of each round."""

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
        """The data set of that name, of either kind. Raises ConfigError."""
        return self.vertical(name) if name in sources.VERTICAL else self.dataset(name, seed)

    @contextmanager
    def crew(self, work: ClientWork) -> Iterator[Crew]:
        """See Room.crew."""
        with ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            yield ThreadCrew(work, workers)


def load(name: str, data_dir: Path, seed: int) -> Dataset:
    """Load a data set with the test rows of that seed. Raises ConfigError."""
    return sources.load(name, data_dir, np.random.default_rng([seed, TEST_SPLIT]))


@dataclass(frozen=True)
class InlineEngine:
    """An engine that runs `jobs` cells side by side, each in a process of its own with its share of `cores`.

    With one job, cells run in this process and use all cores for their blocks.
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
    """A cell for a child process with `threads` threads; see scenarios.frame.work.Work."""

    cell: Cell
    place: Place
    threads: int

    @property
    def name(self) -> str:
        """The cell's name for the user."""
        return cell_name(self.cell)

    @property
    def rounds(self) -> int:
        """The number of rounds, each with a line in the log."""
        return self.cell.rounds

    @property
    def path(self) -> Path:
        """The file of the outcome."""
        return self.place.shelf.path(self.cell)

    @property
    def log(self) -> Path:
        """The log with the lines of the rounds."""
        return self.place.shelf.log(self.cell)

    @property
    def worker(self) -> str:
        """The name of the function that runs the cell in a child process."""
        return "scenarios.engines.workers:run_cell"


@dataclass
class Watch:
    """Reads the logs of `jobs` and shows the news since the last call on a display."""

    jobs: Sequence[CellJob]
    display: SweepDisplay

    def __post_init__(self) -> None:
        self._told = dict.fromkeys(range(len(self.jobs)), 0)  # shown rounds of each job that has not ended

    def __call__(self) -> None:
        """Read the logs once and show the news."""
        for index, told in list(self._told.items()):
            job = self.jobs[index]
            ended = job.path.exists()  # checked before reading, so that the log of an ended job is complete
            for number, figure in rounds_said(job.log)[told:]:
                self.display.round_ended(job.cell, number, figure)
                self._told[index] = number
            if ended:
                self.display.cell_ended(job.cell, job.place.shelf.get(job.cell))
                del self._told[index]


def round_line(number: int, figure: float) -> str:
    """The line that a child prints at the end of a round."""
    return f"round {number}: {float(figure)!r}"


def rounds_said(log: Path) -> list[tuple[int, float]]:
    """The rounds in a log, in order, each with its number and figure."""
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    return [(int(number), float(figure)) for number, figure in _ROUND_LINE.findall(text)]
