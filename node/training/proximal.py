"""The proximal term, which pulls a peer or a server's client towards the model from which it started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

AfterBatch = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class ProximalTerm:
    """A term of the loss of local training, and what follows each of its steps.

    proximal_mu: mu of the term (mu/2) ||w - w0||^2 in the loss, with w0 the start (Li et al. 2020,
    "Federated Optimization in Heterogeneous Networks", section 3.2).
    after_batch: maps, after every step, the weights (1, d) and the start (d,) to the next weights (1, d), as
    a server's mechanism requires (see `ServerMechanism`); None: they stay as they are.
    """

    proximal_mu: float
    after_batch: AfterBatch | None = None


class Held:
    """Applies a proximal term to `parameters`, whose values at construction are the start w0."""

    def __init__(self, proximal: ProximalTerm, parameters: Sequence[nn.Parameter]) -> None:
        self._proximal = proximal
        self._parameters = parameters
        self._start = _flat(parameters)  # (d,)
        self._starts = self._start.split([parameter.numel() for parameter in parameters])

    def pull(self) -> None:
        """Adds mu (w - w0) to the gradient."""
        if self._proximal.proximal_mu == 0:
            return
        with torch.no_grad():
            for parameter, start in zip(self._parameters, self._starts, strict=True):
                away = torch.sub(parameter, start.view_as(parameter))
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad.add_(away, alpha=self._proximal.proximal_mu)

    def settle(self) -> None:
        """Replaces the weights with the result of `after_batch`."""
        if self._proximal.after_batch is None:
            return
        weights = _flat(self._parameters)[None]  # (1, d)
        settled = self._proximal.after_batch(weights, self._start)
        if settled is weights:
            return
        parts = settled[0].split([parameter.numel() for parameter in self._parameters])
        with torch.no_grad():
            for parameter, part in zip(self._parameters, parts, strict=True):
                parameter.copy_(part.view_as(parameter))


def _flat(parameters: Sequence[nn.Parameter]) -> torch.Tensor:
    """Returns a copy of all parameters as one vector (d,)."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
