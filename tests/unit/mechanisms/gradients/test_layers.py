"""Gradients of single rows by book-keeping, for each kind of layer, against a backward pass for each row."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from mechanisms.gradients.book_keeping import BookKeeping
from mechanisms.gradients.layers import (
    RATIO,
    Float64,
    Lookup,
    Outer,
    Positions,
    Rows,
    check_layer,
    gamma,
    of_layer,
)
from tests.unit.mechanisms.gradients.models import MODELS, built, cross_entropy, named, objective, one_by_one

ROWS = 7


def each_row(found, names, row, rows=ROWS):
    """(d,): the gradient of one row."""
    weights = torch.zeros(rows, dtype=torch.float64)
    weights[row] = 1
    parts = []
    for name, parameter in names.items():
        parts.append(torch.zeros(parameter.numel(), dtype=torch.float64))
        found[name].add_to(parts[-1], weights)
    return torch.cat(parts).numpy()


@pytest.mark.parametrize("kind", MODELS)
def test_norms_and_sums_are_those_of_single_rows(kind):
    model, x, y = built(kind, ROWS)
    hooks = [list(module._forward_hooks) for module in model.modules()]
    names = named(model)
    found, losses = BookKeeping(objective(model, x, y, names))(x, y)
    expected = one_by_one(model, names, cross_entropy, x, y)
    squares = sum(found[name].squares() for name in names)
    assert squares.dtype == torch.float64
    assert squares.sqrt().numpy() == pytest.approx(np.linalg.norm(expected, axis=1), rel=1e-5)
    for row in range(ROWS):
        assert each_row(found, names, row) == pytest.approx(expected[row], rel=1e-4, abs=1e-6)
    alone = functional.cross_entropy(model(x), y, reduction="none").detach().numpy()
    assert losses.numpy() == pytest.approx(alone, rel=1e-5)
    assert hooks == [list(module._forward_hooks) for module in model.modules()]
    assert all(parameter.grad is None for parameter in model.parameters())
    taken = {"sequence": Positions, "long sequence": Rows, "linear": Outer}  # products, or gradients in full
    assert kind not in taken or type(found["0.weight"]) is taken[kind]


def test_only_the_given_parameters_are_computed():
    model, x, y = built("linear", ROWS)
    model[0].requires_grad_(False)
    last = {"2.weight": model[2].weight}
    found, _ = BookKeeping(objective(model, x, y, last))(x, y)
    assert list(found) == ["2.weight"]
    expected = one_by_one(model, last, cross_entropy, x, y)
    assert each_row(found, last, 3) == pytest.approx(expected[3], rel=1e-4)
    frozen = {"0.weight": model[0].weight}
    found, _ = BookKeeping(objective(model, x, y, frozen))(x, y)
    model[0].requires_grad_(True)
    expected = one_by_one(model, frozen, cross_entropy, x, y)
    assert each_row(found, frozen, 3) == pytest.approx(expected[3], rel=1e-4)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


class Own(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def tied():
    model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5))
    model[2].weight = model[0].weight
    return model


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Twice(), "Linear is used twice"),
        (tied(), "parameter 'weight' of Linear is that of another layer, too"),
        (nn.Sequential(Own(5, 3)), "Own has no rule of its own"),
        (nn.Sequential(nn.PReLU(), nn.Linear(5, 3)), "PReLU has no rule of its own"),
        (nn.Sequential(nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 2, 3, padding="same")), "pads in a way"),
        (nn.ModuleDict({"used": nn.Linear(5, 3), "spare": nn.Linear(5, 3)}), "is not used"),
    ],
)
def test_layers_without_a_rule_are_named(model, said):
    x, y = torch.randn(ROWS, 5), torch.zeros(ROWS, dtype=torch.int64)
    if isinstance(model, nn.ModuleDict):
        used = model["used"]
        model.forward = used.__call__
    with pytest.raises(ValueError, match=said):
        BookKeeping(objective(model, x, y, loss=lambda outputs, targets: outputs.sum()))(x, y)


@pytest.mark.parametrize("option", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}, {"sparse": True}])
def test_embeddings_whose_gradients_depend_on_more_than_the_row_are_refused(option):
    model = nn.Sequential(nn.Embedding(5, 2, **option), nn.Flatten(), nn.Linear(6, 3))
    x, y = torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0, 1])
    with pytest.raises(ValueError, match="Embedding with max_norm"):
        BookKeeping(objective(model, x, y))(x, y)


def test_a_layer_without_a_rule_has_no_gradients_either_and_a_subclass_that_changes_nothing_keeps_its():
    with pytest.raises(TypeError, match="PReLU has no rule of its own"):
        of_layer(nn.PReLU(), torch.zeros(1, 1), torch.zeros(1, 1), Float64())
    check_layer(type("Same", (nn.Linear,), {})(2, 2))


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


FORMS = (
    Rows(random(4, 9)),
    Outer(random(4, 3), random(4, 5)),
    Positions(random(4, 2, 3), random(4, 2, 5)),
    Lookup(torch.tensor([[0, 1], [1, 1], [2, 0], [3, 3]]), random(4, 2, 3), 6),
)


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_are_left_out_are_zero_whatever_they_hold(form):
    part = "values" if isinstance(form, Rows) else "outputs"
    bad = getattr(form, part).clone()
    bad[1] = float("inf")
    chosen, weights = torch.tensor([False, True, False, False]), torch.tensor([0.5, 0.0, 1.0, 2.0]).double()
    size = {Rows: 9, Outer: 15, Positions: 15, Lookup: 18}[type(form)]
    clean, left_out = torch.zeros(size).double(), torch.zeros(size).double()
    form.add_to(clean, weights)
    replace(form, **{part: bad}).without(chosen).add_to(left_out, weights)
    assert torch.equal(clean, left_out)
    assert clean.any()
    assert not torch.isfinite(replace(form, **{part: bad}).squares()[1])


@pytest.mark.parametrize("form", [FORMS[2], FORMS[3]])
def test_a_gradient_of_large_terms_that_cancel_counts_as_longer(form):
    """Two positions with opposite gradients: what is left of them is rounding."""
    outputs = form.outputs.clone()
    outputs[1, 1] = -outputs[1, 0] * (1 + 2**-30)
    changed = {"outputs": outputs}
    if isinstance(form, Positions):
        inputs = form.inputs.clone()
        inputs[1, 1] = inputs[1, 0]
        changed["inputs"] = inputs
        most = float(outputs[1].norm(dim=1) @ inputs[1].norm(dim=1))
    else:
        most = float(outputs[1].norm(dim=1).sum())
    cancelled = replace(form, **changed)
    assert float(cancelled.squares()[1]) == pytest.approx((most / RATIO) ** 2)
    assert torch.equal(cancelled.squares()[[0, 2, 3]], form.squares()[[0, 2, 3]])


def test_errors_are_those_of_their_operations():
    """gamma_n = n u / (1 - n u), n at least the number of roundings behind a squared norm."""
    assert gamma(2.0**52) == 1
    assert gamma(1000) == pytest.approx(1000 * 2.0**-53)
    assert [form.norm_error() / 2.0**-53 for form in FORMS] == pytest.approx([10, 11, 15 * 2**16, 10 * 2**16])
    assert [(form.terms, form.ratio) for form in FORMS] == [(1, 1), (1, 1), (2, RATIO), (2, RATIO)]
