"""What an arm needs to reach a target, and the tables that every study has."""

from dataclasses import replace

import numpy as np
import pytest

from scenarios.study.cells import Outcome
from scenarios.study.client_accuracy import SPREAD, TENTH, WORST
from scenarios.study.common_tables import NOT_REACHED, common_tables
from scenarios.study.costs import DOWN, EPSILON, MEASURED, TRAFFIC, UP
from scenarios.study.skew import CLIENTS, skew_facts
from scenarios.study.sweep import Sweep
from scenarios.study.targets import Reached, reached, targets_json
from tests.own_studies import NOISED, PLAIN, STUDY

FACTS = {
    WORST: 0.5,
    TENTH: 0.625,
    SPREAD: 0.05,
    UP: 4000.0,
    DOWN: 2000.0,
    MEASURED: False,
    "epsilon": 3.0,
    "delta": 1e-5,
    **skew_facts(np.array([[6, 2], [0, 4], [6, 6]])),
}


def outcome(figures: tuple[float, ...], spent: float, slower: float = 1.0) -> Outcome:
    numbers = range(1, len(figures) + 1)
    series = {TRAFFIC: (18_000.0,) * len(figures), EPSILON: tuple(spent * number for number in numbers)}
    return Outcome(figures, FACTS, 6.0, series, tuple(slower * number for number in numbers))


@pytest.fixture
def sweep() -> Sweep:
    plain = (outcome((0.5, 0.9, 0.95), 1.0), outcome((0.7, 0.8, 0.9), 1.1, slower=3.0))
    noised = (outcome((0.1, 0.2, 0.3), 1.0), outcome((0.1, 0.2, 0.3), 1.0))
    return Sweep(STUDY, (0, 1), (PLAIN, NOISED), {"plain": plain, "noised": noised}, target=0.85)


def test_the_first_round_whose_mean_reaches_the_target_counts_if_every_seed_knows_it(sweep):
    assert reached(sweep, "plain", 0.85) == Reached(2, (2 + 6) / 2, 36_000.0, 2.2)
    assert reached(sweep, "plain", 0.6) == Reached(1, 2.0, 18_000.0, 1.1)
    assert reached(sweep, "plain", 0.93) is None
    assert reached(sweep, "noised", 0.85) is None
    new, old = sweep.outcomes["plain"]
    old = Outcome(old.figures, {"epsilon": 3.0, "delta": 1e-5}, 6.0)
    mixed = replace(sweep, outcomes={"plain": (new, old)})
    assert reached(mixed, "plain", 0.85) == Reached(2, None, None, None)


def test_result_json_has_the_target_if_there_is_one(sweep: Sweep) -> None:
    found = targets_json(sweep)
    assert found["plain"] == {
        "target": 0.85,
        "reached": {"round": 2, "seconds": 4.0, "bytes": 36_000.0, "epsilon": 2.2},
    }
    assert found["noised"] == {"target": 0.85, "reached": None}
    assert targets_json(replace(sweep, target=None)) == {}


def test_the_common_tables_have_a_row_for_each_arm(sweep: Sweep) -> None:
    clients, partition, cost, target = common_tables(sweep)
    assert clients.rows[0] == ("plain", "3", "50.0%", "62.5%", "5.0%")
    assert partition.rows[0] == ("plain", "3", "0.250", "0.500", partition.rows[0][4], "4", "12", "0.41")
    assert 0 < float(partition.rows[0][4]) < 0.25
    assert cost.rows[0] == ("plain", "4.0", "2.0", "0.05", "of vectors", "6.0", "2.000")
    assert target.title == "The first round whose mean figure is at least 0.85"
    assert target.rows == (
        ("plain", "2", "4.0", "0.04", "2.2", "1e-05"),
        ("noised", NOT_REACHED, "", "", "", ""),
    )


def test_cells_of_earlier_versions_are_in_no_table_but_the_target_s(sweep: Sweep) -> None:
    old = {arm: tuple(Outcome(one.figures, {}, 6.0) for one in own) for arm, own in sweep.outcomes.items()}
    (target,) = common_tables(replace(sweep, outcomes=old))
    assert target.rows[0] == ("plain", "2", "not known", "not known", "none", "none")
    assert common_tables(replace(sweep, outcomes=old, target=None)) == ()


@pytest.mark.parametrize(
    ("fact", "table"), [(WORST, "Clients"), (CLIENTS, "Partition"), (UP, "Cost"), (DOWN, "Cost")]
)
def test_an_arm_without_a_fact_is_out_of_the_table_that_it_is_for_alone(
    sweep: Sweep, fact: str, table: str
) -> None:
    first, second = sweep.outcomes["plain"]
    less = replace(second, facts={name: value for name, value in FACTS.items() if name != fact})
    tables = common_tables(replace(sweep, outcomes={**sweep.outcomes, "plain": (first, less)}))
    without = [one.title.partition(":")[0] for one in tables if one.rows[0][0] != "plain"]
    assert without == [table]
