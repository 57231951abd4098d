"""The wide and deep network: shapes, what a bottom computes, how it starts, what a step moves; FTRL."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scenarios.systems.label_dp.arms import PLAIN
from scenarios.vertical.wide_deep import (
    Bottom,
    Descent,
    Ftrl,
    FtrlSettings,
    Learner,
    Sizes,
    drawn_bottom,
    drawn_top,
)

SMALL = Sizes(embedding=3, hidden=(5, 4))
IDS = torch.tensor([[0, 2], [1, 3]])
WEIGHTS = torch.tensor([[0.5, 1.0], [0.0, -2.0]])
USUAL = FtrlSettings(learning_rate=0.05, l1=1e-8, l2=1e-8, accumulator=1.0)


def bottom(seed: int = 0) -> Bottom:
    return drawn_bottom(4, 2, SMALL, (seed,))


def test_the_original_s_parts_have_their_shapes_and_start_at_or_near_zero():
    assert bottom()(IDS, WEIGHTS).shape == (2, 2)
    found = drawn_bottom(714, 20, PLAIN.sizes, (0,))
    assert (found.wide.shape, found.deep.shape) == ((714, 1), (714, 80))
    dense = [tuple(part.weight.shape) for part in found.layers if isinstance(part, torch.nn.Linear)]
    assert dense == [(64, 1600), (32, 64), (16, 32), (8, 16), (1, 8)]
    between = [type(part) for part in found.layers if not isinstance(part, torch.nn.Linear)]
    assert between == [torch.nn.ReLU] * 4
    assert drawn_top((0,)).weight.shape == (1, 4)
    found = drawn_bottom(500, 2, SMALL, (0,))
    assert not found.wide.any()
    assert not found.wide_bias.any()
    assert found.deep.std().item() == pytest.approx(0.01, rel=0.05)


def test_it_computes_what_it_says() -> None:
    """Row by row and field by field, with the weight on both embeddings."""
    found = bottom()
    with torch.no_grad():
        found.wide += torch.tensor([[1.0], [2.0], [3.0], [4.0]])
        found.wide_bias += 0.25
    answered = found(IDS, WEIGHTS)
    for row in range(2):
        wide = 0.25 + sum((found.wide[i, 0] * w).item() for i, w in zip(IDS[row], WEIGHTS[row], strict=True))
        fields = torch.cat([found.deep[i] * w for i, w in zip(IDS[row], WEIGHTS[row], strict=True)])
        assert answered[row, 0].item() == pytest.approx(wide)
        assert answered[row, 1].item() == pytest.approx(found.layers(fields).item(), abs=1e-6)


def test_weights_follow_from_the_seed_and_the_process_s_generator_stays_as_it_was() -> None:
    before = torch.random.get_rng_state()
    one, again, other = bottom(1), bottom(1), bottom(2)
    assert torch.equal(torch.random.get_rng_state(), before)
    for first, second in zip(one.parameters(), again.parameters(), strict=True):
        assert torch.equal(first, second)
    assert not torch.equal(one.deep, other.deep)
    assert torch.equal(drawn_top((3,)).weight, drawn_top((3,)).weight)


def test_a_step_moves_the_wide_part_by_ftrl_and_the_rest_by_adam_with_the_penalty() -> None:
    descent = Descent(0.01, 1e-8, 0.5, FtrlSettings(0.05, 1e-8, 1e-8, 1.0))
    mine, top = bottom(), drawn_top((0,))
    learner = Learner(mine, descent, top.parameters())
    theirs = bottom()
    wide, adam = (Ftrl(theirs.wide_part, descent.ftrl), torch.optim.Adam(theirs.deep_part, lr=0.01, eps=1e-8))
    for step in range(3):
        gradients = torch.tensor(np.random.default_rng(step).normal(size=(2, 2)), dtype=torch.float32)
        learner.learn(mine(IDS, WEIGHTS), gradients)
        theirs.zero_grad()
        objective = (theirs(IDS, WEIGHTS) * gradients).sum() + 0.25 * (theirs.deep**2).sum()
        objective.backward()
        wide.step()
        adam.step()
    assert mine.wide.any()
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-7)


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


def test_small_sums_leave_a_weight_at_zero_and_one_without_a_gradient_stays():
    gradients = np.array([[0.5, 2.0]])
    assert moved(gradients, FtrlSettings(0.1, 1.0, 0.0, 1.0))[0] == 0
    free, shrunk = (moved(gradients, FtrlSettings(0.1, 0.0, l2, 1.0))[1] for l2 in (0.0, 10.0))
    assert free < shrunk < 0
    (found,) = moved(np.array([[3.0]]), FtrlSettings(0.05, 0.0, 0.0, 1.0))
    assert found == pytest.approx(-3.0 * 0.05 / math.sqrt(10))
    one, other = torch.zeros(2), torch.zeros(2)
    ftrl = Ftrl([one, other], USUAL)
    one.grad = torch.ones(2)
    ftrl.step()
    assert (one < 0).all()
    assert (other == 0).all()
