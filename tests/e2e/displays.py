"""A display of sweeps for tests with real processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from scenarios.study.cells import Cell, Outcome


@dataclass
class Told:
    """A display that records what it is shown, and calls a function when a cell ends a round."""

    at: Callable[[Cell, int], None] = lambda cell, number: None
    rounds: list[tuple[str, int]] = field(default_factory=list)
    ended: dict[str, Outcome] = field(default_factory=dict)

    def round_ended(self, cell: Cell, round: int, figure: float) -> None:
        self.rounds.append((cell.arm, round))
        self.at(cell, round)

    def cell_ended(self, cell: Cell, outcome: Outcome) -> None:
        self.ended[cell.arm] = outcome
