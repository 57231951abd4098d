"""A user's own network, optimiser and loss in a swarm; its model predicts, and the run resumes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from node.data.dataset import load_dataset
from node.task.load import load_task
from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.processes import Nursery
from tests.e2e.swarm import one_digest
from tests.run_folders import summary

OWN = (
    *("model.class=tests.own_models:WithBody", "model.args={}", "train.batch_size=16"),
    *("train.optimizer=tests.own_training:Signs", "train.learning_rate=0.003", "train.schedule=cosine"),
    *("train.loss=tests.own_training:focal", "train.loss_args={gamma=1.0}"),
)


def test_a_network_of_ones_own_is_trained_and_predicts_as_its_summary_says(
    make_waiting_swarm, nursery: Nursery, tmp_path: Path
) -> None:
    swarm = make_waiting_swarm(3, 3, *OWN)
    nodes = swarm.start_all()
    assert "'body.1.running_mean, " in nodes[0].event("started")["stays here"]
    ends = [node.ends_well() for node in nodes]
    one_digest(ends)
    shared, statistics = ("head.weight", "body.1.weight"), "body.1.running_mean"
    models = [load_file(swarm.out(number) / "model.safetensors") for number in range(3)]
    for name in shared:
        assert all(np.array_equal(model[name], models[0][name]) for model in models)
    assert not np.array_equal(models[0][statistics], models[1][statistics]), "each node's own rows"
    dataset = load_dataset(load_task("digits", []), None, (0, 3))
    np.savez(tmp_path / "test.npz", x=dataset.test_x.numpy(), y=dataset.test_y.numpy())
    said = summary(swarm.out(1))
    found = predicted(nursery, tmp_path, swarm.out(1))
    assert found["rows"] == len(dataset.test_y)
    for name, value in {**said["metrics"], "accuracy": said["accuracy"]}.items():
        assert found["metrics"][name] == pytest.approx(value, abs=2e-6)
    assert said["accuracy"] > 0.5
    assert (found["model"]["base_digest"], found["model"]["participants"]) == (said["base_digest"], 3)


def predicted(nursery: Nursery, folder: Path, out: Path) -> dict:
    """Returns what node.predict reports for a run's folder."""
    written = folder / "predictions.csv"
    process = nursery.predict(
        *("--model", str(out), "--data", str(folder / "test.npz"), "--out", str(written), "--json")
    )
    assert process.status() == 0, process.told()
    process.out.join()
    assert process.err.all() == []
    assert len(written.read_text().splitlines()) > 300
    said: dict = json.loads(process.out.all()[-1])
    return said


def test_local_parameters_outlive_a_stop(make_waiting_swarm) -> None:
    """The head is shared; every node's own first layer resumes from its last values."""
    swarm = make_waiting_swarm(3, 4, "train.parameters=layers.2.*", "train.local=layers.0.*")
    interrupted = Orders(fate=Fate("Share", session=2, sign=signal.SIGINT))
    first, second, third = swarm.start_all({2: interrupted})
    assert third.status() == 130
    stopped = load_file(swarm.out(2) / "private.safetensors")
    again = swarm.start(2, "--rounds", str(summary(swarm.out(2))["rounds"]))
    again.ends_well()
    resumed = load_file(swarm.out(2) / "private.safetensors")
    assert np.array_equal(resumed["layers.0.weight"], stopped["layers.0.weight"])
    ends = [node.ends_well() for node in (first, second, swarm.start(2))]
    one_digest(ends)
    bodies = [load_file(swarm.out(number) / "model.safetensors")["layers.0.weight"] for number in range(3)]
    assert not np.array_equal(bodies[0], bodies[1])
    assert not np.array_equal(bodies[2], stopped["layers.0.weight"]), "it was trained on"
