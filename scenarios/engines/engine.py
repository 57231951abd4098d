"""The engines that run the cells of a sweep: one interface, three engines.

    inline      this machine, clients trained in blocks, seeded; `--jobs` cells side by side
    processes   a server and its clients, or a swarm, as processes; noise from the system's generator
    ray         cells, and blocks of clients, as tasks of a Ray cluster; the same figures as inline

An engine stores every cell's outcome on the shelf as soon as it has it. It does not know what a cell studies.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from scenarios.frame.work import Call
from scenarios.study.cells import Cell, Outcome, Shelf, cell_name


class SweepDisplay(Protocol):
    """Shows the progress of a sweep. Cells may run side by side."""

    def round_ended(self, cell: Cell, round: int, figure: float) -> None:
        """Show that a cell has ended a round with this figure."""

    def cell_ended(self, cell: Cell, outcome: Outcome) -> None:
        """Show that a cell is finished and its outcome stored."""


@dataclass(frozen=True)
class Place:
    """The folders of a sweep: its output and its data."""

    folder: Path
    data_dir: Path

    @property
    def shelf(self) -> Shelf:
        """The shelf with the finished cells."""
        return Shelf(self.folder / "cells")


class Engine(Protocol):
    """An engine, which runs cells."""

    def run(self, cells: Sequence[Cell], place: Place, display: SweepDisplay) -> None:
        """Run all of `cells`, none of which is finished; put each on the shelf when it is.

        Raises UserError, one line, for the first cell that fails; cells finished by then stay on the shelf.
        """


def cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def call_of(cell: Cell, place: Place, function: str, *given: Any, cores: int = 1) -> Call:
    """The call that replays a cell: `function` takes the cell, `given` and a Say, and returns the outcome."""
    return Call(cell_name(cell), function, (cell, *given), cell.rounds, place.shelf.path(cell), cores)


class CellWatch:
    """Shows the progress of the calls that replay `cells`."""

    def __init__(self, cells: Sequence[Cell], place: Place, display: SweepDisplay) -> None:
        self._cells = {place.shelf.path(cell): cell for cell in cells}
        self._shelf, self._display = place.shelf, display

    def round_ended(self, call: Call, round: int, figure: float) -> None:
        """See Watch.round_ended."""
        self._display.round_ended(self._cells[call.path], round, figure)

    def call_ended(self, call: Call) -> None:
        """See Watch.call_ended."""
        cell = self._cells[call.path]
        self._display.cell_ended(cell, self._shelf.get(cell))
