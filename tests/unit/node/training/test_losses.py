"""Losses, schedules and optimisers by name and by import path."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from node.errors import ConfigError, UserError
from node.task.load import load_task
from node.training.losses import check_loss, make_loss
from node.training.optimizers import check_optimizer, make_optimizer
from node.training.schedules import make_schedule
from tests import own_training

CPU = torch.device("cpu")
LOGITS = torch.tensor([[1.0, -1.0, 0.5], [0.0, 2.0, -3.0]])
LABELS = torch.tensor([2, 1])
NUMBERS, WANTED = torch.tensor([[1.0], [4.0]]), torch.tensor([0.5, 1.0])


def section(**values):
    return replace(load_task("digits", []).train, **values)


def refused(make, *arguments):
    with pytest.raises(ConfigError) as caught:
        make(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# losses


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, functional.cross_entropy),
        ({"loss": "cross-entropy"}, functional.cross_entropy),
        (
            {"loss": "cross-entropy", "loss_args": {"label_smoothing": 0.2, "weight": [1.0, 2.0, 0.5]}},
            nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5]), label_smoothing=0.2),
        ),
        (
            {"loss": "tests.own_training:focal", "loss_args": {"gamma": 0.5}},
            lambda a, b: own_training.focal(a, b, 0.5),
        ),
        ({"loss": "torch.nn:MultiMarginLoss", "loss_args": {"margin": 0.5}}, nn.MultiMarginLoss(margin=0.5)),
    ],
)
def test_a_loss_for_classes(values, expected):
    loss = make_loss(section(**values), 3, CPU)
    assert loss(LOGITS, LABELS).item() == expected(LOGITS, LABELS).item()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (0.25 + 9) / 2),
        ({"loss": "mse"}, (0.25 + 9) / 2),
        ({"loss": "mae"}, (0.5 + 3) / 2),
        ({"loss": "huber", "loss_args": {"delta": 2.0}}, (0.5 * 0.25 + 2 * (3 - 1)) / 2),
        (
            {"loss": "tests.own_training:LogCosh", "loss_args": {"width": 2.0}},
            (math.log(math.cosh(0.25)) + math.log(math.cosh(1.5))) / 2,
        ),
    ],
)
def test_a_loss_for_numbers_takes_outputs_of_either_shape(values, expected):
    loss = make_loss(section(**values), None, CPU)
    for outputs in (NUMBERS, NUMBERS[:, 0]):
        assert loss(outputs, WANTED).item() == pytest.approx(expected)


def test_a_balanced_loss_adds_the_shares_of_the_classes_in_training_alone():
    prior = [0.7, 0.2, 0.1]
    loss = make_loss(section(loss="balanced-softmax", loss_args={"prior": prior}), 3, CPU)
    by_hand = functional.cross_entropy(LOGITS + torch.log(torch.tensor(prior)), LABELS)
    assert loss(LOGITS, LABELS) == pytest.approx(float(by_hand), rel=1e-6)
    whole = make_loss(section(loss="balanced-softmax", loss_args={"prior": [7, 2, 1]}), 3, CPU)
    assert whole(LOGITS, LABELS) == pytest.approx(float(by_hand), rel=1e-6), "counts are shares, too"
    wider = torch.cat([LOGITS, torch.full((2, 1), 9.0)], 1)
    assert loss(wider, LABELS) == pytest.approx(float(by_hand), rel=1e-6), "a logit that no class has"
    one = torch.stack([loss(LOGITS[row : row + 1], LABELS[row : row + 1]) for row in range(2)])
    assert one.mean() == pytest.approx(float(by_hand), rel=1e-6), "a mean over single rows, as privacy needs"


def test_a_balanced_loss_finds_a_rare_class_that_a_plain_one_never_chooses():
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(4000, generator=generator) < 0.05).long()
    x = torch.randn(4000, 1, generator=generator) + 1.5 * y[:, None]
    found = {}
    for name, arguments in (("auto", {}), ("balanced-softmax", {"prior": [0.95, 0.05]})):
        loss = make_loss(section(loss=name, loss_args=arguments), 2, CPU)
        weights, bias = torch.zeros(1, 2, requires_grad=True), torch.zeros(2, requires_grad=True)
        optimizer = torch.optim.Adam([weights, bias], 0.1)
        for _ in range(200):
            optimizer.zero_grad()
            loss(x @ weights + bias, y).backward()
            optimizer.step()
        chosen = (x @ weights + bias).argmax(1)
        found[name] = [float((chosen[y == label] == label).float().mean()) for label in (0, 1)]
    assert found["auto"][1] < 0.2
    assert min(found["balanced-softmax"]) > 0.7


def test_a_logit_a_row_is_enough_for_two_classes():
    loss = make_loss(section(loss="bce"), 2, CPU)
    expected = -(math.log(1 / (1 + math.exp(-1))) + math.log(1 - 1 / (1 + math.exp(-4)))) / 2
    assert loss(NUMBERS, torch.tensor([1, 0])).item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "classes", "told"),
    [
        (
            {"loss": "mse"},
            3,
            (
                "train.loss = 'mse' is refused: the targets are classes 0 to 2; allowed: 'auto', "
                "'cross-entropy', 'balanced-softmax', "
                "'bce' or 'package.module:Name'"
            ),
        ),
        (
            {"loss": "bce"},
            None,
            (
                "train.loss = 'bce' is refused: the targets are numbers; allowed: 'auto', 'mse', "
                "'mae', 'huber' or "
                "'package.module:Name'"
            ),
        ),
        (
            {"loss": "bce"},
            3,
            (
                "train.loss = 'bce' is refused: the targets have 3 classes; allowed: 2, or "
                "train.loss='cross-entropy' with a logit for each"
            ),
        ),
        (
            {"loss": "huber", "loss_args": {"reduction": "sum"}},
            None,
            "train.loss_args.reduction = 'sum' is refused: every loss is a mean over the rows; leave it out",
        ),
        (
            {"loss": "huber", "loss_args": {"slope": 1}},
            None,
            "train.loss_args = {'slope': 1} do not suit train.loss = 'huber': TypeError: ",
        ),
        (
            {"loss": "balanced-softmax", "loss_args": {"prior": [0.5, 0.5]}},
            3,
            "train.loss_args.prior has 2 shares; allowed: 3, one for each class",
        ),
        (
            {"loss": "balanced-softmax", "loss_args": {"prior": [0.5, 0.5, 0.0]}},
            3,
            "train.loss_args = {'prior': [0.5, 0.5, 0.0]} do not suit train.loss = 'balanced-softmax': ",
        ),
        (
            {"loss": "balanced-softmax"},
            3,
            "train.loss_args = {} do not suit train.loss = 'balanced-softmax': TypeError",
        ),
        (
            {"loss": "tests.own_training:nope"},
            3,
            "'tests.own_training:nope' cannot be imported: AttributeError",
        ),
        (
            {"loss": "tests.own_training:NUMBER"},
            3,
            (
                "train.loss = 'tests.own_training:NUMBER' cannot be called; allowed: a function of "
                "outputs and "
                "targets, or a class whose objects are"
            ),
        ),
    ],
)
def test_a_loss_that_can_not_be(values, classes, told):
    assert refused(make_loss, section(**values), classes, CPU).startswith(told)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (
            "each_row",
            "gives a Tensor of shape (2,); allowed: a tensor with one number, the mean over the rows",
        ),
        (
            "a_float",
            "gives a float; allowed: a tensor with one number, the mean over the rows, that has a gradient",
        ),
        ("out_of_order", "does not suit this task: RuntimeError: out of order"),
    ],
)
def test_a_loss_that_gives_something_else(path, told):
    name = f"tests.own_training:{path}"
    loss = make_loss(section(loss=name), 3, CPU)
    assert f"train.loss = '{name}' {told}" in refused(check_loss, name, loss, LOGITS, LABELS)


# schedules


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, [1, 1, 1, 1]),
        ({"schedule": "linear"}, [1, 0.75, 0.5, 0.25]),
        ({"schedule": "linear", "schedule_args": {"final": 0.2}}, [1, 0.8, 0.6, 0.4]),
        ({"schedule": "cosine"}, [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)]),
        ({"schedule": "cosine", "schedule_args": {"final": 1}}, [1, 1, 1, 1]),
        ({"schedule": "step", "schedule_args": {"every": 2}}, [1, 1, 0.1, 0.1]),
        ({"schedule": "step", "schedule_args": {"every": 1, "factor": 0.5}}, [1, 0.5, 0.25, 0.125]),
        ({"schedule": "tests.own_training:halving"}, [1, 0.5, 0.25, 0.125]),
        ({"schedule": "tests.own_training:halving", "schedule_args": {"by": 10.0}}, [1, 0.1, 0.01, 0.001]),
    ],
)
def test_the_learning_rate_follows_the_rounds_and_stays_after_the_last(values, expected):
    schedule = make_schedule(section(rounds=4, **values))
    assert [schedule(round) for round in (1, 2, 3, 4)] == pytest.approx(expected)
    assert schedule(9) == schedule(4)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"schedule": "step"},
            (
                "train.schedule_args = {} do not suit train.schedule = 'step': TypeError: step() missing "
                "1 required"
            ),
        ),
        (
            {"schedule": "step", "schedule_args": {"every": 0}},
            (
                "train.schedule_args = {'every': 0} do not suit train.schedule = 'step': ValueError: "
                "every = 0; "
                "allowed: a whole number of rounds, at least 1"
            ),
        ),
        (
            {"schedule": "cosine", "schedule_args": {"final": 2}},
            "ValueError: final = 2; allowed: a number from 0 to 1",
        ),
        ({"schedule": "constant", "schedule_args": {"final": 0}}, "unexpected keyword argument 'final'"),
        (
            {"schedule": "tests.own_training:negative"},
            (
                "train.schedule = 'tests.own_training:negative' gives -0.5 for round 20; allowed: a "
                "finite number of "
                "at least 0"
            ),
        ),
        ({"schedule": "tests.own_training:wordy"}, "gives 'half' for round 1; allowed: a finite number"),
        (
            {"schedule": "tests.own_training:NUMBER"},
            "train.schedule = 'tests.own_training:NUMBER' cannot be called; allowed: a function",
        ),
    ],
)
def test_a_schedule_that_can_not_be(values, told):
    assert told in refused(make_schedule, section(rounds=20, **values))


def test_a_schedule_that_goes_wrong_later_is_told_at_its_round():
    schedule = make_schedule(section(schedule="tests.own_training:late_fault"))
    with pytest.raises(UserError, match="gives nan for round 2") as caught:
        schedule(2)
    assert caught.value.status == 1


# optimisers


def test_an_optimizer_by_import_path_and_arguments_of_ones_own():
    parameter = nn.Parameter(torch.zeros(3))
    own = section(optimizer="tests.own_training:Signs", optimizer_args={"shrink": 0.5})
    check_optimizer(own)
    parameter.grad = torch.tensor([2.0, -3.0, 0.0])
    make_optimizer([parameter], own, 0.25).step()
    assert parameter.tolist() == [-0.25, 0.25, 0]
    nesterov = section(optimizer_args={"nesterov": True})
    check_optimizer(nesterov)
    assert make_optimizer([parameter], nesterov, 0.1).param_groups[0]["nesterov"] is True


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"optimizer_args": {"speed": 3}},
            "train.optimizer_args = {'speed': 3} do not suit train.optimizer = 'sgd': TypeError:",
        ),
        (
            {"optimizer": "torch.optim:LBFGS"},
            "train.optimizer_args = {} do not suit train.optimizer = 'torch.optim:LBFGS': TypeError: ",
        ),
        (
            {"optimizer": "torch.nn:Linear"},
            "train.optimizer = 'torch.nn:Linear' is refused; allowed: a torch.optim.Optimizer",
        ),
        ({"optimizer": "tests.own_training:focal"}, "is not a class; allowed: 'package.module:Class'"),
    ],
)
def test_an_optimizer_that_can_not_be(values, told):
    assert told in refused(check_optimizer, section(**values))
