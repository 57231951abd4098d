"""Record-level differential privacy of a node's offers: `privacy.mechanism = "dp-sgd"`.

Every gradient step has noise (Abadi et al. 2016, Algorithm 1; mechanisms.gradients.dp_sgd). So the result of
training is private already, and offering it is post-processing, which costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from mechanisms.accounting.ledger import Event, Unit, sampled_noise_multiplier
from mechanisms.gradients.dp_sgd import GradientRule, record_events
from mechanisms.mechanism import Guarantee, Quiet, Setting
from mechanisms.noised_counts import CountNoise, count_noise, multiplier_beside
from mechanisms.units import ONE_PERSON, ONE_RECORD, noun_of


def unit_of(setting: Setting) -> Unit:
    """Returns the unit whose gradients are clipped together: a person, or a record."""
    return ONE_RECORD if setting.rows_per_person is None else ONE_PERSON


@dataclass(frozen=True, slots=True)
class RecordDP(Quiet):
    """Private gradient steps, `steps` in a round.

    `counts`: the noise of counts beside the steps, which is all this node's own; None: nothing is counted.
    """

    rule: GradientRule
    steps: int
    guarantee: Guarantee
    counts: CountNoise | None = None

    name = "dp-sgd"

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        whose = noun_of(self.guarantee.unit)
        return (
            f"every gradient step is clipped for each {whose} and noised: what your offers can tell anybody "
            f"about whether any one {whose} is in your data is bounded by epsilon; what records have in "
            "common is learned"
        )

    @property
    def gradient(self) -> GradientRule:
        """The rule of the private gradient steps."""
        return self.rule

    @property
    def per_training(self) -> tuple[Event, ...]:
        """The cost of a round's steps, each on a Poisson sample."""
        return (record_events(self.rule, self.steps),)


def dp_sgd(setting: Setting) -> RecordDP:
    """Builds the mechanism for `setting`: a step samples each row with probability `batch_size` / `rows`.

    Unit of privacy: one record, or person (`unit_of`); neighbours: add or remove it; norm: L2 of its
    gradient, clipped to `clipping_radius`. The number of rows counts as public. `epsilon` pays for all steps,
    and for the counts beside them. Raises ValueError if the setting does not tell the number of steps.
    """
    sampling = min(1.0, setting.batch_size / setting.rows)
    steps = setting.steps * setting.rounds
    epsilon, delta = setting.epsilon, setting.delta
    counts = None if setting.counts is None else count_noise(setting.counts, epsilon, delta, honest=0)
    noise_multiplier = sampled_noise_multiplier(epsilon, delta, sampling, steps, multiplier_beside(counts))
    rule = GradientRule(setting.clipping_radius, noise_multiplier, sampling)
    return RecordDP(rule, setting.steps, Guarantee(unit_of(setting), epsilon, delta, epsilon), counts)
