"""Private steps: who is sampled, what the gradient becomes, what it costs."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn
from torch.nn import functional

from mechanisms.accounting.ledger import SampledGaussian
from mechanisms.gradients.clipped_sum import ClippedSum
from mechanisms.gradients.dp_sgd import GradientRule, PrivateGradient, poisson_rows, record_events
from mechanisms.gradients.objective import Objective
from mechanisms.noise.clipping import NotFinite
from tests.unit.mechanisms.settings import Given, refused
from tests.unit.mechanisms.settings import words as seeded

RULE = GradientRule(clipping_radius=0.5, noise_multiplier=1.5, sampling_probability=0.1)
QUIET = GradientRule(clipping_radius=0.5, noise_multiplier=1e-5, sampling_probability=0.1)


def setup(rows=8):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 3))
    return model, dict(model.named_parameters()), torch.randn(rows, 6), torch.arange(rows) % 3


def flat(model):
    return torch.cat([parameter.grad.ravel() for parameter in model.parameters()]).double().numpy()


def step(model, parameters, x, y, rule, expected_rows, words):
    return prepared(model, parameters, x, y, rule, expected_rows)(x, y, words)


def prepared(model, parameters, x, y, rule, expected_rows=4.0):
    row = torch.zeros(1, *x.shape[1:]), torch.zeros(1, dtype=y.dtype)
    objective = Objective(model, parameters, functional.cross_entropy, row)
    return PrivateGradient(objective, rule, 1000, expected_rows)


def test_rows_are_those_whose_word_is_below_the_probability():
    quarter = 2**62
    found = poisson_rows(5, 0.25, Given(0, quarter - 1, quarter, 2**64 - 1, 5))
    assert (found.tolist(), found.dtype) == ([0, 1, 4], np.int64)
    assert poisson_rows(2, 1.0, Given(2**64 - 1, 0)).tolist() == [0, 1]
    assert poisson_rows(2, 2.0**-64, Given(0, 1)).tolist() == [0]
    assert poisson_rows(2, 2.0**-65, Given(0, 1)).tolist() == []
    refused(lambda rows: poisson_rows(rows, 0.5, seeded()), rows=0)
    for value in (0.0, 1.5, math.nan):
        refused(
            lambda sampling_probability: poisson_rows(3, sampling_probability, seeded()),
            sampling_probability=value,
        )


def test_each_row_is_drawn_by_itself():
    """Binomial number of rows, and of pairs of neighbours: each beyond a 1e-6 tail in a fresh draw."""
    rows = poisson_rows(1 << 20, 0.1, seeded())
    assert binom.ppf(5e-7, 1 << 20, 0.1) <= len(rows) <= binom.ppf(1 - 5e-7, 1 << 20, 0.1)
    neighbours = np.count_nonzero(np.diff(rows) == 1)
    assert binom.ppf(5e-7, 1 << 20, 0.01) <= neighbours <= binom.ppf(1 - 5e-7, 1 << 20, 0.01)


def test_the_gradient_is_the_clipped_sum_over_the_expected_rows():
    model, parameters, x, y = setup()
    batch = step(model, parameters, x, y, QUIET, 12.5, seeded())
    objective = Objective(model, parameters, functional.cross_entropy, (x[:1], y[:1]))
    total = ClippedSum(objective, 0.5, 1000, 12.5)
    for parameter in parameters.values():
        assert parameter.grad.shape == parameter.shape
        assert parameter.grad.dtype == torch.float32
    assert flat(model) == pytest.approx(total(x, y).vector / 12.5, abs=1e-5)
    assert batch.not_finite == 0
    assert batch.mean_loss == pytest.approx(functional.cross_entropy(model(x), y).item(), rel=1e-6)


@pytest.mark.parametrize("rows", [0, 8])
def test_noise_is_z_times_c_over_the_expected_rows_in_each_coordinate(rows):
    """120 steps on 303 coordinates: standard errors are 0.37 % of all, 6.5 % of one; limits beyond 5."""
    model, parameters, x, y = setup(rows)
    step(model, parameters, x, y, QUIET, 4.0, seeded(99))
    quiet, gradient, noise = flat(model), prepared(model, parameters, x, y, RULE), []
    for seed in range(120):
        gradient(x, y, seeded(seed))
        noise.append(flat(model) - quiet)
    assert np.std(noise) == pytest.approx(1.5 * 0.5 / 4.0, rel=0.02)
    by_coordinate = np.std(noise, axis=0) / (1.5 * 0.5 / 4.0)
    assert 0.65 < by_coordinate.min() <= by_coordinate.max() < 1.35, "none is left out"
    assert abs(np.mean(noise)) < 5 * 0.1875 / np.sqrt(120 * 303)


def test_two_steps_never_share_noise_and_no_two_tensors_do():
    model, parameters, x, y = setup(0)
    words = seeded()
    step(model, parameters, x, y, RULE, 4.0, words)
    first = flat(model)
    step(model, parameters, x, y, RULE, 4.0, words)
    assert np.count_nonzero(first == flat(model)) == 0
    assert len(np.unique(first)) > 300


def test_an_old_gradient_is_replaced_and_those_of_others_are_left():
    model, parameters, x, y = setup()
    model[0].weight.grad = torch.full((30, 6), 1e9)
    step(model, {"0.weight": parameters["0.weight"]}, x, y, RULE, 4.0, seeded())
    assert model[0].weight.grad.abs().max() < 10
    assert model[2].weight.grad is None


def test_a_row_that_is_not_finite_is_counted_and_a_model_that_diverged_ends_training():
    model, parameters, x, y = setup()
    gradient = prepared(model, parameters, x, y, RULE)
    assert gradient.method == "book-keeping"
    x[0, 0] = float("nan")
    batch = gradient(x, y, seeded())
    assert batch.not_finite == 1
    assert np.isfinite(batch.mean_loss)
    assert np.isfinite(flat(model)).all()
    with torch.no_grad():
        model[0].weight[0, 0] = float("nan")
    with pytest.raises(NotFinite):
        gradient(x, y, seeded())


@pytest.mark.parametrize("multiplier", [1e-5, 0.3, 1.5, 1e4])
def test_the_grid_s_rounding_is_within_the_radius(multiplier):
    """Neighbouring sums, rounded to the grid, are at most C apart: noise alone is what hides a row."""
    model, parameters, x, y = setup()
    rule = GradientRule(0.5, multiplier, 0.1)
    gradient = prepared(model, parameters, x, y, rule, 1.0)
    spacing = gradient._sum.unit
    assert spacing == 2.0 ** round(np.log2(spacing))
    assert rule.noise_std / spacing <= 2**32
    assert 1000 * rule.clipping_radius / spacing <= 2**52
    units = [
        np.rint(gradient._sum.clipped(x[rows], y[rows]).vector / spacing) for rows in (range(8), range(1, 8))
    ]
    assert 0.4999 < np.linalg.norm(units[0] - units[1]) * spacing <= 0.5
    assert 0.5 * (1 - 2**-12) < gradient._sum.clipped._clip < 0.5 - np.sqrt(303) * spacing


def test_noise_so_large_that_its_grid_hides_the_gradients_is_refused():
    model, parameters, x, y = setup()
    with pytest.raises(ValueError, match=r"noise_multiplier = 1e\+09 is not allowed for 303 parameters"):
        prepared(model, parameters, x, y, GradientRule(0.5, 1e9, 0.1))


def test_what_steps_cost():
    assert record_events(RULE, 30) == SampledGaussian(1.5, 0.1, 30)
    assert RULE.noise_std == 0.75
    refused(lambda steps: record_events(RULE, steps), steps=0)
    model, parameters, x, y = setup()
    refused(lambda expected_rows: prepared(model, parameters, x, y, RULE, expected_rows), expected_rows=0)
    for values in ((0.0, 1, 0.1), (1, 0, 0.1), (1, 1, 0.0), (1, 1, 1.1), (np.nan, 1, 1)):
        with pytest.raises(ValueError, match="is not allowed"):
            GradientRule(*values)
