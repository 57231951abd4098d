"""The loss gate: what it accepts, what it remembers, and which mechanisms it may be combined with."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.loss_gate import LossGate, covers_a_gate
from mechanisms.registry import MECHANISMS
from tests.unit.mechanisms.settings import setting


def judged(tolerance: float, losses: list[float]) -> list[bool]:
    """Returns a gate's decision on each loss in turn; it remembers only accepted ones."""
    gate, said = LossGate(tolerance), []
    for loss in losses:
        said.append(gate.accepts(loss))
        if said[-1]:
            gate = gate.after(loss)
    return said


def test_the_first_model_is_good_and_a_rise_beyond_the_tolerance_is_not() -> None:
    assert judged(0.25, [2.0, 1.0, 1.25, 1.26, 0.5, 0.75, 0.76]) == [
        True,
        True,
        True,
        False,
        True,
        True,
        False,
    ]


def test_a_lie_in_small_steps_does_not_get_further_than_one_tolerance() -> None:
    assert judged(0.25, [1.0, 1.25, 1.5, 1.75]) == [True, True, False, False]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_refused_also_as_the_first(loss: float) -> None:
    assert judged(0.25, [loss, 3.0, loss, 3.25]) == [False, True, False, True]


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(1e-6, 1e3))
def test_no_good_model_is_worse_than_the_best_one_before_it_by_more_than_the_tolerance(
    losses, tolerance
) -> None:
    gate = LossGate(tolerance)
    for number, loss in enumerate(losses):
        good = gate.accepts(loss)
        assert good == (number == 0 or loss <= gate.lowest_loss + tolerance)
        gate = gate.after(loss) if good else gate
        assert gate.lowest_loss == min(gate.lowest_loss, loss) or not good


@pytest.mark.parametrize("tolerance", [0.0, -1.0, math.inf, math.nan])
def test_a_tolerance_is_a_number_above_zero(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance = "):
        LossGate(tolerance)


@pytest.mark.parametrize(
    ("mechanism", "covered"), [("none", True), ("ldp", True), ("aldp", True), ("dp-sgd", False)]
)
def test_only_noise_on_whole_offers_covers_what_is_offered_because_of_a_gate(
    mechanism: str, covered: bool
) -> None:
    assert covers_a_gate(MECHANISMS[mechanism](setting())) == covered
