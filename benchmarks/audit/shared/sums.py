"""Sums of the honest members of a group in this process: what a secure sum would decode to, and what is left.

What colluders add is known to them and taken off, so only honest members are here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.audit.case import DELTA, EPSILON
from benchmarks.audit.shared.faults import Fault, Member, Right, TensorWise, Unrounded, faulty, sound, summed
from benchmarks.audit.shared.reference import Reference
from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import releases_noise_multiplier
from mechanisms.audits import one_run
from mechanisms.audits.residuals import Residuals
from mechanisms.audits.shifts import Shift, shift
from mechanisms.gradients.distributed import SharedNoise
from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.gradients.objective import Objective
from mechanisms.noise.randomness import SeededWords, Words
from node.data.dataset import load_dataset
from node.task.load import load_task
from node.training.build import build_model
from node.training.trainer import read_vector, write_vector

MEMBERS, HONEST, STEPS = 10, 7, 18
RADIUS = 1.0
LOUD, LOUD_STEPS = 10, 3
"""Planted rows of a member, one of each class, and the steps in which they are in."""
CANARIES, GUESSES = 4_000, 500
"""Of the audit by one run: canaries of all members, and guesses "in" and "out" each."""
RECORDS = 40
_RATE = 0.5
LOUDNESS = 100.0
"""The std of a loud row's features; those of the digits are from 0 to 1."""

Rows = tuple[torch.Tensor, torch.Tensor]
Make = Callable[[Objective, SharedNoise, int], Member]


@dataclass(frozen=True)
class Digits:
    """A model for the digits and the rows of each honest member; each step has all of them (q = 1)."""

    model: nn.Module
    parts: tuple[Rows, ...]
    rule: SharedNoise

    @property
    def rows(self) -> int:
        """The rows of all honest members."""
        return sum(len(y) for _, y in self.parts)

    @property
    def objective(self) -> Objective:
        """What is differentiated."""
        x, y = self.parts[0]
        parameters = dict(self.model.named_parameters())
        return Objective(self.model, parameters, functional.cross_entropy, (x[:1], y[:1]))


def rule_of(size: int, rows: float, steps: int) -> SharedNoise:
    """The rule for EPSILON over `steps` sums of all rows, if all but the colluders are honest."""
    multiplier = releases_noise_multiplier(EPSILON, DELTA, steps)
    gradient = GradientRule(RADIUS, multiplier, 1.0)
    return SharedNoise(
        gradient=gradient, honest=HONEST - 1, expected_batch=rows, members=MEMBERS, size=size, steps=steps
    )


def digits(steps: int = STEPS) -> Digits:
    """The digits' rows of HONEST of MEMBERS members, for `steps` steps."""
    task = load_task("digits", [])
    datasets = [load_dataset(task, None, (member, MEMBERS)) for member in range(MEMBERS)]
    model = build_model(task, datasets[0])
    size = sum(value.numel() for value in model.parameters())
    rows = sum(len(data.train_y) for data in datasets)
    parts = tuple((data.train_x, data.train_y) for data in datasets[:HONEST])
    return Digits(model, parts, rule_of(size, float(rows), steps))


def residuals(of: Digits, fault: Fault, words: Words, steps: int = STEPS) -> Residuals:
    """What is left of `steps` sums whose parameters follow from each other; towards the reference."""
    makers = {
        share: Right(of.objective, faulty(of.rule, share, 1.0), of.rows)
        for share in sorted(set(fault.shares))
    }
    members = [makers[share] for share in fault.shares]
    reading = faulty(of.rule, 1.0, fault.scale)
    reference = Reference(of.model, functional.cross_entropy, RADIUS)
    x, y = (torch.cat(parts) for parts in zip(*of.parts, strict=True))
    initial = parameters = read_vector(of.model, "*")
    left, toward = np.empty((steps, of.rule.size)), np.empty((steps, of.rule.size))
    for step in range(steps):
        write_vector(of.model, parameters, "*")
        offers = [member.words(*part, words) for member, part in zip(members, of.parts, strict=True)]
        decoded = reading.decode(summed(offers))
        toward[step] = reference(parameters, x, y)
        left[step] = decoded - toward[step]
        parameters = (parameters - _RATE * decoded / of.rule.expected_batch).astype(np.float32)
    write_vector(of.model, initial, "*")
    return Residuals(left, toward, honest_std(of.rule))


def honest_std(rule: SharedNoise) -> float:
    """sigma: the std of the noise that HONEST members add to a sum."""
    return rule.share_std * math.sqrt(HONEST)


# -- planted loud rows -------------------------------------------------------------------------------


def loud_rows(number: int, width: int, classes: int, rng: np.random.Generator) -> Rows:
    """Rows (number, width) whose gradients are far longer than C in every tensor, of all classes in turn."""
    x = torch.from_numpy((rng.normal(size=(number, width)) * LOUDNESS).astype(np.float32))
    return x, torch.arange(number) % classes


def loud_residuals(of: Digits, make: Make, planted: int, seed: int) -> Residuals:
    """What is left of sums with `planted` loud rows at each member, towards what these rows should add."""
    rng = np.random.default_rng(seed)
    words = SeededWords(rng)
    x, y = of.parts[0]
    loud = [loud_rows(planted, x.shape[1], int(y.max()) + 1, rng) for _ in of.parts]
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
        of.rule.decode(summed([member.words(x, y, words) for x, y in parts])) - whole
        for _ in range(LOUD_STEPS)
    ]
    return Residuals(np.stack(left), np.tile(toward, (LOUD_STEPS, 1)), honest_std(of.rule))


MAKERS: dict[str, Make] = {
    "": Right,
    "each tensor clipped by itself": TensorWise,
    "no room for the rounding": Unrounded,
}
"""How a member makes its words, by fault."""


# -- the shift of a record ---------------------------------------------------------------------------


def shifts(of: Digits, make: Make, records: int, seed: int) -> list[Shift]:
    """How far each of `records` loud rows moves the words of a batch of ten rows, with equal random words."""
    x, y = of.parts[0]
    loud_x, loud_y = loud_rows(records, x.shape[1], int(y.max()) + 1, np.random.default_rng([seed, 1]))
    member = make(of.objective, of.rule, of.rows)
    found = []
    for record in range(records):
        without = (x[:10], y[:10])
        joined = (torch.cat([x[:10], loud_x[record, None]]), torch.cat([y[:10], loud_y[record, None]]))
        offered, other = (
            member.words(*rows, SeededWords(np.random.default_rng([seed, record + 2])))
            for rows in (joined, without)
        )
        found.append(shift(offered, other, RADIUS, of.rule.unit))
    return found


# -- one run of many canaries ------------------------------------------------------------------------


class Canaries:
    """Sums of rows of which each moves a coordinate of its own, as far as a row can. Coins include them."""

    def __init__(self, fault: Fault) -> None:
        """`fault`: of the honest members, which divide the canaries among themselves."""
        self.rule = replace(
            rule_of(CANARIES, float(CANARIES), 1),
            gradient=GradientRule(RADIUS, gaussian.noise_multiplier(EPSILON, DELTA), 1.0),
        )
        self._model = nn.Linear(CANARIES, 1, bias=False)
        rows = torch.eye(CANARIES)
        self._rows = rows
        objective = Objective(
            self._model, dict(self._model.named_parameters()), _steep, (rows[:1], torch.ones(1, 1))
        )
        self._members = {
            share: Right(objective, faulty(self.rule, share, 1.0), CANARIES) for share in set(fault.shares)
        }
        self._fault = fault

    def guesses(self, words: Words) -> one_run.Guesses:
        """Guesses from one sum: the canaries of the largest coordinates are in, of the smallest out."""
        included = one_run.coins(CANARIES, words)
        parts = np.array_split(np.flatnonzero(included), HONEST)
        offers = [
            self._members[share].words(self._rows[part], torch.ones(len(part), 1), words)
            for share, part in zip(self._fault.shares, parts, strict=True)
        ]
        scores = self.rule.decode(summed(offers))
        return one_run.guess(scores, included, GUESSES, GUESSES)


def _steep(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return 100 * (outputs * targets).mean()


def canaries(share: float) -> Canaries:
    """The canaries where each honest member adds `share` of its noise."""
    return Canaries(sound(HONEST) if share == 1 else Fault("", (share,) * HONEST))
