"""Gradient inversion: from the update of one step on one row back to that row.

There are two attacks. A linear first layer reveals its input exactly: for one row, dL/dW_i = dL/db_i x, so x
is the quotient of the two (Phong et al. 2018, "Privacy-preserving deep learning via additively homomorphic
encryption", section 3). For any other model a search finds a row whose gradient has the same direction
(Geiping et al. 2020, "Inverting gradients", (4): cosine distance, and total variation for images).

The attacks show what a secure sum and noise prevent. For a sum, the quotient is a mixture of its rows. The
search, if it knows the labels, finds all rows of a sum together as long as they have clearly fewer numbers
than the gradient: a sum of few rows' gradients alone is no protection. Many rows and steps in each update
protect against these two attacks, and noise protects against any attack.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from mechanisms.arguments import at_least_zero, count
from mechanisms.gradients.objective import Loss
from mechanisms.mechanism import Mechanism
from mechanisms.noise.randomness import SeededWords
from node.training.trainer import read_vector, shapes, split_vector
from scenarios.data.dataset import FederatedDataset
from scenarios.federated.rounds import protection_facts
from scenarios.frame.digests import salt_of
from scenarios.inference.cell import AttackCell
from scenarios.study.cells import Fact, Outcome, Room
from scenarios.study.threads import one_thread

Floats = NDArray[np.float32]

RECOVERED = 0.9
"""The least similarity of a row that counts as recovered."""
STEPS = 300
"""The number of steps of the search."""
TRUTH, FOUND = "truth", "found"
"""Series with the pixels of the first target, and of the row that was found."""
# Streams of random numbers: [one of these, seed, ...].
_ROWS, _NOISE, _SEARCH = 41, 42, 43


def first_layer_input(weight_gradient: Floats, bias_gradient: Floats) -> Floats:
    """The row (in,) from a linear layer's gradients (out, in) and (out,); zeros if the gradients are zero."""
    loudest = int(np.abs(bias_gradient).argmax())
    if bias_gradient[loudest] == 0:
        return np.zeros(weight_gradient.shape[1], np.float32)
    quotient = weight_gradient[loudest].astype(np.float64) / float(bias_gradient[loudest])
    return quotient.astype(np.float32)


def matching_rows(
    model: nn.Module,
    start: Floats,
    gradient: Floats,
    labels: Sequence[int],
    loss: Loss,
    shape: tuple[int, ...],
    steps: int,
    variation: float,
    rng: np.random.Generator,
) -> Floats:
    """Rows (k, *shape) in [0, 1] with `labels` (k,) whose gradient at `start` (d,) points as `gradient` does.

    The gradient (d,) of one row reveals its label (Zhao et al. 2020, "iDLG"). For a sum the attacker is
    assumed to know all labels; it searches for the rows together, in the order of the labels. `variation`
    weights the total variation of rows that are images (..., height, width). The search uses Adam on signs
    of the gradient, with decreasing steps, as published, and returns the best rows that it met.
    """
    names = [name for name, _ in shapes(model, "*")]
    parts = split_vector(start, shapes(model, "*"))
    own = {name: torch.from_numpy(parts[name].copy()).requires_grad_() for name in names}
    wanted, known = torch.from_numpy(np.array(gradient)), torch.tensor(labels)
    rows = torch.from_numpy(rng.random((len(labels), *shape)).astype(np.float32)).requires_grad_()
    optimizer = torch.optim.Adam([rows], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, count("steps", steps))
    weight, best, least = at_least_zero("variation", variation), rows.detach().clone(), float("inf")
    for _ in range(steps):
        outputs = functional_call(model, own, (rows,))
        found = torch.autograd.grad(loss(outputs, known), list(own.values()), create_graph=True)
        flat = torch.cat([part.flatten() for part in found])
        norms = (flat.norm() * wanted.norm()).clamp(min=torch.finfo(torch.float32).tiny)
        distance = 1 - (flat @ wanted) / norms  # 1 - cosine of the angle to the observed gradient
        if distance.item() < least:
            best, least = rows.detach().clone(), distance.item()
        optimizer.zero_grad()
        (rows.grad,) = torch.autograd.grad(distance + weight * _variation(rows), [rows])
        rows.grad.sign_()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            rows.clamp_(0, 1)
    return best.numpy()


def _variation(rows: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of neighbouring pixels; 0 for rows without a height and a width."""
    if rows.dim() < 3:
        return torch.zeros(())
    down, across = rows[..., 1:, :] - rows[..., :-1, :], rows[..., 1:] - rows[..., :-1]
    return down.abs().mean() + across.abs().mean()


def similarity(found: Floats, truth: Floats) -> float:
    """The cosine between two rows, each minus its mean; 1: equal up to scale and brightness."""
    one, other = (row.astype(np.float64).ravel() - row.mean() for row in (found, truth))
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / norms) if norms > 0 else 0.0


def guessed(truth: Floats, others: Floats, candidates: int) -> float:
    """The similarity with `truth` (...) that `candidates` guesses reach without any update.

    `others` (n, ...): rows of the same label that the attacker may have. A guess is the better of their mean
    and, in expectation, the best of `candidates` rows drawn from them.
    """
    found = np.sort([similarity(other, truth) for other in others])
    below = np.arange(len(found) + 1) / len(found)
    expected = float(found @ np.diff(below ** count("candidates", candidates)))
    return max(expected, similarity(others.mean(axis=0), truth))


@dataclass(frozen=True)
class Inverted:
    """One target: its row and the row that was found, (pixels,) each, and similarities with the truth.

    guess: the similarity of as many guesses without any update; quotient_guess: that of one guess.
    """

    truth: Floats
    found: Floats
    quotient: float
    search: float
    guess: float
    quotient_guess: float

    @property
    def best(self) -> float:
        """The similarity of the better attack."""
        return max(self.quotient, self.search)


@dataclass(frozen=True)
class InversionCell(AttackCell):
    """Gradient inversion as a cell of a sweep: recover one row from a sum of updates that nodes offer.

        rows of a client ──training──▶ update ──mechanism──▶ offer ──secure sum──▶ quotient | search ──▶ row

    The attacker sees the start and the sum, knows all labels, and has other rows of the same labels. The
    figure is the similarity of the found row with the first client's first row. It counts the better attack,
    and the best row that the search found for this label, as if the attacker knew which one is best.

    The sum has `updates` updates of `rows` rows each; `targets` rows are attacked one after another.
    """

    updates: int
    rows: int
    targets: int

    dataset: ClassVar[str] = "digits"
    kind: ClassVar[str] = "inversion"

    def check(self, room: Room) -> None:
        """Raise ConfigError unless model and mechanism can be made."""
        self.mechanism(self.built(room.dataset(self.dataset, self.seed)), self.rows)

    def replay(self, room: Room) -> Outcome:
        """Run the attack in this process, with noise from the seed."""
        begun, dataset = time.perf_counter(), room.dataset(self.dataset, self.seed)
        model = self.built(dataset)
        mechanism = self.mechanism(model, self.rows)
        with one_thread():
            found = [self._inverted(dataset, model, mechanism, target) for target in range(self.targets)]
        figure = float(np.mean([one.best for one in found]))
        room.say(1, figure)
        pictures = {TRUTH: _pixels(found[0].truth), FOUND: _pixels(found[0].found)}
        facts = {**protection_facts(mechanism), **figures(found)}
        return Outcome((figure,), facts, time.perf_counter() - begun, pictures)

    def _inverted(
        self, dataset: FederatedDataset, model: nn.Module, mechanism: Mechanism, target: int
    ) -> Inverted:
        """Attack the first row of an order that is the same in all arms."""
        order = np.random.default_rng([_ROWS, self.seed, target]).permutation(len(dataset.train_y))
        chosen, start = order[: self.updates * self.rows], read_vector(model, "*")
        words = SeededWords(np.random.default_rng([_NOISE, self.seed, salt_of(self.arm), target]))
        parts = np.split(chosen, self.updates)
        offers = self.offered(dataset, model, parts, mechanism, words)
        total: NDArray[np.float64] = offers.sum(axis=0, dtype=np.float64)
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
        return scored(x[0], quotient_row(model, gradient).reshape(x[0].shape), rows[y == y[0]], others)


def quotient_row(model: nn.Module, gradient: Floats) -> Floats:
    """The row (in,) as quotient of the first layer's gradients; the model's first layer must be linear."""
    parts = split_vector(gradient, shapes(model, "*"))
    (weight, _), (bias, _) = shapes(model, "*")[:2]
    return first_layer_input(parts[weight], parts[bias])


def scored(truth: Floats, quotient: Floats, rows: Floats, others: Floats) -> Inverted:
    """Compare what the attacks found, `quotient` (...) and `rows` (k, ...), with the `truth` (...).

    `others` (n, ...) are rows that the attacker could have guessed.
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
    """Means over the targets; `above guess` is the similarity of the attack minus that of a guess."""
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
    """Pixels from 0 to 1, rounded to two digits, for a picture."""
    return tuple(round(float(pixel), 2) for pixel in np.clip(row, 0, 1))
