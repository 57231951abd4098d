"""What changes the gradient and the weights after each batch: the proximal term and the mechanism's hook."""

import threading

import numpy as np
import torch

from node.data.dataset import load_dataset
from node.models import MLP
from node.task.load import load_task
from node.training.build import build_model
from node.training.gradient_steps import PlainSteps
from node.training.proximal import Held, ProximalTerm
from node.training.trainer import Trainer, read_vector

NEVER = threading.Event()


def trained(proximal, *overrides, seed=0):
    task = load_task("digits", ["train.epochs=1", *overrides])
    dataset = load_dataset(task, None, (0, 20))
    model = build_model(task, dataset)
    start = read_vector(model, "*")
    trainer = Trainer(model, task.train, dataset, seed, PlainSteps, proximal)
    return trainer.train(start, 1, NEVER).vector, start


def same(weights, start):
    return weights


def test_a_restraint_of_nothing_changes_no_bit_and_a_strong_one_is_clipped_with_the_gradient():
    assert np.array_equal(trained(None)[0], trained(ProximalTerm(0.0, same))[0])
    loose, _ = trained(ProximalTerm(1e6, same), "train.grad_clip=0.01")
    assert np.isfinite(loose).all()


def test_a_seed_of_numbers_gives_the_order_that_they_give():
    assert np.array_equal(trained(None, seed=3)[0], trained(None, seed=(3,))[0])
    assert not np.array_equal(trained(None, seed=3)[0], trained(None, seed=(3, 0))[0])


def test_after_every_batch_training_goes_on_with_what_is_made_of_the_weights():
    seen = []

    def back(weights, start):
        seen.append((tuple(weights.shape), tuple(start.shape), float((weights[0] - start).norm())))
        return start.expand_as(weights)

    vector, start = trained(ProximalTerm(0.0, back))
    assert np.array_equal(vector, start)
    assert len(seen) > 1
    assert {(shape, from_) for shape, from_, _ in seen} == {((1, len(start)), (len(start),))}
    assert all(moved > 0 for *_, moved in seen)


def test_the_gradient_of_the_proximal_term_is_mu_times_the_way_from_the_start():
    one, other = parameters = list(MLP([3, 2]).parameters())
    held = Held(ProximalTerm(0.5, same), parameters)
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(2)
    one.grad = torch.ones_like(one)
    held.pull()
    assert torch.allclose(one.grad, torch.tensor(2.0))
    assert torch.allclose(other.grad, torch.tensor(1.0))  # it had none
