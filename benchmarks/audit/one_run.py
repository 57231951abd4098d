"""Audits by one run of many canaries, each of which a fair coin includes: one release, and whole trainings.

The bound of one run (mechanisms.audits.one_run) is far below what many runs find, but it needs no more than
one training. Its delta is small, as the bound pays for each canary's share of delta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.audit.case import EPSILON, Claim, Standing, proved
from benchmarks.audit.offers import EXACT, RADIUS, gaussian_rows, setting
from benchmarks.audit.servers import ROWS
from benchmarks.audit.steps import SAMPLED, Canaries, sampled
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
"""Canaries of a run, and guesses about them; the auditor abstains on the others."""
SMALL_DELTA = 1e-8
SHARE, ROUNDS = 0.2, 4
"""The part of the canaries in a step or round, in the mean; rounds of a run."""
LEARNING_RATE = 0.1


@dataclass(frozen=True, slots=True)
class OneRun:
    """An audit of a claim by one run; `guesses` makes it."""

    mechanism: str
    fault: str
    guesses: Callable[[Words], Guesses]
    claim: Claim
    subject: object = None
    least_found: float = 0.05
    wanted: Standing | None = Standing.NOT_REFUTED


def one_runs() -> list[OneRun]:
    """Return the audits: a noised sum, a whole training with `dp-sgd`, a whole run of `dp-fedavg`."""
    return [*gaussian_runs(), *gradient_runs(), *server_runs()]


Score = Callable[[NDArray[np.bool_], Words], Array]
"""From the coins (m,) of all canaries to the scores (m,), larger for a canary that looks included."""


def guessed(score: Score, out: int, words: Words) -> Guesses:
    """Guesses about the canaries with extreme scores: `out` times "out", for the others "in"."""
    included = one_run.coins(CANARIES, words)
    return one_run.guess(score(included, words), included, GUESSES - out, out)


def gaussian_runs() -> list[OneRun]:
    """A sum of canaries, one per coordinate, each of norm 1: the sensitivity is 1."""
    multiplier = gaussian.noise_multiplier(EPSILON, SMALL_DELTA)
    unit = "one canary; neighbours: add or remove one; sensitivity in the L2 norm"
    sound = OneRun(
        mechanism="gaussian, one run",
        fault="",
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
    """Guess from one noised sum: canaries of the largest coordinates are in, those of the smallest out."""
    return guessed(
        lambda included, noise: gaussian_rows(noise_std)(included[None].astype(np.float64), noise)[0],
        out=GUESSES // 2,
        words=words,
    )


def trained(rule: GradientRule, steps: int, words: Words) -> Guesses:
    """Guess from the model after a whole training: a canary that was in has moved its own parameter.

    There is no guess "out": a canary that no sample had would look so, too.
    """
    canaries = Canaries(CANARIES)
    gradient_of = PrivateGradient(
        objective=canaries.objective, rule=rule, most_rows=CANARIES, expected_rows=SHARE * CANARIES
    )

    def score(included: NDArray[np.bool_], noise: Words) -> Array:
        model, present = canaries.model, np.flatnonzero(included)
        begun = model.weight.detach().numpy().copy()
        for _ in range(steps):
            gradient_of(*canaries.batch(sampled(present, rule.sampling_probability, noise)), noise)
            assert model.weight.grad is not None
            model.weight.data -= LEARNING_RATE * model.weight.grad
        return np.asarray((begun - model.weight.detach().numpy())[0], dtype=np.float64)

    return guessed(score, out=0, words=words)


def gradient_runs() -> list[OneRun]:
    """A whole training with `dp-sgd`; a canary is a record that always has a gradient beyond the radius."""
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
        fault="",
        guesses=lambda words: trained(mechanism.rule, steps, words),
        claim=proved(mechanism.guarantee, f"the gradients of a run of {steps} steps", SAMPLED),
        subject=mechanism,
    )
    quiet = replace(mechanism.rule, noise_multiplier=mechanism.rule.noise_multiplier / 8)
    faulty = replace(
        sound, fault="an eighth of the noise", guesses=lambda words: trained(quiet, steps, words)
    )
    return [sound, faulty]


def served(mechanism: DPFedAvg, words: Words) -> Guesses:
    """Guess "in" from the model after all rounds: a canary is a user that always moves its own parameter."""

    def score(included: NDArray[np.bool_], noise: Words) -> Array:
        model, state = np.zeros(CANARIES, np.float32), mechanism.start()
        seed = np.empty(8, dtype=np.uint32)
        noise.fill(seed)
        rng = np.random.default_rng(seed)
        for _ in range(mechanism.federation.rounds):
            chosen = [user for user in mechanism.sample(CANARIES, rng).tolist() if included[user]]
            sent = []
            for user in chosen:
                weights = model.copy()
                weights[user] += 2 * RADIUS
                sent.append(Upload(user, ROWS, mechanism.upload(weights, model, ROWS, noise)))
            model, state = mechanism.combine(model, state, sent, noise)
        return model.astype(np.float64)

    return guessed(score, out=0, words=words)


def server_runs() -> list[OneRun]:
    """A whole run of `dp-fedavg`, of as many rounds as the training of `gradient_runs` has steps."""
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
        fault="",
        guesses=lambda words: served(mechanism, words),
        claim=proved(mechanism.guarantee, released, SAMPLED),
        subject=mechanism,
    )
    quiet = replace(mechanism, noise_multiplier=mechanism.noise_multiplier / 8)
    return [sound, replace(sound, fault="an eighth of the noise", guesses=lambda words: served(quiet, words))]
