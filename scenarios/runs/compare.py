"""Runs side by side: every arm of several result.json, and its difference from the first run.

Differences are paired by seed (scenarios.study.estimates): where an arm has two or more seeds in common with
the first run, the mean over these seeds of the figure there minus the figure in the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from node.system.errors import ConfigError
from scenarios.frame.folder import first_difference
from scenarios.frame.spec import Json, Table
from scenarios.frame.stored import read_result
from scenarios.study.estimates import Estimate, estimate

RESULT = "result.json"
_MISSING = "none"


@dataclass(frozen=True)
class Side:
    """An arm in one run: its figure after the last round by seed, and how the arm was configured."""

    figures: Mapping[int, float]
    configured: Json

    @property
    def mean(self) -> Estimate:
        """The mean over the seeds."""
        return estimate(np.array(list(self.figures.values())))


@dataclass(frozen=True)
class Run:
    """A run that has ended: its name for the user, its scenario, and its arms."""

    name: str
    scenario: str
    arms: Mapping[str, Side]


def read_run(folder: Path) -> Run:
    """The run in a folder, or of a result.json. Raises ConfigError if it is none."""
    path = folder / RESULT if folder.is_dir() else folder
    result = read_result(path)
    try:
        configured = result.get("configuration", {}).get("arms", {})
        arms = {name: _side(arm, configured.get(name, {})) for name, arm in result["arms"].items()}
    except (KeyError, TypeError, IndexError, AttributeError, ValueError):
        raise ConfigError(
            f"{path} holds no arms with figures by seed; compare runs of studies with arms"
        ) from None
    return Run(str(folder), result["scenario"], arms)


def _side(arm: Mapping[str, Any], configured: Json) -> Side:
    figures = {int(one["seed"]): float(one["figures"][-1]) for one in arm["seeds"]}
    if len(figures) < 2:
        raise ValueError
    return Side(figures, configured)


@dataclass(frozen=True)
class Compared:
    """An arm of a run beside the same arm of the first one.

    difference: None without two seeds in common. differing: the first key in which the arm is configured
    differently, with both values; "" if it is the same.
    """

    mean: Estimate
    difference: Estimate | None
    differing: str


def compare(first: Side | None, other: Side) -> Compared:
    """`other` beside `first`, which may not have been run."""
    if first is None:
        return Compared(other.mean, None, "")
    seeds = sorted(first.figures.keys() & other.figures.keys())
    gaps = np.array([other.figures[seed] - first.figures[seed] for seed in seeds])
    differing = first_difference(first.configured, other.configured) or ""
    return Compared(other.mean, estimate(gaps) if len(seeds) >= 2 else None, differing)


def comparison(runs: Sequence[Run]) -> dict[str, list[Compared | None]]:
    """For each arm of any run, in the order of the runs, what each run has of it; None: it was not run."""
    arms = dict.fromkeys(arm for run in runs for arm in run.arms)
    return {
        arm: [compare(runs[0].arms.get(arm), run.arms[arm]) if arm in run.arms else None for run in runs]
        for arm in arms
    }


def compared_table(runs: Sequence[Run]) -> Table:
    """The comparison as a table: means with margins, then the differences from the first run."""
    names = [run.name for run in runs]
    headings = ("arm", *names, *(f"{name} less {names[0]}" for name in names[1:]))
    rows = tuple(
        (arm, *map(_mean_text, sides), *map(_difference_text, sides[1:]))
        for arm, sides in comparison(runs).items()
    )
    return Table("Figures with 95 % margins; * a difference beyond its margin", headings, rows)


def notes(runs: Sequence[Run]) -> list[str]:
    """How arms are configured differently from the first run, one line for each."""
    return [
        f"{run.name}, {arm}: other {side.differing}"
        for arm, sides in comparison(runs).items()
        for run, side in zip(runs[1:], sides[1:], strict=True)
        if side is not None and side.differing
    ]


def compared_json(runs: Sequence[Run]) -> Json:
    """The comparison as JSON."""
    return {
        "runs": [{"run": run.name, "scenario": run.scenario} for run in runs],
        "arms": {
            arm: [None if side is None else _side_json(side) for side in sides]
            for arm, sides in comparison(runs).items()
        },
    }


def _side_json(side: Compared) -> Json:
    gap = side.difference
    return {
        "figure": _estimate_json(side.mean),
        "difference": None if gap is None else {**_estimate_json(gap), "clear": gap.above or gap.below},
        "differing": side.differing,
    }


def _estimate_json(found: Estimate) -> dict[str, float]:
    return {**asdict(found), "margin": found.margin}


def _mean_text(side: Compared | None) -> str:
    return _MISSING if side is None else f"{side.mean.mean:.4g} ± {side.mean.margin:.2g}"


def _difference_text(side: Compared | None) -> str:
    if side is None or side.difference is None:
        return _MISSING
    gap = side.difference
    return f"{gap.mean:+.4g} ± {gap.margin:.2g}{' *' if gap.above or gap.below else ''}"
