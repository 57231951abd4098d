"""Torch's optimisers by their names in a task file, or any other by import path; a new one each round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from node.system.errors import ConfigError, shown
from node.task.import_path import import_class, told
from node.task.sections import TrainSection

_SECOND_MOMENT_DECAY = 0.999
_EPS = 1e-8


class Stepping(Protocol):
    """The methods of an optimiser that training uses; torch.optim.Optimizer has them."""

    def step(self) -> object:
        """Updates the parameters from their gradients."""

    def zero_grad(self) -> None:
        """Clears the gradients."""


class _FastStart:
    """What both optimisers below share: they call torch's own functions, so the results are bit-identical.

    The first object of a class in torch.optim imports torch's compiler, which takes more than a second per
    peer, and is not needed.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], learning_rate: float, momentum: float, weight_decay: float
    ) -> None:
        self._parameters = list(parameters)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._weight_decay = weight_decay

    def _moved(self) -> tuple[list[int], list[torch.Tensor]]:
        """Returns the places of the parameters that have a gradient, and the gradients."""
        moved = [place for place, value in enumerate(self._parameters) if value.grad is not None]
        return moved, [gradient for value in self._parameters if (gradient := value.grad) is not None]

    def zero_grad(self) -> None:
        """Clears the gradients of all parameters."""
        for value in self._parameters:
            value.grad = None


class GradientDescent(_FastStart):
    """`torch.optim.SGD(parameters, learning_rate, momentum, weight_decay=weight_decay)`."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], learning_rate: float, momentum: float, weight_decay: float
    ) -> None:
        super().__init__(parameters, learning_rate, momentum, weight_decay)
        self._velocities: list[torch.Tensor | None] = [None] * len(self._parameters)

    def step(self) -> None:
        """Updates each parameter that has a gradient."""
        moved, gradients = self._moved()
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


class AdaptiveMoments(_FastStart):
    """`torch.optim.Adam(parameters, learning_rate, (momentum, 0.999), weight_decay=weight_decay)`, or AdamW.

    `decoupled`: whether it is AdamW.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        learning_rate: float,
        momentum: float,
        weight_decay: float,
        *,
        decoupled: bool,
    ) -> None:
        super().__init__(parameters, learning_rate, momentum, weight_decay)
        self._decoupled = decoupled
        self._steps = [torch.tensor(0.0) for _ in self._parameters]
        self._means, self._squares = (
            [torch.zeros_like(value, memory_format=torch.preserve_format) for value in self._parameters]
            for _ in range(2)
        )

    def step(self) -> None:
        """Updates each parameter that has a gradient. Raises RuntimeError for a sparse one."""
        moved, gradients = self._moved()
        if any(gradient.is_sparse for gradient in gradients):
            raise RuntimeError("Adam does not support sparse gradients")
        with torch.no_grad():
            adam(
                [self._parameters[place] for place in moved],
                gradients,
                [self._means[place] for place in moved],
                [self._squares[place] for place in moved],
                [],
                [self._steps[place] for place in moved],
                has_complex=any(gradient.is_complex() for gradient in gradients),
                decoupled_weight_decay=self._decoupled,
                amsgrad=False,
                beta1=self._momentum,
                beta2=_SECOND_MOMENT_DECAY,
                lr=self._learning_rate,
                weight_decay=self._weight_decay,
                eps=_EPS,
                maximize=False,
            )


def make_optimizer(
    parameters: Sequence[nn.Parameter], section: TrainSection, learning_rate: float
) -> Stepping:
    """Returns the optimiser that train.optimizer names, without state from earlier rounds.

    For Adam and AdamW train.momentum is beta1. A class by import path is called as
    `Class(parameters, lr=learning_rate, **train.optimizer_args)`.
    """
    arguments = dict(section.optimizer_args)
    if ":" in section.optimizer:
        made: Stepping = import_class(section.optimizer)(parameters, lr=learning_rate, **arguments)
        return made
    decay = section.weight_decay
    betas = (section.momentum, _SECOND_MOMENT_DECAY)
    match section.optimizer:
        case "sgd" if not arguments:
            return GradientDescent(parameters, learning_rate, section.momentum, decay)
        case "adam" | "adamw" if not arguments:
            decoupled = section.optimizer == "adamw"
            return AdaptiveMoments(parameters, learning_rate, section.momentum, decay, decoupled=decoupled)
        case "sgd":
            return SGD(parameters, learning_rate, section.momentum, weight_decay=decay, **arguments)
        case "adam":
            return Adam(parameters, learning_rate, betas, weight_decay=decay, **arguments)
        case "adamw":
            return AdamW(parameters, learning_rate, betas, weight_decay=decay, **arguments)
    raise ValueError(f"optimizer {section.optimizer!r}")


def check_optimizer(section: TrainSection) -> None:
    """Raises ConfigError if a trial step of the optimiser, on a small parameter, fails.

    Built-in optimisers without arguments always work and are not loaded before they are needed.
    """
    if ":" not in section.optimizer and not section.optimizer_args:
        return
    if ":" in section.optimizer and not issubclass(import_class(section.optimizer), Optimizer):
        raise ConfigError(
            f"train.optimizer = {shown(section.optimizer)} is refused; allowed: a torch.optim.Optimizer"
        )
    tried = nn.Parameter(torch.zeros(2, 2))
    tried.grad = torch.zeros(2, 2)
    try:
        make_optimizer([tried], section, section.learning_rate).step()
    except Exception as error:  # a user's optimiser may raise anything
        raise ConfigError(
            f"train.optimizer_args = {shown(dict(section.optimizer_args))} do not suit train.optimizer = "
            f"{shown(section.optimizer)}: {told(error)}"
        ) from error
