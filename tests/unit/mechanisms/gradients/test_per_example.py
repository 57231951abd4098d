"""Gradients of single examples against one ordinary backward pass for each; clipping, cutting, refusing."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from mechanisms.gradients.per_example import clipped_sum, summed_units
from mechanisms.noise.clipping import NotFinite

ROWS = 7


def mlp(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))


def batch(rows=ROWS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 5, generator=generator), torch.randint(0, 3, (rows,), generator=generator)


def named(model):
    return dict(model.named_parameters())


def one_by_one(model, parameters, loss, x, y):
    """(n, d) float64: a backward pass for each row."""
    rows = []
    for row in range(len(x)):
        gradients = torch.autograd.grad(
            loss(model(x[row : row + 1]), y[row : row + 1]), list(parameters.values()), allow_unused=True
        )
        parts = [
            torch.zeros_like(parameter) if gradient is None else gradient
            for gradient, parameter in zip(gradients, parameters.values(), strict=True)
        ]
        rows.append(torch.cat([part.ravel() for part in parts]).numpy().astype(np.float64))
    return np.array(rows)


def clipped(gradients, radius):
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients * np.minimum(1, radius / norms)


def flat(sums):
    return np.concatenate([part.numpy().ravel() for part in sums.values()])


@pytest.mark.parametrize("radius", [0.05, 1.0, 100.0])
@pytest.mark.parametrize("chunk_rows", [1, 2, 3, ROWS, 100, None])
def test_the_sum_is_that_of_gradients_clipped_one_by_one(radius, chunk_rows):
    model, (x, y) = mlp(), batch()
    sums, loss = clipped_sum(model, named(model), functional.cross_entropy, x, y, radius, chunk_rows)
    expected = clipped(one_by_one(model, named(model), functional.cross_entropy, x, y), radius).sum(0)
    assert flat(sums) == pytest.approx(expected, rel=1e-5, abs=1e-6 * radius)
    assert loss == pytest.approx(functional.cross_entropy(model(x), y).item(), rel=1e-6)
    assert {name: part.shape for name, part in sums.items()} == {
        name: parameter.shape for name, parameter in named(model).items()
    }
    assert all(parameter.grad is None for parameter in model.parameters())


def test_only_the_given_parameters_count_for_the_norm():
    model, (x, y) = mlp(), batch()
    last = {"2.weight": model[2].weight}
    sums, _ = clipped_sum(model, last, functional.cross_entropy, x, y, 0.05)
    expected = clipped(one_by_one(model, last, functional.cross_entropy, x, y), 0.05).sum(0)
    assert flat(sums) == pytest.approx(expected, rel=1e-4)


def test_units_are_whole_and_a_row_moves_them_by_no_more_than_the_radius():
    """In exact arithmetic: the rows' own units add up to those of the batch, in any order."""
    model, (x, y) = mlp(), batch(40)
    radius, spacing = 0.3, 2.0**-20

    def units(rows):
        return summed_units(model, named(model), functional.cross_entropy, x[rows], y[rows], radius, spacing)[
            0
        ]

    singles = np.array([units([row]) for row in range(40)])
    assert np.array_equal(singles, np.rint(singles))
    assert (np.linalg.norm(singles, axis=1) * spacing <= radius).all()
    assert (np.linalg.norm(singles, axis=1) * spacing > radius * 0.999).any()
    backwards = list(range(39, -1, -1))
    assert np.array_equal(units(list(range(40))), units(backwards))
    assert np.array_equal(units(backwards) - units(backwards[1:]), singles[39])


def test_sums_beyond_the_digits_of_float32_are_exact():
    model, (x, y) = mlp(), batch(1)
    single, many = (
        summed_units(
            model, named(model), functional.cross_entropy, x.repeat(n, 1), y.repeat(n), 0.5, 2.0**-23
        )[0]
        for n in (1, 37)
    )
    assert np.abs(many).max() > 2**24
    assert np.array_equal(many, 37 * single)


def test_units_are_cut_towards_zero():
    model, (x, y) = mlp(), batch(1)
    exact = one_by_one(model, named(model), functional.cross_entropy, x, y)[0]
    units, _ = summed_units(model, named(model), functional.cross_entropy, x, y, 100.0, 0.01)
    assert np.array_equal(units, np.trunc(exact / 0.01))


def test_no_row_gives_zeros():
    model, (x, y) = mlp(), batch(0)
    sums, loss = clipped_sum(model, named(model), functional.cross_entropy, x, y, 1.0)
    assert loss == 0
    assert not flat(sums).any()
    assert len(flat(sums)) == 39


def test_a_parameter_that_the_loss_does_not_hang_on_gets_zeros():
    class Spare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = nn.Linear(5, 3), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    model, (x, y) = Spare(), batch()
    sums, _ = clipped_sum(model, named(model), functional.cross_entropy, x, y, 1.0)
    assert not sums["spare.weight"].any()
    assert sums["used.weight"].any()


def test_other_models_convolutions_tied_weights_and_numbers_as_targets():
    torch.manual_seed(1)
    conv = nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.Flatten(), nn.Linear(18, 1))
    tied = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 1))
    tied[2].weight = tied[0].weight

    def squared(outputs, targets):
        return functional.mse_loss(outputs.reshape(targets.shape), targets)

    for model, x in ((conv, torch.randn(4, 1, 5, 5)), (tied, torch.randn(4, 5))):
        y = torch.randn(4)
        sums, _ = clipped_sum(model, named(model), squared, x, y, 0.5)
        expected = clipped(one_by_one(model, named(model), squared, x, y), 0.5).sum(0)
        assert flat(sums) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_dropout_is_drawn_for_each_row():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 1, bias=False))
    x, y = torch.ones(64, 5), torch.zeros(64)
    seen: Counter[bytes] = Counter()

    def loss(outputs, targets):
        return outputs.sum()

    for row in range(64):  # the gradient of a row is its mask
        sums, _ = clipped_sum(model, named(model), loss, x[row : row + 1], y[row : row + 1], 100.0)
        seen[flat(sums).tobytes()] += 1
    assert len(seen) > 10
    together, _ = clipped_sum(model, named(model), loss, x, y, 100.0)
    assert len(set(flat(together).tolist())) > 1  # one mask for all: multiples of 128 only
    assert any(value not in (0.0, 128.0) for value in flat(together))


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
    model, (x, y) = nn.Sequential(nn.Linear(5, 4), layer, nn.Linear(4, 3)), batch()
    model.train(training)
    with pytest.raises(ValueError, match=rf"^layer '1' \({type(layer).__name__}\) takes its .*; allowed: .*"):
        clipped_sum(model, named(model), functional.cross_entropy, x, y, 1.0)


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
    model, (_, y) = nn.Sequential(nn.Linear(5, 6), layer, nn.Flatten(), nn.Linear(24, 3)), batch()
    x = torch.randn(ROWS, 4, 5)
    if isinstance(layer, nn.LayerNorm):
        model[0] = nn.Linear(5, 4)
        model[3] = nn.Linear(16, 3)
    if isinstance(layer, nn.BatchNorm1d):
        layer.running_mean.add_(1.0)
    model.train(training)
    sums, _ = clipped_sum(model, named(model), functional.cross_entropy, x, y, 0.5)
    expected = clipped(one_by_one(model, named(model), functional.cross_entropy, x, y), 0.5).sum(0)
    assert flat(sums) == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("chunk_rows", [1, None])
def test_a_gradient_that_is_not_finite_is_refused(bad, chunk_rows):
    model, (x, y) = mlp(), batch()
    x[3, 2] = bad
    with pytest.raises(NotFinite, match="the gradient of an example holds a NaN or an infinity"):
        clipped_sum(model, named(model), functional.cross_entropy, x, y, 1.0, chunk_rows)


def test_huge_gradients_are_clipped_as_well():
    model, (x, y) = mlp(), batch()
    units, _ = summed_units(
        model, named(model), lambda o, t: functional.cross_entropy(o, t) * 1e35, x[:1], y[:1], 1.0, 2.0**-20
    )
    assert 0.999 < np.linalg.norm(units) * 2.0**-20 <= 1


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"parameters": {}}, ValueError, "parameters is empty"),
        ({"radius": 0.0}, ValueError, "radius = 0.0 is not allowed"),
        ({"chunk_rows": 0}, ValueError, "chunk_rows = 0 is not allowed"),
        (
            {"parameters": {"0.bias": nn.Parameter(torch.zeros(4, dtype=torch.float64))}},
            TypeError,
            r"parameter '0.bias' holds torch.float64; allowed: torch.float32",
        ),
    ],
)
def test_bad_arguments_are_named(changed, error, said):
    model, (x, y) = mlp(), batch()
    arguments = {"parameters": named(model), "radius": 1.0, **changed}
    with pytest.raises(error, match=said):
        clipped_sum(model, loss=functional.cross_entropy, x=x, y=y, **arguments)
    with pytest.raises(ValueError, match=r"spacing = 0.0 is not allowed"):
        summed_units(model, named(model), functional.cross_entropy, x, y, 1.0, 0.0)
