"""Tests and effect sizes from counts and moments, as R's and Python's `tableone` choose them.

Numbers: Welch's t-test for two groups, one-way ANOVA for more, whose F with two groups is Student's t
squared. Categories: Fisher's exact test for two by two with an expected count below 5, else chi-squared, with
Yates's correction for two by two. Survival: log-rank. Tests of ranks need the rows themselves, so there are
none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import special  # scipy.stats takes half a second of CPU to load

Counts = NDArray[np.int64]
_LEAST_EXPECTED = 5
_SAME = 1e-7  # the difference of two logarithms of one probability, as R has it


@dataclass(frozen=True)
class Test:
    """A test's name, statistic and two-sided p-value.

    Fisher's has the odds ratio as its statistic; None if that is infinite.
    """

    __test__ = False  # for pytest, which collects classes of this name

    name: str
    statistic: float | None
    p: float


@dataclass(frozen=True)
class Moments:
    """Rows with a value, their mean, and their standard deviation with n - 1."""

    rows: int
    mean: float
    deviation: float


def welch(first: Moments, second: Moments) -> Test | None:
    """Tests two means, whose variances may differ; None if it is not defined."""
    if min(first.rows, second.rows) < 2:
        return None
    a, b = (group.deviation**2 / group.rows for group in (first, second))
    if a + b == 0:
        return None
    t = (first.mean - second.mean) / math.sqrt(a + b)
    freedom = (a + b) ** 2 / (a**2 / (first.rows - 1) + b**2 / (second.rows - 1))
    return Test("Welch's t-test", t, float(2 * special.stdtr(freedom, -abs(t))))


def anova(groups: Sequence[Moments]) -> Test | None:
    """Tests whether all means are the same, with equal variances; None if it is not defined."""
    groups = [group for group in groups if group.rows]
    rows, between = sum(group.rows for group in groups), len(groups) - 1
    if between < 1 or rows <= len(groups):
        return None
    mean = sum(group.rows * group.mean for group in groups) / rows
    explained = sum(group.rows * (group.mean - mean) ** 2 for group in groups) / between
    rest = sum((group.rows - 1) * group.deviation**2 for group in groups) / (rows - len(groups))
    if rest == 0:
        return None
    f = explained / rest
    return Test("one-way ANOVA", f, float(special.fdtrc(between, rows - len(groups), f)))


def compare_means(groups: Sequence[Moments]) -> Test | None:
    """Returns the test of two groups' means, or of more."""
    return welch(*groups) if len(groups) == 2 else anova(groups)


def chi_squared(table: Counts) -> Test:
    """Tests a table (r, c) without empty rows and columns, with Yates's correction for two by two."""
    expected = _expected(table)
    gap = np.abs(table - expected)
    if table.shape == (2, 2):
        gap -= np.minimum(0.5, gap)
    found, (rows, columns) = float((gap**2 / expected).sum()), table.shape
    return Test("chi-squared", found, float(special.chdtrc((rows - 1) * (columns - 1), found)))


def fisher(table: Counts) -> Test:
    """Tests a table (2, 2) exactly: p adds up the tables with these margins that are no more likely."""
    (a, b), (c, d) = table.tolist()
    first = np.arange(max(0, a - d), min(a + b, a + c) + 1)
    cells = np.stack([first, a + b - first, a + c - first, d - a + first])
    chance = -special.gammaln(cells + 1).sum(axis=0)
    observed = chance[a - first[0]]
    shares = np.exp(chance - chance.max())
    p = float(shares[chance <= observed + _SAME].sum() / shares.sum())
    return Test("Fisher's exact", None if b * c == 0 else a * d / (b * c), min(p, 1.0))


def _expected(table: Counts) -> NDArray[np.float64]:
    return np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()


def compare_categories(table: Counts) -> Test | None:
    """Returns the test of a table (r, c) without its empty rows and columns; None if too few are left."""
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return None
    if table.shape == (2, 2) and _expected(table).min() < _LEAST_EXPECTED:
        return fisher(table)
    return chi_squared(table)


def difference_of_means(groups: Sequence[Moments]) -> float | None:
    """Returns the standardised mean difference, the mean of all pairs' sizes; None if it is not defined."""
    sizes = []
    for a, b in combinations(groups, 2):
        variance = (a.deviation**2 + b.deviation**2) / 2
        if not (a.rows and b.rows and variance > 0):
            return None
        sizes.append(abs(a.mean - b.mean) / math.sqrt(variance))
    return sum(sizes) / len(sizes) if sizes else None


def difference_of_shares(table: Counts) -> float | None:
    """Returns the same of categories (levels, groups): Yang & Dalton 2012, for any number of levels."""
    table = table[table.sum(axis=1) > 0]
    sizes = []
    for a, b in combinations(table.T, 2):
        if not (a.sum() and b.sum()) or len(table) < 2:
            return None
        shares = [group[1:] / group.sum() for group in (a, b)]
        spread = [np.diag(p) - np.outer(p, p) for p in shares]
        gap = shares[0] - shares[1]
        sizes.append(math.sqrt(max(0.0, float(gap @ np.linalg.pinv((spread[0] + spread[1]) / 2) @ gap))))
    return sum(sizes) / len(sizes) if sizes else None


def log_rank(events: Counts, leaving: Counts) -> Test | None:
    """Tests whether groups survive alike, by their events and leaving rows (groups, K); None: undefined."""
    at_risk = leaving[:, ::-1].cumsum(axis=1)[:, ::-1].astype(np.float64)
    all_risk, all_events = at_risk.sum(axis=0), events.sum(axis=0)
    share = np.divide(at_risk, all_risk, out=np.zeros_like(at_risk), where=all_risk > 0)
    survive = (all_risk - all_events) / np.maximum(all_risk - 1, 1)
    excess = (events - all_events * share).sum(axis=1)
    scale = all_events * survive
    covariance = np.diag((scale * share).sum(axis=1)) - (scale * share) @ share.T
    kept = np.flatnonzero(leaving.sum(axis=1) > 0)[:-1]
    if not len(kept) or not all_events.any():
        return None
    found = float(excess[kept] @ np.linalg.pinv(covariance[np.ix_(kept, kept)]) @ excess[kept])
    return Test("log-rank", found, float(special.chdtrc(len(kept), found)))
