"""The progress of a sweep: one bar with the time left, or one line per cell without a terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TaskID

from scenarios.engines.engine import SweepDisplay
from scenarios.study.cells import Cell, Outcome, cell_name
from scenarios.swarms.progress import Pace, clock, columns


class _Count:
    """Counts the ended rounds of all cells; cells may run in threads."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells, self.in_all = len(cells), sum(cell.rounds for cell in cells)
        self.ended = 0
        self._rounds: dict[tuple[str, int], int] = {}
        self._pace = Pace()
        self._lock = threading.Lock()

    def round_ended(self, cell: Cell, round: int) -> tuple[int, float | None]:
        """Count a round; return the number of ended rounds and the seconds left, None if unknown."""
        with self._lock:
            self._rounds[cell.arm, cell.seed] = round
            done = sum(self._rounds.values())
            return done, self._pace.left_s(done, self.in_all, time.monotonic())


class SweepLines:
    """A display for logs and pipes: a line for every cell that has ended."""

    def __init__(self, console: Console, cells: Sequence[Cell]) -> None:
        self._console, self._count = console, _Count(cells)
        self._left_s: float | None = None

    def round_ended(self, cell: Cell, round: int, figure: float) -> None:
        """Count the round, to estimate the time left."""
        _, self._left_s = self._count.round_ended(cell, round)

    def cell_ended(self, cell: Cell, outcome: Outcome) -> None:
        """Print the cell's figures."""
        self._count.ended += 1
        _, self._left_s = self._count.round_ended(cell, cell.rounds)
        text = f"cell {self._count.ended}/{self._count.cells}  {cell_text(cell, outcome)}"
        left = f"{clock(self._left_s)} left"
        self._console.print(f"{text}  {left}", highlight=False, markup=False, soft_wrap=True)


class SweepBar:
    """A display for a terminal: one bar for all rounds of all cells, and the last result."""

    def __init__(self, progress: Progress, cells: Sequence[Cell]) -> None:
        self._progress, self._count = progress, _Count(cells)
        self._bar: TaskID = progress.add_task("[bold]sweep", total=self._count.in_all, left="", said="")

    def round_ended(self, cell: Cell, round: int, figure: float) -> None:
        """Move the bar."""
        done, left_s = self._count.round_ended(cell, round)
        said = f"{self._count.ended}/{self._count.cells} cells; {cell_name(cell)}: {figure:.4g}"
        self._progress.update(self._bar, completed=done, left=f"{clock(left_s)} left", said=said)

    def cell_ended(self, cell: Cell, outcome: Outcome) -> None:
        """Show the number of finished cells."""
        self._count.ended += 1
        self.round_ended(cell, cell.rounds, outcome.final)


def cell_text(cell: Cell, outcome: Outcome) -> str:
    """A text about a finished cell."""
    return f"{cell_name(cell)}: {outcome.final:.4g} in {outcome.seconds:.1f} s"


@contextmanager
def sweep_shown(console: Console, cells: Sequence[Cell]) -> Iterator[SweepDisplay]:
    """Yield the display that fits the console, for the duration of the sweep."""
    if not console.is_terminal:
        yield SweepLines(console, cells)
        return
    with Progress(*columns(), console=console) as progress:
        yield SweepBar(progress, cells)
