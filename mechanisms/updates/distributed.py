"""Record-level differential privacy with shared noise: `privacy.mechanism = "distributed-dp-sgd"`.

One secure sum is one step of DP-SGD on the rows of all members, who share its noise:
`mechanisms.gradients.shared_noise` has the theorem. All members take the same step from the sum, which is
post-processing. If each member takes H others to be honest, n members together add n / (H + 1) times the
variance that a trusted server would add. If each added all the noise itself, it would be n times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import Event, Gaussian, Terms, rounded_up, sampled_noise_multiplier
from mechanisms.accounting.terms import CELLS
from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.gradients.shared_noise import SharedNoise
from mechanisms.mechanism import Guarantee, Quiet, Setting
from mechanisms.noised_counts import CountNoise, count_noise
from mechanisms.units import noun_of
from mechanisms.updates.record import unit_of

_RESERVED, _RESERVED_SHARE = 2, 25


@dataclass(frozen=True, slots=True)
class DistributedDP(Quiet):
    """Steps with shared noise. The guarantee holds if `shared.honest` other members are honest.

    `counts`: the noise of counts beside the steps, which the members share, too; None: nothing is counted.
    `cells`: the noise of histograms before the first step, with as many releases in reserve; None: none.
    """

    shared: SharedNoise
    guarantee: Guarantee
    counts: CountNoise | None = None
    cells: CountNoise | None = None

    name = "distributed-dp-sgd"

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return (
            "every step has the noise of all members together: epsilon bounds what all others together learn "
            f"about whether any one {noun_of(self.guarantee.unit)} is in your data, as long as at least "
            f"{self.shared.honest} of them are honest"
        )

    @property
    def per_offer(self) -> tuple[Event, ...]:
        """The cost of a step, which counts once it is offered, even if the sum fails."""
        return self.shared.events

    @property
    def planned_cells(self) -> tuple[Gaussian, ...]:
        """The costs of all histograms that are planned for, each under a name of its own."""
        if self.cells is None:
            return ()
        terms = Terms(CELLS, self.guarantee.unit, self.cells.honest)
        return (Gaussian(self.cells.noise_multiplier, terms),) * self.cells.releases

    def louder(self, factor: float) -> DistributedDP:
        """Returns the mechanism of one member whose noise is that of several: `factor` times as much."""
        shared, cells = self.shared, self.cells
        rule = replace(shared.gradient, noise_multiplier=shared.gradient.noise_multiplier * factor)
        if cells is not None:
            cells = replace(cells, noise_multiplier=cells.noise_multiplier * factor)
        return replace(self, shared=replace(shared, gradient=rule), cells=cells)


def distributed_dp(setting: Setting) -> DistributedDP:
    """Builds the mechanism for `setting`. Raises ValueError without `setting.shared`, or as `SharedNoise`.

    Unit of privacy: one record, or person (`unit_of`); neighbours: add or remove it; norm: L2 of its
    gradient, clipped to `clipping_radius`. `epsilon` pays for all steps, for steps that fail
    (`charged_steps`), for the counts beside them, and for the histograms before, twice as many as planned.
    The multiplier is rounded up, so that all members compute the same one.
    """
    of = setting.shared
    if of is None:
        raise ValueError(
            "shared = None is not allowed: what all members share; "
            "set privacy.mechanism = 'distributed-dp-sgd'"
        )
    charged = charged_steps(of.steps)
    epsilon, delta = setting.epsilon, setting.delta
    counts = None if setting.counts is None else count_noise(setting.counts, epsilon, delta, of.honest)
    cells = None if setting.cells is None else count_noise(setting.cells, epsilon, delta, of.honest)
    if cells is not None:
        cells = replace(cells, releases=2 * cells.releases)
    q = of.sampling_probability
    beside = gaussian.compose(noise.composed_multiplier for noise in (counts, cells) if noise is not None)
    noise_multiplier = rounded_up(sampled_noise_multiplier(epsilon, delta, q, charged, beside))
    rule = GradientRule(setting.clipping_radius, noise_multiplier, q)
    shared = SharedNoise(
        gradient=rule,
        honest=of.honest,
        expected_batch=of.expected_batch,
        members=of.members,
        size=sum(setting.sizes),
        steps=charged,
    )
    guarantee = Guarantee(unit_of(setting), epsilon, delta, epsilon, honest=of.honest)
    return DistributedDP(shared, guarantee, counts, cells)


def charged_steps(steps: int) -> int:
    """How many steps the budget pays for: those of the run, a 25th more for sums that fail, and two."""
    return steps + math.ceil(steps / _RESERVED_SHARE) + _RESERVED
