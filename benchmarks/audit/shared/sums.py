"""Sums of a group's honest members in this process: what a secure sum decodes to, and what is left of it.

Colluders know what they add, and take it off. So only honest members are here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.audit.canaries import Canaries
from benchmarks.audit.case import DELTA, EPSILON
from benchmarks.audit.shared.faults import (
    Fault,
    Member,
    Right,
    TensorWise,
    Unrounded,
    faulty_rule,
    ring_sum,
)
from benchmarks.audit.shared.reference import Reference
from mechanisms.accounting.ledger import releases_noise_multiplier
from mechanisms.audits import one_run
from mechanisms.audits.residuals import Residuals
from mechanisms.audits.shifts import Shift, shift
from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.gradients.objective import Objective
from mechanisms.gradients.shared_noise import SharedNoise
from mechanisms.noise.randomness import SeededWords, Words
from node.data.dataset import load_dataset
from node.task.load import load_task
from node.training.build import build_model
from node.training.trainer import read_vector, write_vector

MEMBERS, HONEST, STEPS = 10, 7, 18
RADIUS = 1.0
LOUD, LOUD_STEPS = 10, 3
"""How many loud rows a member has, one of each class, and for how many steps."""
CANARIES, GUESSES = 4_000, 500
"""In the audit by one run: the canaries of all members; the guesses "in", and as many "out"."""
RECORDS = 40
_SHIFT = 1  # a stream of random numbers: [this, a number]
_RATE = 0.5
LOUDNESS = 100.0
"""The std of a loud row's features. Those of the digits are from 0 to 1."""

Rows = tuple[torch.Tensor, torch.Tensor]
Make = Callable[[Objective, SharedNoise, int], Member]


@dataclass(frozen=True)
class Digits:
    """A model for the digits, and the rows of each honest member, all of which are in each step (q = 1)."""

    model: nn.Module
    parts: tuple[Rows, ...]
    rule: SharedNoise

    @property
    def rows(self) -> int:
        """The rows of all honest members."""
        return sum(len(y) for _, y in self.parts)

    @property
    def objective(self) -> Objective:
        """What the members differentiate."""
        x, y = self.parts[0]
        parameters = dict(self.model.named_parameters())
        return Objective(self.model, parameters, functional.cross_entropy, (x[:1], y[:1]))


def rule_of(size: int, rows: float, steps: int) -> SharedNoise:
    """Return the rule for EPSILON over `steps` sums of all rows, with HONEST of MEMBERS members honest."""
    multiplier = releases_noise_multiplier(EPSILON, DELTA, steps)
    gradient = GradientRule(RADIUS, multiplier, 1.0)
    return SharedNoise(
        gradient=gradient, honest=HONEST - 1, expected_batch=rows, members=MEMBERS, size=size, steps=steps
    )


def digits(steps: int = STEPS) -> Digits:
    """Return the digits' rows of the HONEST members, and a rule for `steps` steps."""
    task = load_task("digits", [])
    datasets = [load_dataset(task, None, (member, MEMBERS)) for member in range(MEMBERS)]
    model = build_model(task, datasets[0])
    size = sum(value.numel() for value in model.parameters())
    rows = sum(len(data.train_y) for data in datasets)
    parts = tuple((data.train_x, data.train_y) for data in datasets[:HONEST])
    return Digits(model, parts, rule_of(size, float(rows), steps))


def residuals(of: Digits, fault: Fault, words: Words) -> Residuals:
    """Take STEPS steps; return what is left of each sum, towards the reference."""
    makers = {
        share: Right(of.objective, faulty_rule(of.rule, share, 1.0), of.rows)
        for share in sorted(set(fault.shares))
    }
    members = [makers[share] for share in fault.shares]
    reading = faulty_rule(of.rule, 1.0, fault.scale)
    reference = Reference(of.model, functional.cross_entropy, RADIUS)
    x, y = (torch.cat(parts) for parts in zip(*of.parts, strict=True))
    initial = parameters = read_vector(of.model, "*")
    left, toward = np.empty((STEPS, of.rule.size)), np.empty((STEPS, of.rule.size))
    for step in range(STEPS):
        write_vector(of.model, parameters, "*")
        offers = [member.words(*part, words) for member, part in zip(members, of.parts, strict=True)]
        decoded = reading.decode(ring_sum(offers))
        toward[step] = reference(parameters, x, y)
        left[step] = decoded - toward[step]
        parameters = (parameters - _RATE * decoded / of.rule.expected_batch).astype(np.float32)
    write_vector(of.model, initial, "*")
    return Residuals(left, toward, honest_std(of.rule))


def honest_std(rule: SharedNoise) -> float:
    """Return sigma, the std of the noise that HONEST members add to a sum."""
    return rule.share_std * math.sqrt(HONEST)


# -- planted loud rows -------------------------------------------------------------------------------


def loud_rows(number: int, width: int, classes: int, rng: np.random.Generator) -> Rows:
    """Return rows (number, width) of all classes, whose gradients are far longer than C in every tensor."""
    x = torch.from_numpy((rng.normal(size=(number, width)) * LOUDNESS).astype(np.float32))
    return x, torch.arange(number) % classes


def loud_residuals(of: Digits, make: Make, seed: int) -> Residuals:
    """Return what is left of sums with LOUD loud rows a member, towards what these should add."""
    rng = np.random.default_rng(seed)
    words = SeededWords(rng)
    x, y = of.parts[0]
    loud = [loud_rows(LOUD, x.shape[1], int(y.max()) + 1, rng) for _ in of.parts]
    parts = [
        (torch.cat([x, more_x]), torch.cat([y, more_y]))
        for (x, y), (more_x, more_y) in zip(of.parts, loud, strict=True)
    ]
    most = sum(len(own[1]) for own in parts)
    member = make(of.objective, of.rule, most)
    reference = Reference(of.model, functional.cross_entropy, RADIUS)
    parameters = read_vector(of.model, "*")
    all_x, all_y = (torch.cat(each) for each in zip(*parts, strict=True))
    loud_x, loud_y = (torch.cat(each) for each in zip(*loud, strict=True))
    whole = reference(parameters, all_x, all_y)
    toward = reference(parameters, loud_x, loud_y)
    left = [
        of.rule.decode(ring_sum([member.words(x, y, words) for x, y in parts])) - whole
        for _ in range(LOUD_STEPS)
    ]
    return Residuals(np.stack(left), np.tile(toward, (LOUD_STEPS, 1)), honest_std(of.rule))


MAKERS: dict[str, Make] = {
    "": Right,
    "each tensor clipped by itself": TensorWise,
    "no room for the rounding": Unrounded,
}
"""The kind of member by the name of its fault."""


# -- the shift of a record ---------------------------------------------------------------------------


def shifts(of: Digits, make: Make, records: int) -> list[Shift]:
    """Return how far each of `records` loud rows moves the words of ten rows, with the same random words."""
    x, y = of.parts[0]
    loud_x, loud_y = loud_rows(records, x.shape[1], int(y.max()) + 1, np.random.default_rng([_SHIFT, 1]))
    member = make(of.objective, of.rule, of.rows)
    found = []
    for record in range(records):
        without = (x[:10], y[:10])
        joined = (torch.cat([x[:10], loud_x[record, None]]), torch.cat([y[:10], loud_y[record, None]]))
        offered, other = (
            member.words(*rows, SeededWords(np.random.default_rng([_SHIFT, record + 2])))
            for rows in (joined, without)
        )
        found.append(shift(offered, other, RADIUS, of.rule.unit))
    return found


# -- one run of many canaries ------------------------------------------------------------------------


class CanarySum:
    """A sum of canaries, which coins include. Each moves a coordinate of its own, as far as a row can."""

    def __init__(self, share: float) -> None:
        """`share`: how much of its noise each honest member adds."""
        self.rule = rule_of(CANARIES, float(CANARIES), 1)
        self._canaries = Canaries(CANARIES)
        self._member = Right(self._canaries.objective, faulty_rule(self.rule, share, 1.0), CANARIES)

    def guesses(self, words: Words) -> one_run.Guesses:
        """Guess from one sum: the canaries of the largest coordinates are in, of the smallest out."""
        included = one_run.coins(CANARIES, words)
        parts = np.array_split(np.flatnonzero(included), HONEST)
        offers = [self._member.words(*self._canaries.batch(part), words) for part in parts]
        scores = self.rule.decode(ring_sum(offers))
        return one_run.guess(scores, included, GUESSES, GUESSES)
