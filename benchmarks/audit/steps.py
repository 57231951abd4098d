"""Audits of private gradient steps: `dp-sgd`, and `distributed-dp-sgd` with the noise of several members.

Neighbours: add or remove a record (L2 of its gradient). The worst record is a canary: its gradient is far
longer than the radius, and always has the same direction. It is alone in its data set: other records would
only add what the attacker knows. One call makes ABREAST runs at once. Each run has a parameter of its own,
which only its canary moves. Rows are sampled and clipped, and parameters noised, independently and on the
same grid, as in separate runs; the noise of the other parameters says nothing of a canary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from benchmarks.audit.canaries import Canaries, Present, poisson_sample
from benchmarks.audit.case import FEW, Case, proved_claim
from benchmarks.audit.offers import EXACT, RADIUS, TOGETHER, setting
from benchmarks.audit.shared.faults import Fault, faulty_rule, ring_sum
from mechanisms.audits.audit import Array, Method, Pair, Release
from mechanisms.gradients.dp_sgd import GradientRule, PrivateGradient
from mechanisms.gradients.shared_noise import SharedGradient, SharedNoise
from mechanisms.mechanism import SharedSetting
from mechanisms.noise.randomness import Words
from mechanisms.updates.distributed import DistributedDP, distributed_dp
from mechanisms.updates.record import dp_sgd

ABREAST = 1_000
SAMPLED = "PLD of the sampled Gaussian, connecting the dots (Doroshenko et al. 2022)"
HONEST = 2


def step_cases() -> list[Case]:
    """Return the cases of both mechanisms."""
    return [*gradient_cases(), *shared_cases()]


# -- dp-sgd ------------------------------------------------------------------------------------------


def private_gradients(rule: GradientRule, number: int) -> Release:
    """Return a release of `number` private gradients (n, number), with a canary (1) or without (0)."""
    canaries = Canaries(ABREAST)

    @cache  # made when it runs first: it takes .2 s to choose how
    def gradient_of() -> PrivateGradient:
        return PrivateGradient(objective=canaries.objective, rule=rule, most_rows=ABREAST, expected_rows=1.0)

    def gradient(present: Present, words: Words) -> Array:
        gradient_of()(*canaries.batch(poisson_sample(present, rule.sampling_probability, words)), words)
        return np.asarray(torch.as_tensor(canaries.model.weight.grad)[0], dtype=np.float64)

    return release_abreast(gradient, number)


def release_abreast(step: Callable[[Present, Words], Array], number: int) -> Release:
    """Return a release (n, number) of so many steps. A step makes ABREAST runs with the canaries present."""

    def release(inputs: Array, words: Words) -> Array:
        seen = np.empty((len(inputs), number))
        for start in range(0, len(inputs), ABREAST):
            block = inputs[start : start + ABREAST, 0]
            for of in range(number):
                seen[start : start + ABREAST, of] = step(np.flatnonzero(block), words)[: len(block)]
        return seen

    return release


def likelihood_ratio(q: float, z: float) -> Callable[[Array], Array]:
    """Return the most powerful score: ln of the likelihood ratio of canary to none, (n, steps) to (n,).

    In each step a canary adds 1 with probability `q`, and the noise has std `z`.
    """
    return lambda seen: np.log(1 - q + q * np.exp((2 * seen - 1) / (2 * z * z))).sum(axis=1)


def gradient_cases() -> list[Case]:
    """`dp-sgd`: a run of one step on all rows, and one of ten steps on Poisson samples of a tenth.

    Neighbours: a canary, or no record. With sampled rows a release is no Gaussian mechanism, so the bound is
    from the ratio of rates.
    """
    whole = dp_sgd(setting((ABREAST,)))
    rare = dp_sgd(replace(setting((ABREAST,)), batch_size=1))
    end = np.full(1, RADIUS)
    pair = Pair.of(np.zeros(1), end)
    sound = Case(
        mechanism="dp-sgd, a step",
        release=private_gradients(whole.rule, whole.steps),
        pair=pair,
        claim=proved_claim(whole.guarantee, "the gradient of a run of one step, all rows", EXACT),
        subject=whole,
        covers=("dp-sgd",),
    )
    halved = replace(whole.rule, noise_multiplier=whole.rule.noise_multiplier / 2)
    unclipped = replace(whole.rule, clipping_radius=2 * RADIUS, noise_multiplier=halved.noise_multiplier)
    many = Case(
        mechanism=f"dp-sgd, {rare.steps} steps",
        release=private_gradients(rare.rule, rare.steps),
        pair=Pair(pair.x0, pair.x1, np.zeros(rare.steps), np.full(rare.steps, RADIUS)),
        claim=proved_claim(
            rare.guarantee, f"the gradients of a run of {rare.steps} steps, a tenth of the rows", SAMPLED
        ),
        subject=rare,
        covers=("dp-sgd",),
        method=Method.RATIO,
        score=likelihood_ratio(rare.rule.sampling_probability, rare.rule.noise_multiplier),
        quick_trials=10_000,
        least_found=0.1,
    )
    always = replace(rare.rule, sampling_probability=1.0)
    return [
        sound,
        replace(sound, fault="noise halved", release=private_gradients(halved, 1)),
        replace(sound, fault="clipped to twice the radius", release=private_gradients(unclipped, 1)),
        many,
        replace(
            many,
            fault="every row in every batch",
            release=private_gradients(always, rare.steps),
            method=Method.GAUSSIAN,
            score=None,
            quick_trials=FEW,
        ),
    ]


# -- distributed-dp-sgd ------------------------------------------------------------------------------


def shared_mechanism() -> DistributedDP:
    """Return shared noise for EPSILON in a run of one step, whose budget covers failed sums, too."""
    of = SharedSetting(
        honest=HONEST, sampling_probability=1.0, expected_batch=float(ABREAST), steps=1, members=HONEST + 1
    )
    return distributed_dp(replace(setting((ABREAST,)), shared=of))


def decoded_sums(rule: SharedNoise, fault: Fault) -> Release:
    """Return a release (n, steps) of the decoded sums of all honest members; a canary may be at the first.

    `fault`: the share of its noise that each member adds.
    """
    canaries = Canaries(ABREAST)
    none = np.empty(0, dtype=np.int64)

    @cache
    def member(share: float) -> SharedGradient:
        return SharedGradient(canaries.objective, faulty_rule(rule, share, 1.0), ABREAST)

    def step(present: Present, words: Words) -> Array:
        members = [member(share) for share in fault.shares]
        batches = [canaries.batch(rows) for rows in (present, *(none for _ in members[1:]))]
        offered = [one.offer(*batch, words)[0] for one, batch in zip(members, batches, strict=True)]
        return rule.decode(ring_sum(offered))

    return release_abreast(step, rule.steps)


def shared_cases() -> list[Case]:
    """`distributed-dp-sgd`; neighbours: a canary at one of the HONEST + 1 honest members, or no record.

    All other members work together and know what they add to a sum, so only the honest ones are here. The
    record is in every step that the budget covers, failed sums included.
    """
    mechanism = shared_mechanism()
    rule = mechanism.shared
    everybody = HONEST + 1
    sound = Case(
        mechanism="distributed-dp-sgd",
        release=decoded_sums(rule, Fault("", (1.0,) * everybody)),
        pair=Pair(np.zeros(1), np.ones(1), np.zeros(rule.steps), np.full(rule.steps, RADIUS)),
        claim=proved_claim(
            mechanism.guarantee,
            f"{rule.steps} sums of gradients, if {HONEST} others are honest",
            f"{TOGETHER}; mechanisms.gradients.shared_noise",
        ),
        subject=mechanism,
        covers=("distributed-dp-sgd",),
    )
    return [
        sound,
        replace(
            sound,
            fault="one adds no noise",
            release=decoded_sums(rule, Fault("", (1.0,) * HONEST + (0.0,))),
            quick_trials=12_000,
        ),
        replace(sound, fault="noise halved", release=decoded_sums(rule, Fault("", (0.5,) * everybody))),
    ]
