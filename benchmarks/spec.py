"""The types of a benchmark and of its findings."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """One finding: the median of `samples` values. `at_most` and `at_least` are targets, None for none."""

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
        """Whether the targets are reached; None if there is none."""
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
    """Make a figure of some values: their median, minimum and maximum."""
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

    `run` checks the options, loads the code to measure, and then yields its findings one by one. The module
    itself loads nothing slow, so that its options are known at once.
    """

    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Iterator[Figure | Row]]
