"""Comparison of two arms of a sweep: the difference of their means in its standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from scenarios.study.sweep import FINAL, Sweep

CLOSE = 2.0
"""Two figures count as equal if they differ by at most this many standard errors of the difference."""
_LEAST_ERROR = 1e-9
"""The least standard error, so that figures without spread can be compared."""


def rise(sweep: Sweep, one: str, other: str, fact: str = FINAL) -> float:
    """The mean of `other` minus that of `one`, in standard errors of the difference."""
    error = max(sweep.error_between(one, other, fact), _LEAST_ERROR)
    return (sweep.mean(other, fact) - sweep.mean(one, fact)) / error


def largest_rise(sweep: Sweep, arms: Sequence[str], fact: str = FINAL) -> float:
    """The largest rise from an arm to the next one, among two or more, in standard errors."""
    return max(rise(sweep, one, other, fact) for one, other in pairwise(arms))
