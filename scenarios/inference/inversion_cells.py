"""Gradient inversion as cells of a sweep: one row, out of a sum of updates that nodes offer.

    rows of each client ──training──▶ update ──mechanism──▶ offer ──secure sum──▶ quotient | search ──▶ row

The attacker sees the start and the sum, knows all labels, and has other rows of the same labels. A figure is
how similar what it finds is to the first client's first row: the better of the two attacks, and of all rows
that the search found for that label, as if the attacker knew which is best.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from mechanisms.mechanism import Mechanism
from mechanisms.noise.randomness import SeededWords
from node.training.build import build
from node.training.trainer import read_vector, shapes, split_vector
from scenarios.data.dataset import Dataset
from scenarios.federated.cell import node_rows, protection_facts
from scenarios.federated.clients import train_clients, training_of
from scenarios.inference.cell import AttackCell
from scenarios.inference.inversion import first_layer_input, guessed, matching_rows, similarity
from scenarios.study.cells import Fact, Outcome, Room, salt_of
from scenarios.study.threads import one_thread

Floats = NDArray[np.float32]

RECOVERED = 0.9
"""A similarity from which on a row counts as recovered."""
STEPS = 300
"""Of the search."""
TRUTH, FOUND = "truth", "found"
"""Series with the pixels of the first target, and of what was found of it."""

# Streams of random numbers: [one of these, seed, ...].
_ROWS, _NOISE, _SEARCH = 41, 42, 43
_BLOCK = 32


@dataclass(frozen=True)
class Inverted:
    """One target: its row and the row that was found (pixels,), and similarities with the truth.

    guess: what as many candidates reach without any update; quotient_guess: what one reaches.
    """

    truth: Floats
    found: Floats
    quotient: float
    search: float
    guess: float
    quotient_guess: float

    @property
    def best(self) -> float:
        """Of the better attack."""
        return max(self.quotient, self.search)


@dataclass(frozen=True)
class InversionCell(AttackCell):
    """A sum of `updates`, each of `rows` rows, attacked for `targets` rows one after the other."""

    updates: int
    rows: int
    targets: int

    dataset: ClassVar[str] = "digits"
    kind: ClassVar[str] = "inversion"

    def check(self, room: Room) -> None:
        """Whether model and mechanism can be made. Raises ConfigError."""
        self.mechanism(self._model(room.dataset(self.dataset, self.seed)), self.rows)

    def replay(self, room: Room) -> Outcome:
        """In this process, with noise from the seed."""
        begun, dataset = time.perf_counter(), room.dataset(self.dataset, self.seed)
        model = self._model(dataset)
        mechanism = self.mechanism(model, self.rows)
        with one_thread():
            found = [self._inverted(dataset, model, mechanism, target) for target in range(self.targets)]
        figure = float(np.mean([one.best for one in found]))
        room.say(1, figure)
        pictures = {TRUTH: _pixels(found[0].truth), FOUND: _pixels(found[0].found)}
        facts = {**protection_facts(mechanism), **figures(found)}
        return Outcome((figure,), facts, time.perf_counter() - begun, pictures)

    def _model(self, dataset: Dataset) -> nn.Module:
        return build(self.model, self.seed, node_rows(dataset, np.arange(1)))

    def _inverted(self, dataset: Dataset, model: nn.Module, mechanism: Mechanism, target: int) -> Inverted:
        """The attack on the first row of an order that all arms have in common."""
        order = np.random.default_rng([_ROWS, self.seed, target]).permutation(len(dataset.train_y))
        chosen, start = order[: self.updates * self.rows], read_vector(model, "*")
        words = SeededWords(np.random.default_rng([_NOISE, self.seed, salt_of(self.arm), target]))
        total = self._sum(dataset, model, start, chosen, mechanism, words)
        gradient = (-total / self.train.learning_rate).astype(np.float32)
        x, y = dataset.train_x[chosen], dataset.train_y[chosen]
        rng = np.random.default_rng([_SEARCH, self.seed, target])
        rows = matching_rows(
            model=model,
            start=start,
            gradient=gradient,
            labels=y.tolist(),
            loss=functional.cross_entropy,
            shape=x.shape[1:],
            steps=STEPS,
            variation=0.0,
            rng=rng,
        )
        alike = np.delete(np.arange(len(dataset.train_y)), order[0])
        others = dataset.train_x[alike[dataset.train_y[alike] == y[0]]]
        return judged(x[0], quotient_row(model, gradient).reshape(x[0].shape), rows[y == y[0]], others)

    def _sum(
        self,
        dataset: Dataset,
        model: nn.Module,
        start: Floats,
        chosen: NDArray[np.int64],
        mechanism: Mechanism,
        words: SeededWords,
    ) -> NDArray[np.float64]:
        """(d,): the sum of what all clients offer after a round, the `chosen` rows dealt out in order."""
        parts = np.split(chosen, self.updates)
        seeds = [(self.seed, client) for client in range(self.updates)]
        weights, _ = train_clients(
            model=model,
            start=start,
            rows_of_clients=parts,
            x=dataset.train_x,
            y=dataset.train_y,
            loss=functional.cross_entropy,
            training=training_of(self.train),
            seeds=seeds,
            after_batch=None,
            block=_BLOCK,
        )
        offers = [mechanism.offer(vector - start, (), words).vector for vector in weights]
        total: NDArray[np.float64] = np.sum(offers, axis=0, dtype=np.float64)
        return total


def quotient_row(model: nn.Module, gradient: Floats) -> Floats:
    """(in,): the quotient of the first layer's gradients, in a model whose first layer is linear."""
    parts = split_vector(gradient, shapes(model, "*"))
    (weight, _), (bias, _) = shapes(model, "*")[:2]
    return first_layer_input(parts[weight], parts[bias])


def judged(truth: Floats, quotient: Floats, rows: Floats, others: Floats) -> Inverted:
    """What the attacks found, `quotient` (...) and `rows` (k, ...), beside the `truth` (...).

    `others` (n, ...) are what the attacker could have guessed.
    """
    candidates = [quotient, *rows]
    likeness = [similarity(candidate, truth) for candidate in candidates]
    return Inverted(
        truth.ravel(),
        candidates[int(np.argmax(likeness))].ravel(),
        likeness[0],
        max(likeness[1:]),
        guessed(truth, others, len(candidates)),
        guessed(truth, others, 1),
    )


def figures(found: list[Inverted]) -> dict[str, Fact]:
    """The means over the targets; `above guess` is how far the attack's similarity is above a guess's."""
    best = np.array([one.best for one in found])
    return {
        "quotient": float(np.mean([one.quotient for one in found])),
        "search": float(np.mean([one.search for one in found])),
        "guess": float(np.mean([one.guess for one in found])),
        "above guess": float(np.mean([one.best - one.guess for one in found])),
        "quotient above guess": float(np.mean([one.quotient - one.quotient_guess for one in found])),
        "recovered": float((best >= RECOVERED).mean()),
    }


def _pixels(row: Floats) -> tuple[float, ...]:
    """From 0 to 1, to two digits: for a picture."""
    return tuple(round(float(pixel), 2) for pixel in np.clip(row, 0, 1))
