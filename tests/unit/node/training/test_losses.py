"""Losses, schedules and optimisers by name and by import path."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_poisson_deviance
from torch import nn
from torch.nn import functional

from node.system.errors import UserError
from node.task.load import load_task
from node.training.losses import answers, check_counts, check_loss, constant_outputs, make_loss, uniform_loss
from node.training.optimizers import GradientDescent, check_optimizer, make_optimizer
from node.training.schedules import make_schedule
from tests import own_training
from tests.own_data import told
from tests.unit.node.cases import cases

CPU = torch.device("cpu")
LOGITS = torch.tensor([[1.0, -1.0, 0.5], [0.0, 2.0, -3.0]])
LABELS = torch.tensor([2, 1])
NUMBERS, WANTED = torch.tensor([[1.0], [4.0]]), torch.tensor([0.5, 1.0])


def section(sets):
    """Returns `[train]` with these keys, separated by spaces."""
    return load_task("digits", [f"train.{key}" for key in sets.split()]).train


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ("", functional.cross_entropy),
        ("loss=cross-entropy", functional.cross_entropy),
        (
            "loss=cross-entropy loss_args={label_smoothing=0.2,weight=[1.0,2.0,0.5]}",
            nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5]), label_smoothing=0.2),
        ),
        ("loss=tests.own_training:focal loss_args.gamma=0.5", lambda a, b: own_training.focal(a, b, 0.5)),
        ("loss=torch.nn:MultiMarginLoss loss_args.margin=0.5", nn.MultiMarginLoss(margin=0.5)),
    ],
)
def test_a_loss_for_classes(sets, expected):
    assert make_loss(section(sets), 3, CPU)(LOGITS, LABELS).item() == expected(LOGITS, LABELS).item()


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ("", (0.25 + 9) / 2),
        ("loss=mse", (0.25 + 9) / 2),
        ("loss=mae", (0.5 + 3) / 2),
        ("loss=huber loss_args.delta=2.0", (0.5 * 0.25 + 2 * (3 - 1)) / 2),
        (
            "loss=tests.own_training:LogCosh loss_args.width=2.0",
            (math.log(math.cosh(0.25)) + math.log(math.cosh(1.5))) / 2,
        ),
    ],
)
def test_a_loss_for_numbers_takes_outputs_of_either_shape(sets, expected):
    loss = make_loss(section(sets), None, CPU)
    for outputs in (NUMBERS, NUMBERS[:, 0]):
        assert loss(outputs, WANTED).item() == pytest.approx(expected)


def test_a_balanced_loss_adds_the_shares_of_the_classes_in_training_alone():
    prior = [0.7, 0.2, 0.1]
    loss = make_loss(section(f"loss=balanced-softmax loss_args.prior={prior}".replace(", ", ",")), 3, CPU)
    by_hand = functional.cross_entropy(LOGITS + torch.log(torch.tensor(prior)), LABELS)
    assert loss(LOGITS, LABELS) == pytest.approx(float(by_hand), rel=1e-6)
    whole = make_loss(section("loss=balanced-softmax loss_args.prior=[7,2,1]"), 3, CPU)
    assert whole(LOGITS, LABELS) == pytest.approx(float(by_hand), rel=1e-6), "counts are shares, too"
    wider = torch.cat([LOGITS, torch.full((2, 1), 9.0)], 1)
    assert loss(wider, LABELS) == pytest.approx(float(by_hand), rel=1e-6), "a logit that no class has"
    one = torch.stack([loss(LOGITS[row : row + 1], LABELS[row : row + 1]) for row in range(2)])
    assert one.mean() == pytest.approx(float(by_hand), rel=1e-6), "a mean over single rows, as privacy needs"


def test_the_loss_of_counts_is_half_their_deviance_and_its_gradient_the_error():
    loss, y = make_loss(section("loss=poisson"), None, CPU), torch.tensor([0.0, 1.0, 7.0, 30.0])
    outputs = torch.tensor([[-1.0], [0.5], [2.5], [3.0]], requires_grad=True)
    value = loss(outputs, y)
    mean = outputs.detach().exp()[:, 0]
    assert value.item() == pytest.approx(mean_poisson_deviance(y, mean) / 2, rel=1e-5)
    value.backward()
    assert outputs.grad[:, 0].tolist() == pytest.approx(((mean - y) / 4).tolist(), rel=1e-5)
    assert loss(torch.log(y[1:]), y[1:]).item() == pytest.approx(0, abs=1e-5)
    scaled = loss(outputs - math.log(8.0), y / 8)
    assert scaled.item() == pytest.approx(value.item() / 8, rel=1e-5), "a scale is an offset of the logarithm"


@pytest.mark.parametrize("output", [60.0, 1e4, 1e25, -1e4, -1e30])
def test_no_output_makes_the_loss_of_counts_or_its_gradient_overflow(output):
    loss, outputs = make_loss(section("loss=poisson"), None, CPU), torch.tensor([output], requires_grad=True)
    value = loss(outputs, torch.tensor([3.0]))
    value.backward()
    assert math.isfinite(value.item())
    assert math.isfinite(outputs.grad.item())
    assert (outputs.grad.item() > 0) == (output > 0), "it leads back"
    assert math.isfinite(answers(section("loss=poisson"), outputs).item())


def test_what_outputs_answer_and_the_best_constant_one():
    counts, numbers = section("loss=poisson"), section("loss=huber")
    outputs, y = torch.tensor([0.0, 2.0]), torch.tensor([1.0, 2.0, 6.0])
    assert answers(counts, outputs).tolist() == pytest.approx([1, math.exp(2)])
    assert answers(numbers, outputs) is outputs
    assert [out.item() for out in constant_outputs(counts, y)] == pytest.approx([math.log(3)])
    assert [out.item() for out in constant_outputs(numbers, y)] == [3.0, 2.0]
    assert math.isfinite(constant_outputs(counts, torch.zeros(3))[0].item())


def test_the_loss_of_an_answer_that_prefers_no_class():
    def uniform(sets, outputs, targets):
        train = section(sets)
        return uniform_loss(train, make_loss(train, 3, CPU), outputs, targets)

    assert uniform("", LOGITS, LABELS) == pytest.approx(math.log(3))
    prior = "loss=balanced-softmax loss_args.prior=[0.5,0.3,0.2]"
    assert uniform(prior, LOGITS, LABELS) == pytest.approx(-(math.log(0.2) + math.log(0.3)) / 2)
    assert uniform("loss=tests.own_training:focal loss_args.gamma=0.5", LOGITS, LABELS) is None
    assert uniform_loss(section("loss=mse"), nn.MSELoss(), NUMBERS, WANTED) is None


@pytest.mark.parametrize("wrong", [-1.0, 2.5, 1000.01])
def test_what_is_no_count_is_one_line(wrong):
    y = torch.tensor([0.0, 3.0, wrong]) / 8.3
    check_counts(section("loss=huber"), y, 8.3)
    check_counts(section("loss=poisson"), torch.tensor(np.arange(20_000.0) / 8.3, dtype=torch.float32), 8.3)
    assert told(check_counts, section("loss=poisson"), y, 8.3) == (
        f"train.loss = 'poisson' is refused: the target has {wrong:g}; allowed: whole numbers from 0 on; "
        "mend it, or take train.loss = 'mse' or 'huber', for which python -m node.init --target-kind number "
        "makes a task"
    )


def test_a_logit_a_row_is_enough_for_two_classes():
    expected = -(math.log(1 / (1 + math.exp(-1))) + math.log(1 - 1 / (1 + math.exp(-4)))) / 2
    loss = make_loss(section("loss=bce"), 2, CPU)
    assert loss(NUMBERS, torch.tensor([1, 0])).item() == pytest.approx(expected)


@cases("""
    sets => classes => line
    loss=mse => 3 => train.loss = 'mse' is refused: the targets are classes 0 to 2; allowed: 'auto',
        'cross-entropy', 'balanced-softmax', 'bce' or 'package.module:Name'
    loss=bce => 0 => train.loss = 'bce' is refused: the targets are numbers; allowed: 'auto', 'mse', 'mae',
        'huber', 'poisson' or 'package.module:Name'
    loss=bce => 3 => train.loss = 'bce' is refused: the targets have 3 classes; allowed: 2, or
        train.loss='cross-entropy' with a logit for each
    loss=huber loss_args.reduction="sum" => 0 => train.loss_args.reduction = 'sum' is refused: every loss is a
        mean over the rows; leave it out
    loss=huber loss_args.slope=1 => 0 => train.loss_args = {'slope': 1} do not suit train.loss = 'huber':
        TypeError:
    loss=balanced-softmax loss_args.prior=[0.5,0.5] => 3 => train.loss_args.prior has 2 shares; allowed: 3,
        one for each class
    loss=poisson loss_args.log_input=false => 0 => train.loss_args = {'log_input': False} do not suit
        train.loss = 'poisson': TypeError
    loss=balanced-softmax loss_args.prior=[0.5,0.5,0.0] => 3 => train.loss_args = {'prior': [0.5, 0.5, 0.0]}
        do not suit train.loss = 'balanced-softmax':
    loss=balanced-softmax => 3 => train.loss_args = {} do not suit train.loss = 'balanced-softmax': TypeError
    loss=tests.own_training:nope => 3 => 'tests.own_training:nope' cannot be imported: AttributeError
    loss=tests.own_training:NUMBER => 3 => train.loss = 'tests.own_training:NUMBER' cannot be called; allowed:
        a function of outputs and targets, or a class whose objects are
""")
def test_a_loss_that_can_not_be(sets, classes, line):
    assert told(make_loss, section(sets), int(classes) or None, CPU).startswith(line)


@cases("""
    path => line
    each_row => gives a Tensor of shape (2,); allowed: a tensor with one number, the mean over the rows
    a_float => gives a float; allowed: a tensor with one number, the mean over the rows, that has a gradient
    out_of_order => does not suit this task: RuntimeError: out of order
""")
def test_a_loss_that_gives_something_else(path, line):
    name = f"tests.own_training:{path}"
    loss = make_loss(section(f"loss={name}"), 3, CPU)
    assert f"train.loss = '{name}' {line}" in told(check_loss, name, loss, LOGITS, LABELS)


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ("", [1, 1, 1, 1]),
        ("schedule=linear", [1, 0.75, 0.5, 0.25]),
        ("schedule=linear schedule_args.final=0.2", [1, 0.8, 0.6, 0.4]),
        ("schedule=cosine", [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)]),
        ("schedule=cosine schedule_args.final=1", [1, 1, 1, 1]),
        ("schedule=step schedule_args.every=2", [1, 1, 0.1, 0.1]),
        ("schedule=step schedule_args={every=1,factor=0.5}", [1, 0.5, 0.25, 0.125]),
        ("schedule=tests.own_training:halving", [1, 0.5, 0.25, 0.125]),
        ("schedule=tests.own_training:halving schedule_args.by=10.0", [1, 0.1, 0.01, 0.001]),
    ],
)
def test_the_learning_rate_follows_the_rounds_and_stays_after_the_last(sets, expected):
    schedule = make_schedule(section(f"rounds=4 {sets}"))
    assert [schedule(round) for round in (1, 2, 3, 4)] == pytest.approx(expected)
    assert schedule(9) == schedule(4)


@cases("""
    sets => line
    schedule=step => train.schedule_args = {} do not suit train.schedule = 'step': TypeError: step() missing 1
    schedule=step schedule_args.every=0 => train.schedule_args = {'every': 0} do not suit train.schedule =
        'step': ValueError: every = 0; allowed: a whole number of rounds, at least 1
    schedule=cosine schedule_args.final=2 => ValueError: final = 2; allowed: a number from 0 to 1
    schedule=constant schedule_args.final=0 => unexpected keyword argument 'final'
    schedule=tests.own_training:negative => train.schedule = 'tests.own_training:negative' gives -0.5 for
        round 20; allowed: a finite number of at least 0
    schedule=tests.own_training:wordy => gives 'half' for round 1; allowed: a finite number
    schedule=tests.own_training:NUMBER => train.schedule = 'tests.own_training:NUMBER' cannot be called;
        allowed: a function
""")
def test_a_schedule_that_can_not_be(sets, line):
    assert line in told(make_schedule, section(f"rounds=20 {sets}"))


def test_a_schedule_that_goes_wrong_later_is_told_at_its_round():
    schedule = make_schedule(section("schedule=tests.own_training:late_fault"))
    with pytest.raises(UserError, match="gives nan for round 2") as caught:
        schedule(2)
    assert caught.value.status == 1


def test_an_optimizer_by_import_path_and_arguments_of_ones_own():
    parameter = nn.Parameter(torch.zeros(3))
    own = section("optimizer=tests.own_training:Signs optimizer_args.shrink=0.5")
    check_optimizer(own)
    parameter.grad = torch.tensor([2.0, -3.0, 0.0])
    make_optimizer([parameter], own, 0.25).step()
    assert parameter.tolist() == [-0.25, 0.25, 0]
    nesterov = section("optimizer_args.nesterov=true")
    check_optimizer(nesterov)
    assert make_optimizer([parameter], nesterov, 0.1).param_groups[0]["nesterov"] is True


@cases("""
    sets => line
    optimizer_args.speed=3 => train.optimizer_args = {'speed': 3} do not suit train.optimizer = 'sgd':
        TypeError:
    optimizer=torch.optim:LBFGS => train.optimizer_args = {} do not suit train.optimizer =
        'torch.optim:LBFGS': TypeError:
    optimizer=torch.nn:Linear => train.optimizer = 'torch.nn:Linear' is refused; allowed: a torch.optim.Opti
    optimizer=tests.own_training:focal => is not a class; allowed: 'package.module:Class'
""")
def test_an_optimizer_that_can_not_be(sets, line):
    assert line in told(check_optimizer, section(sets))


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(5)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((7, 3), (3,), (2, 2, 2))]


def class_of_torch(name, parameters, momentum, decay):
    if name == "sgd":
        return torch.optim.SGD(parameters, 0.3, momentum, weight_decay=decay)
    made = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return made(parameters, 0.3, (momentum, 0.999), weight_decay=decay)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.9, 0.1), (0.0, 0.1)])
def test_it_steps_as_torchs_does(name, momentum, decay):
    ours, theirs = parameters(), parameters()
    named = section(f"optimizer={name} momentum={momentum} weight_decay={decay}")
    subject, oracle = make_optimizer(ours, named, 0.3), class_of_torch(name, theirs, momentum, decay)
    assert not isinstance(subject, torch.optim.Optimizer)
    generator = torch.Generator().manual_seed(6)
    for step in range(6):
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if (step, place) in {(0, 1), (3, 2)}:
                continue  # no gradient: it stays, and so does what it has gathered
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        subject.step()
        oracle.step()
        assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True)), step
        subject.zero_grad()
        oracle.zero_grad()
        assert all(value.grad is None for value in ours)


def test_sparse_gradients_are_welcome():
    layer = nn.Embedding.from_pretrained(torch.zeros(4, 2), freeze=False, sparse=True)
    layer(torch.tensor([1, 3])).sum().backward()
    GradientDescent(list(layer.parameters()), 0.5, 0.0, 0.0).step()
    assert layer.weight.tolist() == [[0, 0], [-0.5, -0.5], [0, 0], [-0.5, -0.5]]
