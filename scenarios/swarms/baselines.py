"""The baselines of a swarm: each peer training alone, and one model trained on all shards pooled.

Both start from the swarm's initial model and train for as many local epochs with its optimiser settings, with
a fresh optimiser state in every round, as in the swarm. Each is a call that leaves a JSON file.

A replay is the same swarm under another privacy mechanism, without a network: training, offers, and their
mean. The real peers' curve is compared with it (scenarios.swarms.replay).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from node.data.dataset import Dataset, load_dataset
from node.storage.plain import restored
from node.task.sections import Task
from node.training.build import build_model
from node.training.trainer import make_trainer, read_vector
from scenarios.frame.work import Call, Do, Say, do_in_children
from scenarios.study.threads import one_thread
from scenarios.swarms.nodes import SwarmPlan, batch_seed
from scenarios.swarms.progress import Display

do_work: Do = partial(do_in_children, at_once=2)
"""Makes calls on this machine, two at a time."""

COMPARED = ("dp-sgd", "aldp", "ldp")


@dataclass(frozen=True)
class Baseline:
    """One baseline. shards: the parts (of `parts`) whose rows it trains on."""

    name: str
    task: Task
    shards: tuple[int, ...]
    parts: int
    rounds: int
    batch_seed: int


@dataclass(frozen=True)
class Curve:
    """The headline metric on the common test split after each round, and the number of training rows.

    `guessing`: what the best constant answer reaches on the test rows. `metric`: its name.
    """

    name: str
    rows: int
    values: tuple[float, ...]
    guessing: float
    seconds: float
    metric: str = "accuracy"

    @property
    def final(self) -> float:
        """The value after the last round."""
        return self.values[-1]


@dataclass(frozen=True)
class Baselines:
    """alone[i]: peer i on its own shard; pooled: one model on all shards."""

    alone: tuple[Curve, ...]
    pooled: Curve


def run_baselines(plan: SwarmPlan, display: Display, do: Do) -> Baselines:
    """Train the baselines that an earlier run of the same plan has not finished. Raises UserError."""
    calls = baselines(plan)
    # The longest first: the pooled baseline is as much work as all others together.
    _do([calls[-1], *calls[:-1]], "baselines", display, do)
    *alone, pooled = [restored(Curve, json.loads(call.path.read_text())) for call in calls]
    return Baselines(tuple(alone), pooled)


def baselines(plan: SwarmPlan) -> tuple[Call, ...]:
    """A call for each peer alone, then the pooled one. None has a proximal term."""
    task = replace(plan.task, train=replace(plan.task.train, proximal=0.0))
    seeds = [batch_seed(plan.task, plan.peers, peer) for peer in range(plan.peers)]
    alone = [(f"alone {peer}", (peer,), seed) for peer, seed in enumerate(seeds)]
    pooled = ("pooled", tuple(range(plan.peers)), seeds[0])
    return tuple(
        Call(
            name,
            f"{__name__}:train_curve",
            (Baseline(name, task, shards, plan.peers, plan.rounds, seed),),
            plan.rounds,
            plan.folder / "baselines" / f"{name.replace(' ', '-')}.json",
        )
        for name, shards, seed in (*alone, pooled)
    )


def train_curve(baseline: Baseline, say: Say) -> Curve:
    """The headline metric after every round of local training, from the task's initial model."""
    with one_thread():
        dataset = union_of_shards(baseline)
        model = build_model(baseline.task, dataset)
        trainer = make_trainer(baseline.task, model, dataset, baseline.batch_seed, None)
        working = read_vector(model, baseline.task.train.parameters)  # (d,)
        found, seconds, never = [], 0.0, threading.Event()
        for number in range(1, baseline.rounds + 1):
            trained = trainer.train(working, number, never)
            working = trained.vector
            seconds += trained.seconds
            found.append(trainer.evaluate(working).headline)
            say(number, found[-1].value or 0.0)
    values, last = tuple(headline.value or 0.0 for headline in found), found[-1]
    return Curve(baseline.name, len(dataset.train_y), values, last.baseline or 0.0, seconds, last.metric)


def union_of_shards(baseline: Baseline) -> Dataset:
    """The rows of all its shards, which have the same test split."""
    shards = [load_dataset(baseline.task, None, (shard, baseline.parts)) for shard in baseline.shards]
    return replace(
        shards[0],
        train_x=torch.cat([shard.train_x for shard in shards]),
        train_y=torch.cat([shard.train_y for shard in shards]),
    )


@dataclass(frozen=True)
class PrivateCurve:
    """After each round, the base's headline metric on the test split and the largest epsilon of any peer."""

    mechanism: str
    values: tuple[float, ...]
    epsilon: tuple[float, ...]
    privacy: Mapping[str, object]
    """The ledger of the peer that has spent the most, as in summary.json."""

    @property
    def final(self) -> float:
        """The value after the last round."""
        return self.values[-1]


def run_replays(plan: SwarmPlan, chosen: str, display: Display, do: Do) -> tuple[PrivateCurve, ...]:
    """The curves of the mechanisms that the real peers did not run; empty without privacy.

    `chosen`: the mechanism that they did run.
    """
    calls = replays(plan, chosen)
    _do(calls, "replays", display, do)
    return tuple(restored(PrivateCurve, json.loads(call.path.read_text())) for call in calls)


def replays(plan: SwarmPlan, chosen: str) -> tuple[Call, ...]:
    """A call for each mechanism to compare `chosen` with; empty without privacy."""
    return tuple(
        Call(
            name,
            "scenarios.swarms.replay:private_curve",
            (_with(plan.task, name), plan.peers, plan.rounds),
            plan.rounds,
            plan.folder / "baselines" / f"{name}.json",
        )
        for name in COMPARED
        if chosen not in ("none", name)
    )


def _do(calls: Sequence[Call], name: str, display: Display, do: Do) -> None:
    """Make the calls that an earlier run has not made."""
    if missing := [call for call in calls if not call.path.exists()]:
        do(missing, display.calls(name, missing))


def _with(task: Task, mechanism: str) -> Task:
    """The task with another mechanism, exact and all covered, and no gate, as not all mechanisms allow one.

    All other settings stay the same.
    """
    privacy = replace(
        task.privacy, mechanism=mechanism, calibration="exact", window_source=None, public_radius=False
    )
    return replace(task, privacy=privacy, aggregation=replace(task.aggregation, loss_gate=None))
