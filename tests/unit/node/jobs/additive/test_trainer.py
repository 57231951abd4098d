"""A node's additive model from a file of rows to a model's tensors."""

import threading

import numpy as np
import pytest
import torch

from node.data.dataset import own_rows
from node.data.sources import read_source
from node.jobs.additive.columns import MODEL, model_arguments
from node.jobs.additive.trainer import AdditiveTrainer
from node.models import Additive
from node.system.errors import UserError
from node.task.data_schema import TableSchema
from node.task.load import read_task
from node.training.build import build_model

SCHEMA = {
    "kind": "table",
    "target": {"name": "died", "kind": "classes", "values": ["no", "yes"]},
    "columns": [
        {
            "name": "age",
            "kind": "number",
            "mean": 50.0,
            "std": 20.0,
            "missing": True,
            "low": 0.0,
            "high": 100.0,
        },
        {"name": "smokes", "kind": "boolean"},
    ],
}


def task_of(args):
    return read_task(
        {
            "task": {"name": "own"},
            "data": {"schema": SCHEMA, "test_fraction": 0.2},
            "model": {"class": MODEL, "args": args},
            "train": {"loss": "bce"},
        }
    )


@pytest.fixture
def subject(tmp_path):
    rng = np.random.default_rng(1)
    age, smokes = rng.integers(0, 101, 600), rng.random(600) < 0.3
    died = rng.random(600) < 1 / (1 + np.exp(-(age - 60) / 10 - smokes))
    lines = [
        f"{'' if rng.random() < 0.1 else a},{s},{d}"
        for a, s, d in zip(age, smokes, np.where(died, "yes", "no"), strict=True)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["age,smokes,died", *lines]))
    schema = task_of({}).data.schema
    assert isinstance(schema, TableSchema)
    task = task_of(model_arguments(schema))
    dataset = own_rows(read_source(tmp_path / "rows.csv", task), task)
    return AdditiveTrainer(task, build_model(task, dataset), dataset, 0), task


def test_a_base_is_a_model_at_any_time(subject):
    trainer, task = subject
    job, base, found = trainer.job, trainer.vector(), []
    while not job.is_over(base):
        generation = len(found)
        base = job.following(base, generation, job.contribution(base, generation).words, (b"a" * 32,))
        found.append(trainer.evaluate(base))
    assert found[0].metrics["auc"] == 0.5  # before the first curves
    assert found[-1].metrics["auc"] > 0.85
    assert trainer.own_loss(base) == pytest.approx(job.contribution(base, len(found)).loss, rel=1e-3)
    again = Additive(**task.model.args)
    again.load_state_dict({name: torch.from_numpy(part) for name, part in trainer.tensors(base).items()})
    row = torch.tensor([[1.0, 0.0, 1.0]])
    assert torch.equal(again(row), trainer.module(base)(row))
    age = trainer.curves(base, task).columns[0]
    assert age.values[0][0] < -2 < 2 < age.values[0][-2]


def test_it_does_not_learn_alone(subject):
    with pytest.raises(UserError, match="learnt from sums over all members"):
        subject[0].train(subject[0].vector(), 1, threading.Event())
