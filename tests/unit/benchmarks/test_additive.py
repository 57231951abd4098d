"""Fresh splits of public tables, and when a figure of the additive model holds."""

import numpy as np
import pytest
from benchmarks.defaults.sites import SITES
from benchmarks.defaults.tables import BenchmarkData, Table

from benchmarks.__main__ import main
from benchmarks.additive.arms import fresh_split, without_test_rows
from benchmarks.additive.benchmark import _row

ROWS = 500
WHOLE = Table(np.array(["no", "yes"] * (ROWS // 2)), {"row": np.arange(ROWS, dtype=float)})


def rows_of(tables):
    return [set(table.columns["row"].tolist()) for table in tables]


def test_sites_share_no_row_and_test_rows_are_nobodys():
    split = fresh_split(BenchmarkData("made", lambda _: WHOLE, train=300), WHOLE, 10)
    parts = rows_of([*split.sites, split.test])
    assert [len(part) for part in parts] == [100] * SITES + [100]
    assert len(set.union(*parts)) == 400
    held = without_test_rows(split, 10)
    chosen = rows_of([*held.sites, held.test])
    assert sum(map(len, chosen)) == len(set.union(*chosen)) == 300
    assert set.union(*chosen) == set.union(*parts[:SITES])


@pytest.mark.parametrize(
    ("goal", "others", "holds"),
    [(None, (0.6, 0.7), True), (0.74, (0.6, 0.7), True), (0.8, (0.6, 0.7), False), (None, (0.7, 0.8), False)],
)
def test_a_figure_holds_if_it_reaches_its_goal_and_is_above_the_model_beside(goal, others, holds):
    found = _row("adult", 1.0, (0.68, 0.74), ("logistic", others), goal)
    assert found.record["holds"] is holds
    assert ("✓" in found.text) is holds
    assert found.record["difference_error"] == pytest.approx(0.02)


def test_an_unknown_set_is_refused(capsys):
    assert main(["additive", "--sets", "wine"]) == 2
    assert "--sets wine: allowed are adult, loan" in capsys.readouterr().err
