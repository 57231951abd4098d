"""Arms by their factors: what is selected, what is a line, and what the command line changes."""

import pytest

from scenarios.study.arms import Arm, as_arm, capital, in_words, lines, longest, matches, pairs, selected
from tests.own_studies import PLAIN

FACTORS = {
    "none": {"mechanism": "none"},
    "ldp-8": {"mechanism": "ldp", "epsilon": 8},
    "ldp-1": {"mechanism": "ldp", "epsilon": 1.0},
    "sgd-1": {"mechanism": "dp-sgd", "epsilon": 1},
    "sgd-8": {"mechanism": "dp-sgd", "epsilon": 8},
    "sgd-100": {"mechanism": "dp-sgd", "epsilon": 100},
}


def test_only_the_first_letter_of_a_sentence_is_made_a_capital() -> None:
    assert [capital(words) for words in ("rows of Adult, by AUC", "")] == ["Rows of Adult, by AUC", ""]


def test_a_cell_alone_is_an_arm_without_factors_and_factors_stand_in_words():
    assert as_arm(PLAIN) == Arm(PLAIN, {})
    assert as_arm(Arm(PLAIN, {"a": 1})).factors == {"a": 1}
    assert Arm(PLAIN).arm == "plain"
    assert in_words({"mechanism": "ldp", "epsilon": 8.0, "own": True}) == "mechanism ldp, epsilon 8, own true"


@pytest.mark.parametrize(
    ("where", "arms"),
    [
        ({}, tuple(FACTORS)),
        ({"epsilon": 1}, ("ldp-1", "sgd-1")),
        ({"epsilon": 1, "mechanism": "ldp"}, ("ldp-1",)),
        ({"mechanism": ["none", "ldp"]}, ("none", "ldp-8", "ldp-1")),
        ({"epsilon": (1, 100)}, ("ldp-1", "sgd-1", "sgd-100")),
        ({"clients": 5}, ()),
        ({"mechanism": "dp"}, ()),  # equal, not contained
    ],
)
def test_arms_are_selected_by_factors(where, arms):
    assert selected(FACTORS, where) == arms
    assert all(matches(FACTORS[arm], where) for arm in arms)


def test_a_line_has_arms_that_differ_in_one_factor_in_the_order_of_levels_the_first_for_equal_ones():
    first, second = lines(FACTORS, "epsilon", {})
    assert (first.levels, first.arms) == ((1.0, 8), ("ldp-1", "ldp-8"))
    assert (second.levels, second.others) == ((1, 8, 100), {"mechanism": "dp-sgd"})
    assert second.words == "mechanism dp-sgd"
    (line,) = lines(FACTORS, "mechanism", {"epsilon": 8})
    assert line.levels == ("ldp", "dp-sgd")
    assert [line.levels for line in lines(FACTORS, "mechanism", {})] == [("ldp", "dp-sgd")] * 2
    alike = {**FACTORS, "ldp-8-n3": FACTORS["ldp-8"]}
    assert lines(alike, "epsilon", {"mechanism": "ldp"})[0].arms == ("ldp-1", "ldp-8")


def test_a_line_needs_two_levels_that_differ_and_the_longest_has_its_arms_by_level():
    assert lines(FACTORS, "epsilon", {"epsilon": 100}) == ()
    assert lines({"a": {"rounds": 5}, "b": {"rounds": 5}}, "rounds", {}) == ()
    assert [line.arms for line in lines(FACTORS, "epsilon", {"epsilon": 100}, least=1)] == [("sgd-100",)]
    line = longest(lines(FACTORS, "epsilon", {}))
    assert line.points == {"sgd-1": 1.0, "sgd-8": 8.0, "sgd-100": 100.0}
    assert longest(()).points == {}


def test_pairs_agree_in_the_factors_that_are_not_named_or_named_alike():
    named = {"mechanism": "dp-sgd"}, {"mechanism": "ldp"}
    assert pairs(FACTORS, *named) == (("sgd-1", "ldp-1"), ("sgd-8", "ldp-8"))
    against = pairs(FACTORS, {"mechanism": "none"}, {"mechanism": "ldp"})
    assert against == (("none", "ldp-8"), ("none", "ldp-1"))
    assert pairs(FACTORS, {"epsilon": 8}, {"epsilon": 8}) == ()  # they differ in the mechanism
    assert ("sgd-1", "ldp-8") in pairs(FACTORS, {**named[0], "epsilon": 1}, named[1])
    some = {"epsilon": (1, 8)}
    alike = pairs(FACTORS, {"mechanism": "dp-sgd", **some}, {"mechanism": "ldp", **some})
    assert alike == (("sgd-1", "ldp-1"), ("sgd-8", "ldp-8"))


def test_what_the_command_line_changes_changes_the_factor_too():
    arm = Arm(PLAIN, {"rounds": 8, "clients": 5, "train.learning_rate": 0.1, "batch_size": 16, "kind": "a"})
    changed = arm.lasting(3).among(4).changed({"train": {"learning_rate": 0.2, "batch_size": 4}})
    assert changed.factors == {
        "rounds": 3,
        "clients": 4,
        "train.learning_rate": 0.2,
        "batch_size": 4,
        "kind": "a",
    }
    assert (changed.cell.rounds, changed.arm) == (3, "plain")
