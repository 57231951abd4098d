"""Record-level differential privacy with shared noise: `privacy.mechanism = "distributed-dp-sgd"`.

One secure sum is one step of DP-SGD on the rows of all members, and they share its noise
(mechanisms.gradients.distributed, with the theorem). All members take the same step from the sum, which is
post-processing. With H of the others taken to be honest, n members add n / (H + 1) times the variance that a
trusted server would add; each for itself, they would add n times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mechanisms.accounting.ledger import Event, rounded_up, sampled_noise_multiplier
from mechanisms.gradients.distributed import SharedNoise
from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.mechanism import Guarantee, Quiet, Setting
from mechanisms.noised_counts import CountNoise, beside, count_noise
from mechanisms.units import short
from mechanisms.updates.record import unit_of

_RESERVED, _RESERVED_SHARE = 2, 25


@dataclass(frozen=True, slots=True)
class DistributedDP(Quiet):
    """Steps with shared noise. The guarantee holds if `shared.honest` other members are honest.

    `counts`: the noise of counts beside the steps, which all members share, too; None: nothing is counted.
    """

    shared: SharedNoise
    guarantee: Guarantee
    counts: CountNoise | None = None

    @property
    def name(self) -> str:
        """The name in task files."""
        return "distributed-dp-sgd"

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return (
            "every step has the noise of all members together: epsilon bounds what all others together learn "
            f"about whether any one {short(self.guarantee.unit)} is in your data, as long as at least "
            f"{self.shared.honest} of them are honest"
        )

    @property
    def per_offer(self) -> tuple[Event, ...]:
        """The cost of a step, charged when it is offered, even if its sum fails."""
        return self.shared.events


def distributed_dp(setting: Setting) -> DistributedDP:
    """Builds the mechanism for `setting`, which says what the members share.

    Unit of privacy: one record, or person (`unit_of`); neighbours: add or remove it; norm: L2 of its
    gradient, clipped to `clipping_radius`. `epsilon` is the total over all steps and those that fail
    (`charged_steps`), and over counts beside them. The multiplier is rounded up, so that all members compute
    the same one.
    """
    of = setting.shared
    if of is None:
        raise ValueError(
            "shared = None is not allowed: what the members share, which a task with privacy.mechanism = "
            "'distributed-dp-sgd' says"
        )
    charged = charged_steps(of.steps)
    epsilon, delta = setting.epsilon, setting.delta
    counts = None if setting.counts is None else count_noise(setting.counts, epsilon, delta, of.honest)
    exact = sampled_noise_multiplier(epsilon, delta, of.sampling_probability, charged, beside(counts))
    rule = GradientRule(setting.clipping_radius, rounded_up(exact), of.sampling_probability)
    shared = SharedNoise(
        gradient=rule,
        honest=of.honest,
        expected_batch=of.expected_batch,
        members=of.members,
        size=sum(setting.sizes),
        steps=charged,
    )
    return DistributedDP(
        shared, Guarantee(unit_of(setting), epsilon, delta, epsilon, honest=of.honest), counts
    )


def charged_steps(steps: int) -> int:
    """How many steps a budget covers: those of the run, and one in 25 and two more for sums that fail."""
    return steps + math.ceil(steps / _RESERVED_SHARE) + _RESERVED
