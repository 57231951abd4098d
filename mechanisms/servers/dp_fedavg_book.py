"""Replays a book's version of DP-FedAvg, which has no privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from mechanisms.accounting.ledger import Event, Gaussian, Ledger, Relation, Unit, privacy_spent
from mechanisms.arguments import count, positive, probability
from mechanisms.mechanism import Guarantee
from mechanisms.noise.clipping import Floats
from mechanisms.noise.noise import grid
from mechanisms.noise.randomness import Words
from mechanisms.servers.dp_fedavg import Flat, add_noised_units, pair_uploads
from mechanisms.servers.estimators import FixedDenominator
from mechanisms.servers.server import FixedSample, State, Step, Upload

ZEROED_USER = Unit(
    "one user's whole data, over the run, its updates set to zero where it is removed",
    Relation.ADD_REMOVE,
    "L2",
)


@dataclass(frozen=True, slots=True)
class BookDPFedAvg(FixedSample):
    """The code of chapter 15.2 of "Practicing Federated Learning".

    It never reads the algorithm's settings q and W. It samples `clients_per_round` without replacement and
    clips each update to `clip_radius` (C) after every batch. To the model it adds `scale` (its lambda) times
    the sum of the updates, and noise of `noise_std` in each coordinate, whatever C is. So z is
    noise_std / (scale C): 2e-6 with its sigma = 0.001, lambda = 0.5 and C = 1000.

    This class leaves out that the code noises the buffers of batch normalisation without clipping them, and
    that it divides by a norm of zero.
    """

    scale: float
    clip_radius: float
    noise_std: float
    delta: float

    name = "dp-fedavg-book"

    def __post_init__(self) -> None:
        FixedSample.__post_init__(self)
        for name in ("scale", "clip_radius", "noise_std"):
            positive(name, getattr(self, name))
        probability("delta", self.delta)

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return (
            f"no privacy: the noise is {self.noise_multiplier:.2g} times what one user can add to the sum, "
            f"and the epsilon proved over {self.federation.rounds} rounds is {self.guarantee.epsilon:.3g}"
        )

    @property
    def noise_multiplier(self) -> float:
        """z = noise_std / (scale C)."""
        return self.noise_std / (self.scale * self.clip_radius)

    @property
    def guarantee(self) -> Guarantee:
        """The epsilon that is proved. The stated one is infinite, as the book states none."""
        proved = privacy_spent(Ledger.of(self.events(self.federation.rounds)), self.delta)
        return Guarantee(ZEROED_USER, proved.epsilon, self.delta, math.inf)

    @property
    def figures(self) -> Mapping[str, float]:
        """The noise multiplier, the clip radius and the noise std."""
        return {
            "noise multiplier": self.noise_multiplier,
            "clip radius": self.clip_radius,
            "noise std": self.noise_std,
        }

    def events(self, rounds: int) -> tuple[Event, ...]:
        """One Gaussian release of z per round, not sampled: a sample of fixed size is not a Poisson sample.

        A user may be in every round. The updates of a removed user are zeros, so the sample stays the same.
        """
        return (Gaussian(self.noise_multiplier),) * count("rounds", rounds)

    def after_batch(self, weights: torch.Tensor, start: torch.Tensor, step: Step) -> torch.Tensor:
        """theta0 + clip(theta - theta0), all parameters together."""
        return Flat(self.clip_radius).batch(weights, start)

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        """Returns the update, clipped once more, as rounding may have left it above the bound."""
        return Flat(self.clip_radius).final(weights - start)

    def combine(
        self, model: Floats, state: State, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, State]:
        """theta + lambda sum Delta_k + N(0, sigma^2): a sum, not a mean."""
        d, spacing = self.federation.dimension, grid(self.noise_std, 0.0)
        updates = [(update, 1.0) for update, _ in pair_uploads(uploads, d)]
        units = FixedDenominator(1 / self.scale).estimate(updates, d, 1.0, spacing)
        return add_noised_units(model, units, self.noise_std, spacing, words), state
