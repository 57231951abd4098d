"""Tables as cells: each model, who learns it, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from node.system.errors import ConfigError
from scenarios.data.tables import SETS, table
from scenarios.study.cells import METRIC
from scenarios.systems.tables.claims import BOUNDS
from scenarios.tables.cell import ROWS, TableCell
from scenarios.tables.models import SUMS, WORDS
from scenarios.tables.statistics import StatisticsCell
from tests.unit.scenarios.rooms import replayed, room

NOWHERE = Path("nowhere")


@pytest.mark.parametrize(
    ("learner", "parties", "rows", "sums"),
    [
        ("network", "swarm", 357, {20}),
        ("additive", "swarm", 357, {*range(6, 13)}),
        ("additive", "pooled", 357, {*range(6, 13)}),
        ("trees", "alone", 126, {*range(20, 405)}),
        ("additive-trees", "swarm", 357, {*range(20, 413)}),
    ],
)
def test_every_model_learns_tumours_from_the_rows_that_it_is_given(learner, parties, rows, sums):
    found = replayed(TableCell("arm", "tumours", learner, parties))
    assert found.figures[0] > 0.9
    assert (found.facts[METRIC], found.facts["epsilon"]) == ("auc", None)
    assert found.facts[ROWS] == pytest.approx(rows, abs=5)
    assert found.facts[SUMS] in sums
    assert found.facts[WORDS] > 0


def test_boosting_has_all_rows_that_a_party_has():
    alone, pooled = (replayed(TableCell("arm", "tumours", "boosting", of)) for of in ("alone", "pooled"))
    assert 0.9 < alone.figures[0] < pooled.figures[0]
    assert (alone.facts[ROWS], pooled.facts[ROWS]) == (152, 455)


@pytest.mark.parametrize(("learner", "parties"), [("linear", "swarm"), ("additive", "alone")])
def test_private_arms_spend_what_they_state(learner, parties):
    found = replayed(TableCell("arm", "tumours", learner, parties, 8))
    assert 4 < found.facts["epsilon"] <= found.facts["stated"] == 8
    assert found.figures[0] > 0.6


def test_numbers_have_r2():
    found = replayed(TableCell("arm", "progression", "additive", "swarm"))
    assert (found.facts[METRIC], 0.2 < found.figures[0] < 0.7) == ("r2", True)


@pytest.mark.parametrize("statistic", BOUNDS)
def test_statistics_of_three_sites_are_those_of_pooled_rows(statistic):
    assert replayed(StatisticsCell("arm", statistic)).figures[0] <= BOUNDS[statistic]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda cell: cell.lasting(3), "--rounds 3: a model learns as long as its task says"),
        (lambda cell: cell.among(5), "--peers 5: there are three sites"),
        (lambda cell: cell.changed({"train": {"epochs": 2}}), "--set train.epochs: node.init proposes"),
    ],
)
def test_what_the_product_proposes_is_not_changed(change, says):
    with pytest.raises(ConfigError, match=says):
        change(TableCell("arm", "tumours", "linear", "swarm"))


@pytest.mark.parametrize(
    ("rows", "says"),
    [("loan", "data set loan: .*python -m scenarios data loan"), ("affairs", "pip install statsmodels")],
)
def test_a_missing_table_says_where_to_get_it(rows, says):
    with pytest.raises(ConfigError, match=says):
        TableCell("arm", rows, "linear", "swarm").check(room(NOWHERE))


def test_the_made_class_depends_on_the_product_of_two_columns_alone():
    made = table("interaction", NOWHERE)
    x, y = np.stack(list(made.columns.values()), 1), made.y == "yes"
    assert np.corrcoef(x[:, 0] * x[:, 1], y)[0, 1] > 0.4
    assert max(abs(np.corrcoef(column, y)[0, 1]) for column in x.T) < 0.05
    assert set(SETS) >= {"tumours", "adult-whole", "loan-whole"}
