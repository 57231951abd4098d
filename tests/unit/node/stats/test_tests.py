"""Tests from moments and counts against scipy on the rows, and where they are not defined."""

import numpy as np
import pytest
from scipy import stats

from node.stats.tests import (
    Moments,
    anova,
    compare_categories,
    compare_means,
    difference_of_shares,
    log_rank,
    welch,
)

RNG = np.random.default_rng(2)
GROUPS = [RNG.normal(mean, 1 + mean, size=size) for mean, size in ((0.0, 9), (0.4, 14), (1.0, 6))]
MOMENTS = [Moments(len(rows), float(rows.mean()), float(rows.std(ddof=1))) for rows in GROUPS]


def test_means():
    theirs = stats.ttest_ind(GROUPS[0], GROUPS[1], equal_var=False)
    assert (welch(*MOMENTS[:2]).statistic, welch(*MOMENTS[:2]).p) == pytest.approx(tuple(theirs))
    assert (anova(MOMENTS).statistic, anova(MOMENTS).p) == pytest.approx(tuple(stats.f_oneway(*GROUPS)))
    student = stats.ttest_ind(GROUPS[0], GROUPS[1])
    assert anova(MOMENTS[:2]).p == pytest.approx(student.pvalue)
    assert [compare_means(MOMENTS[:count]).name for count in (2, 3)] == ["Welch's t-test", "one-way ANOVA"]


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ([[20, 30], [25, 25]], "chi-squared"),
        ([[2, 9], [8, 1]], "Fisher's exact"),
        ([[2, 9, 4], [8, 1, 5]], "chi-squared"),
        ([[2, 9, 0], [8, 1, 0]], "Fisher's exact"),
        ([[8, 0], [1, 9]], "Fisher's exact"),
        ([[1, 0], [0, 1]], "Fisher's exact"),
    ],
)
def test_categories(table, name):
    found = compare_categories(np.array(table))
    assert found.name == name
    kept = np.array(table)[:, np.sum(table, axis=0) > 0]
    theirs = stats.fisher_exact(kept).pvalue if "Fisher" in name else stats.chi2_contingency(kept).pvalue
    assert found.p == pytest.approx(theirs)


def test_log_rank_of_two_groups_is_the_square_of_the_signed_root():
    days, dead, group = RNG.integers(0, 30, 80), RNG.random(80) < 0.7, RNG.integers(0, 2, 80)
    counts = [
        np.array([np.bincount(days[(group == g) & kept], minlength=30) for g in (0, 1)])
        for kept in (dead, dead | True)
    ]
    excess = variance = 0.0
    for day in range(30):
        risk, of_first = (days >= day).sum(), ((days >= day) & (group == 0)).sum()
        deaths = (dead & (days == day)).sum()
        if risk > 1:
            excess += (dead & (days == day) & (group == 0)).sum() - deaths * of_first / risk
            variance += deaths * of_first * (risk - of_first) * (risk - deaths) / risk**2 / (risk - 1)
    assert log_rank(*counts).statistic == pytest.approx(excess**2 / variance)


def test_what_is_not_defined_is_none():
    one, same = Moments(1, 0.0, 0.0), Moments(5, 2.0, 0.0)
    assert [welch(one, same), welch(same, same), anova([same, same]), anova([same]), anova([one, one])] == [
        None
    ] * 5
    assert compare_categories(np.array([[3, 4], [0, 0]])) is None
    assert difference_of_shares(np.array([[3, 0], [4, 0]])) is None
    assert difference_of_shares(np.array([[3, 4]])) is None
    assert log_rank(np.zeros((2, 3), np.int64), np.ones((2, 3), np.int64)) is None
