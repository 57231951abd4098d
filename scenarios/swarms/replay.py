"""A swarm replayed without a network: all peers' training, their offers and the mean, round by round.

    base ──▶ training of every peer ──▶ mechanism.offer ──▶ mean ──▶ base + mean, mechanism.aggregated

Training, mechanisms, weights, gates and charges are the node's own. An ordinary sum replaces the secure one,
and noise comes from a seed. Every offer is aggregated, so no progress is carried over to the next round.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from mechanisms.accounting.ledger import Ledger
from mechanisms.loss_gate import LossGate
from mechanisms.mechanism import Mechanism, Memory, Offer
from mechanisms.noise.randomness import SeededWords
from node.data.dataset import Dataset, load_dataset
from node.runtime.contributions.weighting import Weighting, make_weighting
from node.runtime.privacy.budget import (
    can_train,
    facts,
    make_mechanism,
    offer_bound,
    receipt_of,
    spent_by,
)
from node.storage.vector_files import Floats
from node.system.errors import UserError
from node.task.sections import Task
from node.training.build import build_model
from node.training.gradient_steps import steps_by
from node.training.trainer import Evaluation, Trainer, shapes
from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.masked.thresholds import LEAST_MEMBERS
from protocol.crypto.prg import SEED_BYTES
from protocol.vectors.ring import RINGS, WIDE
from protocol.wire.limits import MAX_MEMBERS
from scenarios.clients.gradients import Gradients
from scenarios.clients.training import train_clients, training_of
from scenarios.frame.digests import salt_of
from scenarios.frame.work import Say
from scenarios.study.threads import one_thread
from scenarios.swarms.baselines import PrivateCurve
from scenarios.swarms.history import amount, most_spent
from scenarios.swarms.nodes import batch_seed

_NOISE = 21  # a stream of random numbers: [this, seed, the arm's salt, peer]
_ROUNDING = MAX_MEMBERS  # no peer has this number
_BLOCK = 32


class Swarm:
    """The peers and their agreed base. `offers`: those of the last round that had any."""

    def __init__(self, task: Task, datasets: Sequence[Dataset], salt: int) -> None:
        """`datasets`: each peer's rows.

        `salt`: of the streams of noise, different for arms that are compared. Raises ConfigError.
        """
        named = shapes(build_model(task, datasets[0]), task.train.parameters)
        self.members = [
            Member(task, make_mechanism(task, named, rows), rows, seeded_words(task, salt, peer))
            for peer, rows in enumerate(len(dataset.train_y) for dataset in datasets)
        ]
        one_by_one = OneByOne(task, datasets, self.members)
        self.trainers = one_by_one.trainers
        self._evaluator = self.trainers[0]
        self.training = together(task, datasets, self.members) or one_by_one
        self._ring, self._bound = RINGS[task.aggregation.bits], offer_bound(task, self.members[0].mechanism)
        self._rounding = seeded_words(task, salt, _ROUNDING)
        self.base = self._evaluator.vector()
        self.gates = [Gated(trainer, task.aggregation.loss_gate, self.base) for trainer in self.trainers]
        self.offers: Sequence[Offer] = ()
        self.took_part = 0  # the number of peers in the last round's sum

    def round(self, number: int) -> float:
        """Run one round; return the base's accuracy after it. Once every budget is spent, the base stays.

        In one torch thread (see `scenarios.study.threads.one_thread`) the same seed gives the same result.
        Raises UserError.
        """
        able = [peer for peer, member in enumerate(self.members) if member.can_train]
        self.took_part = len(able)
        if able:
            trained = self._trained(number, able)
            offers = [self._offer(number, peer, own) for peer, own in zip(able, trained, strict=True)]
            self._agree(able, offers)
        return self.accuracy(self.base)

    def accuracy(self, model: Floats) -> float:
        """The accuracy of any model (d,) on the common test rows; R^2 for numbers."""
        return self._evaluator.evaluate(model).score

    def evaluated(self) -> Evaluation:
        """The evaluation of the base on the common test rows."""
        return self._evaluator.evaluate(self.base)

    def answers(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The outputs (n, ...) of the base for the common test rows, and their targets (n,)."""
        return self._evaluator.outputs(self.base)

    @property
    def words(self) -> int:
        """The number of words that a sum has."""
        return len(self.base) + self.members[0].weighting.slots

    @property
    def ledger(self) -> Mapping[str, object] | None:
        """The ledger of the peer that has spent the most, as in summary.json; None without privacy."""
        return most_spent([member.ledger for member in self.members])

    @property
    def epsilon(self) -> float | None:
        """The largest epsilon that any peer has spent so far; None without privacy."""
        found = [member.epsilon for member in self.members]
        return max((epsilon for epsilon in found if epsilon is not None), default=None)

    @property
    def protects(self) -> str:
        """What the mechanism protects, in a sentence."""
        return self.members[0].mechanism.protects

    def _trained(self, number: int, peers: Sequence[int]) -> list[Floats]:
        """The trained models (d,) of `peers`; each starts from the base, or from its last accepted one."""
        starts: dict[int, list[int]] = {}
        for peer in peers:
            starts.setdefault(id(self.gates[peer].start), []).append(peer)
        trained: dict[int, Floats] = {}
        for together in starts.values():
            own = self.training.vectors(self.gates[together[0]].start, number, together)
            trained |= dict(zip(together, own, strict=True))
        return [trained[peer] for peer in peers]

    def _offer(self, number: int, peer: int, own: Floats) -> Offer:
        """The offer of a peer: its own model (d,) minus the base, even if it started from an earlier base."""
        return self.members[peer].offer(own - self.base)

    def _combined(self, vectors: Sequence[Floats]) -> Floats:
        """The revealed combination of the offers, (d,) each: their mean, with short words on a grid."""
        if self._ring != WIDE and len(vectors) >= LEAST_MEMBERS:
            return self._on_grid(vectors)
        return np.asarray(np.mean(vectors, axis=0, dtype=np.float64), dtype=np.float32)

    def _on_grid(self, vectors: Sequence[Floats]) -> Floats:
        point, mean = FixedPoint(self._bound, len(vectors), self._ring), np.empty_like(vectors[0])
        seed, total = np.empty(SEED_BYTES // 4, np.uint32), np.zeros(len(mean), self._ring.word)
        for vector in vectors:
            self._rounding.fill(seed)
            total += point.encode(vector, seed.tobytes())[0]
        point.decode(total, len(vectors), mean)
        return mean

    def _agree(self, peers: Sequence[int], offers: Sequence[Offer]) -> None:
        weightings = [self.members[peer].weighting for peer in peers]
        pairs = zip(weightings, offers, strict=True)
        summed = self._combined([weighting.with_slots(offer.vector) for weighting, offer in pairs])
        for member in self.members:
            member.learn(weightings[0].offers(summed), len(offers))
        mean = weightings[0].mean(summed)
        self.base, self.offers = self.base if mean is None else self.base + mean, offers
        for gate in self.gates:
            gate.start_from(self.base)

    def mean_of(self, name: str) -> float | None:
        """The mean `radius` or `noise_std` of the last offers; None if they have none."""
        values = [value for offer in self.offers if (value := getattr(offer, name)) is not None]
        return float(np.mean(values)) if values else None


def datasets_of(task: Task, peers: int) -> list[Dataset]:
    """Every peer's part of the task's own data. Raises ConfigError."""
    return [load_dataset(task, None, (peer, peers)) for peer in range(peers)]


def seeded_words(task: Task, salt: int, peer: int) -> SeededWords:
    """The random words of a peer's noise and private samples."""
    return SeededWords(np.random.default_rng([_NOISE, task.task.seed, salt, peer]))


class Gated:
    """The start of one peer: the base, or its last accepted base while its gate refuses the new one."""

    def __init__(self, trainer: Trainer, tolerance: float | None, base: Floats) -> None:
        """`tolerance`: of the loss gate; None: the peer accepts every base."""
        self._trainer = trainer
        self._gate = None if tolerance is None else LossGate(tolerance).after(trainer.own_loss(base))
        self.start = base
        self.refused = False

    def start_from(self, base: Floats) -> None:
        """Start from this `base` (d,) if the gate accepts it."""
        if self._gate is not None:
            loss = self._trainer.own_loss(base)
            self.refused = not self._gate.accepts(loss)
            self._gate = self._gate if self.refused else self._gate.after(loss)
        if not self.refused:
            self.start = base


class Member:
    """One peer's mechanism with its memory, its ledger, and its weight."""

    def __init__(self, task: Task, mechanism: Mechanism, rows: int, words: SeededWords) -> None:
        """`rows`: the number of rows that the peer trains on."""
        self.mechanism, self.words = mechanism, words
        bound = offer_bound(task, mechanism)
        self.weighting: Weighting = make_weighting(task.aggregation, rows, bound)
        self.memory: Memory = ()
        self._ledger = Ledger(())

    @property
    def can_train(self) -> bool:
        """Whether the budget allows one more round."""
        return can_train(self.mechanism, self._ledger, ())

    def offer(self, fresh: Floats) -> Offer:
        """Make the offer of a round's progress (d,) and charge it as a node does."""
        offer = self.mechanism.offer(self.weighting.weighed(fresh), self.memory, self.words)
        receipt = receipt_of(self.mechanism, self._ledger, self.mechanism.per_training, offer.memory)
        self._ledger, self.memory = self._ledger.adding(receipt.events), receipt.memory
        return offer

    def learn(self, mean: Floats, members: int) -> None:
        """Update the mechanism's memory with the `mean` (d,) of `members` offers."""
        self.memory = self.mechanism.aggregated(mean, members, self.memory)

    @property
    def epsilon(self) -> float | None:
        """The epsilon that the peer has spent; None without privacy."""
        found = spent_by(self.mechanism, self._ledger)
        return None if found is None else found.epsilon

    @property
    def ledger(self) -> Mapping[str, object] | None:
        """The ledger as in summary.json; None without privacy."""
        return facts(self.mechanism, self._ledger)


# -- training ----------------------------------------------------------------------------------------------


class Training(Protocol):
    """A way to train the peers."""

    def vectors(self, base: Floats, number: int, peers: Sequence[int]) -> list[Floats]:
        """The model (d,) of each of `peers` after training from `base` (d,) in round `number`, from 1."""


class OneByOne:
    """Training by a node's trainer for each peer: any optimiser, any model, private gradient steps."""

    def __init__(self, task: Task, datasets: Sequence[Dataset], members: Sequence[Member]) -> None:
        self.trainers = [
            Trainer(
                model=build_model(task, dataset),
                section=task.train,
                dataset=dataset,
                seed=batch_seed(task, len(datasets), peer),
                steps=steps_by(member.mechanism.gradient, member.words),
                body=task.model.body,
            )
            for peer, (dataset, member) in enumerate(zip(datasets, members, strict=True))
        ]

    def vectors(self, base: Floats, number: int, peers: Sequence[int]) -> list[Floats]:
        """See Training.vectors."""
        never = threading.Event()
        return [self.trainers[peer].train(base, number, never).vector for peer in peers]


@dataclass(frozen=True)
class Together:
    """Training of all peers in blocks: plain SGD on all parameters, as by the node's trainer."""

    task: Task
    model: torch.nn.Module
    x: Floats
    y: NDArray[np.int64]
    rows: Sequence[NDArray[np.int64]]

    def vectors(self, base: Floats, number: int, peers: Sequence[int]) -> list[Floats]:
        """See Training.vectors."""
        training = training_of(self.task.train)
        seeds = [(batch_seed(self.task, len(self.rows), peer), number) for peer in peers]
        rows = [self.rows[peer] for peer in peers]
        trained, _ = train_clients(
            model=self.model,
            start=base,
            rows_of_clients=rows,
            x=self.x,
            y=self.y,
            loss=functional.cross_entropy,
            training=training,
            seeds=seeds,
            after_batch=None,
            block=_BLOCK,
        )
        if not np.isfinite(trained).all():
            raise UserError(
                f"training diverged in round {number}; lower train.learning_rate = "
                f"{training.learning_rate:g} or set train.grad_clip"
            )
        return list(trained)


def together(task: Task, datasets: Sequence[Dataset], members: Sequence[Member]) -> Together | None:
    """Training in blocks if it gives the same result as the node's trainer; else None."""
    private = any(member.mechanism.gradient for member in members)
    if not task.train.plain or datasets[0].classes is None or private:
        return None
    model = build_model(task, datasets[0])
    try:
        Gradients(model, functional.cross_entropy, datasets[0].train_x[:1])
    except ValueError:  # a layer that mixes rows or draws random numbers
        return None
    x = torch.cat([dataset.train_x for dataset in datasets]).numpy()
    y = torch.cat([dataset.train_y for dataset in datasets]).numpy()
    ends = np.cumsum([len(dataset.train_y) for dataset in datasets])
    return Together(task, model, x, y, np.split(np.arange(len(y)), ends[:-1]))


# -- the whole swarm, as a call ----------------------------------------------------------------------------


def private_curve(task: Task, peers: int, rounds: int, say: Say) -> PrivateCurve:
    """Replay a swarm: the headline metric and the largest epsilon after every round. Raises UserError."""
    mechanism, values, ledgers = task.privacy.mechanism, [], []
    with one_thread():
        swarm = Swarm(task, datasets_of(task, peers), salt_of(mechanism))
        for number in range(1, rounds + 1):
            swarm.round(number)
            ledger = swarm.ledger
            if ledger is None:
                name = swarm.members[0].mechanism.name
                raise UserError(f"{name} gives no guarantee: there is nothing to compare")
            values.append(swarm.evaluated().headline.value or 0.0)
            ledgers.append(ledger)
            say(number, values[-1])
    epsilon = tuple(amount(ledger, "epsilon_spent") for ledger in ledgers)
    return PrivateCurve(mechanism, tuple(values), epsilon, dict(ledgers[-1]))
