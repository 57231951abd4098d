"""Audits of private gradient steps: `dp-sgd`, and `distributed-dp-sgd` with the noise of several members.

Neighbours: add or remove a record (L2 of its gradient). The worst one is a canary: a record whose gradient
is far longer than the radius and always has the same direction, in a data set of no other record: others
would only add what the attacker knows. One call makes ABREAST runs at once: each has a parameter of its own
that only its canary moves. Rows are sampled and clipped, and parameters are noised, independently and on the
same grid, as in separate runs; the noise of the other parameters says nothing about the canary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.audit.case import FEW, Case, proved
from benchmarks.audit.offers import EXACT, RADIUS, TOGETHER, setting
from benchmarks.audit.shared.faults import Fault, faulty, summed
from mechanisms.audits.audit import Array, Method, Pair, Release
from mechanisms.gradients.distributed import SharedGradient, SharedNoise
from mechanisms.gradients.dp_sgd import GradientRule, PrivateGradient, poisson_rows
from mechanisms.gradients.objective import Objective
from mechanisms.mechanism import SharedSetting
from mechanisms.noise.randomness import Words
from mechanisms.updates.distributed import DistributedDP, distributed_dp
from mechanisms.updates.record import dp_sgd

ABREAST = 1_000
SAMPLED = "PLD of the sampled Gaussian, connecting the dots (Doroshenko et al. 2022)"
HONEST = 2
Present = NDArray[np.int64]


def step_cases() -> list[Case]:
    """Return the cases of both mechanisms."""
    return [*gradient_cases(), *shared_cases()]


def steep(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A loss whose gradient for a canary is 100 in its own parameter, whatever the parameters are."""
    return 100 * (outputs * targets).mean()


class Canaries:
    """A linear model with one parameter for each of `number` canaries, which are the unit vectors."""

    def __init__(self, number: int) -> None:
        self.model = nn.Linear(number, 1, bias=False)
        self.rows = torch.eye(number)
        parameters = dict(self.model.named_parameters())
        self.objective = Objective(self.model, parameters, steep, (self.rows[:1], torch.ones(1, 1)))

    def batch(self, chosen: Present) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows and targets of the canaries with these numbers."""
        return self.rows[torch.from_numpy(chosen)], torch.ones(len(chosen), 1)


def sampled(present: Present, probability: float, words: Words) -> Present:
    """A Poisson sample of the canaries that are present."""
    return present[poisson_rows(len(present), probability, words)] if len(present) else present


# -- dp-sgd ------------------------------------------------------------------------------------------


def steps(rule: GradientRule, number: int) -> Release:
    """A release of (n, `number`) private gradients for data sets (n, 1) of a canary (1) or of no row (0)."""
    canaries = Canaries(ABREAST)
    gradient_of = PrivateGradient(
        objective=canaries.objective, rule=rule, most_rows=ABREAST, expected_rows=1.0
    )

    def gradient(present: Present, words: Words) -> Array:
        gradient_of(*canaries.batch(sampled(present, rule.sampling_probability, words)), words)
        return np.asarray(torch.as_tensor(canaries.model.weight.grad)[0], dtype=np.float64)

    return abreast(gradient, number)


def abreast(step: Callable[[Present, Words], Array], number: int) -> Release:
    """A release of (n, `number`) from a step that makes ABREAST runs, given the canaries that are present."""

    def release(inputs: Array, words: Words) -> Array:
        seen = np.empty((len(inputs), number))
        for start in range(0, len(inputs), ABREAST):
            block = inputs[start : start + ABREAST, 0]
            for of in range(number):
                seen[start : start + ABREAST, of] = step(np.flatnonzero(block), words)[: len(block)]
        return seen

    return release


def likelihood(q: float, z: float) -> Callable[[Array], Array]:
    """The most powerful test, from (n, steps) to (n,): ln of the likelihood ratio of canary to no canary.

    In each step the canary adds 1 with probability `q`, and the noise has a std of `z`.
    """
    return lambda seen: np.log(1 - q + q * np.exp((2 * seen - 1) / (2 * z * z))).sum(axis=1)


def gradient_cases() -> list[Case]:
    """`dp-sgd`: a run of one step on all rows, and one of ten steps on Poisson samples of a tenth.

    Neighbours: a canary, or no record. Where rows are sampled, the releases are no Gaussian mechanism, and
    the bound is from the ratio of rates.
    """
    whole = dp_sgd(setting((ABREAST,)))
    rare = dp_sgd(replace(setting((ABREAST,)), batch_size=1))
    end = np.full(1, RADIUS)
    pair = Pair.of(np.zeros(1), end)
    sound = Case(
        mechanism="dp-sgd, a step",
        fault="",
        release=steps(whole.rule, whole.steps),
        pair=pair,
        claim=proved(whole.guarantee, "the gradient of a run of one step, all rows", EXACT),
        subject=whole,
        covers=("dp-sgd",),
    )
    halved = replace(whole.rule, noise_multiplier=whole.rule.noise_multiplier / 2)
    unclipped = replace(whole.rule, clipping_radius=2 * RADIUS, noise_multiplier=halved.noise_multiplier)
    many = Case(
        mechanism=f"dp-sgd, {rare.steps} steps",
        fault="",
        release=steps(rare.rule, rare.steps),
        pair=Pair(pair.x0, pair.x1, np.zeros(rare.steps), np.full(rare.steps, RADIUS)),
        claim=proved(
            rare.guarantee, f"the gradients of a run of {rare.steps} steps, a tenth of the rows", SAMPLED
        ),
        subject=rare,
        covers=("dp-sgd",),
        method=Method.RATIO,
        score=likelihood(rare.rule.sampling_probability, rare.rule.noise_multiplier),
        quick_trials=10_000,
        least_found=0.1,
    )
    always = replace(rare.rule, sampling_probability=1.0)
    return [
        sound,
        replace(sound, fault="noise halved", release=steps(halved, 1)),
        replace(sound, fault="clipped to twice the radius", release=steps(unclipped, 1)),
        many,
        replace(
            many,
            fault="every row in every batch",
            release=steps(always, rare.steps),
            method=Method.GAUSSIAN,
            score=None,
            quick_trials=FEW,
        ),
    ]


# -- distributed-dp-sgd ------------------------------------------------------------------------------


def shared_mechanism(honest: int = HONEST) -> DistributedDP:
    """Shared noise for EPSILON in a run of one step; the budget covers as many failed sums as a run's."""
    of = SharedSetting(
        honest=honest, sampling_probability=1.0, expected_batch=float(ABREAST), steps=1, members=honest + 1
    )
    return distributed_dp(replace(setting((ABREAST,)), shared=of))


def sums(rule: SharedNoise, fault: Fault) -> Release:
    """A release of (n, steps): what the sums of all honest members decode to, a canary at the first or not.

    `fault`: which share of its noise each of the members adds.
    """
    canaries = Canaries(ABREAST)
    makers = {
        share: SharedGradient(canaries.objective, faulty(rule, share, 1.0), ABREAST)
        for share in set(fault.shares)
    }
    members = [makers[share] for share in fault.shares]
    none = np.empty(0, dtype=np.int64)

    def step(present: Present, words: Words) -> Array:
        batches = [canaries.batch(rows) for rows in (present, *(none for _ in members[1:]))]
        offered = [member.offer(*batch, words)[0] for member, batch in zip(members, batches, strict=True)]
        return rule.decode(summed(offered))

    return abreast(step, rule.steps)


def shared_cases() -> list[Case]:
    """`distributed-dp-sgd`; neighbours: a canary at one of the HONEST + 1 honest members, or no record.

    All others work together: what they add to a sum is known to them, so only honest members are here. The
    record is in every step that the budget covers, failed sums included.
    """
    mechanism = shared_mechanism()
    rule = mechanism.shared
    everybody = HONEST + 1
    sound = Case(
        mechanism="distributed-dp-sgd",
        fault="",
        release=sums(rule, Fault("", (1.0,) * everybody)),
        pair=Pair(np.zeros(1), np.ones(1), np.zeros(rule.steps), np.full(rule.steps, RADIUS)),
        claim=proved(
            mechanism.guarantee,
            f"{rule.steps} sums of gradients, if {HONEST} others are honest",
            f"{TOGETHER}; mechanisms.gradients.distributed",
        ),
        subject=mechanism,
        covers=("distributed-dp-sgd",),
    )
    return [
        sound,
        replace(
            sound,
            fault="one adds no noise",
            release=sums(rule, Fault("", (1.0,) * HONEST + (0.0,))),
            quick_trials=12_000,
        ),
        replace(sound, fault="noise halved", release=sums(rule, Fault("", (0.5,) * everybody))),
    ]
