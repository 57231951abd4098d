"""Comparison of the arms of a sweep, by their differences seed by seed.

All arms have the same seeds, and with them the same initial model, test rows and partition, as far as they
use them. What a seed does to both arms is not in their difference, so differences are paired. "In margins"
means: in units of the margin of scenarios.study.estimates. A difference counts if it is more than one margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from scenarios.study.estimates import Estimate, estimate
from scenarios.study.sweep import FINAL, Sweep

CLOSE = 1.0
"""Two figures count as equal if they differ by at most this many margins."""
METHOD = (
    "Differences are taken seed by seed, and count if they are more than a margin: half the width of their "
    "95 % confidence interval (Student's t). An identity follows from formulas: no "
    "training could make it fail."
)
"""How claims are judged, for a report's reader."""


def level(sweep: Sweep, arm: str, fact: str = FINAL) -> Estimate:
    """The mean of an arm's figure or fact over the seeds."""
    return estimate(sweep.values(arm, fact))


def difference(sweep: Sweep, one: str, other: str, fact: str = FINAL) -> Estimate:
    """The mean over the seeds of `other` minus `one`."""
    return estimate(sweep.values(other, fact) - sweep.values(one, fact))


def rise(sweep: Sweep, one: str, other: str, fact: str = FINAL) -> float:
    """The difference from `one` to `other` in margins."""
    return difference(sweep, one, other, fact).margins


def largest_rise(sweep: Sweep, arms: Sequence[str]) -> float:
    """The largest rise from an arm to the next one, among two or more, in margins."""
    return max(rise(sweep, one, other) for one, other in pairwise(arms))
