"""Gradient steps: plain ones see every row once, private ones sample, clip and add noise."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from mechanisms.gradients import clipped_sum
from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.noise.randomness import SeededWords, SystemWords
from node.data.dataset import Dataset, OfPersons
from node.models import MLP, Linear
from node.task.load import load_task
from node.task.sections import TrainSection
from node.training.build import build_model
from node.training.gradient_steps import PlainSteps, PrivateSteps, Sampled, steps_by
from node.training.losses import make_loss
from node.training.trainer import Trainer, read_vector
from tests.own_data import told

NEVER = threading.Event()
FIRST_LAYER = ("train.parameters=layers.0.*", "train.local=*")
RULE = GradientRule(clipping_radius=1.0, noise_multiplier=2.0, sampling_probability=0.1)
loss = nn.functional.cross_entropy


def rows_of(count: int) -> Dataset:
    """Makes `count` rows of two features and two classes."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32))
    y = (x[:, 0] > 0).long()
    return Dataset(x, y, x, y, "validation", 2, "a line")


def words(seed: int) -> SeededWords:
    return SeededWords(np.random.default_rng(seed))


def private(
    count: int, batch_size: int, rule: GradientRule, seed: int = 1, frozen: str = ""
) -> tuple[PrivateSteps, MLP]:
    model = MLP([2, 300, 2])
    for name, value in model.named_parameters():
        value.requires_grad_(name != frozen)
    return PrivateSteps(model, loss, rows_of(count), batch_size, rule, words(seed)), model


def test_the_loss_of_a_row_is_torchs_to_the_bit():
    model, rule = MLP([5, 9, 4]), replace(RULE, noise_multiplier=1e-6, sampling_probability=1.0)
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(40, 5, generator=generator) * 30, torch.randint(4, (40,), generator=generator)
    dataset = Dataset(x, y, x, y, "validation", 4, "a line")
    found = []
    for of_classes in (loss, nn.CrossEntropyLoss()):  # the second goes through as it is
        steps = PrivateSteps(model, of_classes, dataset, 40, rule, words(1))
        mean = steps.backward(torch.arange(40))
        found.append([mean, *(value.grad for value in model.parameters())])
    assert found[0][0] == found[1][0]
    assert all(torch.equal(one, other) for one, other in zip(found[0][1:], found[1][1:], strict=True))


def test_the_gradient_of_a_row_of_counts_is_its_error_times_its_features():
    """Clipped row by row, against the closed form (exp(o) - y) x."""
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(30, 4, generator=generator), torch.poisson(torch.full((30,), 3.0), generator=generator)
    rule, model = GradientRule(1.5, 1e-6, 1.0), Linear(4, 1)
    of_counts = make_loss(TrainSection(loss="poisson"), None, torch.device("cpu"))
    steps = PrivateSteps(model, of_counts, Dataset(x, y, x, y, "validation", None, ""), 30, rule, words(1))
    steps.backward(torch.arange(30))
    errors = torch.exp(model(x).detach()) - y[:, None]
    rows = errors * torch.cat([x, torch.ones(30, 1)], 1)  # (30, 5): weights, then the bias
    clipped = rows * (1.5 / rows.norm(dim=1, keepdim=True)).clamp(max=1)
    assert (rows.norm(dim=1) > 1.5).any()
    found = torch.cat([value.grad.ravel() for value in model.parameters()])
    assert torch.allclose(found, clipped.mean(0), atol=1e-5)


@pytest.mark.parametrize(
    ("count", "batch_size", "sizes"),
    [(8, 4, [4, 4]), (10, 4, [4, 4, 2]), (9, 4, [4, 5]), (1, 4, [1]), (3, 1, [1, 1, 1]), (5, 100, [5])],
)
def test_plain_batches_hold_each_row_once_and_none_is_a_single_row(count, batch_size, sizes):
    steps = PlainSteps(MLP([2, 2]), loss, rows_of(count), batch_size)
    batches = list(steps.batches(np.random.default_rng(0)))
    assert [len(batch) for batch in batches] == sizes
    assert sorted(torch.cat(batches).tolist()) == list(range(count))


@pytest.mark.parametrize(("count", "batch_size", "steps"), [(8, 4, 2), (9, 4, 3), (3, 100, 1), (5, 1, 5)])
def test_an_epoch_has_as_many_private_steps_as_plain_batches_would_take(count, batch_size, steps):
    subject, _ = private(count, batch_size, RULE)
    assert len(list(subject.batches(np.random.default_rng(0)))) == steps


def test_samples_are_poisson():
    """Sizes are binomial, rows are independent: neither a permutation nor of one size."""
    subject, _ = private(200, 20, RULE)
    batches = [batch for _ in range(300) for batch in subject.batches(np.random.default_rng(0))]
    sizes = np.array([len(batch) for batch in batches])
    chosen = np.bincount(torch.cat(batches).numpy(), minlength=200)
    assert len(batches) == 3000
    assert sizes.mean() == pytest.approx(20, abs=0.4)  # 5 standard errors
    assert sizes.var() == pytest.approx(18, abs=2.4)
    assert np.abs(chosen - 300).max() < 5 * np.sqrt(3000 * 0.1 * 0.9)
    epoch = torch.cat(batches[:10])
    assert len(set(epoch.tolist())) < len(epoch), "a row may be in several batches of an epoch"
    assert all(batch.dtype == torch.int64 and len(set(batch.tolist())) == len(batch) for batch in batches)


def test_an_empty_batch_gives_nothing_but_noise_over_the_expected_batch():
    """Every trainable parameter is noised, and a frozen one has no gradient."""
    subject, model = private(100, 10, replace(RULE, clipping_radius=0.5), frozen="layers.2.bias")
    assert subject.backward(torch.arange(0)) == 0.0
    gradients = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    assert set(gradients) == {"layers.0.weight", "layers.0.bias", "layers.2.weight"}
    assert all(gradient.any() for gradient in gradients.values())
    noise = torch.cat([gradient.ravel() for gradient in gradients.values()])
    assert noise.dtype == torch.float32
    assert float(noise.std()) == pytest.approx(2.0 * 0.5 / 10, rel=0.1)
    assert float(noise.mean()) == pytest.approx(0, abs=0.02)


def test_one_row_moves_the_gradient_by_at_most_the_radius_over_the_expected_batch():
    rule = GradientRule(0.5, 1e-4, 0.1)
    with_row, one = private(100, 10, rule)
    without, other = private(100, 10, rule)
    other.load_state_dict(one.state_dict())
    with_row.backward(torch.arange(6))
    without.backward(torch.arange(5))
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    moved = torch.cat([(a.grad - b.grad).ravel() for a, b in pairs])
    assert 0 < float(moved.norm()) <= 0.5 / 10 * 1.001


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4)), "layer '1' (BatchNorm1d)"),
        (nn.Sequential(nn.Linear(2, 4), nn.InstanceNorm1d(4, track_running_stats=True)), "(InstanceNorm1d)"),
        (MLP([2, 3, 2]).double(), "torch.float64"),
    ],
)
def test_a_model_without_a_gradient_of_each_row_has_no_private_steps(model, named):
    line = told(PrivateSteps, model.eval(), loss, rows_of(20), 10, RULE, words(1))
    assert "privacy.mechanism = 'dp-sgd' needs the gradient of each row" in line
    assert named in line


class Peeking(nn.Module):
    """It reads a value during the pass, which is impossible for a gradient of many rows at once."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows) * (2 if rows.sum().item() > 0 else 1)


def test_a_model_whose_rows_must_be_taken_one_by_one_says_so():
    slow = PrivateSteps(Peeking(), loss, rows_of(20), 10, RULE, words(1))
    assert slow.slow.startswith("each row by itself, as vmap fails: ")
    assert math.isfinite(slow.backward(torch.arange(4)))
    assert PrivateSteps(MLP([2, 3, 2]), loss, rows_of(20), 10, RULE, words(1)).slow == ""
    assert PlainSteps(MLP([2, 3, 2]), loss, rows_of(20), 10).slow == ""


def test_a_model_that_takes_rows_together_later_on_ends_training_with_the_layer_in_one_line(monkeypatch):
    """Found by the trial that every thousand steps have; here the second."""
    monkeypatch.setattr(clipped_sum, "TRIED_EVERY", 1)
    model = nn.Sequential(nn.Dropout(0.0), nn.Linear(2, 2))
    steps = PrivateSteps(model, loss, rows_of(8), 4, RULE, words(1))
    steps.backward(torch.arange(4))
    model[0].p = 0.5
    assert told(lambda: steps.backward(torch.arange(4))).startswith(
        "model.class: privacy.mechanism = 'dp-sgd' needs the gradient of each row: layer '0' (Dropout) draws"
    )


def test_rows_without_a_finite_gradient_are_counted_for_the_owner():
    rows = rows_of(20)
    rows.train_x[3] = float("nan")
    steps = PrivateSteps(MLP([2, 3, 2]), loss, rows, 10, RULE, words(1))
    assert math.isfinite(steps.backward(torch.arange(6)))
    steps.backward(torch.arange(6))
    assert (steps.pop_not_finite(), steps.pop_not_finite()) == (2, 0)
    assert PlainSteps(MLP([2, 3, 2]), loss, rows_of(20), 10).pop_not_finite() == 0


def test_layers_that_look_at_one_row_at_a_time_have_private_steps():
    model = nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), nn.GroupNorm(2, 4))
    steps = PrivateSteps(model, loss, rows_of(20), 10, RULE, words(1))
    assert all(value.grad is None for value in model.parameters()), "what was tried is thrown away"
    assert math.isfinite(steps.backward(torch.arange(4)))


def trainer(dataset, rule, source, *overrides, seed=0):
    task = load_task("digits", ["train.epochs=1", "model.args.sizes=[64,16,10]", *overrides])
    model = build_model(task, dataset)
    subject = Trainer(model, task.train, dataset, seed, steps_by(rule, source))
    return subject, read_vector(model, task.train.parameters), model


def test_private_training_learns_where_the_noise_is_small(dataset):
    rule = GradientRule(1.0, 0.02, 16 / len(dataset.train_y))
    subject, vector, _ = trainer(dataset, rule, words(1), "train.epochs=6")
    before = subject.evaluate(vector).accuracy
    for number in (1, 2, 3):
        vector = subject.train(vector, number, NEVER).vector
    assert before < 0.25 < 0.4 < subject.evaluate(vector).accuracy


def test_the_words_decide_private_training_and_the_seed_does_not(dataset):
    def trained(source, seed: int) -> np.ndarray:
        subject, start, _ = trainer(dataset, RULE, source, seed=seed)
        return subject.train(start, 1, NEVER).vector - start

    assert np.linalg.norm(trained(words(1), 0)) > 0
    assert np.array_equal(trained(words(1), 0), trained(words(1), 5))
    assert not np.array_equal(trained(words(1), 0), trained(words(2), 0))
    assert not np.array_equal(trained(SystemWords(), 0), trained(SystemWords(), 0))


def test_what_is_not_shared_is_noised_too(dataset):
    rule = replace(RULE, noise_multiplier=20)
    subject, start, model = trainer(dataset, rule, words(1), *FIRST_LAYER)
    head = model.layers[2].weight.detach().clone()
    subject.train(start, 1, NEVER)
    moved = (model.layers[2].weight.detach() - head).numpy()
    quiet, start, model = trainer(dataset, replace(RULE, noise_multiplier=1e-3), words(1), *FIRST_LAYER)
    quiet.train(start, 1, NEVER)
    without = (model.layers[2].weight.detach() - head).numpy()
    assert np.linalg.norm(moved) > 3 * np.linalg.norm(without)


def test_a_round_in_which_no_row_was_sampled_is_trained_all_the_same(dataset):
    subject, start, _ = trainer(dataset, replace(RULE, sampling_probability=1e-9), words(1))
    trained = subject.train(start, 1, NEVER)
    assert trained.loss == 0.0
    assert np.isfinite(trained.vector).all()


def of_persons(counts) -> Dataset:
    """The rows of persons with so many rows each, in a mixed order; at most 8 of each are used."""
    rows = rows_of(sum(counts))
    persons = np.random.default_rng(1).permutation(np.repeat(np.arange(len(counts)), counts))
    return replace(rows, persons=OfPersons(torch.from_numpy(persons), torch.zeros(0, dtype=torch.int64), 8))


def test_a_sample_has_all_rows_of_a_person_or_none_and_persons_are_independent():
    counts = np.array([1, 8, 3, 2, 5] * 20)
    dataset = of_persons(counts)
    steps = PrivateSteps(MLP([2, 3, 2]), loss, dataset, 20, RULE, words(1))
    batches = [batch for _ in range(200) for batch in steps.batches(np.random.default_rng(0))]
    assert len(batches) == 1000, "an epoch has 100 persons, 20 of them a step in the mean"
    sampled = np.zeros(100)
    for batch in batches:
        of = np.bincount(dataset.persons.train[batch].numpy(), minlength=100)
        assert set(of - counts * (of > 0)) == {0}
        sampled += of > 0
    assert np.abs(sampled - 100).max() < 5 * np.sqrt(1000 * 0.1 * 0.9)
    shared = Sampled(dataset)
    assert [len(shared.rows(q, words(1))) for q in (1.0, 1e-12)] == [counts.sum(), 0]


def test_one_person_moves_the_gradient_by_at_most_the_radius_over_the_expected_batch():
    """Planted: with persons forgotten, the rows of one move it by several times as much."""
    rule, moved = GradientRule(0.5, 1e-4, 0.1), {}
    for name, dataset in (
        ("persons", of_persons([8] * 10)),
        ("rows", replace(of_persons([8] * 10), persons=None)),
    ):
        own = of_persons([8] * 10).persons.train == 3
        dataset.train_x[own], dataset.train_y[own] = torch.tensor([3.0, -1.0]), 0
        model = MLP([2, 3, 2])
        gradients = []
        for rows in (torch.arange(80), torch.nonzero(~own)[:, 0]):
            steps = PrivateSteps(model, loss, dataset, 10, rule, words(1))
            steps.backward(rows)
            gradients.append(torch.cat([value.grad.ravel() for value in model.parameters()]))
        expected = 0.1 * dataset.units
        moved[name] = float((gradients[0] - gradients[1]).norm()) * expected / 0.5
    assert 0.9 < moved["persons"] <= 1.001
    assert moved["rows"] > 4
