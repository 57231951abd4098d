"""The engines that run the cells of a sweep: one interface, three engines.

    inline      this machine, clients trained in blocks, seeded; `--jobs` cells side by side
    processes   a server and its clients, or a swarm, as processes; noise from the system's generator
    ray         cells, and blocks of clients, as tasks of a Ray cluster; the same figures as inline

An engine stores every cell's outcome on the shelf as soon as it has it. It does not know what a cell studies.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from node.errors import UserError, reason
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


@contextmanager
def one_line(cell: Cell, log: Path) -> Iterator[None]:
    """Turn any error into a UserError that names the cell; write the traceback of other errors to `log`."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{cell_name(cell)}: {error}", error.status) from error
    except Exception as error:  # a user's mechanism or model may raise anything
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as lines:
            traceback.print_exc(file=lines)
        raise UserError(f"{cell_name(cell)}: {reason(error)} (log: {log})") from error
