"""The loss gate: what it accepts, what it remembers, and which mechanisms it may be combined with."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.loss_gate import LossGate, covers_a_gate
from mechanisms.registry import MECHANISMS
from tests.unit.mechanisms.settings import refused, setting


def judged(tolerance: float, losses: list[float]) -> list[bool]:
    """Returns a gate's decision on each loss in turn; it remembers only accepted ones."""
    gate, said = LossGate(tolerance), []
    for loss in losses:
        said.append(gate.accepts(loss))
        if said[-1]:
            gate = gate.after(loss)
    return said


@pytest.mark.parametrize(
    ("losses", "good"),
    [
        ([2.0, 1.0, 1.25, 1.26, 0.5, 0.75, 0.76], [True, True, True, False, True, True, False]),
        ([1.0, 1.25, 1.5, 1.75], [True, True, False, False]),
        ([math.nan, 3.0, math.nan, 3.25], [False, True, False, True]),
        ([math.inf, 3.0, math.inf, 3.25], [False, True, False, True]),
    ],
)
def test_the_first_model_is_good_and_a_rise_beyond_the_tolerance_is_not(losses, good) -> None:
    assert judged(0.25, losses) == good
    for tolerance in (0.0, -1.0, math.inf, math.nan):
        refused(LossGate, tolerance=tolerance)


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


def test_only_noise_on_whole_offers_covers_what_is_offered_because_of_a_gate() -> None:
    covered = {name: covers_a_gate(MECHANISMS[name](setting())) for name in ("none", "ldp", "aldp", "dp-sgd")}
    assert covered == {"none": True, "ldp": True, "aldp": True, "dp-sgd": False}
