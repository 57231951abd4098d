"""How a node learns, by the mechanism of its task: updates of its own, or steps that all members take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import nn

from mechanisms.mechanism import Mechanism
from mechanisms.updates.distributed import DistributedDP
from node.data.dataset import Dataset
from node.runtime.contribution import Contribution
from node.runtime.privacy_budget import offer_bound
from node.runtime.steps import Steps
from node.runtime.swarm_metric import Counted, NoMetric, SwarmMetric, swarm_metric_words
from node.runtime.updates import Updates
from node.runtime.weighting import make_weighting
from node.storage.state import State
from node.task.sections import Task
from node.training.step_trainer import StepTrainer
from node.training.tallies import make_tally
from node.training.trainer import Trainer, make_trainer


@dataclass(frozen=True)
class Learning:
    """A node's trainer, and the vectors that it and its groups handle."""

    trainer: Trainer
    contribution: Callable[[State], Contribution]
    dimension: int
    """The words of a base."""
    offered: int
    """The words of an offer."""
    bound: float | None
    """The bound on each coordinate of every offer, which is clipped to it; None: whole numbers."""
    computed: Mapping[str, float] = field(default_factory=dict)
    """What the mechanism computed from the task's `[privacy]`; all members need the same values."""
    words: Mapping[str, str] = field(default_factory=dict)
    """The start-up lines about it."""


def make_learning(
    task: Task, model: nn.Module, dataset: Dataset, seed: int, mechanism: Mechanism
) -> Learning:
    """Prepares a node's learning; raises ConfigError."""
    if isinstance(mechanism, DistributedDP):
        return _steps(task, model, dataset, seed, mechanism)
    bound = offer_bound(task, mechanism)
    trainer = make_trainer(task, model, dataset, seed, mechanism.gradient)
    weighting = make_weighting(task.aggregation, len(dataset.train_y), bound)
    size = len(trainer.vector())
    metric = make_swarm_metric(task, trainer, dataset, bound)
    return Learning(
        trainer=trainer,
        contribution=lambda state: Updates(state, trainer, mechanism, weighting, metric),
        dimension=size,
        offered=size + weighting.slots + metric.slots,
        bound=bound,
        words={**weighting.words, **swarm_metric_words(task.aggregation)},
    )


def make_swarm_metric(task: Task, trainer: Trainer, dataset: Dataset, bound: float) -> SwarmMetric:
    """Returns what `aggregation.swarm_metric` names; raises ConfigError if it does not fit the targets."""
    section = task.aggregation
    if section.swarm_metric == "none":
        return NoMetric()
    tally = make_tally(section.swarm_metric, dataset, has_schema=task.data.schema is not None)
    return Counted(tally, section.swarm_metric_every, bound, trainer.outputs)


def _steps(task: Task, model: nn.Module, dataset: Dataset, seed: int, mechanism: DistributedDP) -> Learning:
    shared, plan = mechanism.shared, task.step_plan
    if plan is None:
        raise ValueError("a task with shared noise has a plan of its steps")
    trainer = StepTrainer(task, plan, model, dataset, seed, shared)
    return Learning(
        trainer=trainer,
        contribution=lambda state: Steps(state, trainer, mechanism),
        dimension=len(trainer.vector()),
        offered=shared.size,
        bound=None,
        computed={"noise_multiplier": shared.gradient.noise_multiplier, "unit": shared.unit},
        words={
            "steps": f"{plan.steps}, a round is {plan.report_every} of them; each has, in the mean, "
            f"{plan.expected_batch:.6g} rows of all members"
        },
    )
