"""Shared private steps replayed without a network: all peers' words, their sum, and the step that follows.

    base ──▶ words of every peer: gradients of a sample, a share of the noise ──▶ sum modulo 2^32 ──▶ base'

Gradients, noise, words, steps and charges are the node's own; words are whole numbers, so an ordinary sum is
what a secure sum decodes to, bit for bit. Noise comes from a seed. A trusted server is one peer with all
rows, which adds all of the noise by itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from mechanisms.accounting.ledger import Event, Ledger
from mechanisms.updates.distributed import DistributedDP
from node.data.dataset import Dataset
from node.jobs.additive.private_steps import step_trainer
from node.jobs.job import Words
from node.runtime.privacy.budget import facts, make_mechanism, spent_by
from node.storage.vector_files import Floats
from node.task.sections import StepPlan, Task
from node.training.build import build_model
from node.training.trainer import Evaluation, shapes
from scenarios.swarms.job_sums import summed
from scenarios.swarms.nodes import batch_seed
from scenarios.swarms.replay import seeded_words


@dataclass(frozen=True)
class StepRules:
    """What the members of a swarm with shared noise agree on."""

    plan: StepPlan
    mechanism: DistributedDP


def rules_of(task: Task, dataset: Dataset) -> StepRules:
    """The rules of a task, for any member's rows. Raises ConfigError; TypeError for another mechanism."""
    named = shapes(build_model(task, dataset), task.train.parameters)
    mechanism = make_mechanism(task, named, len(dataset.train_y))
    if not isinstance(mechanism, DistributedDP) or task.step_plan is None:
        raise TypeError(f"privacy.mechanism = {task.privacy.mechanism!r} has no shared noise")
    return StepRules(task.step_plan, mechanism)


def servers_noise(mechanism: DistributedDP, rows: int) -> DistributedDP:
    """The mechanism by which one member with all `rows` adds the noise of honest + 1 members."""
    alone = mechanism.louder(math.sqrt(mechanism.shared.honest + 1))
    # A rounding error in q times all rows must not exceed the batch.
    batch = max(alone.shared.expected_batch, alone.shared.gradient.sampling_probability * rows)
    return replace(alone, shared=replace(alone.shared, expected_batch=batch))


class StepSwarm:
    """Peers that take steps together, and their base. `seconds`: a peer's mean time for one gradient."""

    def __init__(self, task: Task, datasets: Sequence[Dataset], salt: int) -> None:
        """`datasets`: each peer's rows, or a server's; `salt`: see Swarm. Raises ConfigError."""
        self.rules = rules_of(task, datasets[0])
        mechanism = self.rules.mechanism
        if len(datasets) == 1:
            mechanism = servers_noise(mechanism, len(datasets[0].train_y))
        self.trainers = [
            step_trainer(
                task=task,
                plan=self.rules.plan,
                model=build_model(task, dataset),
                dataset=dataset,
                seed=batch_seed(task, len(datasets), peer),
                mechanism=mechanism,
                words=seeded_words(task, salt, peer),
            )
            for peer, dataset in enumerate(datasets)
        ]
        self.base: Floats = self.trainers[0].vector()
        self._steps, self._spent_s = 0, 0.0
        self._charged, self._cell_sums = Ledger(), task.cell_sums

    def round(self, number: int) -> float:
        """Take the steps of round `number`, from 1; return the accuracy after them. Raises UserError."""
        plan = self.rules.plan
        last = min(plan.steps, number * plan.report_every)
        for step in range(self._steps + 1, last + 1):
            self.take(step)
        return self.evaluated().score

    def take(self, step: int) -> None:
        """Take step number `step`, from 1. Raises UserError."""
        first, keys = self.trainers[0], tuple(bytes([peer]) for peer in range(len(self.trainers)))
        self.base = first.following(self.base, step - 1, self.summed(), keys)
        self._charged = self._charged.adding(self._cost(step))
        self._steps = step

    def _cost(self, step: int) -> tuple[Event, ...]:
        """The charge of step number `step`, also of a server: its noise is that of honest + 1 members."""
        mechanism = self.rules.mechanism
        return mechanism.planned_cells[:1] if step <= self._cell_sums else mechanism.per_offer

    def summed(self) -> Words:
        """The sum of all peers' words for the next step, modulo 2^32."""
        begun = time.perf_counter()
        total = summed(self.trainers, self.base, self._steps)
        self._spent_s += time.perf_counter() - begun
        return total

    def evaluated(self) -> Evaluation:
        """The evaluation of the average in the base, on the common test rows."""
        return self.trainers[0].evaluate(self.base)

    def answers(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The outputs (n, ...) of the average in the base for the test rows, and their targets (n,)."""
        return self.trainers[0].outputs(self.base)

    @property
    def took_part(self) -> int:
        """The number of peers in a sum: all."""
        return len(self.trainers)

    @property
    def words(self) -> int:
        """The number of words that a sum has."""
        return self.rules.mechanism.shared.size

    @property
    def seconds(self) -> float:
        """A peer's mean time for the words of one step."""
        return self._spent_s / max(1, self._steps * len(self.trainers))

    @property
    def ledger(self) -> Mapping[str, object] | None:
        """A member's ledger as in summary.json."""
        return facts(self.rules.mechanism, self._charged)

    @property
    def epsilon(self) -> float | None:
        """The epsilon that a member has spent so far; None without a guarantee."""
        found = spent_by(self.rules.mechanism, self._charged)
        return None if found is None else found.epsilon

    @property
    def protects(self) -> str:
        """What the mechanism protects, in a sentence."""
        return self.rules.mechanism.protects
