"""The additive model's arguments by a task's schema, and tasks that it refuses."""

import pytest

from node.jobs.additive.columns import plan_of
from node.models import Additive
from node.system.errors import ConfigError
from node.task.load import read_task
from node.task.sections import ADDITIVE
from node.task.table_models import model_arguments
from tests.own_data import told

AGE = {"name": "age", "kind": "number", "mean": 50.0, "std": 20.0, "missing": True, "low": 0.0, "high": 110.0}
INCOME = {"name": "income", "kind": "number", "mean": 1000.0, "std": 100.0, "low": 0.0, "high": 9e9}
DAY = {"name": "day", "kind": "date", "mean": 0.0, "std": 1.0}
SMOKES = {"name": "smokes", "kind": "boolean"}
WARD = {"name": "ward", "kind": "category", "values": ["A", "B"]}
COLUMNS = [["number", 2], ["number", 1], ["number", 1], ["boolean", 1], ["category", 3]]


def task(target=("no", "yes"), train=None, **args):
    kind = (
        {"kind": "number", "mean": 0.0, "std": 1.0}
        if target is None
        else {"kind": "classes", "values": [*target]}
    )
    schema = {"kind": "table", "target": {"name": "y", **kind}, "columns": [AGE, INCOME, DAY, SMOKES, WARD]}
    loss = {"loss": "bce"} if target is not None and len(target) == 2 else {}
    outputs = (
        {"outputs": 1} if target is None or len(target) == 2 else {"outputs": 3, "one_against_rest": True}
    )
    return read_task(
        {
            "task": {"name": "own"},
            "data": {"schema": schema},
            "model": {"class": ADDITIVE, "args": {"columns": COLUMNS, "cells": 31, **outputs} | args},
            "train": loss | (train or {}),
        }
    )


@pytest.mark.parametrize(
    ("target", "train", "weights"),
    [
        (("no", "yes"), {}, (1.0, 1.0)),
        (("no", "yes"), {"loss_args": {"pos_weight": [3.0]}}, (1.0, 3.0)),
        (("a", "b", "c"), {}, (1.0, 1.0, 1.0)),
        (
            ("a", "b", "c"),
            {"loss": "balanced-softmax", "loss_args": {"prior": [0.5, 0.25, 0.25]}},
            (2.0, 4.0, 4.0),
        ),
        (None, {}, ()),
    ],
)
def test_a_task_says_what_all_members_know(target, train, weights):
    found = task(target, train)
    plan = plan_of(found)
    assert [list(column) for column in plan.columns] == COLUMNS
    assert plan.ranges == ((-2.5, 3.0), (-10.0, 10.0), (-10.0, 10.0))
    assert plan.weights == weights
    args = model_arguments(found.data.schema, exact=True)
    assert Additive(**args).body.size == 32 + 31 + 31 + 3 + 4
    assert {**found.model.args} == args | {"trees": 100, "depth": 4}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": COLUMNS[:4]}, "model.args.columns = "),
        (
            {"cells": 32},
            "model.args.cells = 32 does not suit the data.schema of this table; allowed: 4 to 31",
        ),
        ({"cells": 3}, "model.args.cells = 3 "),
        ({"outputs": 2}, "model.args.outputs = 2 does not suit the data.schema of this table; allowed: 1"),
        (
            {"target": None, "train": {"loss": "huber"}},
            "train.loss = 'huber' is refused with node.models:Additive",
        ),
        (
            {"train": {"loss": "cross-entropy"}},
            "train.loss = 'cross-entropy' is refused with node.models:Additive for 2 classes",
        ),
        ({"train": {"loss": "bce", "loss_args": {"weight": [1.0]}}}, "train.loss = 'bce' is refused"),
    ],
)
def test_other_tasks_are_refused(change, words):
    assert told(lambda: plan_of(task(**change))).startswith(words)


def test_it_needs_a_table():
    found = read_task({"task": {"name": "own"}, "model": {"class": ADDITIVE, "args": {}}})
    with pytest.raises(ConfigError, match="it needs a table"):
        plan_of(found)
