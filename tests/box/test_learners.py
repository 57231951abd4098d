"""Swarms whose model is no torch module: a learner in plain numpy, killed and resumed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from node.app.run import Prepared, prepared_for
from node.app.study import study_of_learner
from node.options import NodeOptions
from node.runtime.record.events import RoundEnded
from node.system.system import System
from node.task.load import read_task

ROUNDS = 4


def prepare_with(**sections: dict) -> object:
    task = read_task(
        {
            "task": {"name": "means"},
            "model": {"learner": "tests.own_learners:means"},
            "train": {"rounds": ROUNDS},
            **sections,
        }
    )

    def prepare(options: NodeOptions, system: System) -> Prepared:
        own = replace(options, task=task)
        return prepared_for(own, study_of_learner(own, system), system)

    return prepare


@pytest.mark.parametrize(
    "sections",
    [
        {"aggregation": {"weighting": "samples", "sample_cap": 20, "loss_gate": 0.5}},
        {"privacy": {"mechanism": "aldp", "epsilon": 50.0}},
        {"privacy": {"mechanism": "ldp", "epsilon": 50.0}},
    ],
    ids=["weights and a gate", "aldp", "ldp"],
)
def test_learners_end_with_one_base_though_one_is_killed(make_box, sections) -> None:
    box = make_box(3, ROUNDS, prepare=prepare_with(**sections), usual=(), options=("--alone", "60"))
    killed = box.nodes[1]
    killed.when(killed.kill, RoundEnded, nth=2)
    box.start_all()
    box.run(lambda: killed.is_over)
    killed.start()
    box.run_to_the_end()
    ends = [node.summary for node in box.nodes]
    assert len({end["base_digest"] for end in ends}) == 1
    for node, end in zip(box.nodes, ends, strict=True):
        assert (end["rounds"], end["finished"], end["metric"], end["accuracy"]) == (
            ROUNDS,
            True,
            "distance",
            0.5,
        )
        assert (end["alone"] or {"metric": "distance"})["metric"] == "distance"
        assert [line["loss"] for line in node.history] == [None] * len(node.history)
        saved = np.load(node.folder / "learner" / "mean.npy")
        assert np.array_equal(saved, node.agreed[1])
    if "aggregation" in sections:  # without noise it comes close to the mean of all rows
        assert np.abs(saved - 1).max() < 0.4
