"""The wide and deep network, split between two parties (Cheng et al. 2016; split as in MindSpore Federated).

    ids, weights (n, fields) ──▶ Bottom ──▶ (n, 2): a wide and a deep scalar     one at each party
    both parties' (n, 2) side by side ──▶ top: dense 4 ──▶ 1 ──▶ logit           at the leader

The wide part learns by FTRL, the deep part and the top by Adam, both tables of a party from one loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

EMBEDDING_STD = 0.01
SCALARS = 2
"""The number of outputs of a bottom for a row: one wide, one deep."""


@dataclass(frozen=True)
class FtrlSettings:
    """The algorithm's constants: alpha, lambda_1, lambda_2, and the initial n."""

    learning_rate: float
    l1: float
    l2: float
    accumulator: float


class Ftrl:
    """FTRL-Proximal, which torch lacks: McMahan et al. 2013, "Ad Click Prediction", Algorithm 1.

        sigma = (sqrt(n + g^2) - sqrt(n)) / rate;   z += g - sigma w;   n += g^2
        w = 0 where |z| <= l1, else -(z - sign(z) l1) / (sqrt(n) / rate + l2)

    with beta = 0, and with n starting at `accumulator` instead of 0. Weights and z start at 0. Each
    coordinate has its own z and n.
    """

    def __init__(self, parameters: Sequence[Tensor], settings: FtrlSettings) -> None:
        self._settings = settings
        self._parameters = tuple(parameters)
        self._sums = [torch.zeros_like(one) for one in self._parameters]
        self._squares = [torch.full_like(one, settings.accumulator) for one in self._parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Update each parameter by its gradient; one without a gradient stays the same."""
        for weights, z, n in zip(self._parameters, self._sums, self._squares, strict=True):
            if weights.grad is not None:
                self._move(weights, weights.grad, z, n)

    def _move(self, weights: Tensor, gradient: Tensor, z: Tensor, n: Tensor) -> None:
        own = self._settings
        before = n.sqrt()
        n += gradient * gradient
        z += gradient - (n.sqrt() - before) / own.learning_rate * weights
        moved = -(z - z.sign() * own.l1) / (n.sqrt() / own.learning_rate + own.l2)
        weights.copy_(torch.where(z.abs() <= own.l1, 0.0, moved))


@dataclass(frozen=True)
class Sizes:
    """The dimension of the deep table's embeddings, and the widths of the hidden layers."""

    embedding: int
    hidden: tuple[int, ...]


@dataclass(frozen=True)
class Descent:
    """The optimiser settings of a party. The loss includes l2 / 2 times the squares of the deep table."""

    learning_rate: float
    adam_epsilon: float
    l2: float
    ftrl: FtrlSettings


class Bottom(nn.Module):
    """One party's half: from ids (n, fields) and weights (n, fields) to wide and deep outputs (n, 2)."""

    def __init__(self, vocabulary: int, fields: int, sizes: Sizes) -> None:
        super().__init__()
        self.wide = nn.Parameter(torch.zeros(vocabulary, 1))
        self.wide_bias = nn.Parameter(torch.zeros(1))
        self.deep = nn.Parameter(EMBEDDING_STD * torch.randn(vocabulary, sizes.embedding))
        self.layers = _perceptron((fields * sizes.embedding, *sizes.hidden, 1))

    def forward(self, ids: Tensor, weights: Tensor) -> Tensor:
        """The outputs (n, 2) for ids (n, fields) int64 and weights (n, fields)."""
        weighed = weights.unsqueeze(2)  # (n, fields, 1)
        wide = (functional.embedding(ids, self.wide) * weighed).sum(1) + self.wide_bias  # (n, 1)
        deep = (functional.embedding(ids, self.deep) * weighed).flatten(1)  # (n, fields * embedding)
        return torch.cat([wide, self.layers(deep)], dim=1)

    @property
    def wide_part(self) -> tuple[nn.Parameter, ...]:
        """The parameters that FTRL updates."""
        return (self.wide, self.wide_bias)

    @property
    def deep_part(self) -> tuple[nn.Parameter, ...]:
        """The parameters that Adam updates."""
        return (self.deep, *self.layers.parameters())


def _perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Dense layers with ReLU between them."""
    dense = [nn.Linear(one, other) for one, other in pairwise(widths)]
    between = [part for layer in dense[:-1] for part in (layer, nn.ReLU())]
    return nn.Sequential(*between, dense[-1])


def drawn_bottom(vocabulary: int, fields: int, sizes: Sizes, seed: Sequence[int]) -> Bottom:
    """A bottom with initial weights from `seed`."""
    with _drawing(seed):
        return Bottom(vocabulary, fields, sizes)


def drawn_top(seed: Sequence[int]) -> nn.Linear:
    """The top, from (n, 4) to logits (n, 1), with initial weights from `seed`."""
    with _drawing(seed):
        return nn.Linear(2 * SCALARS, 1)


@contextmanager
def _drawing(seed: Sequence[int]) -> Iterator[None]:
    """Seed torch's global generator, the only one of its initialisers, and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        yield


class Learner:
    """A party's bottom with its optimisers; `also`: further parameters, for Adam."""

    def __init__(self, bottom: Bottom, descent: Descent, also: Iterable[nn.Parameter]) -> None:
        self.bottom = bottom
        self._l2 = descent.l2
        self._ftrl = Ftrl(bottom.wide_part, descent.ftrl)
        deep = [*bottom.deep_part, *also]
        self._adam = torch.optim.Adam(deep, lr=descent.learning_rate, eps=descent.adam_epsilon)

    def learn(self, outputs: Tensor, gradients: Tensor) -> None:
        """Do a step with the `gradients` in `outputs`, of the same shape: (n, 2), or () for a loss."""
        self._adam.zero_grad()
        for weights in self.bottom.wide_part:
            weights.grad = None
        penalty = self._l2 / 2 * self.bottom.deep.square().sum()
        torch.autograd.backward([outputs, penalty], [gradients, torch.ones(())])
        self._ftrl.step()
        self._adam.step()
