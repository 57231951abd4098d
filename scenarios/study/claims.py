"""When two arms of a sweep count as different: their means, in standard errors of the difference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from scenarios.study.sweep import FINAL, Sweep

CLOSE = 2.0
"""Standard errors of a difference within which two figures are taken as equal."""
_LEAST_ERROR = 1e-9
"""So that figures of no spread can be compared."""


def rise(sweep: Sweep, one: str, other: str, fact: str = FINAL) -> float:
    """How far the mean of `other` is above that of `one`, in standard errors of the difference."""
    error = max(sweep.error_between(one, other, fact), _LEAST_ERROR)
    return (sweep.mean(other, fact) - sweep.mean(one, fact)) / error


def largest_rise(sweep: Sweep, arms: Sequence[str], fact: str = FINAL) -> float:
    """Of any of two or more arms above the one before it, in standard errors of the difference."""
    return max(rise(sweep, one, other, fact) for one, other in pairwise(arms))
