"""On a card, training and private gradients give what they give on the CPU, and vectors come back to it."""

import threading

import numpy as np
import pytest
import torch

from node.data.dataset import load_dataset
from node.task.load import load_task
from node.training.build import build_model
from node.training.gradient_steps import PlainSteps
from node.training.trainer import Trainer, read_vector

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no card here")


def test_a_round_ends_where_it_ends_on_the_cpu():
    found = []
    for device in ("cpu", "cuda"):
        task = load_task("digits", [f"train.device={device}"])
        dataset = load_dataset(task, None, (0, 5))
        trainer = Trainer(build_model(task, dataset), task.train, dataset, 0, PlainSteps)
        vector = trainer.train(read_vector(build_model(task, dataset), "*"), 1, threading.Event()).vector
        assert isinstance(vector, np.ndarray)
        found.append(vector)
    assert np.abs(found[0] - found[1]).max() < 1e-3
