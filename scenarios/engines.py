"""What runs the cells of a sweep: one interface, three engines.

    inline      this machine, clients trained in blocks, seeded; `--jobs` cells side by side
    processes   real nodes on loopback, one of them in the server's role; noise from the system's generator
    ray         cells, and blocks of clients, as tasks of a Ray cluster; the same figures as inline

An engine leaves every cell's outcome on the shelf as soon as it has it. It does not know what a cell shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scenarios.cells import Cell, Outcome, Shelf


class SweepDisplay(Protocol):
    """What a sweep tells while it runs. Cells may run side by side."""

    def round_ended(self, cell: Cell, round: int, figure: float) -> None:
        """A cell has ended a round, with this figure."""

    def cell_ended(self, cell: Cell, outcome: Outcome) -> None:
        """A cell is finished, and kept."""


@dataclass(frozen=True)
class Place:
    """Where a sweep writes, and where its data lies."""

    folder: Path
    data_dir: Path

    @property
    def shelf(self) -> Shelf:
        """The finished cells."""
        return Shelf(self.folder / "cells")


class Engine(Protocol):
    """Runs cells."""

    def run(self, cells: Sequence[Cell], place: Place, display: SweepDisplay) -> None:
        """Run all of `cells`, none of which is finished; each lies on the shelf when it is.

        Raises UserError, one line, for the first that fails: what is finished by then stays.
        """
