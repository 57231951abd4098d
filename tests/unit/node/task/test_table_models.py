"""What a task with a model of tables need not say, and what it must not."""

import json

import pytest

from node.task.load import read_task
from node.task.sections import ADDITIVE
from node.task.shared_noise_keys import readable
from node.task.table_models import TREES, most_cells, opened
from node.training.model_file import task_table
from tests.own_data import TABLE, told
from tests.unit.node.cases import cases

PRIVATE = {"privacy": {"mechanism": "distributed-dp-sgd", "epsilon": 1.0}, "train": {"expected_rows": 900}}


def made(target=TABLE["target"], args=None, model=ADDITIVE, **sections):
    schema = {**TABLE, "target": target}
    model = {"class": model, **({} if args is None else {"args": args})}
    return read_task({"task": {"name": "t"}, "model": model, "data": {"schema": schema}, **sections})


@pytest.mark.parametrize("sections", [{}, PRIVATE], ids=["exact", "private"])
def test_arguments_and_loss_follow_from_the_schema(sections):
    task = made(**sections)
    assert (task.train.loss, task.model.args["outputs"]) == ("bce", 1)
    assert len(task.model.args["columns"]) == len(TABLE["columns"])
    again = made(args=dict(task.model.args), **sections)
    assert again.model == task.model
    assert made(args={"cells": 8}, **sections).model.args["cells"] == 8
    number = {"name": "outcome", "kind": "number", "mean": 0.0, "std": 1.0}
    assert made(number, **sections).train.loss == "auto"
    many = made({"name": "outcome", "kind": "classes", "values": ["a", "b", "c"]}, **sections)
    assert (many.model.args["outputs"], many.model.args["one_against_rest"]) == (3, not sections)


def test_a_model_file_has_no_key_without_an_effect():
    task = made()
    assert read_task(task_table(task)) == task
    assert "learning_rate" not in readable(task, "train", {"learning_rate": 1.0, "loss": "bce"})


@pytest.mark.parametrize(
    ("model", "args", "totals"),
    [
        (ADDITIVE, {"trees": 0}, "every pair of columns"),
        (
            ADDITIVE,
            {},
            "every pair of columns, and of every group of rows that a tree parts, some of them small",
        ),
        (TREES, {}, "every group of rows that a tree parts, some of them small"),
    ],
)
def test_what_exact_sums_open_is_one_sentence(model, args, totals):
    task = made(args=args, model=model)
    assert opened(task) == (
        f"each member's computer sees exact totals of {totals}; all the others together can compute yours"
    )


@cases("""
    model => sections => line
    Additive => {"train": {"learning_rate": 0.1}} => train.learning_rate = 0.1 has no effect with
        model.class = 'node.models:Additive' without privacy, which exact sums make; leave it out
    Additive => {"train": {"epochs": 2}} => train.epochs = 2 has no effect with model.class =
        'node.models:Additive' without privacy, which exact sums make; leave it out
    Additive => {"train": {"seconds": 2.0}} => train.seconds = 2.0 has no effect with model.class =
        'node.models:Additive' without privacy, which exact sums make; leave it out
    Additive => {"aggregation": {"swarm_metric": "scores", "swarm_metric_every": 2}} =>
        aggregation.swarm_metric_every = 2 has no effect with model.class = 'node.models:Additive' without
        privacy, whose last model alone is measured; leave it out
    Additive => {"privacy": {"mechanism": "aldp"}} => privacy.mechanism = 'aldp' is refused with model.class =
        'node.models:Additive', of which no member has updates; allowed: 'none', 'distributed-dp-sgd'
    Additive => {"privacy": {"mechanism": "dp-sgd"}} => privacy.mechanism = 'dp-sgd' is refused with
        model.class = 'node.models:Additive', of which no member has updates; allowed: 'none',
        'distributed-dp-sgd'
    Trees => {"privacy": {"mechanism": "ldp", "epsilon": 1.0}} => privacy.mechanism = 'ldp' is refused with
        model.class = 'node.models:Trees': trees lose by noise what node.models:Additive keeps; take that, or
        privacy.mechanism = 'none'
    Trees => {"privacy": {"mechanism": "distributed-dp-sgd"}} => privacy.mechanism = 'distributed-dp-sgd' is
        refused with model.class = 'node.models:Trees': trees lose by noise what node.models:Additive keeps;
        take that, or privacy.mechanism = 'none'
    Additive => {"args": {"trees": 5}, "privacy": {"mechanism": "distributed-dp-sgd", "epsilon": 1.0},
        "train": {"expected_rows": 900}} => model.args.trees = 5 is refused with privacy.mechanism =
        'distributed-dp-sgd': trees lose by noise what curves keep; allowed: 0
""")
def test_what_a_model_of_tables_has_no_place_for(model, sections, line):
    assert told(lambda: made(model=f"node.models:{model}", **json.loads(sections))) == line


@pytest.mark.parametrize(("columns", "cells"), [(1, 31), (50, 20), (250, 4), (1000, 4)])
def test_many_columns_have_few_cells_each(columns, cells):
    assert most_cells(columns) == cells


def test_trees_follow_curves_where_sums_are_exact():
    assert {"trees": 100, "depth": 4}.items() <= made().model.args.items()
    assert "trees" not in made(**PRIVATE).model.args
    alone = made(model=TREES).model.args
    assert {"trees": 100, "depth": 4, "rate": 0.1, "cells": 63}.items() <= alone.items()
    assert made(args={"trees": 0}).model.args["trees"] == 0


@pytest.mark.parametrize("model", [ADDITIVE, TREES])
def test_a_vector_is_no_part_of_a_model_of_tables(model):
    note = {"name": "note", "kind": "text", "width": 8}
    schema = {**TABLE, "columns": [*TABLE["columns"], note]}
    table = {"task": {"name": "t"}, "model": {"class": model}, "data": {"schema": schema}}
    assert f"column 'note' of kind 'text' is refused with model.class = '{model}'" in told(read_task, table)
