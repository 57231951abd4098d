"""Swarms whose model is no torch module: learners in plain numpy; one is killed, late, another, or fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from node.app.run import Prepared, prepared_for
from node.app.study import study_of_learner
from node.options import NodeOptions
from node.runtime.record.events import RoundEnded
from node.system.system import System
from node.task.load import read_task
from tests.box.box import Box, BoxNode
from tests.own_learners import Means

ROUNDS = 4
LAST = 3
"""The node that is killed, late, another, or fails."""
LOCAL = {"privacy": {"mechanism": "ldp", "epsilon": 50.0}}
ADAPTED = {"privacy": {"mechanism": "aldp", "epsilon": 50.0}}
WEIGHTED = {"aggregation": {"weighting": "samples", "sample_cap": 20, "loss_gate": 0.5}}


@pytest.fixture
def learners(make_box) -> Callable[..., Box]:
    """Makes a box of four nodes whose learners learn means; the last one's has some `parts` of its own."""

    def make(sections: dict, **parts: object) -> Box:
        named = {"task": {"name": "means"}, "model": {"learner": "tests.own_learners:means"}}
        task = read_task({**named, "train": {"rounds": ROUNDS}, **sections})

        def prepare(options: NodeOptions, system: System) -> Prepared:
            assert options.shard is not None
            own, site = replace(options, task=task), options.shard[0]
            its = parts if site == LAST else {}
            learner = Means(np.random.default_rng(site).normal(1, 1, (20, its.get("d", 3))))
            for name, part in its.items():
                setattr(learner, name, part)
            return prepared_for(own, study_of_learner(own, system, learner), system)

        return make_box(LAST + 1, ROUNDS, prepare=prepare, usual=(), options=("--alone", "60"))

    return make


def digest(*nodes: BoxNode) -> str:
    """Returns the digest of the one base with which all these nodes have ended their run."""
    ends = [node.summary for node in nodes]
    assert [(end["rounds"], end["finished"]) for end in ends] == [(ROUNDS, True)] * len(nodes)
    (found,) = {end["base_digest"] for end in ends}
    return found


@pytest.mark.parametrize("sections", [WEIGHTED, ADAPTED, LOCAL], ids=["weights and a gate", "aldp", "ldp"])
def test_learners_end_with_one_base_though_one_is_killed(learners, sections) -> None:
    box = learners(sections)
    killed = box.nodes[LAST]
    killed.when(killed.kill, RoundEnded, nth=2)
    box.start_all()
    box.run(lambda: killed.is_over)
    killed.start()
    box.run_to_the_end()
    digest(*box.nodes)
    for node in box.nodes:
        end = node.summary
        assert (end["metric"], end["accuracy"]) == ("distance", 0.5)
        assert (end["alone"] or {"metric": "distance"})["metric"] == "distance"
        assert [line["loss"] for line in node.history] == [None] * len(node.history)
        saved = np.load(node.folder / "learner" / "mean.npy")
        assert np.array_equal(saved, node.agreed[1])
    if sections is WEIGHTED:  # without noise it comes close to the mean of all rows
        assert np.abs(saved - 1).max() < 0.4


def test_a_learner_that_comes_late_gets_the_base_and_learns_on(learners) -> None:
    box = learners({})
    *early, late = box.nodes
    for node in early:
        node.start()
    box.run(until=early[0].has_aggregated)
    late.start()
    box.run_to_the_end()
    digest(*box.nodes)
    assert late.has_aggregated(participants=LAST + 1)


def fails(*_: object) -> None:
    raise ZeroDivisionError("a row of zeros")


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"name": "medians"}, 'model.learner is "medians" here and "means" there; make them equal'),
        ({"d": 4}, 'shapes.0 is ["vector", [4]] here and ["vector", [3]]'),
        (
            {"vector": lambda: np.ones(3, np.float32)},
            "first numbers are not those there (draw them",
        ),
        ({"train": fails}, "error: learner 'means': train() failed: ZeroDivisionError: a row of zeros"),
    ],
    ids=["name", "length", "first numbers", "train fails"],
)
def test_who_differs_or_fails_is_told_why_in_a_line_and_the_others_learn_on(learners, parts, line) -> None:
    box = learners({}, **parts)
    box.start_all()
    box.run_to_the_end()
    *others, last = box.nodes
    digest(*others)
    assert last.status
    assert last.has_said(line)
    assert not any(node.has_said("error") for node in others)


def test_one_that_fails_under_noise_goes_on_and_only_its_owner_is_told(learners) -> None:
    gated = ADAPTED | {"aggregation": {"loss_gate": 0.5}}
    box = learners(gated, train=fails, evaluate=fails, loss=fails)
    box.start_all()
    box.run_to_the_end()
    *others, last = box.nodes
    digest(*box.nodes)
    assert {record.participants for node in box.nodes for record in node.records} == {LAST + 1}
    told = (
        "of round 2 failed (learner 'means': train() failed: ZeroDivisionError: a row of zeros), and counts"
    )
    assert last.has_said(told)
    assert last.summary["value"] is None
    assert not any(node.has_said("failed") for node in others)
