"""Trains for two epochs on a sample of the owner's rows, as the node would, and says what was seen.

Model and figures stay here: they are shown to the owner and thrown away, so they cost no privacy budget. With
private steps the trial has their noise; with shared noise, five rounds of what the members' steps would be if
the others' rows were like the owner's. Where exact sums make the model, they are taken over the sample alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from threading import Event

import numpy as np
import torch

from mechanisms.mechanism import Mechanism
from mechanisms.noise.clipping import NotFinite
from mechanisms.updates.distributed import DistributedDP
from node.check.finding import Finding
from node.data.dataset import Dataset
from node.data.report import TOO_FEW
from node.jobs.additive.private_steps import step_trainer
from node.runtime.contributions.learning import make_learning
from node.system.errors import shown
from node.task.data_schema import ClassTarget
from node.task.sections import Task, TrainSection
from node.task.table_models import is_exact
from node.training.build import build_model
from node.training.figures.metrics import chosen_labels
from node.training.losses import constant_outputs, make_loss
from node.training.trainer import Diverged, Evaluation, Trainer, Vector, make_trainer

_EPOCHS, _ROUNDS = 2, 5
_MOST_ROWS, _LEAST_ROWS, _MOST_NUMBERS = 4000, 200, 4_000_000
_MOST_SUMS, _ALONE = 60, bytes(32)  # in a trial; the key of its only member
_SAMPLE = 31  # a stream of random numbers under the task's seed
_WORSE = 1.5  # times the loss at the start, or of always the same answer
_BETTER = 0.99  # of the loss of always the same answer: less is no learning


@dataclass(frozen=True)
class Trial:
    """Mean losses on the sample: before and after training, and of the best answer that is always the same.

    `constant` is None if the loss is the owner's own. `chosen`: the class that the model answers for all
    rows; None if it answers several, or numbers. `share`: of the rows that have the largest class.
    """

    before: float
    after: float
    constant: float | None
    chosen: str | None
    share: float
    how: str
    held_back: str


def tried(task: Task, dataset: Dataset, seed: int, mechanism: Mechanism, members: int) -> Finding:
    """Returns what two epochs on a sample show. `members`: of a group, for shared noise. Raises UserError."""
    rows = len(dataset.train_y)
    most = min(_MOST_ROWS, max(_LEAST_ROWS, _MOST_NUMBERS // prod(dataset.train_x.shape[1:])))
    if rows > most:
        chosen = np.sort(np.random.default_rng([_SAMPLE, task.task.seed]).permutation(rows)[:most])
        dataset = dataset.having(torch.from_numpy(chosen))
    if is_exact(task):
        return _of_own_sums(task, dataset, seed, mechanism)
    return verdict(_trial(task, dataset, seed, mechanism, members), task.train)


def _of_own_sums(task: Task, sample: Dataset, seed: int, mechanism: Mechanism) -> Finding:
    """Returns what a job's sums over the sample alone make of it."""
    learning = make_learning(task, build_model(task, sample), sample, seed, mechanism)
    job, trainer = learning.job, learning.trainer
    if job is None:
        raise ValueError("exact sums are a job's")
    base, sums = trainer.vector(), 0
    before = trainer.own_loss(base)
    while not job.is_over(base) and sums < _MOST_SUMS:
        base = job.following(base, sums, job.contribution(base, sums).words, (_ALONE,))
        sums += 1
    after, constant = trainer.own_loss(base), _constant_loss(task.train, sample)
    told = (
        f"{sums} sums over {len(sample.train_y)} of your rows alone: the loss went from {before:.3g} to "
        f"{after:.3g}"
    )
    if not after < _BETTER * (before if constant is None else constant):
        return Finding(
            "warning",
            "learning",
            f"{told}, no better than always the same answer: these columns tell nothing of the target here",
        )
    return Finding("ok", "learning", f"{told}; {_held_back(trainer.evaluate(base))}")


def verdict(seen: Trial, section: TrainSection) -> Finding:
    """Says what a trial saw: diverging, always one class, not learning, or learning."""
    loss = f"{seen.how}: the loss went from {seen.before:.3g} to {seen.after:.3g}"
    rate = f"train.learning_rate = {section.learning_rate:g}"
    worst = max(seen.before, seen.constant or 0.0)
    if not math.isfinite(seen.after) or seen.after > _WORSE * worst:
        return Finding("warning", "learning", f"{loss}: it diverges; lower {rate}")
    same = "" if seen.constant is None else f" (always the same answer has {seen.constant:.3g})"
    learns = seen.after < _BETTER * (seen.before if seen.constant is None else seen.constant)
    if not learns and seen.chosen is not None and seen.after < _BETTER * seen.before:
        return Finding(
            "warning",
            "learning",
            f"{loss}{same}: so far it is no better than always saying {shown(seen.chosen)} ({seen.share:.0%} "
            f"of the rows have the largest class); take another {rate}, more rounds, other columns, or, if a "
            "class is rare, train.loss = 'balanced-softmax'",
        )
    if not learns:
        return Finding(
            "warning", "learning", f"{loss}{same}: it does not learn yet; take another {rate}, or more rounds"
        )
    if seen.chosen is not None:
        return Finding(
            "warning",
            "learning",
            f"{loss}{same}: it learns, but so far always says {shown(seen.chosen)}; if that lasts, take "
            "train.loss = 'balanced-softmax' (node.agree chooses it by the rows of all)",
        )
    return Finding("ok", "learning", f"{loss}{same}; {seen.held_back}")


def _trial(task: Task, sample: Dataset, seed: int, mechanism: Mechanism, members: int) -> Trial:
    if isinstance(mechanism, DistributedDP):
        how, trainer, train = _shared_steps(task, sample, seed, mechanism, members)
    else:
        how, trainer, train = _epochs(task, sample, seed, mechanism)
    start = trainer.vector()
    before, section = trainer.own_loss(start), task.train
    targets = sample.train_y.cpu()
    share = 0.0 if sample.classes is None else float(torch.bincount(targets).max()) / len(targets)
    constant = _constant_loss(section, sample)
    try:
        vector = train(start)
    except (Diverged, NotFinite):
        return Trial(before, math.inf, constant, None, share, how, "")
    with torch.inference_mode():
        outputs = trainer.module(vector)(sample.train_x.cpu())
    chosen = None if sample.classes is None else _only_class(task, outputs)
    return Trial(
        before,
        trainer.own_loss(vector),
        constant,
        chosen,
        share,
        how,
        _held_back(trainer.evaluate(vector)),
    )


def _held_back(found: Evaluation) -> str:
    told = ", ".join(f"{name} {value:.3f}" for name, value in found.metrics.items() if value is not None)
    return f"on rows held back: {told or TOO_FEW}"


_Run = tuple[str, Trainer, Callable[[Vector], Vector]]
"""What is tried, in words; the trainer; and from its first vector (d,) to the last."""


def _epochs(task: Task, sample: Dataset, seed: int, mechanism: Mechanism) -> _Run:
    """Returns local training on the sample: private steps have the noise that they have on all rows."""
    short = replace(task, train=replace(task.train, epochs=_EPOCHS, seconds=None))
    rule, rows = mechanism.gradient, sample.units
    if rule is not None:
        rule = replace(rule, sampling_probability=min(1.0, task.train.batch_size / rows))
    trainer = make_trainer(short, build_model(short, sample), sample, seed, rule)
    noised = "" if rule is None else " with noise"
    how = f"{_EPOCHS} epochs on {len(sample.train_y)} rows{noised}"
    return how, trainer, lambda start: trainer.train(start, 1, Event()).vector


def _shared_steps(task: Task, sample: Dataset, seed: int, mechanism: DistributedDP, members: int) -> _Run:
    """Returns steps of `members` whose rows are like the sample's: its sum stands for theirs.

    Noise and rows of the sum of all, each divided by the same number, make the same step.
    """
    plan, shared = task.step_plan, mechanism.shared
    if plan is None:
        raise ValueError("a task with shared noise has a plan of its steps")
    batch = shared.gradient.sampling_probability * sample.units
    one = mechanism.louder(math.sqrt(members) * batch / shared.expected_batch)
    one = replace(one, shared=replace(one.shared, expected_batch=batch))
    trainer = step_trainer(task, plan, build_model(task, sample), sample, seed, one)
    steps = min(plan.steps, _ROUNDS * plan.report_every)

    def train(base: Vector) -> Vector:
        for generation in range(steps):
            base = trainer.following(base, generation, trainer.contribution(base, generation).words)
        return base

    return f"{steps} steps with noise on {len(sample.train_y)} rows", trainer, train


def _only_class(task: Task, outputs: torch.Tensor) -> str | None:
    """Returns the name of the class that is answered for all rows (n, ...), None if there are several."""
    labels = torch.unique(chosen_labels(outputs)).tolist()
    if len(labels) > 1:
        return None
    schema, label = task.data.schema, labels[0]
    if schema is None or not isinstance(schema.target, ClassTarget) or label >= len(schema.target.values):
        return str(label)
    return schema.target.values[label]


def _constant_loss(section: TrainSection, sample: Dataset) -> float | None:
    """Returns the loss of the best answer that is the same for all rows; None for the owner's own loss.

    For classes it is their entropy, whatever is added to the logits; for numbers it is that of the mean or of
    the median.
    """
    if ":" in section.loss or section.loss_args.get("label_smoothing") or "weight" in section.loss_args:
        return None
    y = sample.train_y.cpu()
    if sample.classes is not None:
        shares = torch.bincount(y).double() / len(y)
        return float(-(shares * torch.log(shares.clamp_min(1e-12))).sum())
    loss = make_loss(section, None, torch.device("cpu"))
    return min(float(loss(middle.expand(len(y)), y)) for middle in constant_outputs(section, y))
