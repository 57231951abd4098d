"""RPFL's formulas: against a convex solver, closed forms, and samples."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from mechanisms.accounting import gaussian
from mechanisms.servers.rpfl import (
    allocate,
    first_step_epsilon,
    network_lipschitz,
    noise_distance,
    proximal_norm,
    radius,
    record_epsilon,
    record_noise_std,
    sample_distance,
    theorem_excess,
    theorem_noise_std,
)


@pytest.mark.parametrize("clients", [1, 4, 1000])
def test_the_allocation_meets_the_optimality_conditions(clients: int) -> None:
    """Of a convex problem: they are enough."""
    for seed in range(20):
        rng = np.random.default_rng([clients, seed])
        weights, caps = np.exp(rng.normal(0, 3, clients)), np.exp(rng.normal(0, 1, clients))
        budget = float(rng.uniform(0.01, 0.99) * caps.sum())
        found = allocate(weights, caps, budget)
        assert found.sum() == pytest.approx(budget, rel=1e-12), seed
        assert (found <= caps).all(), seed
        below = found < caps * (1 - 1e-12)
        taus = (found / np.sqrt(weights))[below]
        assert np.ptp(taus) <= 1e-12 * taus.max(), seed
        assert ((caps / np.sqrt(weights))[~below] <= taus.max() * (1 + 1e-12)).all(), seed


def test_the_allocation_of_what_is_known() -> None:
    np.testing.assert_array_equal(allocate([1, 1], [1, 2], 5.0), [1, 2])
    np.testing.assert_array_equal(allocate([1, 1], [1, 2], 3.0), [1, 2])
    np.testing.assert_allclose(allocate([1, 4, 9], [9, 9, 9], 6.0), [1, 2, 3])
    np.testing.assert_allclose(allocate([1, 4, 9], [9, 1, 9], 6.0), [1.25, 1, 3.75])
    np.testing.assert_allclose(allocate([5.0], [9.0], 2.0), [2.0])


@pytest.mark.parametrize(
    ("weights", "caps", "budget", "message"),
    [
        ([], [], 1.0, r"weights has shape \(0,\)"),
        ([1, 0], [1, 1], 1.0, "weights holds 0.0"),
        ([1, math.inf], [1, 1], 1.0, "weights holds inf"),
        ([1, 1], [1, -2], 1.0, "caps holds -2.0"),
        ([1, 1], [1], 1.0, "caps has 1 values for 2 weights"),
        ([1, 1], [1, 1], 0.0, "budget = 0.0"),
    ],
)
def test_what_can_not_be_allocated(weights, caps, budget, message) -> None:
    with pytest.raises(ValueError, match=message):
        allocate(weights, caps, budget)


def test_the_theorems_noise_is_far_too_little() -> None:
    usual = (1.0, 1e-5, 1.0, 10, 814, 0.01, 1.0)
    found = theorem_noise_std(*usual)
    assert found == pytest.approx(0.042, abs=5e-4)
    for place, value, factor in ((0, 2.0, 0.5), (2, 3.0, 3), (3, 40, 2), (5, 0.16, 0.5), (6, 9.0, 3)):
        other = (*usual[:place], value, *usual[place + 1 :])
        assert theorem_noise_std(*other) == pytest.approx(factor * found), place
    few = [theorem_noise_std(1.0, 1e-5, 1.0, 10, rows, 0.01, 1.0) for rows in (2, 3)]
    assert few[0] == pytest.approx(math.sqrt(3) * few[1])
    assert record_noise_std(1.0, 1e-5, 1.0) == pytest.approx(7.46, abs=5e-3)
    assert record_epsilon(found, 1e-5, 1.0) > 1000
    with pytest.raises(ValueError, match="rows = 1 is not allowed"):
        theorem_noise_std(1.0, 1e-5, 1.0, 10, 1, 0.01, 1.0)


def step_from_zero(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(trials, p): minus the gradient of the mean logistic loss at theta = 0, for x (trials, d, p)."""
    theta = torch.zeros(len(x), x.shape[2], dtype=torch.float64, requires_grad=True)
    logits = torch.einsum("tdp,tp->td", torch.from_numpy(x), theta)
    labels = torch.from_numpy(np.broadcast_to(y, logits.shape).astype(np.float64))
    loss = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(dim=1).sum()
    return -torch.autograd.grad(loss, theta)[0].numpy()


def test_the_model_after_one_step_is_gaussian_with_the_multiplier_that_is_charged() -> None:
    rng, rows, std, norm = np.random.default_rng(5), 40, 0.3, 2.0
    x, y = np.zeros((2, rows, 3)), rng.integers(0, 2, rows)
    x[:, 0, 1] = norm, -norm
    moved = np.linalg.norm(np.diff(step_from_zero(x, y), axis=0))
    noisy = step_from_zero(x[0] + rng.normal(0, std, (20_000, rows, 3)), y)
    exact = gaussian.epsilon(1e-5, noisy.std(axis=0).mean() / moved)
    assert first_step_epsilon(std, rows, 1e-5, norm) == pytest.approx(exact, rel=0.02)


def test_theorem_3_s_bound_as_written_down() -> None:
    written = 2 * 9 / (0.01 * 30) * (1 + 107 * 0.0016)
    assert theorem_excess(2.0, 3.0, 0.1, 30, 107, 0.04) == pytest.approx(written)
    with pytest.raises(ValueError, match="rounds = 0"):
        theorem_excess(1.0, 1.0, 1.0, 0, 1, 0.1)


@pytest.mark.parametrize(("epsilon", "norm"), [(0.1, 1.0), (1.0, 0.5), (8.0, 3.0)])
def test_a_records_epsilon_and_noise_are_inverse(epsilon: float, norm: float) -> None:
    std = record_noise_std(epsilon, 1e-5, norm)
    assert record_epsilon(std, 1e-5, norm) == pytest.approx(epsilon, rel=1e-6)
    assert gaussian.delta(epsilon, std / (2 * norm)) == pytest.approx(1e-5, rel=1e-6)


def test_the_radius_covers_the_noise_as_often_as_it_says() -> None:
    rng, features, rows, std, gamma = np.random.default_rng(0), 14, 25, 0.7, 0.1
    means = np.linalg.norm(rng.normal(0, std, (4000, rows, features)), axis=2).mean(axis=1)
    usual, often = (noise_distance(std, features, rows, share) for share in (None, gamma))
    assert means.mean() <= usual
    assert (means > often).mean() <= gamma
    assert usual == pytest.approx(std * math.sqrt(features))
    assert often - usual == pytest.approx(std * math.sqrt(2 * math.log(10) / rows))
    assert sample_distance(50, 0.05, 2.0) == pytest.approx(2 * math.sqrt(2 * math.log(20) / 50))
    assert radius(0.5, 16, 50, 0.05, 2.0) == pytest.approx(sample_distance(50, 0.05, 2.0) + 2.0)


def test_no_two_rows_differ_more_in_loss_than_the_constant_says() -> None:
    rng = torch.Generator().manual_seed(0)
    first, second = torch.randn(8, 5, generator=rng), torch.randn(3, 8, generator=rng)
    rows, others = (torch.randn(4000, 5, generator=rng) for _ in range(2))
    labels = torch.randint(0, 3, (4000,), generator=rng)
    losses = [
        functional.cross_entropy((x @ first.T).relu() @ second.T, labels, reduction="none")
        for x in (rows, others)
    ]
    steepest = ((losses[0] - losses[1]).abs() / (rows - others).norm(dim=1)).max()
    bound = network_lipschitz([first, second])
    assert steepest <= bound
    expected = math.sqrt(2) * np.linalg.norm(first.numpy(), 2) * np.linalg.norm(second.numpy(), 2)
    assert float(bound) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="matrices is empty"):
        network_lipschitz([])


def test_the_proximal_step_of_several_clients_and_of_zero() -> None:
    weights = torch.tensor([[3.0, 4.0], [3.0, 4.0], [0.0, 0.0]])
    several = proximal_norm(weights, torch.tensor([1.0, 6.0, 0.5]))
    np.testing.assert_allclose(several.numpy(), [[2.4, 3.2], [0, 0], [0, 0]], rtol=1e-6)
