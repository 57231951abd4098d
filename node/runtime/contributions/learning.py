"""How a node learns, by the mechanism of its task: updates of its own, or steps that all members take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from torch import nn

from mechanisms.mechanism import Mechanism, covers_offers
from mechanisms.noise.randomness import SystemWords
from mechanisms.noised_counts import CountGrid
from mechanisms.updates.distributed import DistributedDP
from node.data.dataset import Dataset
from node.jobs.additive.private_steps import step_trainer
from node.jobs.beside import Beside, SwarmMetric
from node.jobs.exact_model import ExactTrainer
from node.jobs.job import Job
from node.runtime.contributions.contribution import Contribution
from node.runtime.contributions.jobs import JobSums
from node.runtime.contributions.loss_gate import check_loss_gate
from node.runtime.contributions.metric_notes import cell_words, swarm_metric_words
from node.runtime.contributions.metric_of_all import (
    Counted,
    DigitWords,
    Noise,
    NoMetric,
    RingWords,
)
from node.runtime.contributions.updates import Updates
from node.runtime.contributions.weighting import make_weighting
from node.runtime.privacy.budget import make_mechanism, noise_of_counts, offer_bound
from node.storage.records import SwarmFigure
from node.storage.state import State
from node.storage.vector_files import Floats
from node.system.errors import ConfigError
from node.system.system import SYSTEM, Entropy, System
from node.task.combinations import no_row_gradients
from node.task.sections import MOST_CONFUSED, Task
from node.task.table_models import SAME_MEMBERS, is_exact, opened
from node.training.build import build_model
from node.training.figures.tallies import Confusion, Errors, Recalls, Scores, Tally
from node.training.own_learner import COUNTING, OwnLearner
from node.training.trainer import LocalModel, Shapes, Trainer, VectorModel, make_trainer, shapes
from protocol.aggregation.fixed_point import FixedPoint
from protocol.vectors.ring import RINGS, WIDE
from protocol.wire.limits import MAX_MEMBERS


@dataclass(frozen=True)
class Design:
    """The model of a task for a node's rows, and its mechanism."""

    model: nn.Module
    named: Shapes
    """The tensors that are trained and shared."""
    mechanism: Mechanism


def design(task: Task, dataset: Dataset) -> Design:
    """Takes the steps of a start that node.check and node.init take, too. Raises ConfigError."""
    model = build_model(task, dataset)
    named = shapes(model, task.train.parameters)
    mechanism = make_mechanism(task, named, dataset.units)
    check_loss_gate(task, mechanism)
    return Design(model, named, mechanism)


FigureOf = Callable[[Floats, int], SwarmFigure | None]
"""Reads the metric of all members' rows that a base (d,) of a generation tells, itself."""


def _no_figure(vector: Floats, generation: int) -> None:
    """Reads nothing: bases tell no metric."""


M_co = TypeVar("M_co", bound=VectorModel, covariant=True)


@dataclass(frozen=True)
class Learning(Generic[M_co]):
    """A node's trainer and mechanism, and what it and its groups handle of them."""

    trainer: M_co
    mechanism: Mechanism
    spends_for: str
    """The name under which the key's spend file books this node's charges (node.storage.spend_file)."""
    contribution: Callable[[State], Contribution]
    offered: int
    """The words of an offer, of the longest if they are not all as long."""
    bound: float | None
    """The bound on each coordinate of every offer, which is clipped to it; None: whole numbers."""
    computed: Mapping[str, float] = field(default_factory=dict)
    """What the mechanism computed from the task's `[privacy]`; all members need the same values."""
    words: Mapping[str, str] = field(default_factory=dict)
    """The start-up lines about it."""
    sums: int | None = None
    """The most sums of a job that says so itself; None: the task does."""
    round_sums: int = 1
    """How many of them are a round, as people count them."""
    purposes: tuple[tuple[str, int], ...] = ()
    """What the sums of a job are for, each in a word with their number; (): all are alike."""
    job: Job | None = None
    """What the sums are for, if each is for one base, in whole numbers; None: they are of updates."""
    figure: FigureOf = _no_figure
    """Reads a metric of all members' rows in a job's last base."""

    @property
    def torch(self) -> Trainer | None:
        """The trainer if it has a torch module; None: the vectors are another framework's, or a job's."""
        return self.trainer if isinstance(self.trainer, Trainer) else None


def make_learning(
    task: Task,
    model: nn.Module,
    dataset: Dataset,
    seed: int,
    mechanism: Mechanism,
    system: System = SYSTEM,
) -> Learning[Trainer]:
    """Prepares a node's learning; raises ConfigError."""
    entropy = system.entropy
    if isinstance(mechanism, DistributedDP):
        return _steps(task, model, dataset, seed, mechanism, entropy)
    if is_exact(task):
        return _exact(task, model, dataset, seed, mechanism)
    trainer = make_trainer(task, model, dataset, seed, mechanism.gradient, system)
    metric = make_swarm_metric(task, trainer, dataset, mechanism, offer_bound(task, mechanism), entropy)
    return _updates(task, trainer, len(dataset.train_y), metric, mechanism, entropy)


def learning_of(task: Task, learner: OwnLearner, system: System = SYSTEM) -> Learning[OwnLearner]:
    """Prepares a node's learning by a learner of another framework; raises ConfigError.

    Its mechanism may clip and noise updates, but knows nothing of rows.
    """
    mechanism = make_mechanism(task, learner.shapes, rows=1)
    if mechanism.gradient is not None or isinstance(mechanism, DistributedDP):
        raise ConfigError(no_row_gradients(task.privacy.mechanism))
    check_loss_gate(task, mechanism)
    if task.aggregation.loss_gate is not None and not learner.has_loss:
        raise ConfigError(
            f"aggregation.loss_gate = {task.aggregation.loss_gate:g} is refused: {learner} has no method "
            "loss, its mean loss on the rows that it learns from; add one, or leave the gate out"
        )
    if covers_offers(mechanism):
        learner.cover()
    rows = learner.rows if task.aggregation.weighting == "samples" else 1
    metric = _metric_of_learner(task, learner, mechanism)
    return _updates(task, learner, rows, metric, mechanism, system.entropy)


def _metric_of_learner(task: Task, learner: OwnLearner, mechanism: Mechanism) -> SwarmMetric:
    section = task.aggregation
    if section.swarm_metric == "none":
        return NoMetric()
    if not learner.has_counts:
        raise ConfigError(
            f"aggregation.swarm_metric = {section.swarm_metric!r} is refused: {learner} has no methods "
            f"{' and '.join(COUNTING)}, of which the first counts what metrics of all rows follow from; add "
            "them, or set aggregation.swarm_metric=none"
        )
    tally = learner.tally()
    words = DigitWords.of_tally(tally, offer_bound(task, mechanism))
    return Counted(tally, section.swarm_metric_every, words, learner.outputs)


Local = TypeVar("Local", bound=LocalModel)


def _updates(
    task: Task, trainer: Local, rows: int, metric: SwarmMetric, mechanism: Mechanism, entropy: Entropy
) -> Learning[Local]:
    bound = offer_bound(task, mechanism)
    weighting = make_weighting(task.aggregation, rows, bound)
    return Learning(
        trainer=trainer,
        mechanism=mechanism,
        spends_for=task.task.name,
        contribution=lambda state: Updates(state, trainer, mechanism, weighting, metric, entropy),
        offered=len(trainer.vector()) + weighting.slots + metric.slots,
        bound=bound,
        computed=_computed(mechanism),
        words={**weighting.words, **_grid_words(task, bound), **swarm_metric_words(task, mechanism)},
    )


def _grid_words(task: Task, bound: float) -> Mapping[str, str]:
    """Returns the line about the grid of short words; empty if words are long."""
    ring = RINGS[task.aggregation.bits]
    if ring == WIDE:
        return {}
    return {
        "grid": f"{ring.bits}-bit words: coordinates within +-{bound:g}, rounded at random, without bias, to "
        f"steps of {1 / FixedPoint(bound, 1, ring).scale:.2g} times the members of a group"
    }


def make_tally(kind: str, dataset: Dataset, has_schema: bool) -> Tally:
    """Returns the tally that `aggregation.swarm_metric` names; ConfigError if these rows do not allow it."""
    classes = dataset.classes
    refused = f"aggregation.swarm_metric = {kind!r} is refused: "
    if kind == "sums":
        if classes is not None:
            return Recalls(classes)
        if not has_schema:
            raise ConfigError(
                f"{refused}sums of numbers need the target's scale, and the task has no data.schema; "
                "write the task with node.init, or set aggregation.swarm_metric=none"
            )
        return Errors(dataset.unit)
    if kind == "scores":
        if classes != 2:
            raise ConfigError(f"{refused}the targets are {_kind(classes)}; allowed: 2 classes, or 'sums'")
        return Scores(dataset.class_names)
    if classes is None or classes > MOST_CONFUSED:
        raise ConfigError(
            f"{refused}the targets are {_kind(classes)}; allowed: at most {MOST_CONFUSED} classes, or 'sums'"
        )
    return Confusion(classes, dataset.class_names)


def _kind(classes: int | None) -> str:
    return "numbers" if classes is None else f"of {classes} classes"


def make_swarm_metric(
    task: Task,
    trainer: Trainer,
    dataset: Dataset,
    mechanism: Mechanism,
    bound: float | None,
    entropy: Entropy = SYSTEM.entropy,
) -> SwarmMetric:
    """Returns what `aggregation.swarm_metric` names; raises ConfigError if it does not fit the targets.

    `bound`: of each word of an offer; None: offers are whole numbers.
    """
    section, noise = task.aggregation, noise_of_counts(mechanism)
    if section.swarm_metric == "none":
        return NoMetric()
    tally = make_tally(section.swarm_metric, dataset, has_schema=task.data.schema is not None)
    if noise is None:
        if bound is None:
            raise ValueError("sums of whole numbers have counts with noise alone")
        words = DigitWords.of_tally(tally, bound)
        return Counted(tally, section.swarm_metric_every, words, trainer.outputs, dataset.validates)
    tally = replace(tally, noised=True)
    try:
        grid = CountGrid(noise, tally.sensitivity, MAX_MEMBERS)
    except ValueError as error:
        raise ConfigError(f"aggregation.swarm_metric = {section.swarm_metric!r}: {error}") from None
    plan, of = task.step_plan, dataset.together
    return Counted(
        tally,
        section.swarm_metric_every * (1 if plan is None else plan.report_every),
        RingWords(tally.size) if bound is None else DigitWords.of_tally(tally, bound),
        trainer.outputs_by_row,
        dataset.validates,
        Noise(grid, SystemWords(entropy), None if of is None else of.test.numpy()),
        task.cell_sums,
    )


def _computed(mechanism: Mechanism) -> Mapping[str, float]:
    """Returns the values that the mechanism computed for counts; all members need the same ones."""
    noise = noise_of_counts(mechanism)
    return {} if noise is None else {"metric_noise_multiplier": noise.noise_multiplier}


def _steps(
    task: Task, model: nn.Module, dataset: Dataset, seed: int, mechanism: DistributedDP, entropy: Entropy
) -> Learning[Trainer]:
    shared, plan = mechanism.shared, task.step_plan
    if plan is None:
        raise ValueError("a task with shared noise has a plan of its steps")
    trainer = step_trainer(task, plan, model, dataset, seed, mechanism, SystemWords(entropy))
    metric = make_swarm_metric(task, trainer, dataset, mechanism, None, entropy)
    job = Beside(trainer, metric)
    silent = replace(job, is_silent=True)
    return Learning(
        trainer=trainer,
        mechanism=mechanism,
        spends_for=task.task.name,
        contribution=lambda state: JobSums(state, job, mechanism, silent, job.figure),
        offered=max(trainer.words(generation) for generation in range(task.cell_sums + 1)) + metric.slots,
        bound=None,
        purposes=(("cells", task.cell_sums), ("steps", plan.steps)) if task.cell_sums else (),
        job=job,
        computed={
            "noise_multiplier": shared.gradient.noise_multiplier,
            "unit": shared.unit,
            **(
                {} if mechanism.cells is None else {"cell_noise_multiplier": mechanism.cells.noise_multiplier}
            ),
            **_computed(mechanism),
        },
        words={
            "steps": f"{plan.steps - task.cell_sums}, a round is {plan.report_every} of them; each has, in "
            f"the mean, {plan.expected_batch:.6g} {task.unit}s of all members",
            **cell_words(mechanism),
            **swarm_metric_words(task, mechanism),
        },
    )


def _exact(
    task: Task, model: nn.Module, dataset: Dataset, seed: int, mechanism: Mechanism
) -> Learning[Trainer]:
    kind = task.aggregation.swarm_metric
    tally = None if kind == "none" else make_tally(kind, dataset, has_schema=task.data.schema is not None)
    trainer = ExactTrainer(task, model, dataset, seed, tally)
    job, most = trainer.job, trainer.most_sums
    return Learning(
        trainer=trainer,
        mechanism=mechanism,
        spends_for=task.task.name,
        contribution=lambda state: JobSums(state, job, mechanism),
        offered=max(job.words(generation) for generation in range(most)),
        bound=None,
        sums=most,
        round_sums=trainer.round_sums,
        purposes=trainer.purposes,
        job=job,
        figure=trainer.figure,
        words={
            "sums": f"{trainer.course}. Members are {SAME_MEMBERS}",
            "privacy": "none: a sum hides each member's numbers, and the total itself has no noise",
            "opened": opened(task),
            **swarm_metric_words(task, mechanism),
        },
    )
