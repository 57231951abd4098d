"""The rows of three members against statsmodels, lifelines and tableone on the pooled rows.

Their figures are in tests/vectors/statistics; oracles.py there makes them anew.
"""

import re

import numpy as np
import pytest

from node.stats.plan import plan
from node.stats.results import results
from node.stats.summaries import Results
from node.stats.tests import Moments, difference_of_means, difference_of_shares
from tests.statistics_rows import COLUMNS, members, oracles, read_statistics, run, table

MODELS = oracles()["models"]


def found(by: str) -> Results:
    asked = {
        "by": by,
        "models": [{"formula": one["formula"], "family": family} for family, one in MODELS.items()],
        "survival": [
            {"time": "days", "event": "died", "by": "arm", "grid": 1, "cox": ["age", "sex", "arm"]},
        ],
    }
    planned = plan(read_statistics(asked), COLUMNS)
    base, sums = run(planned.parts, members())
    assert sums < 12
    return results(planned, base, 3)


@pytest.fixture(scope="module", params=["sex", "arm"])
def by(request) -> tuple[str, Results]:
    return request.param, found(request.param)


def test_counts_means_deviations_and_quartiles_are_those_of_pooled_rows(by):
    groups = ("all", *COLUMNS[by[0]].levels)
    columns = {column.name: column for column in by[1].table_one.columns}
    for name in ("age", "bmi", "visits"):
        column, extent = columns[name], COLUMNS[name]
        for place, group in enumerate(groups):
            there, mean, deviation, *quartiles = oracles()["columns"][by[0]][group][name]
            assert by[1].table_one.rows[place] - column.missing[place] == there
            assert column.moments[place] == pytest.approx((mean, deviation), rel=1e-10)
            assert column.quartiles[place] == pytest.approx(quartiles, abs=(extent.high - extent.low) * 1e-6)


def test_tests_and_differences_are_tableone_s(by):
    columns = {column.name: column for column in by[1].table_one.columns}
    theirs = oracles()["tests"][by[0]]
    for name, p in theirs["p"].items():
        assert columns[name].test.p == pytest.approx(p, rel=1e-9)
        sizes = [abs(pair[name]) for pair in theirs["smd"].values()]
        assert columns[name].difference == pytest.approx(np.mean(sizes), rel=1e-9)


def test_correlations_are_pandas_s(by):
    ours = {f"{one.first} {one.second}": one.value for one in by[1].correlations}
    for pair, value in oracles()["correlations"].items():
        assert ours[pair] == pytest.approx(value, rel=1e-10)


def patsy_label(name: str) -> str:
    """Returns our label of a column of patsy, such as `sex: m` for `sex[T.m]`."""
    parts = [re.sub(r"\[(?:T\.)?(\w+)\]", r": \1", part) for part in name.split(":")]
    return "(Intercept)" if name == "Intercept" else " \N{MULTIPLICATION SIGN} ".join(parts)


@pytest.mark.parametrize("family", MODELS)
def test_models_are_those_of_statsmodels(by, family):
    theirs = MODELS[family]
    ours = next(model for model in by[1].models if model.kind == family)
    assert ours.rows == theirs["rows"]
    assert (ours.fit.value, ours.fit.null) == pytest.approx((theirs["deviance"], theirs["null"]), rel=1e-9)
    estimates = {one.label: one for one in ours.fit.estimates}
    for name, value in theirs["estimates"].items():
        one = estimates[patsy_label(name)]
        assert (one.value, one.error) == pytest.approx((value, theirs["errors"][name]), rel=1e-8)
        assert one.p == pytest.approx(theirs["p"][name], rel=1e-8)
        assert (one.low, one.high) == pytest.approx(theirs["intervals"][name], rel=1e-7)


def test_survival_is_that_of_lifelines_and_statsmodels(by):
    theirs, ours = oracles()["survival"], by[1].survival[0]
    for arm, curve in ours.curves:
        expected = theirs["curves"][arm]
        places = np.searchsorted(curve.times, expected["at"])
        assert curve.survival[places] == pytest.approx(expected["survival"], rel=1e-13)
        assert curve.low[places] == pytest.approx(expected["low"], rel=1e-9)
        assert curve.high[places] == pytest.approx(expected["high"], rel=1e-9)
        assert curve.median == expected["median"]
    statistic, _, p = theirs["log-rank"]
    assert (ours.test.statistic, ours.test.p) == pytest.approx((statistic, p), rel=1e-10)
    for one in ours.cox.fit.estimates:
        expected = (theirs["cox"]["estimates"][one.label], theirs["cox"]["errors"][one.label])
        assert (one.value, one.error) == pytest.approx(expected, rel=1e-6)


def test_a_category_of_many_levels_has_the_difference_of_the_pooled_table():
    rows = table()
    counts = np.array(
        [[((rows["sex"] == sex) & (rows["arm"] == arm)).sum() for sex in (0, 1)] for arm in (0, 1, 2)]
    )
    shares = counts / counts.sum(axis=0)
    gap = (shares[:, 0] - shares[:, 1])[1:]
    spread = sum(np.diag(p[1:]) - np.outer(p[1:], p[1:]) for p in shares.T) / 2
    assert difference_of_shares(counts) == pytest.approx(np.sqrt(gap @ np.linalg.inv(spread) @ gap))
    assert difference_of_means([Moments(5, 1.0, 0.0), Moments(5, 1.0, 0.0)]) is None
