"""Low-rank adapters of a small transformer, learned by whole nodes: their mean is that of the weights."""

from __future__ import annotations

import threading

import numpy as np
from safetensors.numpy import load_file

from node.training.build import build_model
from node.training.trainer import make_trainer
from tests.box.box import few_digits
from tests.box.test_swarms import ends_of_all

MODEL = ("model.class=tests.own_models:Adapted", "model.args={rank = 2}")
LOCAL = ("train.epochs=1", "train.batch_size=16", "train.threads=1", *MODEL)
GRID = 2.0**-20
"""Far above the unit to which each member's numbers are rounded, far below a step of training."""


def test_the_swarms_mean_is_that_of_adapters_trained_in_one_process(make_box) -> None:
    box = make_box(4, 1, usual=LOCAL)
    box.start_all()
    ends_of_all(box, 1)
    trained = []
    for node in box.nodes:
        options = box.options(node.number)
        rows = few_digits(options)
        trainer = make_trainer(options.task, build_model(options.task, rows), rows, options.seed, None)
        trained.append(trainer.train(trainer.vector(), 1, threading.Event()).vector)
    assert np.abs(trained[0] - trained[1]).max() > 1000 * GRID
    wanted = trainer.tensors(np.mean(trained, axis=0, dtype=np.float64).astype(np.float32))
    for node in box.nodes:
        found = load_file(node.folder / "model.safetensors")
        assert found.keys() == wanted.keys()
        assert all(np.abs(found[name] - wanted[name]).max() < GRID for name in found)
    assert np.abs(found["body.linear1.lora_B.weight"]).max() > 0


def test_members_share_the_noise_of_adapters(make_box) -> None:
    run = ("train.steps=4", "train.report_every=2", "privacy.honest=2", "privacy.epsilon=3")
    box = make_box(4, 2, *run, usual=("privacy.mechanism=distributed-dp-sgd", "train.threads=1", *MODEL))
    box.start_all()
    box.run_to_the_end()
    assert {node.summary["aggregated"] for node in box.nodes} == {2}
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1
