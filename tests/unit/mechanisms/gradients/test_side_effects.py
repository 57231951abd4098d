"""What passes from row to row beside the outputs is refused: buffers, masks by place, what a model keeps."""

import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from mechanisms.gradients import clipped_sum
from mechanisms.gradients.clipped_sum import ClippedSum
from mechanisms.gradients.side_effects import NotByRow, without_side_effects
from tests.unit.mechanisms.gradients.models import built, cross_entropy, objective

RADIUS = 0.3


class Centred(nn.Module):
    """Subtracts what it has seen so far, which it keeps in a buffer, in training or else in evaluation."""

    def __init__(self, kept_in_training=True) -> None:
        super().__init__()
        self.kept_in_training = kept_in_training
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x):
        if self.training == self.kept_in_training:
            self.mean += 0.01 * x.detach().sum(0)
        return x - self.mean


class Counting(nn.Module):
    """Mixes rows after so many passes, which a buffer counts, or a plain number."""

    def __init__(self, passes, buffer=False) -> None:
        super().__init__()
        self.passes = passes
        if buffer:
            self.register_buffer("calls", torch.zeros(()))
        else:
            self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x - 3 * x.mean(0) if self.calls > self.passes else x


class Masked(nn.Module):
    def forward(self, x):
        return functional.dropout(x, 0.5)  # in evaluation, too: the classic slip


class Noisy(nn.Module):
    """Draws from a generator of its own: torch's keeps its state."""

    def __init__(self) -> None:
        super().__init__()
        self.own = torch.Generator()

    def forward(self, x):
        return x + torch.randn(x.shape, generator=self.own)


def summed(first, rows=30):
    torch.manual_seed(0)
    model = nn.Sequential(first, nn.Linear(5, 3))
    x, y = torch.randn(rows, 5), torch.arange(rows) % 3
    return ClippedSum(objective(model, x, y, loss=cross_entropy), RADIUS, 1000, float(rows)), x, y


def moved(total, x, y):
    """How far the first row moves the sum, in units of C."""
    return np.linalg.norm(total(x, y).vector - total(x[1:], y[1:]).vector) / RADIUS


@pytest.mark.parametrize(
    ("first", "line"),
    [
        (Centred(), "layer '0' (Centred) changes 'mean' when rows pass: what one row leaves there acts on"),
        (Centred(kept_in_training=False), "layer '0' (Centred) changes 'mean' when rows pass"),
        (Counting(100, buffer=True), "layer '0' (Counting) changes 'calls' when rows pass"),
        (nn.Dropout(0.5), "layer '0' (Dropout) draws from torch's generator, for each place of a batch"),
        (nn.Sequential(nn.Identity(), Masked()), "layer '0.1' (Masked) draws from torch's generator"),
        (Noisy(), "a row has another gradient when it is computed again"),
    ],
)
def test_what_one_row_would_leave_for_others_is_refused(first, line):
    with pytest.raises(NotByRow) as caught:
        summed(first)
    assert line in str(caught.value)
    assert "; allowed: " in str(caught.value)


def test_a_loss_that_draws_is_refused_and_layers_that_could_are_not():
    model, x, y = built("linear", 4)

    def noisy(outputs, targets):
        return cross_entropy(outputs + torch.rand_like(outputs), targets)

    with pytest.raises(NotByRow, match="draws from torch's generator"):
        ClippedSum(objective(model, x, y, loss=noisy), RADIUS, 100, 4.0)
    assert moved(*summed(nn.Dropout(0.0))) <= 1


def test_choosing_neither_draws_from_torch_s_generator_nor_changes_the_model():
    torch.manual_seed(5)
    model, (x, y) = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3)), (torch.ones(2, 5), torch.tensor([0, 1]))
    model[0].eval()
    before = torch.get_rng_state()
    assert ClippedSum(objective(model, x, y), RADIUS, 100, 2.0).method == "book-keeping"
    assert torch.equal(before, torch.get_rng_state())
    assert (model.training, model[0].training, model[0]._forward_hooks) == (True, False, {})


def test_what_another_thread_draws_meanwhile_is_no_draw():
    """Nodes in one process share torch's generator, and one may be building its model."""
    model, x, others = nn.Linear(3, 4), torch.ones(2, 3), [True, True, False]

    def run():
        if others.pop(0):
            other = threading.Thread(target=torch.rand, args=(3,))
            other.start()
            other.join()
        return model(x)

    before = torch.get_rng_state()
    assert torch.equal(without_side_effects(model, run), model(x))
    assert (torch.equal(before, torch.get_rng_state()), others) == (False, [])


def test_a_buffer_with_nan_may_stay_as_it_is():
    model = nn.Linear(3, 3)
    model.register_buffer("empty", torch.full((2,), torch.nan))
    assert without_side_effects(model, lambda: 1) == 1


def test_a_model_is_tried_again_for_what_it_does_later(monkeypatch):
    """Of 30 rows one moves the sum by 15 times C if rows mix that did not when the first step was taken."""
    total, x, y = summed(Counting(150))
    assert total.method == "book-keeping"
    x[0] *= 100
    total._ways[1].method._objective.model[0].calls = 1000
    assert moved(total, x, y) > 5
    monkeypatch.setattr(total, "_left", 0)
    assert moved(total, x, y) <= 1
    assert total.method.startswith("each row in full (vmap)")
    assert total._left == clipped_sum.TRIED_EVERY - 2


def test_every_thousand_steps_there_is_another_trial(monkeypatch):
    tried = []
    monkeypatch.setattr(clipped_sum, "TRIED_EVERY", 3)
    total, x, y = summed(nn.Identity(), rows=2)
    monkeypatch.setattr(total, "_choose_ways", lambda: (tried.append(len(taken)), setattr(total, "_left", 3)))
    taken = []
    for step in range(8):
        total(x, y)
        taken.append(step)
    assert tried == [3, 6]
