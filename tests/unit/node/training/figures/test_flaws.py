"""What is wrong with a model, in words."""

import pytest
import torch

from node.task.sections import TrainSection
from node.training.losses import make_loss
from node.training.trainer import evaluated
from tests.unit.node.cases import cases

NAMES = ("ill", "well", "dead", "lost", "gone")


def flaws(outputs, targets, metrics=("accuracy",), **keys):
    section = TrainSection(**keys)
    classes = None if targets.is_floating_point() else max(2, outputs.shape[1])
    loss = make_loss(section, classes, torch.device("cpu"))
    return evaluated(section, loss, metrics, outputs, targets, NAMES, 1.0).flaws


def said(labels, sure=0.5, classes=5):
    """Logits that choose these labels."""
    return sure * torch.nn.functional.one_hot(torch.tensor(labels), classes).float()


@cases("""
    chosen => true => line
    0 1 2 => 0 1 2 =>
    0 1 0 1 => 0 1 2 1 => it never says 'dead', which some rows have
    1 1 0 0 0 => 1 1 0 2 2 => it never says 'dead', which some rows have
    4 4 4 4 0 0 => 4 4 0 1 2 3 => it never says 'well', 'dead', 'lost', which some rows have
""")
def test_a_class_that_is_never_said_though_rows_have_it(chosen, true, line):
    outputs, labels = said(list(map(int, chosen.split()))), torch.tensor(list(map(int, true.split())))
    assert flaws(outputs, labels) == ((line,) if line else ())


def test_many_classes_are_not_all_named_and_one_class_for_all_is_said_elsewhere():
    labels = torch.arange(6)
    (line,) = flaws(said([5, 5, 5, 5, 4, 5], classes=6), labels)
    assert line == "it never says 'ill', 'well', 'dead' and 1 more, which some rows have"
    assert flaws(said([0, 0, 0]), torch.tensor([0, 1, 2])) == ()


def test_a_model_below_the_constant_answer():
    labels = torch.tensor([0, 0, 0, 1])
    assert flaws(said([0, 0, 1, 0]), labels) == ("worse than always saying the most frequent class",)
    assert flaws(said([0, 0, 1, 1]), labels) == (), "as good as it"
    auc = flaws(said([1, 1, 0, 0, 1, 0]), torch.tensor([0, 0, 1, 1, 0, 1]), ("auc",))
    assert auc[0] == "worse than guessing"


@pytest.mark.parametrize(
    ("outputs", "metrics", "loss", "line"),
    [
        ([1.0, 2.0, 9.0], ("r2",), "auto", ()),
        ([9.0, 2.0, 1.0], ("r2",), "auto", ("worse than always saying the mean",)),
        ([9.0, 2.0, 1.0], ("mae",), "auto", ("worse than always saying the median",)),
        ([1.0, 2.0, 8.0], ("mae",), "auto", ()),
        ([3.0, 1.0, 0.0], ("deviance",), "poisson", ("worse than always saying the mean",)),
        ([0.0, 0.7, 2.2], ("deviance",), "poisson", ()),
    ],
)
def test_numbers_below_the_constant_answer(outputs, metrics, loss, line):
    assert flaws(torch.tensor(outputs), torch.tensor([1.0, 2.0, 9.0]), metrics, loss=loss) == line


def test_a_loss_above_that_of_a_uniform_answer_though_most_rows_are_right():
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    sure = said([0, 0, 0, 1, 1, 0], 20.0, classes=2)
    assert flaws(sure, labels) == ("the loss 3.33 is above the 0.693 of a uniform answer",)
    assert flaws(said([0, 0, 0, 1, 1, 0], 1.0, classes=2), labels) == ()
    assert flaws(torch.zeros(6, 2) + 1e-7, labels) == (), "a uniform answer is not above itself"
