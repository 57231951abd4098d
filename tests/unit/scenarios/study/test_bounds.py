"""Claims about how high and how far apart arms are: the whole interval counts."""

import pytest

from scenarios.study.bounds import above, ahead, below
from tests.unit.scenarios.study.made_up import TWO, sweep

LDP, SGD = {"mechanism": "ldp"}, {"mechanism": "sgd"}


@pytest.mark.parametrize(
    ("bound", "jitter", "over", "under"),
    [(0.2, 0.0, True, False), (0.9, 0.0, False, True), (0.3, 0.02, False, False)],
)
def test_the_whole_interval_of_every_arm_is_on_one_side(bound, jitter, over, under):
    figures = {"ldp 1": 0.3, "ldp 8": 0.31}
    made = sweep(figures, jitter=jitter)
    assert above(bound, LDP).judge(made).holds is over
    assert below(bound, LDP).judge(made).holds is under
    assert above(bound, LDP, "lost").judge(made).holds is (bound < 0.5)


def test_the_end_of_the_interval_is_told_and_one_arm_beyond_is_enough():
    made = sweep({"ldp 1": 0.3, "ldp 8": 0.31}, jitter=0.02)
    low, high = 0.3 - made.margin("ldp 1"), 0.31 + made.margin("ldp 8")
    least = min(low, 0.31 - made.margin("ldp 8"))
    assert above(0.2, LDP).judge(made).numbers["least, less its margin"] == pytest.approx(least)
    most = max(high, 0.3 + made.margin("ldp 1"))
    assert below(0.2, LDP).judge(made).numbers["most, with its margin"] == pytest.approx(most)
    assert above(least - 1e-9, LDP).judge(made).holds
    assert not above(least + 1e-9, LDP).judge(made).holds
    numbers = below(0.9, LDP, "lost").judge(made).numbers
    assert {"ldp 1, lost", "most, with its margin, lost", "below"} <= {*numbers}
    made = sweep({"ldp 1": 0.3, "ldp 8": 0.7})
    assert not above(0.5, LDP).judge(made).holds
    assert not below(0.5, LDP).judge(made).holds
    assert below(0.5, {**LDP, "epsilon": 1}).judge(made).holds
    made = sweep(TWO)
    for claim in (above(0.1, {"mechanism": "rpfl"}), below(0.1, {"mechanism": "rpfl"})):
        assert claim.judge(made) is None
    assert ahead(0.1, LDP, {"mechanism": "rpfl"}).judge(made) is None


def test_how_far_ahead_is_judged_by_the_end_of_the_interval_pair_by_pair():
    figures = {"ldp 1": 0.3, "ldp 8": 0.4, "sgd 1": 0.5, "sgd 8": 0.7}
    made = sweep(figures)
    assert ahead(0.19, SGD, LDP).judge(made).holds
    assert not ahead(0.21, SGD, LDP).judge(made).holds  # at 1 it is not
    assert ahead(0.29, {**SGD, "epsilon": 8}, LDP).judge(made).holds
    assert ahead(-0.31, LDP, SGD).judge(made).holds
    assert not ahead(-0.29, LDP, SGD).judge(made).holds
    assert not ahead(0.19, SGD, LDP).judge(sweep(figures, jitter=0.05)).holds  # the mean alone is not enough
    numbers = ahead(0.1, SGD, LDP).judge(made).numbers
    assert numbers["least difference"] == pytest.approx(0.2)
    assert numbers["sgd 8"] == pytest.approx(0.7)
