"""Replays the reference peer-to-peer system's adaptive local noise, with its faults, and says what it proves.

That system treats each weight tensor separately, splits the budget linearly over the rounds (eps/T, delta/T),
uses the classic Gaussian formula even where it does not hold, and spends the whole budget on every tensor.
This module charges what is proved: one Gaussian release for each tensor of an offer. It is for comparison,
not for use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mechanisms.accounting.gaussian import classic_noise_multiplier
from mechanisms.accounting.ledger import Event, Gaussian, Ledger, privacy_spent
from mechanisms.mechanism import Floats, Guarantee, Memory, Offer, Quiet, Setting
from mechanisms.noise.clipping import clip_l2, finite_or_zeros, norm
from mechanisms.noise.noise import noised
from mechanisms.noise.randomness import Words
from mechanisms.updates.adaptive import LEAST_RADIUS
from mechanisms.updates.local import SIGMAS, WHOLE_DATA_SET

OUTSIDE = (
    "the clipping radii: each is the mean norm of a tensor's last updates, this one's included, taken before "
    "noise, and the noise level shows it; epsilon holds for the noise given the radii"
)


@dataclass(frozen=True, slots=True)
class LinearClassic(Quiet):
    """Clips each tensor to its own radius r and adds noise of std 2 r `noise_multiplier`.

    `window`: a radius is the mean of this many norms, this update's included; 0: it is `clipping_radius`.
    """

    name: str
    sizes: tuple[int, ...]
    clipping_radius: float
    window: int
    noise_multiplier: float
    guarantee: Guarantee

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return (
            f"a replay of a faulty calibration: stated epsilon {self.guarantee.stated:g}, proved epsilon "
            f"{self.guarantee.epsilon:.4g}"
        )

    @property
    def bound(self) -> float:
        """8 sigma + r, for the largest radius of a tensor."""
        return self.clipping_radius * (1 + SIGMAS * 2 * self.noise_multiplier)

    @property
    def per_offer(self) -> tuple[Event, ...]:
        """One Gaussian release for each tensor."""
        return (Gaussian(self.noise_multiplier),) * len(self.sizes)

    def offer(self, fresh: Floats, memory: Memory, words: Words) -> Offer:
        """Clips and noises each tensor of `fresh`, or zeros if it is not finite.

        Raises ValueError for another length than that of all `sizes`.
        """
        if fresh.shape != (sum(self.sizes),):
            raise ValueError(
                f"fresh has shape {fresh.shape}, which is not allowed: ({sum(self.sizes)},) for {self.sizes}"
            )
        parts = np.split(finite_or_zeros(fresh), np.cumsum(self.sizes)[:-1])
        rows = memory or ((),) * len(parts)
        windows = tuple(
            (*row, norm(part))[-self.window :] if self.window else ()
            for row, part in zip(rows, parts, strict=True)
        )
        radii = [self._radius(row) for row in windows]
        vector = np.concatenate(
            [
                noised(clip_l2(part, radius), 2 * radius * self.noise_multiplier, radius, words)
                for part, radius in zip(parts, radii, strict=True)
            ]
        )
        return Offer(vector, windows, max(radii), 2 * max(radii) * self.noise_multiplier)

    def _radius(self, row: Sequence[float]) -> float:
        mean = sum(row) / len(row) if row else self.clipping_radius
        return max(LEAST_RADIUS, min(mean, self.clipping_radius))


def linear_classic(name: str, window: int, setting: Setting) -> LinearClassic:
    """Returns the replay for `setting`, with the epsilon that is proved for all rounds together.

    Raises ValueError for another `window_source` than "raw".
    """
    if setting.window_source != "raw":
        raise ValueError(
            f"window_source = {setting.window_source!r} is not allowed with calibration 'linear-classic': "
            "'raw'"
        )
    multiplier = classic_noise_multiplier(
        setting.epsilon / setting.rounds, setting.delta / setting.rounds, replay=True
    )
    releases = Ledger(((Gaussian(multiplier), setting.rounds * len(setting.sizes)),))
    proved = privacy_spent(releases, setting.delta)
    outside = OUTSIDE if window else ""
    guarantee = Guarantee(WHOLE_DATA_SET, proved.epsilon, setting.delta, setting.epsilon, outside)
    return LinearClassic(name, setting.sizes, setting.clipping_radius, window, multiplier, guarantee)
