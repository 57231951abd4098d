"""Optimisers for local training, made afresh each round.

They compute what torch.optim's do. Those load torch's compiler with their first step, which takes
seconds and a hundred megabytes in every node, and spend more on bookkeeping than a small model's
step takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn

from node.config import TrainSection

_SECOND_MOMENT_DECAY = 0.999
_EPSILON = 1e-8


class Optimizer(Protocol):
    """Moves parameters by their gradients, in place."""

    def step(self) -> None:
        """Move every parameter that has a gradient, and drop the gradients."""


def make_optimizer(parameters: Sequence[nn.Parameter], section: TrainSection) -> Optimizer:
    """The optimiser that train.optimizer names, without any state of earlier rounds."""
    match section.optimizer:
        case "sgd":
            return Sgd(parameters, section)
        case "adam":
            return Adam(parameters, section, decoupled=False)
        case "adamw":
            return Adam(parameters, section, decoupled=True)
    raise ValueError(f"optimizer {section.optimizer!r}")


class Sgd:
    """Gradient descent with momentum: v <- momentum v + g, x <- x - rate v (Polyak 1964)."""

    def __init__(self, parameters: Sequence[nn.Parameter], section: TrainSection) -> None:
        self._rate, self._momentum = section.learning_rate, section.momentum
        self._decay = section.weight_decay
        self._parameters = parameters
        self._velocities = [torch.zeros_like(value) for value in parameters if self._momentum]

    def step(self) -> None:
        """Move every parameter that has a gradient, and drop the gradients."""
        with torch.no_grad():
            for place, parameter in enumerate(self._parameters):
                if parameter.grad is not None:
                    self._move(place, parameter, _decayed(parameter.grad, parameter, self._decay))
                    parameter.grad = None

    def _move(self, place: int, parameter: nn.Parameter, gradient: torch.Tensor) -> None:
        """One parameter's step; `place` is its number."""
        if self._momentum:
            gradient = self._velocities[place].mul_(self._momentum).add_(gradient)
        parameter.add_(gradient, alpha=-self._rate)


class Adam:
    """Adam (Kingma & Ba 2015, Algorithm 1), beta1 being train.momentum.

    `decoupled` shrinks the weights apart from the gradient: AdamW (Loshchilov & Hutter 2019,
    Algorithm 2).
    """

    def __init__(self, parameters: Sequence[nn.Parameter], section: TrainSection, *, decoupled: bool) -> None:
        self._rate, self._momentum = section.learning_rate, section.momentum
        self._decay, self._decoupled = section.weight_decay, decoupled
        self._parameters = parameters
        self._first = [torch.zeros_like(value) for value in parameters]
        self._second = [torch.zeros_like(value) for value in parameters]
        self._steps = 0

    def step(self) -> None:
        """Move every parameter that has a gradient, and drop the gradients."""
        self._steps += 1
        with torch.no_grad():
            for place, parameter in enumerate(self._parameters):
                if parameter.grad is not None:
                    self._move(place, parameter, parameter.grad)
                    parameter.grad = None

    def _move(self, place: int, parameter: nn.Parameter, gradient: torch.Tensor) -> None:
        """One parameter's step; `place` is its number."""
        if self._decoupled:
            parameter.mul_(1 - self._rate * self._decay)
        else:
            gradient = _decayed(gradient, parameter, self._decay)
        first = self._first[place].lerp_(gradient, 1 - self._momentum)
        second = self._second[place].mul_(_SECOND_MOMENT_DECAY)
        second.addcmul_(gradient, gradient, value=1 - _SECOND_MOMENT_DECAY)
        spread = second.sqrt().div_(math.sqrt(1 - _SECOND_MOMENT_DECAY**self._steps)).add_(_EPSILON)
        parameter.addcdiv_(first, spread, value=-self._rate / (1 - self._momentum**self._steps))


def _decayed(gradient: torch.Tensor, parameter: nn.Parameter, decay: float) -> torch.Tensor:
    """The gradient of the loss plus decay / 2 times the parameter's squared norm."""
    return gradient.add(parameter, alpha=decay) if decay else gradient
