"""The additive model with privacy: cells and steps in one base, their cost, and what a late member has."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mechanisms.accounting.ledger import Ledger, SampledGaussian
from mechanisms.accounting.terms import CELLS
from mechanisms.noise.randomness import SeededWords
from node.data.dataset import Dataset, OfPersons
from node.jobs.additive.private_steps import step_trainer
from node.models import Additive
from node.runtime.contributions.learning import design, make_learning
from node.runtime.privacy.budget import affordable, cells_charged, counts_charged, planned_ledger, spent_by
from node.system.errors import ConfigError
from node.task.load import read_task
from node.task.sections import ADDITIVE as MODEL
from node.training.build import build_model
from tests.unit.node.jobs.test_exact_model import SCHEMA

ARGS = {"columns": [["number", 2], ["boolean", 1]], "outputs": 1, "cells": 16}
STEPS = 20
TRAIN = {"expected_rows": 6000, "steps": STEPS}
WHOLE = TRAIN | {"expected_batch": 6000}


def task_of(args=ARGS, **keys):
    return read_task(
        {
            "task": {"name": "own"},
            "data": {"schema": SCHEMA},
            "model": {"class": MODEL, "args": args, **keys.get("model", {})},
            "train": {"loss": "bce", **keys.get("train", TRAIN)},
            "privacy": {"mechanism": "distributed-dp-sgd", "epsilon": 3.0, **keys.get("privacy", {})},
            "aggregation": keys.get("aggregation", {}),
        }
    )


def rows(site, persons=None):
    """Ages, a tenth of them missing, of which those in the middle die; and whether they smoke."""
    rng = np.random.default_rng(site)
    age, lost, smokes = rng.uniform(-2, 2, 2000), rng.random(2000) < 0.1, rng.choice([-1, 1], 2000)
    x = torch.from_numpy(np.stack([np.where(lost, 0, age), lost, smokes], 1).astype(np.float32))
    logit = np.where(lost, 0, 2 - 2 * age**2) + smokes
    y = torch.from_numpy((rng.random(2000) < 1 / (1 + np.exp(-logit))).astype(np.int64))
    return Dataset(x[:1800], y[:1800], x[1800:], y[1800:], "test", 2, "rows", ("no", "yes"), persons=persons)


def trainer(task, site, dataset=None):
    data = dataset or rows(site)
    mechanism = design(task, data).mechanism
    words = SeededWords(np.random.default_rng([7, site]))
    return step_trainer(task, task.step_plan, build_model(task, data), data, 0, mechanism, words), mechanism


def learnt(task, sums=STEPS):
    members = [trainer(task, site)[0] for site in range(3)]
    bases = [members[0].vector()]
    for generation in range(sums):
        words = [one.contribution(bases[-1], generation).words for one in members]
        assert {len(one) for one in words} == {members[0].words(generation)}
        bases.append(members[0].following(bases[-1], generation, sum(words), (b"a", b"b", b"c")))
    return members, bases


def test_it_finds_cells_then_curves_and_a_late_member_has_both_from_the_base():
    task = task_of()
    members, bases = learnt(task)
    assert {len(base) for base in bases} == {members[0].length}
    found = [members[0].evaluate(base).metrics["auc"] for base in (*bases[:3], bases[-1])]
    assert found[:3] == [0.5] * 3
    assert found[3] > 0.75  # a straight line in age has .6
    late = trainer(task, 3)[0]
    model = late.module(bases[-1])
    assert torch.equal(model.body.edges, members[1].module(bases[-1]).body.edges)
    assert 5 < len(model.body.number_edges()[0]) < 16
    again = Additive(**ARGS)
    again.load_state_dict({name: torch.from_numpy(part) for name, part in late.tensors(bases[-1]).items()})
    assert torch.equal(again(rows(3).test_x), model(rows(3).test_x))
    assert not late.module(bases[1]).body.number_edges()[0], "a base before has no cells"


def test_cells_and_steps_have_one_budget_and_names_of_their_own():
    task = task_of(
        aggregation={"swarm_metric": "scores", "swarm_metric_every": 1}, train=TRAIN | {"report_every": 1}
    )
    _, mechanism = trainer(task, 0)
    learning = make_learning(task, build_model(task, rows(0)), rows(0), 0, mechanism)
    costs = [learning.job.cost(generation) for generation in range(STEPS)]
    assert [[event.terms and event.terms.mechanism for event in cost] for cost in costs[:3]] == [
        [CELLS],
        [CELLS],
        [None, None],
    ]
    ledger = Ledger.of(event for cost in costs for event in cost)
    assert (cells_charged(mechanism, ledger), counts_charged(mechanism, ledger)) == (2, STEPS - 2)
    whole = spent_by(mechanism, planned_ledger(mechanism)).epsilon
    assert spent_by(mechanism, ledger).epsilon < whole <= 3.0
    assert whole > 2.95
    (step,) = mechanism.shared.events
    left = affordable(mechanism, ledger)
    assert (left[costs[0][0]], left[step]) == (2, mechanism.shared.steps - STEPS + 2)
    without, mixed = (
        affordable(mechanism, Ledger.of([replace(step, steps=steps)])) for steps in (1, 100_000)
    )
    assert without[costs[0][0]] == 4
    assert not any(mixed.values())
    assert isinstance(step, SampledGaussian)
    assert "epsilon 0.3 of 3" in learning.words["cells"]
    assert learning.computed["cell_noise_multiplier"] == costs[0][0].noise_multiplier
    assert learning.offered >= max(map(learning.job.words, range(STEPS)))


def test_persons_count_once_in_cells():
    of = OfPersons(torch.arange(1800) // 2, torch.arange(200), most=2)
    task = task_of(privacy={"epsilon": 1e6})
    task = replace(task, data=replace(task.data, person="who"))
    sums = []
    for persons in (None, of):
        subject, mechanism = trainer(task, 0, rows(0, persons))
        words = subject.contribution(subject.vector(), 0).words.view(np.int32)
        sums.append(words.sum() * subject._cells.grid.unit)
        assert "person" in mechanism.planned_cells[0].terms.unit.what
    assert sums[1] == pytest.approx(sums[0] / 2, rel=0.05)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"train": TRAIN | {"steps": 2}}, "train.steps = 2 is refused .* at least 3"),
        ({"model": {"body": "body"}}, "model.body = 'body' is refused: the first 2 sums find"),
        ({"args": {**ARGS, "cells": 64}}, "model.args.cells = 64 does not suit .* 4 to 31"),
        (
            {"train": TRAIN | {"expected_batch": 6000}, "privacy": {"epsilon": 3e-4, "delta": 1e-12}},
            "drowns them",
        ),
    ],
)
def test_a_task_that_cannot_be_learnt_is_refused_in_one_line(keys, message):
    def start():
        task = task_of(**keys)
        designed = design(task, rows(0))
        make_learning(task, designed.model, rows(0), 0, designed.mechanism)

    with pytest.raises(ConfigError, match=message):
        start()


def test_a_task_with_its_own_edges_or_without_numbers_begins_with_steps():
    for args in (ARGS | {"edges": [[-1.0, 0.0]]}, {**ARGS, "columns": [["boolean", 2], ["boolean", 1]]}):
        assert task_of(args).cell_sums == 0


def test_the_first_step_after_the_cells_is_the_first_of_the_optimizer():
    """Adam moves each parameter by the learning rate then, and the average of all by nine tenths of it."""
    members, bases = learnt(task_of(train=TRAIN | {"optimizer": "adam", "learning_rate": 0.01}), 3)
    before, after = (members[0].tensors(base) for base in bases[2:])
    moved = [np.abs(after[name] - before[name]).max() for name in after if "edges" not in name]
    assert max(moved) == pytest.approx(0.9 * 0.01, rel=1e-3)
