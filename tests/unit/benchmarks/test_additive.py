"""Fresh splits of public tables, the design's program, and when a figure of the additive model holds."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.additive.arms import Numbered, fresh_split, without_test_rows
from benchmarks.additive.benchmark import _row
from benchmarks.additive.central import DESIGN, LOGISTIC, central_auc, compared
from scenarios.data.tables import Table, TableSet
from scenarios.tables.sites import SITES

ROWS = 500
WHOLE = Table(np.array(["no", "yes"] * (ROWS // 2)), {"row": np.arange(ROWS, dtype=float)})


def rows_of(tables):
    return [set(table.columns["row"].tolist()) for table in tables]


def bent_split():
    """Rows of a class that depends on the square of a number, some of them missing, and on a word."""
    rng = np.random.default_rng(0)
    x, word = rng.normal(size=1500), rng.choice(["a", "b", "rare"], 1500, p=[0.5, 0.499, 0.001])
    logits = 2 * x**2 - 2 + (word == "a")
    y = np.where(rng.random(1500) < 1 / (1 + np.exp(-logits)), "yes", "no")
    table = Table(y, {"x": np.where(rng.random(1500) < 0.05, np.nan, x), "word": word})
    return fresh_split(TableSet("bent", lambda _: table), table, 10), table


def test_sites_share_no_row_and_test_rows_are_nobodys():
    split = fresh_split(TableSet("made", lambda _: WHOLE, train=300), WHOLE, 10)
    parts = rows_of([*split.sites, split.test])
    assert [len(part) for part in parts] == [100] * SITES + [100]
    assert len(set.union(*parts)) == 400
    held = without_test_rows(split, 10)
    chosen = rows_of([*held.sites, held.test])
    assert sum(map(len, chosen)) == len(set.union(*chosen)) == 300
    assert set.union(*chosen) == set.union(*parts[:SITES])


def test_the_designs_program_and_the_product_learn_a_bend_that_a_straight_line_does_not():
    split, whole = bent_split()
    design, line = (central_auc(split, 8, setting, 0) for setting in (DESIGN, LOGISTIC))
    (product,) = Numbered(0, split, whole).private_aucs("additive", [8])
    assert line + 0.1 < min(design, product)


def test_settings_are_compared_with_the_rules_own():
    found = compared(bent_split()[0], 8)
    assert found["logistic"] == LOGISTIC
    assert found["5 cells, as the rule says"] == replace(found["half the rate"], factor=1.5)


@pytest.mark.parametrize(
    ("goal", "others", "designs", "holds"),
    [
        (None, (0.6, 0.7), (0.68, 0.74), True),
        (0.74, (0.6, 0.7), (0.7, 0.8), True),
        (0.8, (0.6, 0.7), (0.68, 0.74), False),
        (None, (0.7, 0.8), (0.68, 0.74), False),
        (None, (0.6, 0.7), (0.73, 0.8), False),
    ],
)
def test_a_figure_holds_if_it_is_above_the_model_beside_and_not_below_its_goal_and_the_design(
    goal, others, designs, holds
):
    found = _row("adult", 1.0, (0.68, 0.74), {"logistic": others, "design": designs}, goal)
    assert found.record["holds"] is holds
    assert ("✓" in found.text) is holds
    assert found.record["beside"][0]["difference_error"] == pytest.approx(0.02)


def test_an_unknown_set_is_refused(one_line):
    assert "--sets wine: allowed are adult, loan" in one_line(main, ["additive", "--sets", "wine"])
