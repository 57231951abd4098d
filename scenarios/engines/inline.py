"""Engine `inline`: cells in this process or in child processes, clients trained in blocks by threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scenarios.engines.engine import CellWatch, Place, SweepDisplay, call_of
from scenarios.frame.work import do_here, do_in_children
from scenarios.study.cells import Cell

PRELOAD = ("scenarios.engines.room", "sklearn.datasets", "torch._dynamo")
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
        at_once = max(1, min(self.jobs, len(cells)))
        given = (place.data_dir, max(1, self.cores // at_once))
        calls = [call_of(cell, place, "scenarios.engines.room:replayed", *given) for cell in cells]
        watch = CellWatch(cells, place, display)
        if at_once > 1:
            do_in_children(calls, watch, at_once, PRELOAD)
        else:
            do_here(calls, watch)
