"""Contributions of updates: a node trains its own copy of the model, and a mean of updates moves the base.

    fresh ──▶ the weight ──▶ the mechanism's clipping and noise ──▶ offer        base += mean, spent := 0
                                       how the base does on own rows ──▶ more words of the offer

The working model is base + spent + fresh (node.storage.state). Progress that no sum has taken in stays fresh.

If training diverges or fails, a node ends and says why. But if the mechanism's noise covers whole offers, the
others must not learn that, and its end would tell them. So it offers zero progress with the usual noise, and
tells only its owner.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from mechanisms.mechanism import Mechanism, covers_offers
from mechanisms.noise.randomness import SystemWords
from node.jobs.beside import SwarmMetric
from node.runtime.contributions.contribution import Following, Training
from node.runtime.contributions.weighting import Weighting
from node.runtime.privacy.budget import can_count, can_offer, can_train, receipt_of
from node.storage.records import NOTHING
from node.storage.state import State
from node.storage.vector_files import Floats
from node.system.errors import UserError
from node.system.system import SYSTEM, Entropy
from node.training.trainer import Diverged, LocalModel, NoResult
from protocol.actions import Completed, Healed, Spend, Vote
from protocol.wire.messages import Base


class Updates:
    """A node's updates. It remembers what the last offer costs until it is spent."""

    def __init__(
        self,
        state: State,
        learner: LocalModel,
        mechanism: Mechanism,
        weighting: Weighting,
        metric: SwarmMetric,
        entropy: Entropy = SYSTEM.entropy,
    ) -> None:
        self._state = state
        self._learner = learner
        self._mechanism = mechanism
        self._weighting = weighting
        self._metric = metric
        self._words = SystemWords(entropy)
        self.receipt = NOTHING
        """What the last offer costs, and the mechanism's memory after it."""

    def prepare(self, own: int, stop: threading.Event) -> Training:
        """Trains, and stores the progress as `fresh`, if the privacy budget allows it."""
        state = self._state
        state.take_in()
        if not can_train(self._mechanism, state.ledger, state.pending):
            offered = state.fresh is not None and can_offer(self._mechanism, state.ledger, state.pending)
            return Training(None, 0.0, offered)
        try:
            fresh, training = self._trained(own, stop)
        except NoResult as error:
            if not covers_offers(self._mechanism):
                raise
            fresh = np.zeros(state.dimension, np.float32) if state.fresh is None else state.fresh
            warning = (
                f"this node's training of round {own} {error.what}, and counts as no progress; the others "
                f"are not told; {error.remedy}"
            )
            training = Training(None, error.seconds, True, warning=warning)
        state.trained(fresh, (*state.pending, *self._mechanism.per_training))
        return training

    def _trained(self, own: int, stop: threading.Event) -> tuple[Floats, Training]:
        """Trains; returns all progress that no sum has taken in. Raises Diverged if it is not finite."""
        state, working = self._state, self._state.working
        trained = self._learner.train(working, state.base.generation + 1, stop, own)
        with np.errstate(over="ignore"):  # two vectors may be further apart than float32 reaches
            fresh = np.subtract(trained.vector, working, out=working)
            if state.fresh is not None:
                fresh += state.fresh
        if not np.isfinite(fresh).all():
            raise Diverged("training diverged", "lower train.learning_rate", trained.seconds)
        return fresh, Training(trained.loss, trained.seconds, True, trained.not_finite)

    def offer(self) -> Floats:
        """Makes the offer from `fresh` and the way back."""
        state = self._state
        fresh, back = state.fresh, state.way_back
        if fresh is None:
            raise UserError("there is nothing to offer")
        progress = fresh if back is None else np.add(fresh, back, out=back)
        offer = self._mechanism.offer(self._weighting.weighed(progress), state.memory, self._words)
        counted = self._counts()
        cost = (*state.pending, *(self._metric.cost if counted else ()))
        self.receipt = receipt_of(self._mechanism, state.ledger, cost, offer.memory)
        metric, generation = self._metric, state.base.generation
        counts = metric.words(state.base_vector, generation) if counted else metric.empty()
        weighted = self._weighting.with_slots(offer.vector)
        return np.concatenate([weighted, counts]) if len(counts) else weighted

    def _counts(self) -> bool:
        """Whether the offer has counts: they are due, the budget allows them, and this base had none yet."""
        state = self._state
        is_first = state.spent is None
        return (
            is_first
            and self._metric.is_due(state.base.generation)
            and can_count(self._mechanism, self._metric.cost, state.ledger, state.pending)
        )

    def spend(self, spend: Spend, at_ms: int) -> None:
        """Charges the offer and moves `fresh` to `spent`."""
        self._state.spend(spend.sid, spend.round, spend.clipped, at_ms, self.receipt)

    def vote(self, vote: Vote, at_ms: int) -> None:
        """Stores the vote. The next offer is charged when it exists: its cost may depend on its training."""
        self._state.bind(vote.vote)

    def following(self, before: Base, vector: Floats, proof: Completed | Healed) -> Following | None:
        """Adds the mean to the base; None if the sum of weights is one that honest members cannot have."""
        learn, members = self._mechanism.aggregated, len(proof.contributors)
        summed, counts = np.split(proof.result, [len(proof.result) - self._metric.slots])
        offers = self._weighting.offers(summed)
        offered, memory = (learn(offers, members, each) for each in (self.receipt.memory, self._state.memory))
        mean = self._weighting.mean(summed)
        if mean is None:
            return None
        self.receipt = replace(self.receipt, memory=offered)
        swarm = self._metric.read(before.generation, counts, members)
        return Following(np.add(vector, mean, out=mean), memory, swarm)  # in place, without another copy

    def is_over(self, vector: Floats) -> bool:
        """Returns False: rounds end by their number."""
        return False
