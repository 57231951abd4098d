"""Table one under privacy: near the true one where noise is small, silent where it is not."""

import math

import numpy as np
import pytest

from mechanisms.noise.randomness import SeededWords
from mechanisms.noised_counts import CountNoise
from node.jobs.statistics.columns import Category, Number
from node.jobs.statistics.private import PrivateCounts, PrivateStatistics
from node.stats.disclosure import Hidden
from node.stats.noised import noised_results
from node.stats.report import as_json, html

COLUMNS = (Number("age", 0.0, 100.0), Number("dose", 0.0, 1e6), Category("ward", ("east", "west", "rare")))
BY = Category("arm", ("A", "B"))
ROWS = 30_000
RNG = np.random.default_rng(8)
TABLE = {
    "age": np.where(RNG.random(ROWS) < 0.1, np.nan, RNG.normal(50, 12, ROWS).round()),
    "dose": RNG.uniform(90, 110, ROWS),
    "ward": RNG.choice([0.0, 1.0, 2.0], ROWS, p=[0.7, 0.2995, 0.0005]),
    "arm": RNG.choice([0.0, 1.0, np.nan], ROWS, p=[0.5, 0.4, 0.1]),
}


def counts(by=BY, multiplier=4.0):
    return PrivateCounts.of(COLUMNS, by, CountNoise(multiplier, 1, 1), 100_000, 3)


def run(of):
    jobs = [
        PrivateStatistics(
            of,
            {name: rows[member::3] for name, rows in TABLE.items()},
            SeededWords(np.random.default_rng(member)),
        )
        for member in range(3)
    ]
    base = jobs[0].initial()
    assert [jobs[0].words(0), jobs[0].cost(0)] == [of.release.size, (of.release.event,)]
    assert not jobs[0].is_over(base)
    words = [job.contribution(base, 0).words for job in jobs]
    base = jobs[0].following(base, 0, np.add.reduce(words, dtype=np.uint32), (b"a", b"b", b"c"))
    assert jobs[0].is_over(base)
    assert (len(base), base.dtype) == (jobs[0].length, np.float32)
    after = jobs[0].contribution(base, 1).words
    assert [len(after), jobs[0].words(1), jobs[0].cost(1)] == [0, 0, ()]
    assert jobs[0].following(base, 1, after, ()).tobytes() == base.tobytes()
    return noised_results(of, base, 1.0, 1e-5)


@pytest.mark.parametrize("by", [BY, None])
def test_figures_are_near_the_true_ones_within_their_noise(by):
    found = run(counts(by))
    table = found.table_one
    groups = [np.ones(ROWS, bool), *([TABLE["arm"] == place for place in (0, 1)] if by else [])]
    std = found.privacy.cell_std * math.sqrt(3)
    age, dose, ward = table.columns
    for place, of in enumerate(groups):
        known = TABLE["age"][of & ~np.isnan(TABLE["age"])]
        assert table.rows[place] == pytest.approx(of.sum(), abs=6 * std * 4)
        assert age.moments[place] == pytest.approx((known.mean(), known.std()), abs=1.0)
        assert age.quartiles[place] == pytest.approx(np.quantile(known, [0.25, 0.5, 0.75]), abs=100 / 32)
        assert age.missing[place] == pytest.approx((of & np.isnan(TABLE["age"])).sum(), abs=6 * std)
        assert ward.counts[0][place] == pytest.approx((of & (TABLE["ward"] == 0)).sum(), abs=6 * std)
        assert sum(level[place] for level in ward.counts[:2]) <= table.rows[place] + 1
    assert dose.moments[0] is Hidden.NOISE, "its range is so wide that noise drowns its deviation"
    assert ward.counts[2][0] is Hidden.NOISE
    assert min(rows for *_, rows in age.bars) > 3 * found.privacy.cell_std


def test_a_column_is_better_by_less_noise_and_a_release_of_all_rows_is_no_larger():
    of = counts()
    assert of.cell_std(COLUMNS[0], 3) == of.cell_std(COLUMNS[2], 3)
    assert counts(multiplier=8.0).cell_std(COLUMNS[0], 3) == pytest.approx(2 * of.cell_std(COLUMNS[0], 3))
    one = {name: rows[:1] for name, rows in TABLE.items()}
    assert np.linalg.norm(of.row_units(one)) * of.release.unit <= of.release.sensitivity


def test_a_value_is_never_beyond_the_range_that_the_noise_is_for():
    """Scaling by a range of few floats rounds; the proof of the release has at most 1 of a row."""
    far = Number("far", 1e16, 1e16 + 2)
    values = np.array([1e16, 1e16 + 2, np.inf, -np.inf])
    assert np.abs(far.scaled({"far": values})).max() <= 1


def test_little_data_or_much_noise_prints_nothing_and_breaks_nothing():
    found = run(counts(multiplier=40_000.0))
    assert all(one is Hidden.NOISE for one in found.table_one.rows)
    assert all(
        one is Hidden.NOISE
        for column in found.table_one.columns[:2]
        for one in (*column.moments, *column.quartiles)
    )
    assert found.table_one.columns[0].bars == ()


def test_the_report_says_what_protects_whom():
    found = run(counts())
    text = html(found, "")
    for words in ("(1, 1e-05)-differentially private", "at least 1 other", "Table 1 by arm", "noise"):
        assert words in text
    assert '"epsilon": 1.0' in as_json(found)
