"""What a sweep's results show: means, errors, curves and facts."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from node.system.errors import ConfigError
from scenarios.study.arms import Arm, as_arm
from scenarios.study.cells import Cell, Outcome
from scenarios.study.comparison import difference, level, rise
from scenarios.study.estimates import Estimate, estimate
from scenarios.study.sweep import Sweep, arms_json, collect, stored, substitutions
from tests.own_studies import NOISED, PLAIN, STUDY

FIGURES = {
    ("plain", 4): (0.5, 0.8),
    ("plain", 5): (0.7, 0.9),
    ("noised", 4): (0.1, 0.2),
    ("noised", 5): (0.3, 0.6),
}
FACTS = {
    4: {"epsilon": 2, "delta": 1e-5, "unit": "a ward", "private": True, "stated": None},
    5: {"epsilon": 9},
}


def outcome(cell: Cell) -> Outcome:
    last = FIGURES[cell.arm, cell.seed][-1]
    return Outcome(FIGURES[cell.arm, cell.seed], FACTS[cell.seed], 1.5, {"loss": (1.0, 1 - last)})


@pytest.fixture
def sweep() -> Sweep:
    return collect(STUDY, (PLAIN, NOISED), (4, 5), outcome)


def test_means_and_their_standard_errors_of_figures_and_facts(sweep):
    assert sweep.values("plain").tolist() == [0.8, 0.9]
    assert sweep.mean("plain") == pytest.approx(0.85)
    assert sweep.standard_error("plain") == pytest.approx(0.05)  # s = 0.0707, n = 2
    assert sweep.standard_error("noised") == pytest.approx(0.2)
    assert estimate(np.array([1.0, 2.0, 3.0, 4.0])).error == pytest.approx(math.sqrt(5 / 3) / 2)
    assert estimate(np.array([3.0, 3.0])).error == 0
    assert sweep.values("plain", "epsilon").tolist() == [2.0, 9.0]
    assert sweep.mean("plain", "epsilon") == pytest.approx(5.5)
    assert sweep.standard_error("plain", "epsilon") == pytest.approx(3.5)
    assert np.isnan(sweep.values("plain", "unit")).all()  # a text, and in the other seed nothing
    assert sweep.curve("plain", "loss") == pytest.approx((1.0, 0.15))
    assert sweep.curve("plain") == pytest.approx((0.6, 0.85))


@pytest.mark.parametrize(("seeds", "quantile"), [(2, 12.7062), (3, 4.3027), (5, 2.7764), (16, 2.1314)])
def test_margins_are_by_students_t(seeds: int, quantile: float) -> None:
    """The quantiles are those of a printed table: .975 with n - 1 degrees of freedom."""
    found = Estimate(0.5, 0.01, seeds)
    assert found.margin == pytest.approx(0.01 * quantile, rel=1e-4)
    assert (found.low, found.high) == pytest.approx((0.5 - found.margin, 0.5 + found.margin))
    assert found.margins == pytest.approx(0.5 / found.margin)


def test_differences_are_taken_seed_by_seed_and_one_arm_differs_by_nothing(sweep):
    found = difference(sweep, "noised", "plain")
    assert found.mean == pytest.approx(0.45)
    assert found.error == pytest.approx(0.15)  # independent: sqrt(.05^2 + .2^2) = .206
    assert found.seeds == 2
    assert rise(sweep, "noised", "plain") == pytest.approx(0.45 / (0.15 * 12.7062), rel=1e-4)
    assert level(sweep, "plain").error == pytest.approx(0.05)
    assert sweep.margin("plain") == pytest.approx(0.05 * 12.7062, rel=1e-4)
    assert rise(sweep, "plain", "plain") == 0


def test_a_stored_result_gives_the_sweep_again_but_no_arm_that_the_study_does_not_have(sweep):
    again = stored(STUDY, json.loads(json.dumps({"arms": arms_json(sweep)})))
    assert again.seeds == sweep.seeds
    assert again.arms == sweep.arms
    assert again.outcomes == sweep.outcomes
    with pytest.raises(ConfigError, match="'gone' of the result is none of"):
        stored(STUDY, {"arms": {"gone": arms_json(sweep)["plain"]}})


def test_a_stored_result_has_the_studys_factors_with_the_numbers_of_the_run(sweep: Sweep) -> None:
    """`--rounds` and others change numbers; a factor that has come or gone since is as it is today."""
    plain = Arm(PLAIN, {"kind": "a", "rounds": 8})
    noted = replace(sweep, arms=(Arm(PLAIN, {"kind": "old", "rounds": 2, "gone": 1}), *sweep.arms[1:]))
    result = json.loads(json.dumps({"arms": arms_json(noted)}))
    assert result["arms"]["plain"]["factors"] == {"kind": "old", "rounds": 2, "gone": 1}
    others = tuple(arm for arm in STUDY.arms if arm.arm != "plain")
    again = stored(replace(STUDY, arms=(*others, plain)), result)
    assert again.factors["plain"] == {"kind": "a", "rounds": 2}
    assert [*again.outcomes][-1] == "plain"  # in the order of the study
    del result["arms"]["plain"]["factors"]  # as earlier versions stored it
    assert stored(replace(STUDY, arms=(*others, plain)), result).factors["plain"] == plain.factors


def test_selections_are_of_the_arms_that_were_run(sweep: Sweep) -> None:
    noted = replace(
        sweep, arms=tuple(Arm(as_arm(arm).cell, {"place": at}) for at, arm in enumerate(sweep.arms))
    )
    assert (noted.first({"place": 0}), noted.first({"place": 9})) == (sweep.arms[0].arm, None)
    assert noted.firsts({"place": 1}, {"place": 0}) == (sweep.arms[1].arm, sweep.arms[0].arm)
    assert noted.firsts({"place": 1}, {"place": 9}) == ()
    assert noted.factor(sweep.arms[0].arm, "place") == 0
    assert math.isnan(noted.factor(sweep.arms[0].arm, "clients"))
    assert (noted.levels("place", {}), noted.levels("clients", {})) == ((0, 1), ())
    assert noted.pairs({"place": 0}, {"place": 1}) == ((sweep.arms[0].arm, sweep.arms[1].arm),)


def test_which_arms_were_run_their_facts_and_what_stands_in_for_what(sweep):
    assert sweep.fact("plain", "unit") == "a ward"
    assert sweep.fact("plain", "nothing") is None
    assert sweep.number("plain", "epsilon") == 2.0
    assert all(math.isnan(sweep.number("plain", name)) for name in ("unit", "stated", "nothing"))
    assert sweep.has()
    assert sweep.has("plain", "noised")
    assert not sweep.has("plain", "own")
    table = substitutions(STUDY)
    assert table.headings == ("in the source", "here")
    assert table.rows == (("hospitals", "five parts of one table"),)
    named = replace(STUDY, stands_in={"hospitals": "five parts of one table"})
    assert substitutions(named) == table
    found = [(one.above, one.below) for one in (Estimate(1, 0.1, 5), Estimate(-1, 0.1, 5), Estimate(1, 1, 5))]
    assert found == [(True, False), (False, True), (False, False)]


def test_the_arms_of_result_json(sweep: Sweep) -> None:
    arms = arms_json(sweep)
    assert list(arms) == ["plain", "noised"]
    assert arms["plain"]["figure"] == pytest.approx(0.85)
    assert arms["plain"]["standard_error"] == pytest.approx(0.05)
    assert [seed["seed"] for seed in arms["plain"]["seeds"]] == [4, 5]
    assert arms["plain"]["seeds"][0] == {
        "seed": 4,
        "figures": [0.5, 0.8],
        "seconds": 1.5,
        **FACTS[4],
        "loss": [1.0, pytest.approx(0.2)],
        "clock": [],
    }
