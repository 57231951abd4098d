"""Audits by one run with many canaries, each of which a fair coin includes: one release, and whole trainings.

The bound of one run (mechanisms.audits.one_run) is far below that of many runs, but one training is enough
for it. The bound loses a part of delta for each canary, so delta is small here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.audit.canaries import Canaries, poisson_sample
from benchmarks.audit.case import EPSILON, Claim, Standing, proved_claim
from benchmarks.audit.offers import EXACT, RADIUS, gaussian_rows, setting
from benchmarks.audit.servers import ROWS, seeded_generator
from benchmarks.audit.steps import SAMPLED
from mechanisms.accounting import gaussian
from mechanisms.audits import one_run
from mechanisms.audits.audit import Array
from mechanisms.audits.one_run import Guesses
from mechanisms.gradients.dp_sgd import GradientRule, PrivateGradient
from mechanisms.noise.randomness import Words
from mechanisms.servers.dp_fedavg import DPFedAvg, dp_fedavg_within
from mechanisms.servers.server import Federation, Upload
from mechanisms.updates.record import dp_sgd

CANARIES, GUESSES = 4_000, 1_000
"""The canaries of a run, and how many of them the auditor guesses; it abstains on the others."""
SMALL_DELTA = 1e-8
SHARE, ROUNDS = 0.2, 4
"""The mean share of the canaries in a step or round; the rounds of a run."""
LEARNING_RATE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """An audit of a claim by one run. `guesses` makes the run, and guesses which canaries were in it."""

    mechanism: str
    fault: str = ""
    guesses: Callable[[Words], Guesses]
    claim: Claim
    subject: object = None
    least_found: float = 0.05
    wanted: Standing | None = Standing.NOT_REFUTED


def one_runs() -> list[OneRun]:
    """Return the audits: a noised sum, a whole training with `dp-sgd`, a whole run of `dp-fedavg`."""
    return [*gaussian_runs(), *gradient_runs(), *server_runs()]


Score = Callable[[NDArray[np.bool_], Words], Array]
"""From the coins (m,) of all canaries to their scores (m,), larger for what looks included."""


def extreme_guesses(score: Score, out: int, words: Words) -> Guesses:
    """Guess GUESSES canaries with extreme scores: "out" for the `out` smallest, "in" for the largest."""
    included = one_run.coins(CANARIES, words)
    return one_run.guess(score(included, words), included, GUESSES - out, out)


def gaussian_runs() -> list[OneRun]:
    """A sum of canaries of norm 1, each with a coordinate of its own: the sensitivity is 1."""
    multiplier = gaussian.noise_multiplier(EPSILON, SMALL_DELTA)
    unit = "one canary; neighbours: add or remove one; sensitivity in the L2 norm"
    sound = OneRun(
        mechanism="gaussian, one run",
        guesses=lambda words: canary_guesses(multiplier, words),
        claim=Claim(EPSILON, SMALL_DELTA, unit, f"a sum of {CANARIES} canaries", EXACT),
    )
    faulty = replace(
        sound,
        fault="an eighth of the noise",
        guesses=lambda words: canary_guesses(multiplier / 8, words),
    )
    return [sound, faulty]


def canary_guesses(noise_std: float, words: Words) -> Guesses:
    """Guess from one noised sum: the canaries of the largest coordinates are in, of the smallest out."""
    return extreme_guesses(
        lambda included, noise: gaussian_rows(noise_std)(included[None].astype(np.float64), noise)[0],
        out=GUESSES // 2,
        words=words,
    )


def training_guesses(rule: GradientRule, steps: int, words: Words) -> Guesses:
    """Guess from the model after a whole training: a canary that was in has moved its own parameter.

    No guess is "out": a canary that was in, but in no sample, looks the same.
    """
    canaries = Canaries(CANARIES)
    gradient_of = PrivateGradient(
        objective=canaries.objective, rule=rule, most_rows=CANARIES, expected_rows=SHARE * CANARIES
    )

    def score(included: NDArray[np.bool_], noise: Words) -> Array:
        model, present = canaries.model, np.flatnonzero(included)
        before = model.weight.detach().numpy().copy()
        for _ in range(steps):
            gradient_of(*canaries.batch(poisson_sample(present, rule.sampling_probability, noise)), noise)
            assert model.weight.grad is not None
            model.weight.data -= LEARNING_RATE * model.weight.grad
        return np.asarray((before - model.weight.detach().numpy())[0], dtype=np.float64)

    return extreme_guesses(score, out=0, words=words)


def gradient_runs() -> list[OneRun]:
    """A whole training with `dp-sgd`; a canary is a record whose gradient is always beyond the radius."""
    mechanism = dp_sgd(
        replace(
            setting((CANARIES,)),
            delta=SMALL_DELTA,
            rounds=ROUNDS,
            rows=CANARIES,
            batch_size=round(SHARE * CANARIES),
        )
    )
    steps = mechanism.steps * ROUNDS
    sound = OneRun(
        mechanism="dp-sgd, a whole training, one run",
        guesses=lambda words: training_guesses(mechanism.rule, steps, words),
        claim=proved_claim(mechanism.guarantee, f"the gradients of a run of {steps} steps", SAMPLED),
        subject=mechanism,
    )
    quiet = replace(mechanism.rule, noise_multiplier=mechanism.rule.noise_multiplier / 8)
    faulty = replace(
        sound, fault="an eighth of the noise", guesses=lambda words: training_guesses(quiet, steps, words)
    )
    return [sound, faulty]


def server_guesses(mechanism: DPFedAvg, words: Words) -> Guesses:
    """Guess "in" from the model after all rounds: a canary is a user that moves a parameter of its own."""

    def score(included: NDArray[np.bool_], noise: Words) -> Array:
        model, state = np.zeros(CANARIES, np.float32), mechanism.start()
        rng = seeded_generator(noise)
        for _ in range(mechanism.federation.rounds):
            chosen = [user for user in mechanism.sample(CANARIES, rng).tolist() if included[user]]
            sent = []
            for user in chosen:
                weights = model.copy()
                weights[user] += 2 * RADIUS
                sent.append(Upload(user, ROWS, mechanism.upload(weights, model, ROWS, noise)))
            model, state = mechanism.combine(model, state, sent, noise)
        return model.astype(np.float64)

    return extreme_guesses(score, out=0, words=words)


def server_runs() -> list[OneRun]:
    """A whole run of `dp-fedavg`, with as many rounds as the training of `gradient_runs` has steps."""
    mechanism = dp_fedavg_within(
        federation=Federation((ROWS,) * CANARIES, round(ROUNDS / SHARE), (CANARIES,)),
        epsilon=EPSILON,
        sampling_probability=SHARE,
        clip=RADIUS,
        per_layer=False,
        estimator="fixed",
        weight_cap=float(ROWS),
        delta=SMALL_DELTA,
    )
    released = f"the models of a run of {mechanism.federation.rounds} rounds"
    sound = OneRun(
        mechanism="dp-fedavg, a whole run, one run",
        guesses=lambda words: server_guesses(mechanism, words),
        claim=proved_claim(mechanism.guarantee, released, SAMPLED),
        subject=mechanism,
    )
    quiet = replace(mechanism, noise_multiplier=mechanism.noise_multiplier / 8)
    faulty = replace(
        sound, fault="an eighth of the noise", guesses=lambda words: server_guesses(quiet, words)
    )
    return [sound, faulty]
