"""The progress of a sweep: one bar with the time left, or one line per cell without a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

from scenarios.engines.engine import SweepDisplay
from scenarios.frame.progress import Bar, Pace, Rounds, clock, columns, print_plain
from scenarios.study.cells import Cell, Outcome, cell_name


class SweepLines:
    """A display for logs and pipes: a line for every cell that has ended."""

    def __init__(self, console: Console, cells: Sequence[Cell]) -> None:
        self._console, self._cells = console, len(cells)
        self._in_all, self._rounds, self._pace = rounds_of(cells), Rounds(), Pace()
        self._ended = 0
        self._left_s: float | None = None

    def round_ended(self, cell: Cell, round: int, figure: float) -> None:
        """Count the round, to estimate the time left."""
        done = self._rounds.ended(cell_name(cell), round)
        self._left_s = self._pace.left_s(done, self._in_all, time.monotonic())

    def cell_ended(self, cell: Cell, outcome: Outcome) -> None:
        """Print the cell's figures."""
        self._ended += 1
        self.round_ended(cell, cell.rounds, outcome.final)
        text = f"cell {self._ended}/{self._cells}  {cell_text(cell, outcome)}"
        print_plain(self._console, f"{text}  {clock(self._left_s)} left")


class SweepBar:
    """A display for a terminal: one bar for all rounds of all cells, and the last result."""

    def __init__(self, progress: Progress, cells: Sequence[Cell]) -> None:
        self._bar, self._rounds = Bar(progress, "[bold]sweep", rounds_of(cells)), Rounds()
        self._cells, self._ended = len(cells), 0

    def round_ended(self, cell: Cell, round: int, figure: float) -> None:
        """Move the bar."""
        said = f"{self._ended}/{self._cells} cells; {cell_name(cell)}: {figure:.4g}"
        self._bar.move(self._rounds.ended(cell_name(cell), round), said)

    def cell_ended(self, cell: Cell, outcome: Outcome) -> None:
        """Show the number of finished cells."""
        self._ended += 1
        self.round_ended(cell, cell.rounds, outcome.final)


def rounds_of(cells: Sequence[Cell]) -> int:
    """The rounds of all cells together."""
    return sum(cell.rounds for cell in cells)


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
