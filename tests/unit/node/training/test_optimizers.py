"""The default optimiser steps as torch's SGD does, bit for bit, and loads less."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from node.training.optimizers import GradientDescent


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(5)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((7, 3), (3,), (2, 2, 2))]


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.9, 0.1), (0.0, 0.1)])
def test_it_steps_as_torchs_does(momentum, decay):
    ours, theirs = parameters(), parameters()
    subject = GradientDescent(ours, 0.3, momentum, decay)
    oracle = torch.optim.SGD(theirs, 0.3, momentum, weight_decay=decay)
    generator = torch.Generator().manual_seed(6)
    for step in range(6):
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if (step, place) in {(0, 1), (3, 2)}:
                continue  # no gradient: it stays, and so does what it has gathered
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()

        subject.step()
        oracle.step()

        assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True)), step
        subject.zero_grad()
        oracle.zero_grad()
        assert all(value.grad is None for value in ours)


def test_sparse_gradients_are_welcome():
    layer = nn.Embedding.from_pretrained(torch.zeros(4, 2), freeze=False, sparse=True)
    layer(torch.tensor([1, 3])).sum().backward()

    GradientDescent(list(layer.parameters()), 0.5, 0.0, 0.0).step()

    assert layer.weight.tolist() == [[0, 0], [-0.5, -0.5], [0, 0], [-0.5, -0.5]]
