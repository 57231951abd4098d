"""One replay, in a child process: all peers' training and offers, round by round, in one thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
import torch

from mechanisms.accounting import Ledger
from mechanisms.mechanism import Memory
from mechanisms.randomness import SeededWords
from node.data import load_dataset
from node.privacy import can_train, facts, make_mechanism, receipt_of
from node.task import build_model
from node.training import Trainer, shapes
from node.vectors import Floats
from scenarios.folder import write_json
from scenarios.replays import COMPARED, PrivateCurve, Replay, amount


def run_replay(job: Replay) -> int:
    """Run one replay: say a line a round, write the curve, give the exit status."""
    torch.set_num_threads(1)
    job.log.write_text("")
    write_json(job.path, asdict(replay(job)))
    return 0


def replay(job: Replay) -> PrivateCurve:
    """Accuracy and epsilon after every round."""
    peers = [ReplayedPeer(job, number) for number in range(len(job.batch_seeds))]
    base = peers[0].trainer.vector()
    accuracy, epsilon = [], []
    for number in range(1, job.rounds + 1):
        offers = [offer for peer in peers if (offer := peer.offer(base, number)) is not None]
        if offers:  # none once every budget is spent
            mean = np.asarray(np.mean(offers, axis=0, dtype=np.float64), dtype=np.float32)
            for peer in peers:
                peer.memory = peer.mechanism.aggregated(mean, len(offers), peer.memory)
            base = base + mean
        accuracy.append(peers[0].trainer.evaluate(base).accuracy)
        epsilon.append(max(_spent(peer.ledger()) for peer in peers))
        print(f"round {number}: accuracy {accuracy[-1]:.4f}", flush=True)
    most = max((peer.ledger() for peer in peers), key=_spent)
    return PrivateCurve(job.name, tuple(accuracy), tuple(epsilon), dict(most))


def _spent(ledger: Mapping[str, object]) -> float:
    return amount(ledger, "epsilon_spent")


class ReplayedPeer:
    """One peer's data, trainer, mechanism and ledger. Every offer is aggregated: nothing is left over."""

    def __init__(self, job: Replay, number: int) -> None:
        dataset = load_dataset(job.task, None, (number, len(job.batch_seeds)))
        model = build_model(job.task, dataset)
        named = shapes(model, job.task.train.parameters)
        self.mechanism = make_mechanism(job.task, named, len(dataset.train_y))
        self._words = SeededWords(
            np.random.default_rng([job.task.task.seed, number, COMPARED.index(job.name)])
        )
        seed, gradient = job.batch_seeds[number], self.mechanism.gradient
        self.trainer = Trainer(model, job.task.train, dataset, seed, gradient, self._words)
        self.memory: Memory = ()
        self._ledger = Ledger(())

    def offer(self, base: Floats, number: int) -> Floats | None:
        """The offer (d,) of a round; None once the budget is spent."""
        if not can_train(self.mechanism, self._ledger, ()):
            return None
        trained = self.trainer.train(base, number, threading.Event())
        offer = self.mechanism.offer(trained.vector - base, self.memory, self._words)
        receipt = receipt_of(self.mechanism, self._ledger, self.mechanism.per_training, offer.memory)
        self._ledger, self.memory = self._ledger.adding(receipt.events), receipt.memory
        return offer.vector

    def ledger(self) -> Mapping[str, object]:
        """As in summary.json."""
        ledger = facts(self.mechanism, self._ledger)
        if ledger is None:
            raise ValueError(f"{self.mechanism.name} gives no guarantee: there is nothing to compare")
        return ledger
