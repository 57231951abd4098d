"""The excess loss of a model over the least one: what theorems on convergence bound.

    original rows of honest clients ──▶ mean loss + weight decay ──▶ at the model, less at the optimum

The loss is that of the rows as their owners have them, before an attack or a mechanism changes them.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from node.training.trainer import shapes

Doubles = NDArray[np.float64]
_STEPS = 2000
_SLOPE = 1e-9
"""The search for the optimum ends at a gradient with no coordinate above this, or after so many steps."""


class Objective:
    """Mean cross-entropy of rows x (n, ...), labels y (n,), plus (weight_decay / 2) ||w||^2, in float64."""

    def __init__(self, model: nn.Module, x: NDArray, y: NDArray[np.int64], weight_decay: float) -> None:
        """`model` is copied."""
        self._model, self._weight_decay = deepcopy(model).double().eval(), weight_decay
        self._shapes = shapes(self._model, "*")
        self._x, self._y = torch.from_numpy(np.array(x, np.float64)), torch.from_numpy(np.array(y))

    def __call__(self, vector: NDArray[np.floating]) -> tuple[float, Doubles]:
        """The objective at `vector` (d,), and its gradient (d,)."""
        leaf = torch.from_numpy(np.array(vector, np.float64)).requires_grad_()
        parts = torch.split(leaf, [int(np.prod(shape)) for _, shape in self._shapes])
        named = {name: part.view(shape) for (name, shape), part in zip(self._shapes, parts, strict=True)}
        loss = functional.cross_entropy(functional_call(self._model, named, (self._x,)), self._y)
        loss = loss + self._weight_decay / 2 * leaf.square().sum()
        (gradient,) = torch.autograd.grad(loss, leaf)
        return float(loss.detach()), gradient.numpy()


def excess_loss(objective: Objective, vector: NDArray[np.floating]) -> float:
    """The objective at `vector` (d,) less the least that L-BFGS finds from there; for convex models."""
    here, _ = objective(vector)
    start = np.array(vector, np.float64)
    limits = {"maxiter": _STEPS, "maxfun": 2 * _STEPS, "gtol": _SLOPE, "ftol": 0.0}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=limits)
    return here - float(found.fun)
