"""Nodes that learn an additive model: one dies in a Newton sum, comes back, and all have the same curves."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import torch

from node.app.run import Prepared, prepared_on
from node.data.dataset import Dataset
from node.jobs.additive.columns import MODEL
from node.jobs.additive.job import MOST_SUMS
from node.observe.run_folder import RunFolder
from node.options import NodeOptions
from node.system.system import System
from node.task.load import read_task
from node.training.model_file import read_tensors
from protocol.wire.messages import Sum
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
TASK = read_task(
    {
        "task": {"name": "ward"},
        "data": {"schema": SCHEMA},
        "model": {
            "class": MODEL,
            "args": {"columns": [["number", 1], ["boolean", 1]], "outputs": 1, "cells": 8},
        },
        "train": {"loss": "bce"},
    }
)


def rows(site: int) -> Dataset:
    rng = np.random.default_rng(site)
    x = np.stack([rng.uniform(-2, 2, 150), rng.choice([-1, 1], 150)], 1).astype(np.float32)
    y = torch.from_numpy((rng.random(150) < 1 / (1 + np.exp(-2 * x[:, 0] - x[:, 1]))).astype(np.int64))
    x = torch.from_numpy(x)
    return Dataset(x[:120], y[:120], x[120:], y[120:], "validation", 2, "rows", ("no", "yes"))


def prepare(options: NodeOptions, system: System) -> Prepared:
    assert options.shard is not None
    task = replace(TASK, aggregation=options.task.aggregation)
    return prepared_on(replace(options, task=task), rows(options.shard[0]), system)


def test_one_dies_in_a_sum_and_all_have_the_same_curves(make_box) -> None:
    box = make_box(3, 1, usual=(), options=("--wait", "200"), prepare=prepare)
    dies(box.nodes[-1], Moment(Sum, 1, 6), power=False)
    box.nodes[-1].start()
    to_one_model(box)
    models = [read_tensors(node.folder / "model.safetensors") for node in box.nodes]
    assert all((part == models[0][name]).all() for model in models for name, part in model.items())
    assert models[0]["head.weight"].any()
    assert models[0]["rows"][:8].sum() == 3 * 120
    assert {*participants(box, 0)} <= {0, 3}
    last = box.nodes[0].summary["generation"]
    assert 5 < last <= MOST_SUMS
    history = [json.loads(line) for line in (box.nodes[0].folder / "history.jsonl").read_text().splitlines()]
    assert [one["purpose"] for one in history] == ["cells"] * 4 + ["curves"] * (last - 4)
    view = RunFolder(box.nodes[0].folder).read()
    assert (view.exact, view.over, view.round, view.rounds) == (True, True, last, MOST_SUMS)
    assert [curve.column for curve in view.curves.columns] == ["age", "smokes"]
    assert {cell.share for cell in view.curves.columns[1].cells} == {0.46, 0.54}
    assert view.curves.columns[0].bands
