"""The types of a benchmark and of its findings; the check of its counts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from node.system.errors import ConfigError


@dataclass(frozen=True)
class Figure:
    """Median, minimum, maximum of `samples` values. `at_most`, `at_least`: targets of the median, or None."""

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
    at_least: float | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the median reaches every target; None if there is no target."""
        if self.at_most is None and self.at_least is None:
            return None
        below = self.at_most is None or self.median <= self.at_most
        return below and (self.at_least is None or self.median >= self.at_least)


def figure(
    benchmark: str,
    case: str,
    name: str,
    unit: str,
    values: Sequence[float],
    at_most: float | None = None,
    note: str = "",
    at_least: float | None = None,
) -> Figure:
    """Return the figure of some values. Raises statistics.StatisticsError if there are none."""
    return Figure(
        benchmark=benchmark,
        case=case,
        figure=name,
        unit=unit,
        median=float(median(values)),
        min=float(min(values)),
        max=float(max(values)),
        samples=len(values),
        at_most=at_most,
        note=note,
        at_least=at_least,
    )


Scores = Mapping[str, float]
"""Figures by name."""


@dataclass(frozen=True)
class Row:
    """A line of a benchmark's own table, and its object in the JSON file, if any."""

    text: str
    record: Mapping[str, object] | None = None


@dataclass(frozen=True)
class Benchmark:
    """A benchmark of the command line, listed in `benchmarks.catalogue`.

    `run` checks the options and returns an iterator, which measures one finding after another. A module that
    holds a Benchmark loads little, so that the command line answers at once.
    """

    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Iterator[Figure | Row]]


def check_counts(arguments: argparse.Namespace, *names: str) -> None:
    """Raise ConfigError if one of these options has a value below 1."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value}: allowed are 1 and more")
