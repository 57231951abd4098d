"""DP-FedAvg with a clip that follows a quantile of the norms of updates.

Andrew, Thakkar, McMahan & Ramaswamy 2021, "Differentially Private Learning with Adaptive Clipping",
Algorithm 1. C is the clip of a round, gamma the `quantile` that it follows, z the `noise_multiplier` of both
sums together, m = q N the expected number of users in a round:

    user     b = [||Delta|| <= C],  sends Delta min(1, C / ||Delta||) and b
    server   D = (sum Delta + N(0, (z_D C)^2 I)) / m,     z_D = (z^-2 - (2 sigma_b)^-2)^(-1/2)
             V <- beta V + D,                             theta <- theta + eta V
             b' = (sum (b - 1/2) + N(0, sigma_b^2)) / m + 1/2
             C <- C exp(-eta_C (b' - gamma))

Theorem 1 there: a round costs as much privacy as a round of plain DP-FedAvg with z. The two releases have the
sensitivities C and 1/2, and C^2 / (z_D C)^2 + (1/2)^2 / sigma_b^2 = 1 / z^2. C itself follows from noised
values alone. 1/2 is subtracted from each b, and m is the expected number, so an absent user adds 0 to both
sums: neighbours add or remove a user, under Poisson sampling.

Unit of privacy, neighbours and norm: those of `mechanisms.servers.dp_fedavg`. All users weigh the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mechanisms.arguments import at_least_zero, positive, probability, share
from mechanisms.noise.clipping import Floats, clip_l2, norm
from mechanisms.noise.noise import noised
from mechanisms.noise.randomness import Words
from mechanisms.servers.dp_fedavg import add_noised_units, spacing_of
from mechanisms.servers.estimators import Doubles, FixedDenominator
from mechanisms.servers.server import Federation, PoissonSample, Sent, Trained, Upload
from mechanisms.servers.server_optimizers import Momentum

_LEAST, _MOST = 2.0**-60, 2.0**60
"""Bounds on C: norms stay within float32, even if nobody ever sends anything."""
_USUAL_PART = 20.0


@dataclass(frozen=True, slots=True)
class ClipState:
    """C, a number in float32 as the clients get it, and V (d,)."""

    clip: float
    velocity: Doubles


@dataclass(frozen=True, slots=True)
class AdaptiveClip(PoissonSample):
    """Algorithm 1, with noise on both sums, of z together (Theorem 1); `adaptive_clip` makes one.

    count_noise_std: sigma_b, in users. clip_learning_rate: eta_C. start_clip: C of the first round, in the
    unit of the weights' L2 norm. optimizer: eta and beta.
    """

    quantile: float
    clip_learning_rate: float
    start_clip: float
    count_noise_std: float
    optimizer: Momentum

    outside = "the number of users, which is treated as public"

    name = "dp-fedavg-adaptive"

    def __post_init__(self) -> None:
        PoissonSample.__post_init__(self)
        probability("quantile", self.quantile)
        for name in ("clip_learning_rate", "start_clip"):
            positive(name, getattr(self, name))
        at_least_zero("count_noise_std", self.count_noise_std)
        if self.noise_multiplier and not 2 * self.count_noise_std > self.noise_multiplier:
            raise ValueError(
                f"count_noise_std = {self.count_noise_std!r} is not allowed: above noise_multiplier / 2 = "
                f"{self.noise_multiplier / 2:g}; raise it, or lower noise_multiplier"
            )

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        if self.guarantee is None:
            return "updates are clipped, to a bound that follows them, but nothing is noised: no epsilon"
        return (
            "what the models and clips of all rounds can tell anybody about whether any one user took part "
            "is bounded by epsilon; the server itself sees each user's clipped update, and who was sampled"
        )

    @property
    def update_noise_multiplier(self) -> float:
        """z_D; 0 without noise."""
        if not self.noise_multiplier:
            return 0.0
        part = self.noise_multiplier / (2 * self.count_noise_std)
        return self.noise_multiplier / math.sqrt(1 - part * part)

    @property
    def figures(self) -> Mapping[str, float]:
        """z, z_D and sigma_b, by name."""
        return {
            "noise multiplier": float(self.noise_multiplier),
            "noise multiplier of updates": self.update_noise_multiplier,
            "noise std of the count": float(self.count_noise_std),
        }

    @property
    def expected_users(self) -> float:
        """m, the expected number of users in a round."""
        return self.sampling_probability * self.federation.clients

    def start(self) -> ClipState:
        """The first C, and V = 0."""
        return ClipState(_bounded_clip(self.start_clip), self.optimizer.start(self.federation.dimension))

    def told(self, state: ClipState) -> Floats:
        """C, (1,)."""
        return np.array([state.clip], np.float32)

    def state_figures(self, state: ClipState) -> Mapping[str, float]:
        """C after the last round."""
        return {"last clip radius": state.clip}

    def send(self, trained: Trained, words: Words) -> Sent:
        """The clipped update and b, (d + 1,)."""
        clip, update = float(trained.told[0]), trained.weights - trained.start
        within = np.array([norm(update) <= clip], np.float32)
        return Sent(np.concatenate([clip_l2(update, clip), within]), trained.kept)

    def combine(
        self, model: Floats, state: ClipState, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, ClipState]:
        """The new theta, C and V. It noises an empty sample, too, as nobody may see that it is empty."""
        d = self.federation.dimension
        everybody = FixedDenominator(self.federation.clients)
        std = everybody.noise_std(
            self.update_noise_multiplier, self.sampling_probability, state.clip, d
        )  # z_D C / m
        spacing = spacing_of(std, state.clip)
        updates = [(sent.vector[:d], 1.0) for sent in uploads]
        units = everybody.estimate(updates, d, self.sampling_probability, spacing)
        update = add_noised_units(np.zeros(d, np.float32), units, std, spacing, words).astype(np.float64)
        step, velocity = self.optimizer.step(update, state.velocity)
        new: Floats = (model.astype(np.float64) + step).astype(np.float32)
        return new, ClipState(self._next_clip(state.clip, uploads, words), velocity)

    def _next_clip(self, clip: float, uploads: Sequence[Upload], words: Words) -> float:
        counted = math.fsum(float(sent.vector[-1]) - 0.5 for sent in uploads)
        if self.count_noise_std:
            most = self.federation.clients / 2
            counted = float(noised(np.array([counted], np.float32), self.count_noise_std, most, words)[0])
        part = counted / self.expected_users + 0.5
        return _bounded_clip(clip * math.exp(-self.clip_learning_rate * (part - self.quantile)))


def adaptive_clip(
    federation: Federation,
    sampling_probability: float,
    noise_multiplier: float,
    delta: float,
    quantile: float = 0.5,
    clip_learning_rate: float = 0.2,
    start_clip: float = 0.1,
    count_noise_std: float | None = None,
    learning_rate: float = 1.0,
    momentum: float = 0.0,
) -> AdaptiveClip:
    """Builds the algorithm from plain values. Defaults are the paper's, but for `momentum`.

    count_noise_std: None is m / 20, or 0 if `noise_multiplier` is 0. momentum: the paper's server has 0.9; 0
    is that of plain DP-FedAvg. Raises ValueError or TypeError for values that are not allowed.
    """
    usual = share("sampling_probability", sampling_probability) * federation.clients / _USUAL_PART
    noise = (usual if noise_multiplier else 0.0) if count_noise_std is None else count_noise_std
    return AdaptiveClip(
        federation=federation,
        sampling_probability=sampling_probability,
        noise_multiplier=noise_multiplier,
        quantile=quantile,
        clip_learning_rate=clip_learning_rate,
        start_clip=start_clip,
        count_noise_std=noise,
        optimizer=Momentum(learning_rate, momentum),
        delta=delta,
    )


def _bounded_clip(clip: float) -> float:
    """`clip` within its bounds, rounded to float32 as the clients get it."""
    return float(np.float32(min(max(clip, _LEAST), _MOST)))
