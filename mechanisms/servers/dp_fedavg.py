"""DP-FedAvg (McMahan, Ramage, Talwar & Zhang 2018, arXiv 1710.06963, Algorithm 1).

Unit of privacy: one user's whole data, over the run. Neighbours: add or remove a user; norm: L2 of the user's
clipped update. Each round samples every user independently with probability q (Poisson). A client clips after
every batch: theta = theta0 + clip(theta - theta0). It clips the whole update to S (`Flat`), or each layer to
its S_j, S^2 = sum S_j^2 (`Layers`). To the model the server adds an estimate of the mean update
(mechanisms.servers.estimators) and noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from mechanisms.accounting.ledger import (
    sampled_noise_multiplier,
)
from mechanisms.arguments import count, positive
from mechanisms.noise.clipping import Floats, clip_l2, clip_layers, layers_radius
from mechanisms.noise.noise import add_units, grid
from mechanisms.noise.randomness import Words
from mechanisms.servers.estimators import (
    ClippedDenominator,
    Doubles,
    Estimator,
    FixedDenominator,
    total_weight,
    weight_of,
)
from mechanisms.servers.server import (
    Federation,
    PoissonSample,
    State,
    Step,
    Upload,
    pair_with_rows,
)

ESTIMATORS: Mapping[str, Callable[[float], Estimator]] = {
    "fixed": FixedDenominator,
    "clipped": ClippedDenominator,
}


# -- clips -----------------------------------------------------------------------------------------------


class Clip(Protocol):
    """The bound on a user's update."""

    @property
    def radius(self) -> float:
        """S: the L2 norm that no clipped update exceeds."""

    def batch(self, weights: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Moves each row of `weights` (k, d) to within S of `start` (d,), up to rounding."""

    def final(self, update: Floats) -> Floats:
        """Returns `update` (d,) clipped to the radius exactly, as rounding may leave it longer in `batch`."""


@dataclass(frozen=True, slots=True)
class Flat:
    """Clips the whole update, all tensors together: Delta min(1, S / ||Delta||)."""

    radius: float

    def __post_init__(self) -> None:
        positive("radius", self.radius)

    def batch(self, weights: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """See Clip.batch."""
        return _move_within(weights, start, self.radius)

    def final(self, update: Floats) -> Floats:
        """See Clip.final."""
        return clip_l2(update, self.radius)


@dataclass(frozen=True, slots=True)
class Layers:
    """Clips each of consecutive layers of `sizes` parameters to its own S_j in `radii`."""

    sizes: tuple[int, ...]
    radii: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.radii):
            raise ValueError(
                f"radii has {len(self.radii)} values for {len(self.sizes)} layers; allowed: one a layer"
            )
        for size in self.sizes:
            count("sizes", size)
        layers_radius(self.radii)

    @classmethod
    def equal(cls, sizes: tuple[int, ...], radius: float) -> Layers:
        """Returns clips with S_j = S / sqrt(layers), the paper's choice; S is `radius`."""
        layers = max(1, len(sizes))
        return cls(sizes, (positive("radius", radius) / math.sqrt(layers),) * len(sizes))

    @property
    def radius(self) -> float:
        """S = sqrt(sum S_j^2)."""
        return layers_radius(self.radii)

    def batch(self, weights: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """See Clip.batch."""
        own, origins = (torch.split(all_of, list(self.sizes), -1) for all_of in (weights, start))
        layers = zip(own, origins, self.radii, strict=True)
        return torch.cat([_move_within(layer, origin, radius) for layer, origin, radius in layers], 1)

    def final(self, update: Floats) -> Floats:
        """See Clip.final."""
        return clip_layers(update, self.sizes, self.radii)


def _move_within(weights: torch.Tensor, start: torch.Tensor, radius: float) -> torch.Tensor:
    """Returns `weights` (k, d) with each row within `radius` of `start` (d,), up to rounding.

    It computes norms in the weights' own precision: float64 takes twice as long, and `final` is exact anyway.
    """
    norms = torch.linalg.vector_norm(weights - start, dim=1, keepdim=True)  # (k, 1)
    if bool((norms <= radius).all()):
        return weights
    factors = (radius / norms).clamp(max=1.0)  # radius / 0 is infinite, and clamped
    return torch.lerp(start.expand_as(weights), weights, factors)


# -- the algorithm -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DPFedAvg(PoissonSample):
    """Algorithm 1: a user uploads its clipped update, and the server releases only the noised model.

    weight_cap: w_hat; a user with at least this many rows has weight 1.
    """

    clip: Clip
    estimator: Estimator
    weight_cap: float

    outside = "the number of users, and the sum of their weights, which are treated as public"

    name = "dp-fedavg"

    def __post_init__(self) -> None:
        PoissonSample.__post_init__(self)
        positive("weight_cap", self.weight_cap)
        if isinstance(self.clip, Layers) and sum(self.clip.sizes) != self.federation.dimension:
            raise ValueError(
                f"clip is for {sum(self.clip.sizes)} parameters; allowed: {self.federation.dimension}, as in "
                "the federation"
            )

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        if self.guarantee is None:
            return "updates are clipped, but nothing is noised: no epsilon"
        return (
            "what the models of all rounds can tell anybody about whether any one user took part is bounded "
            "by epsilon; the server itself sees each user's clipped update, and who was sampled"
        )

    @property
    def noise_std(self) -> float:
        """sigma: the std of the noise that the server adds to each coordinate of the model."""
        return self.estimator.noise_std(
            self.noise_multiplier, self.sampling_probability, self.clip.radius, self.federation.dimension
        )

    @property
    def figures(self) -> Mapping[str, float]:
        """The noise multiplier, the clip radius and the noise std."""
        return {
            "noise multiplier": self.noise_multiplier,
            "clip radius": self.clip.radius,
            "noise std": self.noise_std,
        }

    def after_batch(self, weights: torch.Tensor, start: torch.Tensor, step: Step) -> torch.Tensor:
        """theta0 + clip(theta - theta0)."""
        return self.clip.batch(weights, start)

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        """Returns the update, clipped once more, as rounding may have left it above the bound."""
        return self.clip.final(weights - start)

    def combine(
        self, model: Floats, state: State, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, State]:
        """theta + estimate + N(0, sigma^2), also for an empty sample, as nobody may see that it is empty."""
        std, d = self.noise_std, self.federation.dimension
        spacing = spacing_of(std, self.clip.radius)
        updates = [(update, weight_of(own, self.weight_cap)) for update, own in pair_uploads(uploads, d)]
        units = self.estimator.estimate(updates, d, self.sampling_probability, spacing)
        return add_noised_units(model, units, std, spacing, words), state


def dp_fedavg(
    federation: Federation,
    sampling_probability: float,
    noise_multiplier: float,
    clip: float,
    per_layer: bool,
    estimator: str,
    weight_cap: float,
    delta: float,
) -> DPFedAvg:
    """Builds the algorithm from plain values.

    clip: S, which `per_layer` divides equally among the tensors. estimator: "fixed" for f_f, or "clipped" for
    f_c with W_min = W, the weight of all users. Raises ValueError or TypeError for values not allowed.
    """
    radius, weight = positive("clip", clip), total_weight(federation.rows, weight_cap)
    if not isinstance(per_layer, bool):
        raise TypeError(f"per_layer = {per_layer!r} is not allowed: true or false")
    if estimator not in list(ESTIMATORS):
        raise ValueError(f"estimator = {estimator!r} is not allowed: {', '.join(map(repr, ESTIMATORS))}")
    bound = Layers.equal(federation.sizes, radius) if per_layer else Flat(radius)
    divided = ESTIMATORS[estimator](weight)
    return DPFedAvg(federation, sampling_probability, noise_multiplier, delta, bound, divided, weight_cap)


def dp_fedavg_within(
    federation: Federation,
    epsilon: float,
    sampling_probability: float,
    clip: float,
    per_layer: bool,
    estimator: str,
    weight_cap: float,
    delta: float,
) -> DPFedAvg:
    """Builds the algorithm with a z for which all rounds together are (epsilon, delta)-private.

    z is `sampled_noise_multiplier`, at most 0.4 % above the least one. The other arguments are those of
    `dp_fedavg`. Raises ValueError or TypeError for values not allowed.
    """
    noise_multiplier = sampled_noise_multiplier(epsilon, delta, sampling_probability, federation.rounds)
    return dp_fedavg(
        federation=federation,
        sampling_probability=sampling_probability,
        noise_multiplier=noise_multiplier,
        clip=clip,
        per_layer=per_layer,
        estimator=estimator,
        weight_cap=weight_cap,
        delta=delta,
    )


# -- parts -------------------------------------------------------------------------------------------------


def pair_uploads(uploads: Sequence[Upload], d: int) -> list[tuple[Floats, int]]:
    """Pairs the vector (d,) of each upload with its rows. Raises ValueError for another shape."""
    if not len(uploads):
        return []
    pairs = pair_with_rows([sent.vector for sent in uploads], [sent.rows for sent in uploads])
    if pairs[0][0].shape != (d,):
        raise ValueError(
            f"uploads of shape {pairs[0][0].shape} are not allowed: ({d},), as in the federation"
        )
    return pairs


def spacing_of(noise_std: float, radius: float) -> float:
    """The grid's step that `noise_std` alone requires, as doubles hold the sums; very fine without noise."""
    return grid(noise_std or radius * 2.0**-20, 0.0)


def add_noised_units(model: Floats, units: Doubles, noise_std: float, spacing: float, words: Words) -> Floats:
    """Returns `model` (d,) plus `units` (d,) steps of `spacing`, with noise if any, in float32.

    It adds the noise to `units` in place.
    """
    if noise_std > 0:
        add_units(units, noise_std, spacing, words)
    result: Floats = (model.astype(np.float64) + units * spacing).astype(np.float32)
    return result
