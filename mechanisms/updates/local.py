"""Local differential privacy of a node's offers: clip to a radius, add Gaussian noise, charge the cost.

Unit of privacy: one node's whole data set, over the run. Neighbours: any two data sets (replace). Norm: L2;
two updates clipped to radius r differ by at most 2 r. One radius and one noise std apply to the whole update:
all tensors together are one release. An update that is not finite counts as zero: if the node offered nothing
in its place, everybody could tell two data sets apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mechanisms.accounting.ledger import Event, Gaussian, Relation, Unit, releases_noise_multiplier
from mechanisms.mechanism import Floats, Guarantee, Memory, Offer, Quiet, Setting
from mechanisms.noise.clipping import clip_l2, finite_or_zeros, norm
from mechanisms.noise.noise import noised
from mechanisms.noise.randomness import Words
from mechanisms.updates.adaptive import AggregateWindow, Fixed, Quantile, RadiusRule, Window

WHOLE_DATA_SET = Unit("one node's whole data set, over the run", Relation.REPLACE, "L2")
WINDOW_SOURCES = ("raw", "aggregate", "quantile")
QUANTILE_SHARE = 0.1
"""The share of the budget (of 1/z^2) that pays for the bits of `quantile`."""
SIGMAS = 8.0


@dataclass(frozen=True, slots=True)
class LocalDP(Quiet):
    """Clips the update to the rule's radius r, then adds noise of std 2 r `noise_multiplier`.

    It is the Gaussian mechanism, calibrated exactly (Balle & Wang 2018, Theorem 8) for all rounds together:
    T releases of multiplier z cost as much as one of z / sqrt(T).
    """

    name: str
    rule: RadiusRule
    clipping_radius: float
    noise_multiplier: float
    guarantee: Guarantee
    rule_events: tuple[Event, ...] = ()
    """The events of an offer besides its own noise."""

    protects = (
        "every offer is clipped and noised before it leaves: what all of them together can tell anybody, the "
        "other nodes included, about which data set you have is bounded by epsilon"
    )

    @property
    def bound(self) -> float:
        """8 sigma + r, for the largest radius."""
        return self.clipping_radius * (1 + SIGMAS * 2 * self.noise_multiplier)

    @property
    def per_offer(self) -> tuple[Event, ...]:
        """One Gaussian release and the rule's own events."""
        return (Gaussian(self.noise_multiplier), *self.rule_events)

    def offer(self, fresh: Floats, memory: Memory, words: Words) -> Offer:
        """Clips and noises `fresh`, or zeros if it is not finite. Raises ValueError for an empty vector."""
        fresh, radius = finite_or_zeros(fresh), self.rule.radius(memory)
        size = norm(fresh)
        noise_std = 2 * radius * self.noise_multiplier
        vector = noised(clip_l2(fresh, radius), noise_std, radius, words)
        return Offer(vector, self.rule.after_offer(size, memory, words), radius, noise_std)

    def aggregated(self, mean: Floats, members: int, memory: Memory) -> Memory:
        """The memory of the radius rule after the aggregate."""
        noise_std = 2 * self.rule.radius(memory) * self.noise_multiplier
        return self.rule.after_aggregate(mean, members, noise_std, memory)


def ldp(setting: Setting) -> LocalDP:
    """`privacy.mechanism = "ldp"`: the radius is always `clipping_radius`."""
    noise_multiplier = releases_noise_multiplier(setting.epsilon, setting.delta, setting.rounds)
    return _make_local("ldp", Fixed(setting.clipping_radius), noise_multiplier, setting)


def aldp(setting: Setting) -> LocalDP:
    """`privacy.mechanism = "aldp"`: `window_source` selects the radius rule."""
    noise_multiplier = releases_noise_multiplier(setting.epsilon, setting.delta, setting.rounds)
    radius, window = setting.clipping_radius, setting.window
    match setting.window_source:
        case "raw":
            return _make_local("aldp", Window(radius, window), noise_multiplier, setting)
        case "aggregate":
            return _make_local("aldp", AggregateWindow(radius, window), noise_multiplier, setting)
        case "quantile":
            of_bits, of_update = quantile_split(noise_multiplier)
            rule = Quantile(radius, of_bits)
            return _make_local("aldp", rule, of_update, setting, (Gaussian(of_bits),))
    raise ValueError(
        f"window_source = {setting.window_source!r} is not allowed: {', '.join(map(repr, WINDOW_SOURCES))}"
    )


def quantile_split(noise_multiplier: float) -> tuple[float, float]:
    """Returns z_bit and z_update, whose releases together cost as much as one of `noise_multiplier`.

    1/z^2 = 1/z_bit^2 + 1/z_update^2: Andrew et al. 2021, Theorem 1. It has 2 sigma_b where z_bit stands here:
    adding or removing a bit moves its sum by 1/2, while here replacing a bit changes it by 1.
    """
    of_bits = noise_multiplier / math.sqrt(QUANTILE_SHARE)
    return of_bits, noise_multiplier / math.sqrt(1 - QUANTILE_SHARE)


def _make_local(
    name: str, rule: RadiusRule, noise_multiplier: float, setting: Setting, also: tuple[Event, ...] = ()
) -> LocalDP:
    guarantee = Guarantee(WHOLE_DATA_SET, setting.epsilon, setting.delta, setting.epsilon, rule.outside)
    return LocalDP(name, rule, setting.clipping_radius, noise_multiplier, guarantee, also)
