"""Gradient descent by torch's own function, without the class around it.

The first object of a class of torch.optim loads torch's compiler: more than a second, for each peer, and
nothing is compiled here. So the default optimiser of a task does without the class; what it computes is the
same to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn
from torch.optim.sgd import sgd


class Stepping(Protocol):
    """What training asks of an optimiser: torch.optim.Optimizer has it."""

    def step(self) -> object:
        """Move the parameters by what their gradients say."""

    def zero_grad(self) -> None:
        """Forget the gradients."""


class GradientDescent:
    """`torch.optim.SGD(parameters, learning_rate, momentum, weight_decay=weight_decay)`, ready at once."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], learning_rate: float, momentum: float, weight_decay: float
    ) -> None:
        self._parameters = list(parameters)
        self._velocities: list[torch.Tensor | None] = [None] * len(self._parameters)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._weight_decay = weight_decay

    def step(self) -> None:
        """Move each parameter that has a gradient."""
        moved = [place for place, value in enumerate(self._parameters) if value.grad is not None]
        gradients = [gradient for value in self._parameters if (gradient := value.grad) is not None]
        velocities = [self._velocities[place] for place in moved]
        with torch.no_grad():
            sgd(
                [self._parameters[place] for place in moved],
                gradients,
                velocities,
                has_sparse_grad=any(gradient.is_sparse for gradient in gradients),
                weight_decay=self._weight_decay,
                momentum=self._momentum,
                lr=self._learning_rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )
        for place, velocity in zip(moved, velocities, strict=True):
            self._velocities[place] = velocity

    def zero_grad(self) -> None:
        """No parameter has a gradient any more."""
        for value in self._parameters:
            value.grad = None
