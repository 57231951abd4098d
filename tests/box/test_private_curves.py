"""Nodes that learn an additive model with privacy: one dies in a sum, or comes late, and all end alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.accounting.terms import CELLS
from node.app.run import Prepared, prepared_on
from node.options import NodeOptions
from node.system.system import System
from node.task.load import read_task
from node.task.sections import ADDITIVE
from node.training.model_file import read_tensors
from protocol.wire.messages import Sum
from tests.box.box import Box, BoxNode
from tests.box.moments import Moment, dies
from tests.box.test_privacy import participants, to_one_model
from tests.box.test_table_models import SCHEMA, rows
from tests.run_folders import rows as rows_of

KEYS = {
    "task": {"name": "ward"},
    "data": {"schema": SCHEMA},
    "model": {
        "class": ADDITIVE,
        "args": {"cells": 8},
    },
}
STEPS = {"expected_rows": 360, "expected_batch": 360.0, "steps": 6, "report_every": 2}
PRIVATE = read_task(
    KEYS
    | {"train": {"loss": "bce", **STEPS}, "privacy": {"mechanism": "distributed-dp-sgd", "epsilon": 90.0}}
)


def prepare(options: NodeOptions, system: System) -> Prepared:
    assert options.shard is not None
    task = replace(PRIVATE, aggregation=options.task.aggregation)
    return prepared_on(replace(options, task=task), rows(options.shard[0]), system)


def models_of(box: Box) -> list[Mapping[str, NDArray[np.generic]]]:
    """Returns the tensors of all nodes, after a check that they are the same."""
    models = [read_tensors(node.folder / "model.safetensors") for node in box.nodes]
    assert all((part == models[0][name]).all() for model in models for name, part in model.items())
    assert models[0]["head.weight"].any()
    return models


def names_of(node: BoxNode) -> list[str]:
    """Returns the names under which a node's offers are booked, alike in its ledger and its spend file."""
    lines = (node.folder / "node.key.spent").read_bytes().splitlines()
    beside = [json.loads(line.partition(b" ")[2])["terms"]["mechanism"] for line in lines]
    booked = rows_of(node.folder, "select terms from ledger join terms using (sid) order by at_ms")
    assert [json.loads(terms)["mechanism"] for (terms,) in booked] == beside
    return beside


@pytest.mark.parametrize("at", [Moment(Sum, 1, 1), Moment(Sum, 2, 3)])
def test_one_dies_in_a_sum_and_comes_back(make_box, at: Moment) -> None:
    box = make_box(3, 3, usual=(), prepare=prepare)
    dies(box.nodes[-1], at, power=True)
    box.nodes[-1].start()
    to_one_model(box)
    for node in box.nodes:
        found = names_of(node)
        assert 2 <= found.count(CELLS) <= 3
        assert len(found) <= 7, "one sum failed at most"
        told = node.summary["privacy"]
        assert told["cells_charged"] == found.count(CELLS)
        assert told["epsilon_spent"] <= told["epsilon_budget"] == 90.0
    assert (models_of(box)[0]["body.edges"] < 2.0).sum() > 2


def test_a_late_member_has_the_cells_of_the_others(make_box) -> None:
    box = make_box(4, 3, "aggregation.min_participants=3", usual=(), prepare=prepare)
    *others, late = box.nodes
    for node in others:
        node.start()
    box.run(until=others[0].has_aggregated)
    late.start()
    to_one_model(box)
    assert models_of(box)[0]["body.edges"].any()
    assert CELLS not in names_of(late)
    assert participants(box, 3)[-1] == 4
