"""A node's part in shared steps, on the digits, and the step that all members take, beside torch's."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from mechanisms.noise.randomness import SeededWords
from node.data.dataset import load_dataset
from node.jobs.steps import StepTrainer
from node.runtime.privacy.budget import make_mechanism
from node.system.errors import UserError
from node.task.load import load_task
from node.training.build import build_model
from node.training.step_optimizers import StepOptimizer
from node.training.trainer import Diverged, shapes
from tests.own_data import told

SETS = ("privacy.mechanism=distributed-dp-sgd", "train.steps=10", "model.args.sizes=[64,10]")


def trainer(*sets, words=None, epsilon=8.0, trained="*"):
    task = load_task("digits", [*SETS, f"privacy.epsilon={epsilon}", *sets])
    dataset = load_dataset(task, None, (0, 5))
    model = build_model(task, dataset)
    mechanism = make_mechanism(task, shapes(model, trained), len(dataset.train_y))
    return StepTrainer(task, task.step_plan, model, dataset, 0, mechanism.shared, words), mechanism.shared


def test_words_are_the_clipped_gradients_of_a_sample_and_a_share_of_noise():
    """All rows, and so little noise that the sum is what a loop over the rows gives."""
    subject, rule = trainer("privacy.sampling_probability=1.0", "train.expected_batch=1438", epsilon=1e6)
    base = subject.vector()
    made = subject.contribution(base, 0)
    decoded = rule.decode(made.words)

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
    several = np.array([rule.decode(subject.contribution(base, 0).words) for _ in range(40)])
    residuals = several - several.mean(axis=0)
    assert rule.share_std == pytest.approx(rule.gradient.noise_std / np.sqrt(3))
    assert residuals.std(ddof=1) >= 0.97 * rule.share_std, "noise, and the sampling of rows"


def test_equal_sums_lead_to_equal_bits_and_other_vectors_of_a_base_follow():
    one, rule = trainer()
    other, _ = trainer()
    base = one.vector()
    summed = one.contribution(base, 0).words + other.contribution(base, 0).words
    first, second = (each.following(base, 0, summed) for each in (one, other))
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
        subject.following(base, 0, np.zeros(rule.size, np.uint32))
    base[: rule.size] = np.nan
    with pytest.raises(Diverged, match="at all members"):
        subject.contribution(base, 0)


def test_a_node_with_shared_noise_does_not_train_alone_and_has_no_more_rows_than_a_step():
    subject, _ = trainer()
    with pytest.raises(UserError, match="by all members together"):
        subject.train(subject.vector(), 1, threading.Event())
    assert subject.slow == ""
    line = told(lambda: trainer("train.expected_batch=20", "privacy.sampling_probability=0.5"))
    assert line.startswith("train.expected_batch = 20 is refused with the 241 rows of this")


def test_features_of_a_frozen_body_are_computed_once_and_rows_do_not_mix(tmp_path, monkeypatch):
    class Headed(nn.Module):
        mixing = False

        def __init__(self, sizes):
            super().__init__()
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(sizes[0], 6)).requires_grad_(False)
            self.head = nn.Linear(6, sizes[-1])

        def forward(self, x):
            found = self.body(x)
            return self.head(found - found.mean(0) if self.mixing else found)

    monkeypatch.setattr("node.models.MLP", Headed)
    subject, rule = trainer("model.body=body", "train.parameters=head.*", trained="head.*")
    subject.keep_features(tmp_path)
    assert len(subject.contribution(subject.vector(), 0).words) == rule.size == 6 * 10 + 10
    assert list(tmp_path.iterdir())
    Headed.mixing = True
    line = told(lambda: trainer("train.parameters=head.*", trained="head.*"))
    assert "Headed mixes rows: what it makes of a row depends on the other rows" in line


SIZE, STEPS = 7, 40
BASE_SETS = ("privacy.mechanism=distributed-dp-sgd", f"train.steps={STEPS}", "train.report_every=4")


def task(*sets):
    return load_task("digits", [*BASE_SETS, "train.learning_rate=0.3", "train.expected_batch=16", *sets])


def optimizer(*sets) -> StepOptimizer:
    made = task(*sets)
    return StepOptimizer(made.train, made.step_plan, SIZE)


def sums():
    return np.random.default_rng(1).normal(0, 20, (STEPS, SIZE))


def start():
    return np.random.default_rng(2).normal(size=SIZE).astype(np.float32)


def run(subject: StepOptimizer):
    base = subject.initial(start())
    for step, summed in enumerate(sums(), 1):
        base = subject.following(base, step, summed)
        yield base


@pytest.mark.parametrize(("name", "decay"), [("sgd", 0.0), ("sgd", 0.01), ("adam", 0.0), ("adam", 0.01)])
def test_steps_are_those_of_torch(name, decay):
    """Torch adds up in another order and fuses, so the last bits may differ."""
    parameter = torch.nn.Parameter(torch.from_numpy(start()))
    theirs = (
        torch.optim.SGD([parameter], 0.3, 0.9, weight_decay=decay)
        if name == "sgd"
        else torch.optim.Adam([parameter], 0.3, (0.9, 0.999), weight_decay=decay)
    )
    subject = optimizer(f"train.optimizer={name}", f"train.weight_decay={decay}")
    for summed, base in zip(sums(), run(subject), strict=True):
        parameter.grad = torch.from_numpy((summed / 16).astype(np.float32))
        theirs.step()
        np.testing.assert_allclose(subject.parameters(base), parameter.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_each_bit_of_a_momentum_step_is_that_of_single_operations():
    f = np.float32
    subject = optimizer("train.weight_decay=0.01")
    values = [[value, value, f(0)] for value in start()]
    for step, (summed, base) in enumerate(zip(sums(), run(subject), strict=True), 1):
        share = f(min(1 - 5 / STEPS, step / (9 + step))), f(1 - min(1 - 5 / STEPS, step / (9 + step)))
        for place, (before, average, velocity) in enumerate(values):
            gradient = f(f(summed[place] / 16) + f(f(0.01) * before))
            moving = f(f(f(0.9) * velocity) + gradient)
            after = f(before - f(f(0.3) * moving))
            values[place] = [after, f(f(share[0] * average) + f(share[1] * after)), moving]
        assert base.tolist() == [float(value) for kind in zip(*values, strict=True) for value in kind]


@pytest.mark.parametrize(("name", "vectors"), [("sgd", 3), ("adam", 4)])
def test_a_base_holds_parameters_their_average_and_the_state(name, vectors):
    subject = optimizer(f"train.optimizer={name}")
    base = subject.initial(start())
    assert (len(base), subject.words, base.dtype) == (vectors * SIZE, vectors * SIZE, np.float32)
    assert subject.parameters(base).tolist() == subject.average(base).tolist() == start().tolist()
    assert not base[2 * SIZE :].any()


def test_the_schedule_counts_rounds_of_several_steps():
    """With a factor of 0 from the second round on, the fifth step leaves the parameters where they are."""
    subject = optimizer("train.schedule=step", "train.schedule_args={every=1, factor=0}", "train.momentum=0")
    bases = list(run(subject))
    assert subject.parameters(bases[3]).tolist() != subject.parameters(bases[2]).tolist()
    assert subject.parameters(bases[4]).tolist() == subject.parameters(bases[3]).tolist()


def test_short_runs_take_the_last_iterate():
    made = task("train.steps=4", "train.report_every=1")
    subject = StepOptimizer(made.train, made.step_plan, SIZE)
    base = subject.following(subject.initial(start()), 1, sums()[0])
    assert subject.average(base).tolist() == subject.parameters(base).tolist()
