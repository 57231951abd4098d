"""Peers with learners of other frameworks: from a program, and from a task that names one."""

from __future__ import annotations

import numpy as np
import pytest

from node import ConfigError, Peer, Swarm, UserError, load_task
from node.predict.model import open_model
from node.task.load import read_task
from tests.own_learners import Means

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
TASK = {"task": {"name": "means"}, "train": {"rounds": 2}}
NAMED = {
    **TASK,
    "model": {"learner": "tests.own_learners:means"},
    "data": {"source": "digits"},
    "aggregation": {
        "weighting": "samples",
        "sample_cap": 1000,
        "swarm_metric": "sums",
        "swarm_metric_every": 1,
    },
}


def test_a_task_names_a_learner_that_reads_its_rows_and_counts(tmp_path) -> None:
    results = Swarm.local(3, NAMED, alone="no", out=tmp_path).run()
    figures = [summary.swarm for summary in results.summaries]
    assert {(one.metric, one.value, one.rows, one.peers) for one in figures} == {
        ("distance", figures[0].value, 1438, 3)
    }
    assert min(one.mine for one in figures) < figures[0].value < max(one.mine for one in figures)
    assert results.agreed
    assert results.vector.shape == (64,)
    with pytest.raises(UserError, match="the model is the learner's own: see vector, the 64 numbers"):
        _ = results.model
    with pytest.raises(ConfigError, match=r"model\.learner = 'tests\.own_learners:means' is refused here"):
        open_model(tmp_path / "0")
    again = Swarm.local(
        3, {**NAMED, "model": {**NAMED["model"], "weights": str(tmp_path / "0/model.safetensors")}}
    )
    assert not np.array_equal(again.run().vector, results.vector)


def test_an_error_of_a_learner_is_one_line_and_ends_all(monkeypatch) -> None:
    monkeypatch.setattr(Means, "train", lambda *_: 1 / 0)
    swarm = Swarm.local(3, TASK, learners=[Means(np.ones((9, 2)))] * 3)
    with pytest.raises(
        UserError, match=r"learner 'means': train\(\) failed: ZeroDivisionError: division by zero"
    ):
        swarm.run()


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        ({"model": {"class": "node.models:MLP"}}, r"model\.class = .* is refused beside model\.learner"),
        ({"model": {"body": "a"}}, r"model\.body = 'a' is refused beside model\.learner"),
        ({"privacy": {"mechanism": "dp-sgd"}}, "it needs the gradients of single rows"),
        ({"privacy": {"mechanism": "mechanisms.updates.record:dp_sgd"}}, "privacy.mechanism"),
        ({"aggregation": {"swarm_metric": "scores"}}, "'scores' is refused beside model.learner"),
    ],
)  # fmt: skip
def test_what_only_a_torch_model_has_is_refused(sections, line) -> None:
    with pytest.raises(UserError, match=line):
        Swarm.local(3, {**TASK, **sections}, learners=[Means(np.ones((9, 2)))] * 3).run()


def test_arguments_that_contradict_a_learner_are_refused() -> None:
    learner = Means(np.ones((9, 2)))
    with pytest.raises(ConfigError, match="data and shard have no effect beside a learner"):
        Peer(TASK, (np.ones((9, 2)), np.ones(9)), learner=learner, peers=["127.0.0.1:1"])
    with pytest.raises(ConfigError, match="2 learners for 3 peers are refused"):
        Swarm.local(3, TASK, learners=[learner] * 2)
    for task in ("digits", load_task("digits", [])):
        with pytest.raises(ConfigError, match=r"model\.class = 'node\.models:MLP' is refused beside"):
            Peer(task, learner=learner, peers=["127.0.0.1:1"])
    assert Peer(read_task(NAMED), learner=learner, peers=["127.0.0.1:1"]).out is None
    for section, line in (
        ({"loss_gate": 0.1}, "has no method loss"),
        ({"swarm_metric": "sums"}, "has no methods counts and metrics"),
    ):
        with pytest.raises(ConfigError, match=line):
            Swarm.local(3, {**TASK, "aggregation": section}, learners=[Bare()] * 3).run()


class Bare(Means):
    """A learner that neither says its loss nor counts."""

    loss = counts = None

    def __init__(self) -> None:
        super().__init__(np.ones((9, 2)))
