"""Nodes that learn curves and trees: one dies in a sum, or comes late, and all have the same model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from node.app.run import Prepared, prepared_on
from node.data.dataset import Dataset
from node.observe.run_folder import RunFolder
from node.options import NodeOptions
from node.predict import __main__ as predict
from node.system.system import System
from node.task.import_path import import_class
from node.task.load import read_task
from node.task.sections import ADDITIVE, Task
from node.task.table_models import TREES
from node.training.figures.tallies import Scores
from node.training.local_tensors import Array
from node.training.model_file import read_tensors
from protocol.wire.masked_messages import Masked, Release
from protocol.wire.messages import Sum
from tests.box.box import Box
from tests.box.moments import Moment, dies
from tests.box.test_privacy import participants, to_one_model

SCHEMA = {
    "kind": "table",
    "target": {"name": "died", "kind": "classes", "values": ["no", "yes"]},
    "columns": [
        {"name": "age", "kind": "number", "mean": 50.0, "std": 25.0, "low": 0.0, "high": 100.0},
        {"name": "smokes", "kind": "boolean"},
    ],
}


def task_of(cls: str, **args: object) -> Task:
    model = {"class": cls, "args": {"cells": 8, **args}}
    return read_task({"task": {"name": "ward"}, "data": {"schema": SCHEMA}, "model": model})


CURVES = task_of(ADDITIVE, trees=0)
CURVES_AND_TREES = task_of(ADDITIVE, trees=3, depth=2)
TREES_ALONE = task_of(TREES, trees=3, depth=3)


def rows(site: int) -> Dataset:
    rng = np.random.default_rng(site)
    x = np.stack([rng.uniform(-2, 2, 150), rng.choice([-1, 1], 150)], 1).astype(np.float32)
    y = torch.from_numpy((rng.random(150) < 1 / (1 + np.exp(-2 * x[:, 0] - x[:, 1]))).astype(np.int64))
    x = torch.from_numpy(x)
    return Dataset(x[:120], y[:120], x[120:], y[120:], "validation", 2, "rows", ("no", "yes"))


@pytest.fixture
def box_of(make_box):
    """Makes a box of nodes that learn a task's model."""

    def make(task: Task, count: int, least: int) -> Box:
        def prepare(options: NodeOptions, system: System) -> Prepared:
            assert options.shard is not None
            own = replace(task, aggregation=replace(options.task.aggregation, swarm_metric="scores"))
            return prepared_on(replace(options, task=own), rows(options.shard[0]), system)

        size = f"aggregation.min_participants={least}"
        return make_box(count, 1, size, usual=(), options=("--wait", "200"), prepare=prepare)

    return make


def have_one_model(box: Box, members: int) -> dict[str, Array]:
    """Checks that all nodes have the same tensors, of sums of so many members; returns them."""
    models = [read_tensors(node.folder / "model.safetensors") for node in box.nodes]
    assert all((part == models[0][name]).all() for model in models for name, part in model.items())
    assert {*participants(box, 0)} <= {0, members}
    assert any(models[0][name].any() for name in ("head.weight", "trees.nodes") if name in models[0])
    return models[0]


def has_the_metric_of_all(box: Box, task: Task, model: dict[str, Array], members: int) -> None:
    """Checks that every node tells the figure of the last model on the test rows of all, and its own."""
    tally, network = Scores(("no", "yes")), import_class(task.model.cls)(**task.model.args)
    network.load_state_dict({name: torch.from_numpy(part) for name, part in model.items()})
    network.requires_grad_(False)
    counted = [tally.counted(network(rows(site).test_x), rows(site).test_y) for site in range(len(box.nodes))]
    whole = tally.measured(np.sum(counted[:members], axis=0))
    assert whole is not None
    for node, own in zip(box.nodes, counted, strict=True):
        told, mine = node.summary["swarm"], tally.measured(own)
        assert (told["metric"], told["value"]) == ("accuracy", round(whole.metrics["accuracy"], 6))
        assert (told["rows"], told["peers"]) == (members * 30, members)
        assert mine is not None
        assert told["mine"] == round(mine.metrics["accuracy"], 6)


DEATHS = [
    (CURVES, 3, Moment(Sum, 1, 6)),
    (CURVES_AND_TREES, 5, Moment(Masked, 2, 15)),  # in a run, which is a tree
    (TREES_ALONE, 5, Moment(Release, 2, 8)),
]


@pytest.mark.sampled("curves")
@pytest.mark.parametrize(("task", "count", "moment"), DEATHS, ids=["curves", "curves-and-trees", "trees"])
def test_one_dies_in_a_sum_and_all_have_the_same_model(box_of, task, count, moment) -> None:
    box = box_of(task, count, count)
    dies(box.nodes[-1], moment, power=False)
    box.nodes[-1].start()
    to_one_model(box)
    model = have_one_model(box, count)
    has_the_metric_of_all(box, task, model, count)
    if task.model.cls == ADDITIVE:
        assert model["rows"][:8].sum() == count * 120
    if task.model.args["trees"]:
        ended = [line["round"] for line in box.nodes[0].history if line["participants"]]
        assert ended == list(range(1, len(ended) + 1)), "each round, a tree or as many sums, has a line"
        assert len(ended) == (6 if task.model.cls == TREES else 10)
    last = box.nodes[0].summary["generation"]
    assert last > 5
    shown = RunFolder(box.nodes[0].folder).read()
    assert (shown.exact, shown.over, shown.generation) == (True, True, last)
    told = [(line.sum_number, line.purpose) for line in shown.history]
    assert told[-1] == (last, "metric")
    assert [line.swarm is not None for line in shown.history] == [False] * (len(told) - 1) + [True]
    assert told[0][1] == "cells"
    assert (shown.curves is None) == (task.model.cls == TREES)
    if task is CURVES:
        assert [purpose for _, purpose in told] == ["cells"] * 4 + ["curves"] * (last - 5) + ["metric"]
        assert [curve.column for curve in shown.curves.columns] == ["age", "smokes"]
        assert {cell.share for cell in shown.curves.columns[1].cells} == {0.46, 0.54}
        assert shown.curves.columns[0].bands


@pytest.mark.sampled
def test_a_model_without_one_of_its_members_is_marked_until_all_are_back(box_of, tmp_path, capsys) -> None:
    box = box_of(CURVES, 5, 4)
    *others, gone = box.nodes
    dies(gone, Moment(Masked, 1, 6), power=False)
    box.run(until=lambda: all(node.is_over for node in others))
    folder, rows_to_predict = others[0].folder, tmp_path / "rows.csv"
    rows_to_predict.write_text("age,smokes\n70,yes\n")
    argv = ("--model", str(folder), "--data", str(rows_to_predict), "--out", str(tmp_path / "predicted.csv"))
    assert predict.main(argv) == 0
    assert "is UNFINISHED: its job was not over after sum 5; take" in capsys.readouterr().err
    assert RunFolder(folder).read().is_unfinished
    box.start_all()
    to_one_model(box)
    assert predict.main(argv) == 0
    assert "UNFINISHED" not in capsys.readouterr().err
    assert not RunFolder(folder).read().is_unfinished


def test_who_comes_late_receives_the_trees(box_of) -> None:
    box = box_of(TREES_ALONE, 5, 4)
    *early, late = box.nodes
    for node in early:
        node.start()
    box.run(until=early[0].has_aggregated)
    late.start()
    to_one_model(box)
    has_the_metric_of_all(box, TREES_ALONE, have_one_model(box, 4), 4)
