"""The training of one baseline, in a child process. The parent imports neither this module nor torch."""

from __future__ import annotations

import threading
from dataclasses import asdict, replace

import torch

from node.data.dataset import Dataset, load_dataset
from node.training.build import build_model
from node.training.figures.metric_words import metric_text
from node.training.trainer import make_trainer, read_vector
from scenarios.frame.folder import write_json
from scenarios.swarms.baselines import Curve, Job


def train_baseline(job: Job) -> int:
    """Train one baseline: print a line per round, write the curve, return the exit status."""
    torch.set_num_threads(1)
    job.log.write_text("")
    write_json(job.path, asdict(train_curve(job)))
    return 0


def train_curve(job: Job) -> Curve:
    """The headline metric after every round of local training, from the task's initial model."""
    dataset = union_of_shards(job)
    model = build_model(job.task, dataset)
    trainer = make_trainer(job.task, model, dataset, job.batch_seed, None)
    working = read_vector(model, job.task.train.parameters)  # (d,)
    found, seconds, never = [], 0.0, threading.Event()
    for number in range(1, job.rounds + 1):
        trained = trainer.train(working, number, never)
        working = trained.vector
        seconds += trained.seconds
        found.append(trainer.evaluate(working).headline)
        print(f"round {number}: {metric_text(found[-1].metric, found[-1].value)}", flush=True)
    values, last = tuple(headline.value or 0.0 for headline in found), found[-1]
    return Curve(job.name, len(dataset.train_y), values, last.baseline or 0.0, seconds, last.metric)


def union_of_shards(job: Job) -> Dataset:
    """The rows of all shards of the job; all shards have the same test split."""
    shards = [load_dataset(job.task, None, (shard, job.parts)) for shard in job.shards]
    return replace(
        shards[0],
        train_x=torch.cat([shard.train_x for shard in shards]),
        train_y=torch.cat([shard.train_y for shard in shards]),
    )
