"""RPFL as a whole: a budget divided among clients, noised rows, a loss with a radius, and a server.

The formulas are in `mechanisms.servers.rpfl`. Line 19 of the printed algorithm has no regulariser; a `weight`
of 0 gives this "literal" variant. With a weight above 0 the loss includes rho_i G(theta), as in the problem
DRPri-W, scaled so that the clients' mean radius becomes `weight`. Radii of full size would make theta = 0
optimal; `figures` reports the factor.

A client draws its noise once (`Rpfl`), or in each round as in Algorithm 1 (`RedrawnRpfl`). Algorithm 1 also
allocates the budget in each round. Neither the round nor the mean losses that clients send change the optimum
(`rpfl.allocate`), so a mechanism allocates it once. `mechanisms.servers.rpfl` says what is proved of its
privacy, what is refuted, and what is open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch

from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import Event, Gaussian
from mechanisms.arguments import at_least_zero, count, positive
from mechanisms.mechanism import Guarantee
from mechanisms.noise.clipping import Floats, clip_rows
from mechanisms.noise.randomness import Words
from mechanisms.servers import rpfl
from mechanisms.servers.robust_server import Robust
from mechanisms.servers.row_noise import RECORD_FEATURES, NoisyRows
from mechanisms.servers.server import FedAvg, Federation, Labels, State, Step, Upload

MEAN = "mean"
FIRST_STEP = "epsilon of one step from zero, exact, T = 1"
"""The name of the figure for `rpfl.first_step_epsilon`, the largest of all clients."""


# -- the regulariser -------------------------------------------------------------------------------------


class Regulariser(Protocol):
    """Takes the step for the term rho G(theta), after the step for the loss."""

    def step(self, weights: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
        """Returns `weights` (k, d) after a step; `thresholds` (k,) are the learning rate times rho."""


@dataclass(frozen=True, slots=True)
class LinearNorm:
    """The proximal step for G = ||theta||_2 of the first `features` parameters."""

    features: int

    def step(self, weights: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
        """See Regulariser."""
        shrunk = rpfl.proximal_norm(weights[:, : self.features], thresholds)
        return torch.cat([shrunk, weights[:, self.features :]], dim=1)


@dataclass(frozen=True, slots=True)
class SpectralProduct:
    """The gradient step for G = sqrt(2) times the product of the layers' spectral norms.

    G is smooth wherever the largest singular value of each layer is simple. widths: those of linear layers
    with biases, from input to output.
    """

    widths: tuple[int, ...]

    def step(self, weights: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
        """See Regulariser. A client whose weights are no longer finite keeps them."""
        finite = torch.isfinite(weights).all(dim=1)
        with torch.enable_grad():
            leaf = weights[finite].requires_grad_()
            bounds = rpfl.network_lipschitz(self._matrices(leaf))  # (k,)
            (gradient,) = torch.autograd.grad(bounds.sum(), leaf)
        stepped = weights.clone()
        stepped[finite] -= thresholds[finite, None] * gradient
        return stepped

    def _matrices(self, weights: torch.Tensor) -> list[torch.Tensor]:
        """Returns the matrix (k, out, in) of each layer, of k networks with `weights` (k, d)."""
        found, begin = [], 0
        for inputs, outputs in pairwise(self.widths):
            end = begin + inputs * outputs
            found.append(weights[:, begin:end].view(len(weights), outputs, inputs))
            begin = end + outputs
        return found


def regulariser_of(widths: Sequence[int], sizes: Sequence[int]) -> Regulariser:
    """Returns the regulariser of a model of linear layers with biases and ReLU between them.

    `widths` (features, 1): a model with one logit. Raises ValueError if the tensors' `sizes` do not match.
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
class Theorem:
    """The parameters of Theorem 1's noise, besides epsilon, delta and rows. `constant`: c, which is open."""

    lipschitz: float
    steps: int
    convexity: float
    constant: float

    def noise_std(self, epsilon: float, delta: float, rows: int) -> float:
        """The noise std of a client with `rows` rows."""
        return rpfl.theorem_noise_std(
            epsilon, delta, self.lipschitz, self.steps, rows, self.convexity, self.constant
        )


@dataclass(frozen=True, slots=True)
class Rpfl(NoisyRows):
    """RPFL; `rpfl_of` makes one. radii: (clients,), rho_i of each client in the unit of a row's L2 norm."""

    radii: tuple[float, ...]
    weight: float
    regulariser: Regulariser
    server: FedAvg | Robust
    theorem: Theorem

    protects = (
        "every record's features are noised once, by their owner, who sends models learned from them: "
        "epsilon is what publishing the noised rows would cost, an upper bound for the models; labels are "
        "used as they are"
    )

    @property
    def figures(self) -> Mapping[str, float]:
        """Noise, budget and radii; of logistic regression also the exact cost of one step."""
        return {
            "least noise std on rows": min(self.noise_stds),
            "largest noise std on rows": max(self.noise_stds),
            "least epsilon dealt": min(self.epsilons),
            "mean radius": self._mean_radius,
            "factor on the radii": self.weight / self._mean_radius,
            **({FIRST_STEP: self._first_step} if isinstance(self.regulariser, LinearNorm) else {}),
        }

    @property
    def _first_step(self) -> float:
        """The largest exact epsilon of a client after one step, with Theorem 1's noise for T = 1."""
        formula = replace(self.theorem, steps=1)
        return max(
            rpfl.first_step_epsilon(
                formula.noise_std(epsilon, self.delta, rows), rows, self.delta, self.row_norm
            )
            for epsilon, rows in zip(self.epsilons, self.federation.rows, strict=True)
        )

    @property
    def withstands(self) -> int | None:
        """The number of lying clients that its aggregator withstands."""
        return self.server.withstands

    @property
    def _mean_radius(self) -> float:
        """The mean radius, weighted by rows as in the objective."""
        return float(np.average(self.radii, weights=self.federation.rows))

    def after_batch(self, weights: torch.Tensor, start: torch.Tensor, step: Step) -> torch.Tensor:
        """Takes the regulariser's step for each client, with the client's own radius."""
        if self.weight == 0:
            return weights
        own = np.array(self.radii)[step.clients] * (self.weight / self._mean_radius)
        return self.regulariser.step(weights, torch.as_tensor(step.learning_rate * own, dtype=weights.dtype))

    def start(self) -> State:
        """What its aggregator remembers."""
        return self.server.start()

    def combine(
        self, model: Floats, state: State, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, State]:
        """Returns the mean weighted by rows, or the robust aggregate of the uploads."""
        return self.server.combine(model, state, uploads, words)


@dataclass(frozen=True, slots=True)
class RedrawnRpfl(Rpfl):
    """RPFL whose clients noise their rows anew in every round, Algorithm 1, lines 15 to 17."""

    protects = (
        "every record's features are noised by their owner in each round, who sends models learned from "
        "them: epsilon is what publishing the noised rows of all rounds would cost, an upper bound for the "
        "models; labels are used as they are"
    )

    @property
    def guarantee(self) -> Guarantee:
        """The cost of K releases of the rows with the least noise; stated is Theorem 2's epsilon, c0 = 1."""
        rounds = self.federation.rounds
        epsilon = gaussian.epsilon(self.delta, self.least_multiplier / math.sqrt(rounds))
        return Guarantee(RECORD_FEATURES, epsilon, self.delta, math.sqrt(rounds) * max(self.epsilons))

    def events(self, rounds: int) -> tuple[Event, ...]:
        """A release of the rows in each round."""
        return count("rounds", rounds) * (Gaussian(self.least_multiplier),)

    def examples(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """Returns the rows clipped to `row_norm`, with their labels."""
        return clip_rows(x, self.row_norm), y

    def examples_of_round(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """Returns the rows with new noise, and their labels."""
        return NoisyRows.examples(self, x, y, client, words)


DRAWS: Mapping[str, type[Rpfl]] = {"once": Rpfl, "each-round": RedrawnRpfl}
"""The mechanisms by when a client draws its noise."""


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
    draw: str = "once",
) -> Rpfl:
    """Builds RPFL for a federation. Raises ValueError or TypeError for values that are not allowed.

    epsilon: the mean budget of a client, E = epsilon * clients; caps: b_i, given to the clients in turn;
    theorem: the fields of `Theorem`; gamma: 1 less the confidence of the radius; weight: see the module;
    aggregator: "mean", or one of mechanisms.servers.robust_server with its parameters; draw: "once", or
    "each-round".
    """
    if draw not in DRAWS:
        raise ValueError(f"draw = {draw!r} is not allowed: {', '.join(map(repr, DRAWS))}")
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
    return DRAWS[draw](
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
        theorem=formula,
    )
