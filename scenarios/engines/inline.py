"""Engine `inline`: cells in this process or in child processes, clients trained in blocks by threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scenarios.engines.clock import clocked
from scenarios.engines.engine import Place, SweepDisplay, one_line
from scenarios.engines.room import LocalRoom
from scenarios.frame.work import do_all, rounds_said
from scenarios.study.cells import Cell, cell_name
from scenarios.study.threads import one_thread

PRELOAD = ("scenarios.engines.workers", "sklearn.datasets", "torch._dynamo")
"""Modules whose import takes seconds; they are imported once for all children."""


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
            outcome = clocked(lambda tell: cell.replay(LocalRoom(place.data_dir, self.cores, tell)), say)
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
