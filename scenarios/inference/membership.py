"""Membership inference as cells of a sweep, on digits: was a model trained on this image?

    digits ──▶ candidates (2 n): each victim is trained on a half of them
           ──▶ the attacker's rows, all others: each shadow is trained on n of them
    losses of all candidates ──alone | less the shadows' mean | as a likelihood ratio──▶ AUC, TPR, advantage

Victims and shadows are trained alike, by the node's own trainer if gradients are private.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.audits import membership, shadows
from mechanisms.audits.membership import Losses
from mechanisms.audits.shadows import Shadows
from mechanisms.mechanism import Mechanism
from mechanisms.noise.randomness import SeededWords
from node.system.errors import ConfigError
from node.training.gradient_steps import PlainSteps
from node.training.trainer import Trainer, read_vector
from scenarios.clients.work import node_rows
from scenarios.federated.rounds import protection_facts
from scenarios.federated.shadow_models import random_halves, row_losses
from scenarios.frame.digests import salt_of
from scenarios.inference.cell import AttackCell
from scenarios.study.cells import Outcome, Room
from scenarios.study.threads import one_thread

Floats = NDArray[np.float32]

ATTACKS: Mapping[str, Callable[[Losses, Shadows], Losses]] = {
    "loss": lambda losses, _: losses,
    "calibrated": shadows.calibrated_losses,
    "ratio": shadows.likelihood_ratio,
}
"""The attacks, by the first word of their facts: `loss auc`, `ratio tpr`, ..."""
FPR = 0.05
"""The false positive rate at which the TPR is reported."""

# Streams of random numbers: [one of these, seed, ...].
_ROWS, _HALVES, _NOISE = 61, 62, 63


@dataclass(frozen=True)
class MembershipCell(AttackCell):
    """An attack on `victims` models of `rows` rows each with `shadows` models; its figure: the ratio AUC."""

    rows: int
    victims: int
    shadows: int

    dataset: ClassVar[str] = "digits"
    kind: ClassVar[str] = "membership"

    def check(self, room: Room) -> None:
        """Raise ConfigError unless there are enough rows, and model and mechanism can be made."""
        dataset = room.dataset(self.dataset, self.seed)
        if 3 * self.rows > len(dataset.train_y):
            raise ConfigError(
                f"{3 * self.rows} rows are needed, and {self.dataset} has {len(dataset.train_y)}"
            )
        self.mechanism(self.built(dataset), self.rows)

    def replay(self, room: Room) -> Outcome:
        """Run the attack in this process, with noise from the seed."""
        begun, dataset = time.perf_counter(), room.dataset(self.dataset, self.seed)
        model = self.built(dataset)
        mechanism = self.mechanism(model, self.rows)
        order = np.random.default_rng([_ROWS, self.seed]).permutation(len(dataset.train_y))
        candidates, own = order[: 2 * self.rows], order[2 * self.rows :]
        rng = np.random.default_rng([_HALVES, self.seed])
        parts = random_halves(candidates, self.victims, rng)
        parts += [rng.permutation(own)[: self.rows] for _ in range(self.shadows)]
        with one_thread():
            words = SeededWords(np.random.default_rng([_NOISE, self.seed, salt_of(self.arm)]))
            start = read_vector(model, "*")
            vectors = self.trained(dataset, model, start, parts, mechanism, words)
            x, y = dataset.train_x[candidates], dataset.train_y[candidates]
            losses = np.stack([row_losses(model, vector, x, y) for vector in vectors])
            evaluator = Trainer(model, self.train, node_rows(dataset, own[:1]), 0, PlainSteps)
            right = [evaluator.evaluate(vector).score for vector in vectors[: self.victims]]
        inside = np.stack([np.isin(candidates, part) for part in parts[: self.victims]])
        found = attacked(losses[: self.victims], inside, losses[self.victims :], rng)
        room.say(1, found["ratio auc"])
        of_model = {"accuracy": float(np.mean(right)), "ceiling": ceiling(mechanism)}
        facts = {**protection_facts(mechanism), **found, **of_model}
        return Outcome((found["ratio auc"],), facts, time.perf_counter() - begun)


def attacked(
    of_victims: NDArray[np.float64],
    inside: NDArray[np.bool_],
    of_shadows: NDArray[np.float64],
    rng: np.random.Generator,
) -> dict[str, float]:
    """Each attack's AUC, TPR at FPR .05 and advantage, as means over the victims.

    of_victims (v, n) and of_shadows (s, n): losses of the same n rows; inside (v, n): the rows that each
    victim was trained on. The threshold of an advantage is chosen on one half of the rows and evaluated on
    the other.
    """
    figures: dict[str, list[float]] = {}
    for losses, members in zip(of_victims, inside, strict=True):
        own = Shadows(of_shadows[:, members], of_shadows[:, ~members])
        for name, attack in ATTACKS.items():
            scores = attack(Losses(losses[members], losses[~members]), own)
            first, second = membership.halves(scores, SeededWords(rng))
            judged = membership.rates(second, membership.best_threshold(first))
            figures.setdefault(f"{name} auc", []).append(membership.auc(scores))
            figures.setdefault(f"{name} tpr", []).append(membership.tpr_at(scores, FPR))
            figures.setdefault(f"{name} advantage", []).append(judged.advantage)
    return {name: float(np.mean(values)) for name, values in figures.items()}


def ceiling(mechanism: Mechanism) -> float:
    """The largest expected advantage of any attack here; 1 without a guarantee.

    A victim has exactly half of the rows, so the two cases differ by the replacement of one row. That is two
    steps of adding or removing a row, which are (2 epsilon, (1 + e^epsilon) delta)-DP.
    """
    guarantee = mechanism.guarantee
    if guarantee is None:
        return 1.0
    epsilon, delta = guarantee.epsilon, guarantee.delta
    return membership.advantage_at_most(2 * epsilon, (1 + math.exp(epsilon)) * delta)
