"""RPFL as a whole: a budget dealt to the clients, their rows noised once, a loss with a radius, and a server.

The formulas are in `mechanisms.servers.rpfl`. The algorithm as printed has no regulariser in its line 19: a
`weight` of 0 is that, the "literal" one. With a weight the loss has rho_i G(theta) as in the problem DRPri-W,
scaled so that the clients' mean radius counts `weight`: at their full size radii make theta = 0 optimal
(`figures` says by what they were multiplied). Privacy: see `mechanisms.servers.row_noise`; the stated epsilon
is Theorem 1's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch

from mechanisms.arguments import at_least_zero, count, positive
from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import Words
from mechanisms.servers import rpfl
from mechanisms.servers.robust_server import Robust
from mechanisms.servers.row_noise import NoisyRows
from mechanisms.servers.server import FedAvg, Federation, Step, among

MEAN = "mean"


# -- the regulariser -------------------------------------------------------------------------------------


class Regulariser(Protocol):
    """A step for the term rho G(theta), beside the step for the loss."""

    def step(self, weights: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
        """`weights` (k, d) after a step, with `thresholds` (k,) the learning rate times rho."""


@dataclass(frozen=True, slots=True)
class LinearNorm:
    """G = ||theta||_2 of the first `features` parameters, by its proximal step."""

    features: int

    def step(self, weights: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
        """See Regulariser."""
        shrunk = rpfl.proximal_norm(weights[:, : self.features], thresholds)
        return torch.cat([shrunk, weights[:, self.features :]], dim=1)


@dataclass(frozen=True, slots=True)
class SpectralProduct:
    """G = sqrt(2) times the product of the layers' spectral norms, by its gradient.

    That is smooth wherever the largest singular value of each layer is a single one. widths: from input to
    output, of linear layers with biases.
    """

    widths: tuple[int, ...]

    def step(self, weights: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
        """See Regulariser. A client whose weights have left the finite numbers keeps them."""
        finite = torch.isfinite(weights).all(dim=1)
        with torch.enable_grad():
            leaf = weights[finite].requires_grad_()
            bounds = rpfl.network_lipschitz(self._matrices(leaf))  # (k,)
            (gradient,) = torch.autograd.grad(bounds.sum(), leaf)
        stepped = weights.clone()
        stepped[finite] -= thresholds[finite, None] * gradient
        return stepped

    def _matrices(self, weights: torch.Tensor) -> list[torch.Tensor]:
        """(k, out, in) of each layer."""
        found, begin = [], 0
        for inputs, outputs in pairwise(self.widths):
            end = begin + inputs * outputs
            found.append(weights[:, begin:end].view(len(weights), outputs, inputs))
            begin = end + outputs
        return found


def regulariser_of(widths: Sequence[int], sizes: Sequence[int]) -> Regulariser:
    """For a model of linear layers with biases and ReLU between; `widths` (features, 1) is one logit.

    ValueError where the model's tensors have other `sizes`.
    """
    own = tuple(count("widths", width) for width in widths)
    expected = tuple(size for inputs, outputs in pairwise(own) for size in (inputs * outputs, outputs))
    if expected != tuple(sizes):
        raise ValueError(
            f"widths = {list(own)} make tensors of {list(expected)} parameters; allowed: those of the model, "
            f"{list(sizes)}"
        )
    return LinearNorm(own[0]) if own[1:] == (1,) else SpectralProduct(own)


# -- the mechanism ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rpfl(NoisyRows):
    """Made by `rpfl_of`. radii: rho_i of each client (clients,), in the units of a row's L2 norm."""

    radii: tuple[float, ...]
    weight: float
    regulariser: Regulariser
    server: FedAvg | Robust

    @property
    def figures(self) -> Mapping[str, float]:
        """Noise, budget and radii."""
        return {
            "least noise std on rows": min(self.noise_stds),
            "least epsilon dealt": min(self.epsilons),
            "mean radius": self._mean_radius,
            "factor on the radii": self.weight / self._mean_radius,
        }

    @property
    def withstands(self) -> int | None:
        """As its aggregator."""
        return self.server.withstands

    @property
    def _mean_radius(self) -> float:
        """By rows, as the objective weighs clients."""
        return float(np.average(self.radii, weights=self.federation.rows))

    def after_batch(self, weights: torch.Tensor, start: torch.Tensor, step: Step) -> torch.Tensor:
        """The regulariser's step, each client's by its own radius."""
        if self.weight == 0:
            return weights
        own = np.array(self.radii)[step.clients] * (self.weight / self._mean_radius)
        return self.regulariser.step(weights, torch.as_tensor(step.learning_rate * own, dtype=weights.dtype))

    def combine(self, model: Floats, uploads: Sequence[Floats], rows: Sequence[int], words: Words) -> Floats:
        """The mean by rows, or what the robust aggregator makes of the uploads."""
        return self.server.combine(model, uploads, rows, words)


@dataclass(frozen=True, slots=True)
class Theorem:
    """What Theorem 1's noise is made of, beside epsilon, delta and the rows; its constant c is left open."""

    lipschitz: float
    steps: int
    convexity: float
    constant: float

    def noise_std(self, epsilon: float, delta: float, rows: int) -> float:
        """Of a client with so many rows."""
        return rpfl.theorem_noise_std(
            epsilon, delta, self.lipschitz, self.steps, rows, self.convexity, self.constant
        )


def rpfl_of(
    federation: Federation,
    clients_per_round: int,
    widths: Sequence[int],
    epsilon: float,
    caps: Sequence[float],
    delta: float,
    row_norm: float,
    theorem: Mapping[str, Any],
    gamma: float,
    weight: float,
    aggregator: str = MEAN,
    parameters: Mapping[str, object] | None = None,
) -> Rpfl:
    """RPFL for a federation. ValueError or TypeError for what can not be.

    epsilon: the budget for a client in the mean, E = epsilon * clients; caps: b_i, dealt to the clients in
    turn; theorem: the fields of `Theorem`; gamma: 1 less the confidence of the radius; weight: see the
    module; aggregator: "mean", or one of mechanisms.servers.robust_server with its parameters.
    """
    among("clients_per_round", clients_per_round, federation)
    features = regulariser_of(widths, federation.sizes), count("widths", widths[0])
    formula, bounds = Theorem(**theorem), [caps[client % len(caps)] for client in range(federation.clients)]
    at_one = [formula.noise_std(1.0, delta, rows) for rows in federation.rows]
    costs = [rows * std for rows, std in zip(federation.rows, at_one, strict=True)]  # d_i C_i / sqrt(p)
    epsilons = rpfl.allocate(costs, bounds, positive("epsilon", epsilon) * federation.clients)
    stds = [std / own for std, own in zip(at_one, epsilons, strict=True)]
    radii = [
        rpfl.radius(std, features[1], rows, gamma, row_norm)
        for std, rows in zip(stds, federation.rows, strict=True)
    ]
    server: FedAvg | Robust = FedAvg(federation, clients_per_round)
    if aggregator != MEAN:
        server = Robust(federation, clients_per_round, aggregator, parameters or {})
    return Rpfl(
        federation=federation,
        clients_per_round=clients_per_round,
        name="rpfl",
        epsilons=tuple(epsilons.tolist()),
        noise_stds=tuple(stds),
        row_norm=row_norm,
        delta=delta,
        radii=tuple(radii),
        weight=at_least_zero("weight", weight),
        regulariser=features[0],
        server=server,
    )
