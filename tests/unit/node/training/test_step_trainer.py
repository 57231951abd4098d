"""A node's part in shared steps, on the digits: words, steps, and what is evaluated."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from mechanisms.noise.randomness import SeededWords
from node.data.dataset import load_dataset
from node.errors import ConfigError, UserError
from node.runtime.privacy_budget import make_mechanism
from node.task.load import load_task
from node.training.build import build_model
from node.training.step_trainer import StepTrainer
from node.training.trainer import Diverged, shapes

SETS = ("privacy.mechanism=distributed-dp-sgd", "train.steps=10", "model.args.sizes=[64,10]")


def trainer(*sets, words=None, epsilon=8.0):
    task = load_task("digits", [*SETS, f"privacy.epsilon={epsilon}", *sets])
    dataset = load_dataset(task, None, (0, 5))
    model = build_model(task, dataset)
    mechanism = make_mechanism(task, shapes(model, "*"), len(dataset.train_y))
    return StepTrainer(task, task.step_plan, model, dataset, 0, mechanism.shared, words), mechanism.shared


def test_words_are_the_clipped_gradients_of_a_sample_and_a_share_of_noise():
    """All rows, and so little noise that the sum is what a loop over the rows gives."""
    subject, rule = trainer("privacy.sampling_probability=1.0", "train.expected_batch=1438", epsilon=1e6)
    base = subject.vector()
    made = subject.contribution(base)
    decoded = rule.decoded(made.words)

    task = load_task("digits", list(SETS))
    dataset = load_dataset(task, None, (0, 5))
    model = build_model(task, dataset)
    expected = np.zeros(rule.size)
    for x, y in zip(dataset.train_x, dataset.train_y, strict=True):
        model.zero_grad()
        nn.functional.cross_entropy(model(x[None]), y[None]).backward()
        gradient = np.concatenate([value.grad.numpy().ravel() for value in model.parameters()]).astype(float)
        expected += gradient * min(1, rule.gradient.clipping_radius / np.linalg.norm(gradient))
    spread = rule.share_std + rule.unit
    assert np.abs(decoded - expected).max() < 6 * spread + 1e-3 * np.abs(expected).max()
    assert made.loss == pytest.approx(np.log(10), rel=0.2)
    assert made.not_finite == 0


def test_the_noise_of_one_member_is_its_share():
    subject, rule = trainer(
        "privacy.honest=2", "aggregation.min_participants=5", words=SeededWords(np.random.default_rng(5))
    )
    base = subject.vector()
    several = np.array([rule.decoded(subject.contribution(base).words) for _ in range(40)])
    residuals = several - several.mean(axis=0)

    assert rule.share_std == pytest.approx(rule.gradient.noise_std / np.sqrt(3))
    assert residuals.std(ddof=1) >= 0.97 * rule.share_std, "noise, and the sampling of rows"


def test_equal_sums_lead_to_equal_bits_and_other_vectors_of_a_base_follow():
    one, rule = trainer()
    other, _ = trainer()
    base = one.vector()
    summed = one.contribution(base).words + other.contribution(base).words
    first, second = (each.following(base, 1, summed) for each in (one, other))

    assert first.tobytes() == second.tobytes()
    assert len(base) == 3 * rule.size
    assert first.tobytes() != base.tobytes()


def test_the_average_is_what_is_evaluated_and_saved():
    subject, rule = trainer()
    base = subject.vector()
    base[: rule.size] = 1e3  # the parameters, at which gradients are taken
    tensors = subject.tensors(base)

    assert np.concatenate([value.ravel() for value in tensors.values()]).tolist() == (
        base[rule.size : 2 * rule.size].tolist()
    )
    assert subject.evaluate(base).loss == subject.evaluate(subject.vector()).loss
    assert subject.own_loss(base) == subject.own_loss(subject.vector())
    values = [value.detach().numpy().ravel() for value in subject.module(base).parameters()]
    assert np.concatenate(values).tolist() == base[rule.size : 2 * rule.size].tolist()


def test_a_step_to_infinity_and_a_gradient_there_say_what_to_lower():
    subject, rule = trainer("train.learning_rate=1000")
    base = subject.vector()
    base[2 * rule.size :] = 3e38  # the velocity
    with pytest.raises(Diverged, match=r"lower train.learning_rate = 1000, at all members"):
        subject.following(base, 1, np.zeros(rule.size, np.uint32))
    base[: rule.size] = np.nan
    with pytest.raises(Diverged, match="at all members"):
        subject.contribution(base)


def test_a_node_with_shared_noise_does_not_train_alone():
    subject, _ = trainer()
    with pytest.raises(UserError, match="by all members together"):
        subject.train(subject.vector(), 1, threading.Event())
    assert subject.slow == ""


def test_a_node_with_more_rows_than_a_whole_step_is_refused():
    with pytest.raises(ConfigError, match=r"train.expected_batch = 20 is refused with the 241 rows of this"):
        trainer("train.expected_batch=20", "privacy.sampling_probability=0.5")


def test_a_model_whose_rows_depend_on_each_other_is_refused(monkeypatch):
    class Mixing(nn.Module):
        def __init__(self, sizes):
            super().__init__()
            self.layer = nn.Linear(*sizes)

        def forward(self, x):
            return self.layer(x.flatten(1) - x.flatten(1).mean(0))

    monkeypatch.setattr("node.models.MLP", Mixing)
    with pytest.raises(ConfigError, match="a row's outputs depend on the other rows"):
        trainer()


class Headed(nn.Module):
    """A body that is not trained, and a head."""

    def __init__(self, sizes):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(sizes[0], 6)).requires_grad_(False)
        self.head = nn.Linear(6, sizes[-1])

    def forward(self, x):
        return self.head(self.body(x))


def test_features_of_a_frozen_body_are_computed_once(tmp_path, monkeypatch):
    monkeypatch.setattr("node.models.MLP", Headed)
    task = load_task("digits", [*SETS, "model.body=body", "train.parameters=head.*"])
    dataset = load_dataset(task, None, (0, 5))
    model = build_model(task, dataset)
    mechanism = make_mechanism(task, shapes(model, "head.*"), len(dataset.train_y))
    subject = StepTrainer(task, task.step_plan, model, dataset, 0, mechanism.shared)
    subject.keep_features(tmp_path)
    words = subject.contribution(subject.vector()).words

    assert len(words) == mechanism.shared.size == sum(value.numel() for value in model.head.parameters())
    assert torch.isfinite(next(model.parameters())).all()
    assert list(tmp_path.iterdir())
