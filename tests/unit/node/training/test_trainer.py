import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from node.data.dataset import Dataset, load_dataset
from node.models import MLP, Linear
from node.system.clock import CLOCK, Clock
from node.task.load import load_task
from node.training.build import build_model
from node.training.gradient_steps import PlainSteps
from node.training.optimizers import make_optimizer
from node.training.parameter_scope import matching
from node.training.trainer import (
    Diverged,
    Interrupted,
    Trainer,
    read_vector,
    shapes,
    split_vector,
    write_vector,
)
from tests.own_data import told
from tests.unit.node.cases import cases

NEVER = threading.Event()


def trainer(dataset, *overrides, seed=0, clock=CLOCK):
    task = load_task("digits", overrides)
    model = build_model(task, dataset)
    start = read_vector(model, task.train.parameters)
    return Trainer(model, task.train, dataset, seed, PlainSteps, clock=clock), start


def test_a_vector_is_all_parameters_in_order_and_a_copy_that_comes_back():
    model = MLP([3, 2, 4])
    sizes = {
        "layers.0.weight": (2, 3),
        "layers.0.bias": (2,),
        "layers.2.weight": (4, 2),
        "layers.2.bias": (4,),
    }
    assert shapes(model, "*") == list(sizes.items())
    vector = read_vector(model, "*")
    assert (vector.shape, vector.dtype) == ((20,), np.float32)
    assert np.array_equal(vector[:6], model.layers[0].weight.detach().numpy().ravel())
    vector = np.arange(20, dtype=np.float32)
    vector.flags.writeable = False
    write_vector(model, vector, "*")
    kept = read_vector(model, "*")
    write_vector(model, np.zeros(20, np.float32), "*")
    assert np.array_equal(kept, vector)


def test_a_pattern_chooses_parameters_and_frozen_ones_are_left_out():
    model = MLP([3, 2, 4])
    assert [name for name, _ in shapes(model, "layers.0.*")] == ["layers.0.weight", "layers.0.bias"]
    model.layers[0].weight.requires_grad_(False)
    assert [name for name, _ in shapes(model, "layers.0.*")] == ["layers.0.bias"]
    before = read_vector(model, "layers.2.*")
    write_vector(model, np.ones(2, np.float32), "layers.0.*")
    assert np.array_equal(read_vector(model, "layers.2.*"), before)


@pytest.mark.parametrize("side", ["train_y", "test_y"])
def test_numbers_that_count_nothing_are_refused_before_training(dataset, side):
    numbers = {name: getattr(dataset, name).float() for name in ("train_y", "test_y")}
    counts = replace(dataset, classes=None, **numbers)
    sets = ("train.loss=poisson", "model.args.sizes=[64,1]")
    assert trainer(counts, *sets)[0].evaluate(trainer(counts, *sets)[1]).metrics["deviance"] > 0
    numbers[side][1] = 2.5
    line = told(trainer, replace(counts, **numbers), *sets)
    assert line.startswith("train.loss = 'poisson' is refused: the target has 2.5; allowed: whole numbers")


def test_a_pattern_that_matches_nothing():
    assert told(shapes, Linear(2, 3), "head.*") == (
        "train.parameters = 'head.*' matches none of the model's parameters; it has: "
        "'layers.0.weight, layers.0.bias'"
    )


def test_a_vector_is_split_into_views():
    vector = np.arange(8, dtype=np.float32)
    parts = split_vector(vector, [("a", (2, 3)), ("b", (2,))])
    assert parts["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.shares_memory(parts["b"], vector)
    with pytest.raises(ValueError, match=r"a vector of shape \(9,\) for 8 parameters"):
        split_vector(np.zeros(9, np.float32), [("a", (2, 3)), ("b", (2,))])


def test_training_learns(dataset):
    subject, start = trainer(dataset)
    before = subject.evaluate(start)
    trained = subject.train(start, 1, NEVER)
    for number in range(2, 6):
        trained = subject.train(trained.vector, number, NEVER)
    after = subject.evaluate(trained.vector)
    assert before.accuracy < 0.3 < after.accuracy
    assert trained.loss < before.loss / 2
    assert trained.vector.dtype == np.float32
    assert trained.seconds > 0


def test_the_own_loss_is_the_mean_over_the_training_rows(dataset):
    subject, start = trainer(dataset)
    trained = subject.train(start, 1, NEVER).vector
    expected = torch.nn.functional.cross_entropy(
        build_model(load_task("digits", []), dataset)(dataset.train_x), dataset.train_y
    )
    assert subject.own_loss(start) == pytest.approx(expected.item(), rel=1e-5)
    assert subject.own_loss(trained) < subject.own_loss(start)
    swapped = replace(dataset, test_x=dataset.train_x, test_y=dataset.train_y)
    assert subject.own_loss(trained) == trainer(swapped)[0].evaluate(trained).loss


def test_the_batch_order_follows_from_seed_and_round(dataset):
    subject, start = trainer(dataset)
    again, _ = trainer(dataset)
    other, _ = trainer(dataset, seed=1)
    one = subject.train(start, 3, NEVER).vector
    assert np.array_equal(subject.train(start, 3, NEVER).vector, one)
    assert np.array_equal(again.train(start, 3, NEVER).vector, one)
    assert not np.array_equal(subject.train(start, 4, NEVER).vector, one)
    assert not np.array_equal(other.train(start, 3, NEVER).vector, one)


def test_training_leaves_its_input_and_the_global_generators_alone(dataset):
    subject, start = trainer(dataset)
    kept, state = start.copy(), torch.get_rng_state()
    start.flags.writeable = False
    assert subject.train(start, 1, NEVER).vector.flags.writeable
    subject.evaluate(start)
    assert np.array_equal(start, kept)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("name", "expected"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_an_optimizer_is_torchs_with_the_sections_values(name, expected):
    section = replace(load_task("digits", []).train, optimizer=name, weight_decay=0.1)
    optimizer = make_optimizer([torch.nn.Parameter(torch.zeros(2))], section, 0.05)
    (group,) = optimizer.param_groups
    assert type(optimizer) is expected
    assert (group["lr"], group["betas"][0], group["weight_decay"]) == (0.05, 0.9, 0.1)


def test_the_gradient_is_clipped(dataset):
    overrides = ["train.momentum=0", "train.learning_rate=1", "train.grad_clip=0.001", "train.epochs=1"]
    subject, start = trainer(dataset, *overrides, "train.batch_size=1000")
    moved = subject.train(start, 1, NEVER).vector - start
    assert np.linalg.norm(moved) == pytest.approx(0.001, rel=0.01)


@pytest.mark.parametrize("shared", ["*", "layers.0.*"])
def test_a_proximal_term_is_that_of_the_loss(dataset, shared):
    """Li et al. 2020, equation 2, by autograd: the loss, and mu / 2 times the squared way from the start."""
    mu, every = 0.8, ["train.momentum=0.5", "train.batch_size=10000", "train.epochs=3"]
    own = [] if shared == "*" else [f"train.parameters={shared}", "train.local=layers.2.*"]
    subject, start = trainer(dataset, *every, *own, f"train.proximal={mu}")
    model = build_model(load_task("digits", every), dataset)
    held = [(value, value.detach().clone()) for _, value in matching(model, shared)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(dataset.train_x), dataset.train_y)
        (loss + mu / 2 * sum(((value - begun) ** 2).sum() for value, begun in held)).backward()
        optimizer.step()
    found = subject.train(start, 1, NEVER).vector
    tensors = subject.tensors(found)
    for name, value in model.named_parameters():
        np.testing.assert_allclose(tensors[name], value.detach(), atol=1e-6, err_msg=name)
    free, _ = trainer(dataset, *every, *own)
    assert np.linalg.norm(found - start) < np.linalg.norm(free.train(start, 1, NEVER).vector - start)


def test_training_that_was_stopped_leaves_nothing_to_the_next(dataset, stop_at_third):
    subject, start = trainer(dataset)
    wanted = subject.train(start, 1, NEVER).vector
    with pytest.raises(Interrupted):
        subject.train(start, 1, stop_at_third)
    assert np.array_equal(subject.train(start, 1, NEVER).vector, wanted)


def paced(dataset, monkeypatch, batch_s, *overrides, stop=NEVER, stops_in=0):
    """Returns a trainer whose batches take `batch_s` each, the list of those it began, and its start.

    `stop` is set in batch number `stops_in`.
    """
    now, begun = [0.0], []
    subject, start = trainer(dataset, *overrides, clock=Clock(monotonic=lambda: now[0]))
    backward = subject._steps.backward

    def timed(rows):
        begun.append(rows)
        now[0] += batch_s
        if len(begun) == stops_in:
            stop.set()
        return backward(rows)

    monkeypatch.setattr(subject._steps, "backward", timed)
    return subject, begun, start


@cases("""
    seconds => batch_s => batches
    1 => 0.25 => 4
    1 => 0.375 => 3
    1 => 9 => 1
    0.001 => 0.25 => 1
    2.5 => 0.25 => 10
""")
def test_a_round_of_seconds_ends_after_the_batch_in_which_they_are_over(
    dataset, monkeypatch, seconds, batch_s, batches
):
    sets = (f"train.seconds={seconds}", "train.batch_size=20")
    subject, begun, start = paced(dataset, monkeypatch, float(batch_s), *sets)
    rows = len(dataset.train_y)
    assert math.ceil(rows / 20) == 3, "so a pass takes three batches"
    for number in (1, 2):
        trained = subject.train(start, number, NEVER)
        assert len(begun) == number * int(batches), "its time begins anew in each round"
        assert trained.seconds == int(batches) * float(batch_s)
        assert not np.array_equal(trained.vector, start)


def test_seconds_for_so_many_passes_train_as_epochs_do_and_the_loss_is_of_the_last_whole_one(
    dataset, monkeypatch
):
    sets = ("train.batch_size=20",)
    epochs, start = trainer(dataset, *sets, "train.epochs=2")
    wanted = epochs.train(start, 1, NEVER)
    whole, _, _ = paced(dataset, monkeypatch, 0.25, *sets, "train.seconds=1.5")
    found = whole.train(start, 1, NEVER)
    assert np.array_equal(found.vector, wanted.vector)
    assert found.loss == wanted.loss
    longer, _, _ = paced(dataset, monkeypatch, 0.25, *sets, "train.seconds=1.75")
    found = longer.train(start, 1, NEVER)
    assert not np.array_equal(found.vector, wanted.vector)
    assert found.loss == wanted.loss
    part, begun, _ = paced(dataset, monkeypatch, 0.25, *sets, "train.seconds=0.5")
    assert part.train(start, 1, NEVER).loss > wanted.loss, "of the two batches that there were"
    assert len(begun) == 2


def test_a_round_of_seconds_that_is_stopped_has_no_result(dataset, monkeypatch):
    stop = threading.Event()
    sets = ("train.seconds=5", "train.batch_size=20")
    subject, begun, start = paced(dataset, monkeypatch, 0.25, *sets, stop=stop, stops_in=4)
    with pytest.raises(Interrupted):
        subject.train(start, 1, stop)
    assert len(begun) == 4


def test_training_that_diverges_says_what_to_do(dataset):
    subject, start = trainer(dataset)
    line = "training diverged in round 7, the loss is nan; lower train.learning_rate = 0.1 or set train"
    with pytest.raises(Diverged, match=line) as caught:
        subject.train(np.full_like(start, 1e30), 7, NEVER)
    assert caught.value.status == 1


def test_numbers_are_regressed_on():
    x = torch.linspace(-1, 1, 64).reshape(64, 1)
    y = 3 * x[:, 0] + 0.5
    rows = Dataset(x, y, x, y, "validation", None, "a line")
    section = replace(load_task("digits", []).train, epochs=30)
    model = Linear(1, 1)
    subject = Trainer(model, section, rows, 0, PlainSteps)
    trained = subject.train(np.zeros(2, np.float32), 1, NEVER)
    assert trained.vector == pytest.approx([3, 0.5], abs=0.01)
    found = subject.evaluate(trained.vector)
    assert (found.accuracy, found.headline.metric, found.headline.baseline) == (None, "r2", 0.0)
    assert found.headline.value > 0.999
    constant = subject.evaluate(np.array([0, 0.5], np.float32))
    assert constant.headline.value == pytest.approx(0, abs=1e-5)
    own_unit = Trainer(model, section, replace(rows, unit=20.0), 0, PlainSteps)
    in_own_unit = own_unit.evaluate(np.array([0, 0.5], np.float32))
    assert in_own_unit.headline == constant.headline
    assert in_own_unit.metrics["mae"] == pytest.approx(20 * constant.metrics["mae"])
    assert found.score == found.headline.value


def test_a_module_for_use_has_the_vector_and_is_a_copy(dataset):
    trained, start = trainer(dataset)
    wanted = np.linspace(-1, 1, len(start), dtype=np.float32)
    module = trained.module(wanted)
    trained.train(start, 1, threading.Event())
    parts = [parameter.numpy().ravel() for parameter in module.parameters()]
    assert np.array_equal(np.concatenate(parts), wanted)
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())


def test_the_schedule_sets_the_rate_of_each_round(dataset):
    overrides = ["train.momentum=0", "train.epochs=1", "train.rounds=2", "train.batch_size=1000"]
    steady, start = trainer(dataset, *overrides)
    falling, _ = trainer(dataset, *overrides, "train.schedule=linear")
    moves = [
        [np.linalg.norm(subject.train(start, number, NEVER).vector - start) for number in (1, 2, 3)]
        for subject in (steady, falling)
    ]
    assert moves[1] == pytest.approx([moves[0][0], moves[0][1] / 2, moves[0][2] / 2], rel=1e-3)


@pytest.mark.parametrize(
    "overrides",
    [
        ("train.loss=tests.own_training:focal",),
        ("train.optimizer=tests.own_training:Signs", "train.learning_rate=0.002"),
        ("train.optimizer=adam", "train.learning_rate=0.01", 'train.metrics=["auc"]'),
    ],
)
def test_other_losses_and_optimizers_learn(dataset, overrides):
    subject, vector = trainer(dataset, *overrides)
    before = subject.own_loss(vector), subject.evaluate(vector)
    for number in range(1, 6):
        vector = subject.train(vector, number, NEVER).vector
    found = subject.evaluate(vector)
    assert subject.own_loss(vector) < 0.7 * before[0]
    assert found.accuracy > 2 * before[1].accuracy
    every = {"accuracy", "balanced-accuracy", "auc"}
    assert set(found.metrics) == ({"auc"} if 'train.metrics=["auc"]' in overrides else every)


def two_classes(folder, *overrides):
    x = np.random.default_rng(0).normal(size=(200, 3))
    lines = [",".join(map(str, (*row, int(row.sum() > 0)))) for row in x]
    (folder / "rows.csv").write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    task = load_task("digits", ["model.class=tests.own_models:OneLogit", "model.args={inputs=3}", *overrides])
    own = replace(task, data=replace(task.data, source=None))
    return task, load_dataset(own, folder / "rows.csv", None)


def test_one_logit_is_enough_for_two_classes_with_a_loss_for_it(tmp_path):
    task, rows = two_classes(tmp_path, "train.loss=bce")
    subject = Trainer(build_model(task, rows), task.train, rows, 0, PlainSteps)
    found = subject.evaluate(subject.train(subject.vector(), 1, NEVER).vector)
    assert found.metrics["accuracy"] == pytest.approx(found.accuracy)
    assert found.accuracy > 0.9
    assert found.metrics["auc"] > 0.95
    wide = replace(
        task, model=replace(task.model, cls="node.models:Linear", args={"inputs": 3, "outputs": 2})
    )
    assert "allowed: one logit a row, for train.loss = 'bce'; change model.args" in told(
        build_model, wide, rows
    )
    plain, _ = two_classes(tmp_path)
    line = told(build_model, plain, rows)
    assert "answers 2 rows with shape (2, 1); allowed: at least 2 logits a row" in line


@cases("""
    override => line
    train.loss=tests.own_training:each_row => gives a Tensor of shape
    train.metrics=["r2"] => train.metrics = ['r2'] is refused
    train.schedule=step => train.schedule_args = {} do not suit
    train.optimizer_args={speed="high"} => train.optimizer_args = {'speed': 'high'} do not suit
    train.device=cuda:99 => train.device = 'cuda:99' is not there
""")
def test_what_a_trainer_can_not_do_is_said_before_it_begins(dataset, override, line):
    assert line in told(trainer, dataset, override)
