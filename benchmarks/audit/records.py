"""Audits of mechanisms that protect one record: private gradient steps, noisy labels, noisy embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.audit.case import DELTA, EPSILON, Case
from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import Ledger, spent
from mechanisms.audits.audit import Array, Method, Pair, Release
from mechanisms.gradients.dp_sgd import GradientRule, PrivateGradient, poisson_rows, record_events
from mechanisms.gradients.objective import Objective
from mechanisms.labels.embeddings import EmbeddingDP
from mechanisms.labels.flips import LabelDP
from mechanisms.noise.randomness import Words

RADIUS, STEPS, COORDINATES = 1.0, 5, 4
ABREAST = 1_000
SAMPLED_DELTA = 0.1


def record_cases() -> list[Case]:
    """Return the cases of all mechanisms, mechanism by mechanism."""
    return [*gradient_cases(), *label_cases(), *embedding_cases()]


# -- gradient steps ----------------------------------------------------------------------------------


def steps(rule: GradientRule, number: int) -> Release:
    """A release of (n, `number`) private gradients for data sets (n, 1) that hold a canary (1) or no row (0).

    A canary is a record whose gradient is far longer than the radius and always has the same direction. One
    call makes `ABREAST` runs; each has a parameter of its own that only its canary moves. Rows are sampled
    and clipped, and parameters are noised, independently and on the same grid, as in separate runs.
    """
    model = nn.Linear(ABREAST, 1, bias=False)
    parameters = dict(model.named_parameters())
    canaries = torch.eye(ABREAST)
    gradient_of = PrivateGradient(
        objective=Objective(model, parameters, _steep, (canaries[:1], torch.ones(1, 1))),
        rule=rule,
        most_rows=ABREAST,
        expected_rows=1.0,
    )

    def gradient(present: NDArray[np.int64], words: Words) -> Array:
        sampled = poisson_rows(len(present), rule.sampling_probability, words) if len(present) else present
        batch = canaries[torch.from_numpy(present[sampled])]
        gradient_of(batch, torch.ones(len(batch), 1), words)
        return np.asarray(torch.as_tensor(model.weight.grad)[0], dtype=np.float64)

    def release(inputs: Array, words: Words) -> Array:
        seen = np.empty((len(inputs), number))
        for start in range(0, len(inputs), ABREAST):
            block = inputs[start : start + ABREAST, 0]
            for step in range(number):
                seen[start : start + ABREAST, step] = gradient(np.flatnonzero(block), words)[: len(block)]
        return seen

    return release


def _likelihood(rule: GradientRule) -> Callable[[Array], Array]:
    """The most powerful test, from (n, steps) to (n,): ln of the likelihood ratio of canary to no canary."""
    q, z = rule.sampling_probability, rule.noise_multiplier
    return lambda seen: np.log(1 - q + q * np.exp((2 * seen - 1) / (2 * z * z))).sum(axis=1)


def _steep(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return 100 * (outputs * targets).mean()


def gradient_cases() -> list[Case]:
    """dp-sgd: one step on all rows, and `STEPS` steps on Poisson samples; neighbours: add or remove a record.

    A rule keeps its claim at every delta. At delta = 0.1 the rates of few runs say most about the sampling.
    """
    multiplier = gaussian.noise_multiplier(EPSILON, DELTA)
    whole, halved = GradientRule(RADIUS, multiplier, 1.0), GradientRule(RADIUS, multiplier / 2, 1.0)
    rare = GradientRule(RADIUS, 0.5, 0.1)
    pair = Pair.of(np.zeros(1), np.full(1, RADIUS))
    sound = Case("dp-sgd, a step", "", steps(whole, 1), pair, repeats=1)
    sampled = Case(
        f"dp-sgd, {STEPS} steps",
        "",
        steps(rare, STEPS),
        Pair(pair.x0, pair.x1, np.zeros(STEPS), np.ones(STEPS)),
        claim=spent(Ledger.of([record_events(rare, STEPS)]), SAMPLED_DELTA).epsilon,
        delta=SAMPLED_DELTA,
        method=Method.RATIO,
        score=_likelihood(rare),
        threshold=1.0,
        repeats=1,
    )
    always = replace(rare, sampling_probability=1.0)
    return [
        sound,
        replace(sound, fault="noise halved", release=steps(halved, 1)),
        sampled,
        replace(sampled, fault="every row in every batch", release=steps(always, STEPS)),
    ]


# -- randomised responses ----------------------------------------------------------------------------


def labels(epsilon: float, draws: int = 1) -> Release:
    """A release of binary labels, one run each, drawn anew from the true labels `draws` times."""
    return lambda inputs, words: np.hstack([LabelDP(epsilon, words)(inputs) for _ in range(draws)])


def one_hot_labels(epsilon: float) -> Release:
    """A release of one-hot labels of several classes, one row per run."""
    return lambda inputs, words: LabelDP(epsilon, words)(inputs)


def embeddings(epsilon: float) -> Release:
    """A release of whole embeddings, one row per run."""
    return lambda inputs, words: EmbeddingDP(epsilon, words)(inputs)


def label_cases() -> list[Case]:
    """Two and ten classes; the score counts the other label (or, with two draws, the label in both)."""
    binary = Case(
        "label DP, binary",
        "",
        labels(EPSILON),
        Pair.of(np.zeros(1), np.ones(1)),
        delta=0.0,
        method=Method.RATIO,
    )
    classes = np.eye(10)
    ten = replace(
        binary,
        mechanism="label DP, 10 classes",
        release=one_hot_labels(EPSILON),
        pair=Pair.of(classes[0], classes[1]),
        score=lambda released: released[:, 1],
    )
    twice = replace(binary, score=lambda released: released.min(axis=1))
    return [
        binary,
        replace(binary, fault="epsilon doubled", release=labels(2 * EPSILON)),
        replace(twice, fault="drawn twice, counted once", release=labels(EPSILON, draws=2)),
        ten,
        replace(ten, fault="epsilon doubled", release=one_hot_labels(2 * EPSILON)),
    ]


def embedding_cases() -> list[Case]:
    """Two embeddings that differ in every sign: d coordinates cost d epsilon / 2, which is EPSILON here."""
    epsilon = 2 * EPSILON / COORDINATES
    sound = Case(
        "embedding DP",
        "",
        embeddings(epsilon),
        Pair.of(np.full(COORDINATES, -1.0), np.ones(COORDINATES)),
        claim=EmbeddingDP(epsilon).total_epsilon(COORDINATES),
        delta=0.0,
        method=Method.RATIO,
        score=lambda released: released.min(axis=1),
    )
    return [
        sound,
        replace(sound, fault="epsilon doubled", release=embeddings(2 * epsilon)),
        replace(sound, fault="the cost of two coordinates", claim=epsilon),
    ]
