"""Models that exact sums make, from a file of rows to a model's tensors."""

import threading

import numpy as np
import pytest
import torch

from node.data.dataset import own_rows
from node.data.sources import read_source
from node.jobs.exact_model import ExactTrainer, exact_job
from node.system.errors import UserError
from node.task.import_path import import_class
from node.task.load import read_task
from node.task.sections import ADDITIVE
from node.task.table_models import TREES
from node.training.build import build_model
from node.training.figures.tallies import Scores

RANGE = {"low": 0.0, "high": 100.0}
AGE = {"name": "age", "kind": "number", "mean": 50.0, "std": 20.0, "missing": True, **RANGE}
DIED = {"name": "died", "kind": "classes", "values": ["no", "yes"]}
SCHEMA = {"kind": "table", "target": DIED, "columns": [AGE, {"name": "smokes", "kind": "boolean"}]}
ARGS = [(ADDITIVE, {"trees": 0}), (ADDITIVE, {"trees": 30}), (TREES, {"trees": 30})]


def trainer_of(folder, cls, args, **data):
    rng = np.random.default_rng(1)
    age, smokes = rng.integers(0, 101, 600), rng.random(600) < 0.3
    died = rng.random(600) < 1 / (1 + np.exp(-(age - 60) / 10 - smokes))
    lines = [
        f"{'' if rng.random() < 0.1 else a},{s},{d},{place // 2}"
        for place, (a, s, d) in enumerate(zip(age, smokes, np.where(died, "yes", "no"), strict=True))
    ]
    (folder / "rows.csv").write_text("\n".join(["age,smokes,died,who", *lines]))
    task = read_task(
        {
            "task": {"name": "own"},
            "data": {"schema": SCHEMA, "test_fraction": 0.2, **data},
            "model": {"class": cls, "args": args},
        }
    )
    dataset = own_rows(read_source(folder / "rows.csv", task), task)
    tally = Scores(dataset.class_names)
    return ExactTrainer(task, build_model(task, dataset), dataset, 0, tally), task, dataset


def learn(trainer):
    """Yields the bases of a job with one member."""
    job, base = trainer.job, trainer.vector()
    for generation in range(trainer.most_sums):
        words = job.contribution(base, generation).words
        base = job.following(base, generation, words, (b"a" * 32,))
        yield base
        if job.is_over(base):
            return


@pytest.mark.parametrize(("cls", "args"), ARGS)
def test_a_base_is_a_model_at_any_time(tmp_path, cls, args):
    trainer, task, dataset = trainer_of(tmp_path, cls, args)
    bases = list(learn(trainer))
    assert len(bases) % trainer.round_sums == 1 % trainer.round_sums, "the last sum is of counts"
    assert trainer.evaluate(bases[0]).metrics["auc"] == 0.5  # before the first curves and trees
    assert trainer.evaluate(bases[-1]).metrics["auc"] > 0.85
    again = import_class(cls)(**task.model.args)
    again.load_state_dict({name: torch.from_numpy(part) for name, part in trainer.tensors(bases[-1]).items()})
    *before, figure = [trainer.figure(base, place + 1) for place, base in enumerate(bases)]
    assert {*before} == {None}
    assert (figure.rows, figure.peers, figure.generation) == (len(dataset.test_y), 1, len(bases) - 1)
    assert figure.value == figure.mine == pytest.approx(trainer.evaluate(bases[-1]).accuracy)
    rows = torch.tensor([[1.0, 0.0, 1.0], [-1.0, 0.0, -1.0]])
    assert torch.equal(again(rows), trainer.module(bases[-1])(rows))
    assert trainer.own_names == ()
    if cls == ADDITIVE:
        age = trainer.curves(bases[-1], task).columns[0]
        assert age.column == "age"
        assert age.values[0][0] < -1.5 < 1.5 < age.values[0][-2]


def test_a_person_is_held_out_with_all_rows(tmp_path):
    _, task, dataset = trainer_of(tmp_path, TREES, {}, person="who")
    job = exact_job(task, dataset)
    persons = dataset.persons.train
    out = persons % 5 == 4
    assert torch.equal(job._held_out.x, dataset.train_x[out])
    assert torch.equal(job._rows.x, dataset.train_x[~out])
    assert 50 < len(job._held_out.y) < len(persons) / 4


def test_it_does_not_learn_alone(tmp_path):
    trainer, _, _ = trainer_of(tmp_path, *ARGS[0])
    with pytest.raises(UserError, match="learnt from sums over all members"):
        trainer.train(trainer.vector(), 1, threading.Event())
