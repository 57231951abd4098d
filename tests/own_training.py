"""Losses, schedules and optimisers as a user may write them, for tests to name by import path."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

NUMBER = 3


def focal(outputs: torch.Tensor, targets: torch.Tensor, gamma: float = 2.0) -> torch.Tensor:
    """Cross-entropy that weighs rows less the better they are predicted."""
    each = functional.cross_entropy(outputs, targets, reduction="none")
    return ((1 - torch.exp(-each)) ** gamma * each).mean()


class LogCosh(nn.Module):
    """A loss between the squared and the absolute error."""

    def __init__(self, width: float = 1.0) -> None:
        super().__init__()
        self.width = width

    def forward(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.cosh((outputs - targets) / self.width)).mean()


def each_row(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns no mean."""
    return functional.cross_entropy(outputs, targets, reduction="none")


def a_float(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns a float, which has no gradient."""
    return functional.cross_entropy(outputs, targets).item()


def out_of_order(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Fails."""
    raise RuntimeError("out of order")


def halving(round: int, rounds: int, by: float = 2.0) -> float:
    return by ** -(round - 1)


def negative(round: int, rounds: int) -> float:
    return -0.5 if round == rounds else 1.0


def wordy(round: int, rounds: int) -> str:
    return "half"


def late_fault(round: int, rounds: int) -> float:
    return float("nan") if round == 2 else 1.0


class Signs(torch.optim.Optimizer):
    """Every step moves every number by the learning rate."""

    def __init__(self, params, lr: float, shrink: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "shrink": shrink})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.mul_(1 - group["shrink"]).sub_(parameter.grad.sign(), alpha=group["lr"])


def weighted(outputs: torch.Tensor, targets: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Cross-entropy with a weight for each class."""
    return (functional.cross_entropy(outputs, targets, reduction="none") * weight[targets]).mean()


class Weighted:
    """The same as an object."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight

    def __call__(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return weighted(outputs, targets, self._weight)


class Balanced(nn.Module):
    """Has a tensor that it made itself."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.full((10,), 0.5))

    def forward(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return weighted(outputs, targets, self.weight)
