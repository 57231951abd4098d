"""What a benchmark is, and what it finds out."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """One finding: the median of `samples` values. `at_most` is the target, None where there is none."""

    benchmark: str
    case: str
    figure: str
    unit: str
    median: float
    min: float
    max: float
    samples: int
    at_most: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        return None if self.at_most is None else self.median <= self.at_most


def figure(
    benchmark: str,
    case: str,
    name: str,
    unit: str,
    values: Sequence[float],
    at_most: float | None = None,
    note: str = "",
) -> Figure:
    """The median of some values, with the least and the most of them."""
    spread = (float(median(values)), float(min(values)), float(max(values)))
    return Figure(benchmark, case, name, unit, *spread, len(values), at_most, note)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark of the command line. `run` judges the options at once, then gives figures as they come."""

    name: str
    summary: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Iterator[Figure]]
