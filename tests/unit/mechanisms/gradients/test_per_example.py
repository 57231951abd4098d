"""Gradients of single rows in full, by vmap and one by one; models that have none."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from mechanisms.gradients.clipped_sum import ClippedSum
from mechanisms.gradients.per_example import OneByOne, PerExample
from tests.unit.mechanisms.gradients.models import (
    built,
    clipped_one_by_one,
    cross_entropy,
    named,
    objective,
    one_by_one,
)

ROWS = 7
METHODS = (PerExample, OneByOne)


def rows_of(found):
    """(K, d)."""
    return torch.cat([part.values for part in found.values()], 1).numpy()


def squared(outputs, targets):
    return functional.mse_loss(outputs.reshape(targets.shape), targets)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["linear", "conv2d", "group norm", "layer norm"])
def test_gradients_and_losses_are_those_of_single_rows(method, kind):
    model, x, y = built(kind, ROWS)
    found, losses = method(objective(model, x, y))(x, y)
    expected = one_by_one(model, named(model), cross_entropy, x, y)
    assert rows_of(found) == pytest.approx(expected, rel=1e-4, abs=1e-6)
    alone = functional.cross_entropy(model(x), y, reduction="none").detach().numpy()
    assert losses.numpy() == pytest.approx(alone, rel=1e-5)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("method", METHODS)
def test_tied_weights_numbers_as_targets_and_a_parameter_that_the_loss_does_not_hang_on(method):
    torch.manual_seed(1)
    tied = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 1))
    tied[2].weight = tied[0].weight
    tied.spare = nn.Linear(2, 2)
    tied.forward = lambda x: tied[3](tied[2](tied[1](tied[0](x))))
    x, y = torch.randn(4, 5), torch.randn(4)
    found, _ = method(objective(tied, x, y, loss=squared))(x, y)
    assert rows_of(found) == pytest.approx(one_by_one(tied, named(tied), squared, x, y), rel=1e-4, abs=1e-6)
    assert not found["spare.weight"].values.any()


def clipped_sum(model, x, y):
    return ClippedSum(objective(model, x, y), 0.5, 100, 4.0)


@pytest.mark.parametrize(
    ("layer", "training"),
    [
        (nn.BatchNorm1d(4), True),
        (nn.BatchNorm1d(4, track_running_stats=False), True),
        (nn.BatchNorm1d(4, track_running_stats=False), False),
        (nn.InstanceNorm1d(4, track_running_stats=True), True),
    ],
)
def test_layers_that_mix_rows_are_refused_by_name(layer, training):
    _, x, y = built("linear", ROWS)
    model = nn.Sequential(nn.Linear(5, 4), layer, nn.Linear(4, 3))
    model.train(training)
    with pytest.raises(ValueError, match=rf"^layer '1' \({type(layer).__name__}\) takes its .*; allowed: .*"):
        clipped_sum(model, x, y)


@pytest.mark.parametrize(
    ("layer", "training"),
    [
        (nn.BatchNorm1d(4), False),
        (nn.LayerNorm(4), True),
        (nn.InstanceNorm1d(4), True),
        (nn.InstanceNorm1d(4), False),
        (nn.InstanceNorm1d(4, track_running_stats=True), False),
    ],
)
def test_layers_that_keep_rows_apart_are_welcome(layer, training):
    _, _, y = built("linear", ROWS)
    model = nn.Sequential(nn.Linear(5, 6), layer, nn.Flatten(), nn.Linear(24, 3))
    x = torch.randn(ROWS, 4, 5, generator=torch.Generator().manual_seed(1))
    if isinstance(layer, nn.LayerNorm):
        model[0] = nn.Linear(5, 4)
        model[3] = nn.Linear(16, 3)
    if isinstance(layer, nn.BatchNorm1d):
        layer.running_mean.add_(1.0)
    model.train(training)
    batch = clipped_sum(model, x, y)(x, y)
    assert batch.vector == pytest.approx(clipped_one_by_one(model, x, y, 0.5), rel=1e-4, abs=1e-6)
