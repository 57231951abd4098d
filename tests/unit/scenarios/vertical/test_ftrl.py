"""FTRL-Proximal against a second implementation, one coordinate at a time, and what its constants do."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scenarios.vertical.wide_deep import Ftrl, FtrlSettings

USUAL = FtrlSettings(learning_rate=0.05, l1=1e-8, l2=1e-8, accumulator=1.0)


def slow(gradients: list[float], settings: FtrlSettings) -> float:
    """The weight of one coordinate after these gradients: McMahan et al. 2013, Algorithm 1, in floats."""
    w, z, n = 0.0, 0.0, settings.accumulator
    for g in gradients:
        sigma = (math.sqrt(n + g**2) - math.sqrt(n)) / settings.learning_rate
        z += g - sigma * w
        n += g**2
        if abs(z) <= settings.l1:
            w = 0.0
        else:
            w = -(z - math.copysign(settings.l1, z)) / (math.sqrt(n) / settings.learning_rate + settings.l2)
    return w


def moved(gradients: np.ndarray, settings: FtrlSettings) -> np.ndarray:
    """(d,) weights after gradients (steps, d), in float64."""
    weights = torch.zeros(gradients.shape[1], dtype=torch.float64)
    ftrl = Ftrl([weights], settings)
    for gradient in gradients:
        weights.grad = torch.from_numpy(gradient.copy())
        ftrl.step()
    return weights.numpy()


@pytest.mark.parametrize(
    "settings", [USUAL, FtrlSettings(0.3, 0.5, 2.0, 0.1), FtrlSettings(1.0, 0.0, 0.0, 1.0)]
)
def test_it_is_the_algorithm_in_every_coordinate(settings: FtrlSettings) -> None:
    gradients = np.random.default_rng(1).normal(size=(30, 12))
    gradients[:, 3] = 0
    gradients[::2, 4] = 0
    expected = [slow(column, settings) for column in gradients.T.tolist()]
    assert moved(gradients, settings) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.floats(0, 3), st.floats(0, 3))
def test_it_is_the_algorithm_for_any_gradients(gradients: list[float], l1: float, l2: float) -> None:
    settings = FtrlSettings(0.1, l1, l2, 1.0)
    found = moved(np.array(gradients)[:, None], settings)
    assert found == pytest.approx([slow(gradients, settings)], abs=1e-9)


def test_small_sums_of_gradients_leave_a_weight_at_zero_and_l2_shrinks_the_others() -> None:
    gradients = np.array([[0.5, 2.0]])
    assert moved(gradients, FtrlSettings(0.1, 1.0, 0.0, 1.0))[0] == 0
    free, shrunk = (moved(gradients, FtrlSettings(0.1, 0.0, l2, 1.0))[1] for l2 in (0.0, 10.0))
    assert free < shrunk < 0


def test_the_first_step_is_the_rate_over_the_root_of_what_n_became() -> None:
    (found,) = moved(np.array([[3.0]]), FtrlSettings(0.05, 0.0, 0.0, 1.0))
    assert found == pytest.approx(-3.0 * 0.05 / math.sqrt(10))


def test_a_parameter_without_a_gradient_stays() -> None:
    one, other = torch.zeros(2), torch.zeros(2)
    ftrl = Ftrl([one, other], USUAL)
    one.grad = torch.ones(2)
    ftrl.step()
    assert (one < 0).all()
    assert (other == 0).all()
