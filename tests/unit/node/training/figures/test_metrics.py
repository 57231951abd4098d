"""Our metrics equal scikit-learn's, or are None; the headline is chosen by the rows."""

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as reference
from sklearn.dummy import DummyRegressor

from node.task.sections import TrainSection
from node.training.figures.headline import Headline, headline_of_classes
from node.training.figures.metric_words import headline_text, metric_text
from node.training.figures.metrics import (
    accuracy_of,
    chosen_labels,
    chosen_metrics,
    headline_of,
    measured,
    probabilities,
)
from tests.own_data import told

ALL = ("accuracy", "balanced-accuracy", "auc")
NUMBERS = ("r2", "mae")


def answers(seed: int, rows: int, classes: int, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws logits (rows, classes) on a grid of `steps`, so that there are ties, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=rows)
    logits = rng.normal(size=(rows, classes)) + np.eye(classes)[labels]
    return torch.from_numpy((np.round(logits * steps) / steps).astype(np.float32)), torch.from_numpy(labels)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("classes", "steps"), [(2, 1000), (2, 1), (3, 1000), (7, 2)])
def test_of_classes_they_are_those_of_scikit_learn(seed, classes, steps):
    outputs, labels = answers(seed, 200, classes, steps)
    found, chances = measured(ALL, outputs, labels), probabilities(outputs)
    chosen = chances.argmax(1)
    assert found["accuracy"] == pytest.approx(reference.accuracy_score(labels, chosen))
    assert found["balanced-accuracy"] == pytest.approx(reference.balanced_accuracy_score(labels, chosen))
    score = chances[:, 1] if classes == 2 else chances
    assert found["auc"] == pytest.approx(reference.roc_auc_score(labels, score, multi_class="ovr"))


@pytest.mark.parametrize("seed", range(5))
def test_of_numbers_they_are_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    wanted = rng.normal(3, 5, 100).astype(np.float32)
    given = (wanted + rng.normal(0, 2, 100)).astype(np.float32)
    found = measured(NUMBERS, torch.from_numpy(given)[:, None], torch.from_numpy(wanted))
    assert found["r2"] == pytest.approx(reference.r2_score(wanted, given))
    assert found["mae"] == pytest.approx(reference.mean_absolute_error(wanted, given))


def test_a_class_that_no_row_has_is_left_out():
    """Two of four classes occur: the mean of their two areas, and of their two shares."""
    outputs, labels = answers(1, 100, 2, 50)
    wide = torch.cat([outputs, torch.full((100, 2), -9.0)], 1)
    found, chances = measured(ALL, wide, labels), probabilities(wide)
    areas = [reference.roc_auc_score(labels == label, chances[:, label]) for label in (0, 1)]
    assert found["auc"] == pytest.approx(np.mean(areas))
    right = chances.argmax(1) == labels.numpy()
    shares = [right[labels == label].mean() for label in (0, 1)]
    assert found["balanced-accuracy"] == pytest.approx(np.mean(shares))


def test_what_rows_do_not_define_is_none():
    outputs, _ = answers(1, 10, 2, 50)
    one_class = measured(ALL, outputs, torch.zeros(10, dtype=torch.int64))
    assert one_class["auc"] is None
    assert one_class["accuracy"] == one_class["balanced-accuracy"]
    assert measured(NUMBERS, torch.ones(4), torch.full((4,), 2.0)) == {"r2": None, "mae": 1.0}
    assert measured(ALL, outputs / 0, torch.zeros(10, dtype=torch.int64)) == dict.fromkeys(ALL)
    assert measured(("mae",), torch.tensor([math.inf]), torch.ones(1)) == {"mae": None}


def test_one_logit_a_row_is_for_the_second_of_two_classes():
    logits, labels = torch.tensor([[-2.0], [0.5], [1.0], [-0.1]]), torch.tensor([0, 1, 0, 1])
    chances = probabilities(logits)
    assert chances[:, 1] == pytest.approx(1 / (1 + np.exp([2, -0.5, -1, 0.1])))
    assert chances.sum(1) == pytest.approx(np.ones(4))
    assert chosen_labels(logits).tolist() == chosen_labels(logits[:, 0]).tolist() == [0, 1, 1, 0]
    found = measured(ALL, logits, labels)
    assert (found["accuracy"], accuracy_of(logits, labels)) == (0.5, 0.5)
    assert found["auc"] == pytest.approx(reference.roc_auc_score(labels, chances[:, 1]))


def test_which_metrics_there_are():
    def chosen(classes, metrics=None, loss="auto"):
        return chosen_metrics(TrainSection(metrics=metrics, loss=loss), classes)

    assert chosen(2) == ALL
    assert chosen(101) == ALL[:2]
    assert chosen(101, ("auc",)) == ("auc",)
    assert chosen(None) == NUMBERS
    assert chosen(None, loss="poisson") == (*NUMBERS, "deviance")
    assert told(chosen, 3, ("accuracy", "r2")) == (
        "train.metrics = ['accuracy', 'r2'] is refused: the targets are classes, and 'r2' is not for them; "
        "allowed: accuracy, balanced-accuracy, auc"
    )
    assert told(chosen, None, ("deviance",), "mse").endswith("not for them; allowed: r2, mae")
    line = told(chosen, None, ("auc",))
    assert line.endswith("the targets are numbers, and 'auc' is not for them; allowed: r2, mae")


CLASSES = ("accuracy", "balanced-accuracy", "auc")


def skewed(share: float, rows: int = 1000) -> torch.Tensor:
    """Returns labels (rows,) of which `share` are 0 and the others 1."""
    return (torch.arange(rows) >= share * rows).long()


def found(outputs: torch.Tensor, labels: torch.Tensor, names=CLASSES, classes=()) -> Headline:
    return headline_of(measured(names, outputs, labels), outputs, labels, classes)


def scores(labels: torch.Tensor, shift: float) -> torch.Tensor:
    """Returns logits (n, 2) that lean towards the true class; with a large `shift` class 0 always wins."""
    noise = torch.from_numpy(np.random.default_rng(5).normal(size=len(labels)).astype(np.float32))
    return torch.stack([torch.zeros(len(labels)) + shift, labels + noise], 1)


@pytest.mark.parametrize(("share", "metric"), [(0.5, "accuracy"), (0.8, "accuracy"), (0.801, "auc")])
def test_rows_of_almost_one_class_are_judged_by_auc(share, metric):
    labels = skewed(share)
    headline = found(scores(labels, 0.5), labels)
    assert headline.metric == metric
    assert headline.baseline == (pytest.approx(share) if metric == "accuracy" else 0.5)
    assert headline.only_class is None


def test_a_model_that_never_says_yes_is_named_so():
    """Its accuracy is 98.5 %; its headline is an AUC, beside a balanced accuracy of a half."""
    labels = skewed(0.985)
    outputs = scores(labels, 99.0)
    metrics = measured(CLASSES, outputs, labels)
    headline = found(outputs, labels, classes=("no", "yes"))
    assert metrics["accuracy"] == pytest.approx(0.985)
    assert (headline.metric, headline.only_class) == ("auc", "no")
    assert headline.value == pytest.approx(reference.roc_auc_score(labels, outputs[:, 1] - outputs[:, 0]))
    assert headline_text(headline, metrics) == (
        f"AUC {headline.value:.3f} (guessing 0.500), balanced accuracy 50.0 %; "
        "the model says 'no' to every row"
    )
    assert found(outputs, labels).only_class == "0"
    assert found(scores(labels, 0.5), labels).only_class is None


def test_rows_of_one_class_alone_have_an_accuracy_and_no_warning():
    labels = torch.zeros(9, dtype=torch.int64)
    assert found(scores(labels, 99.0), labels) == Headline("accuracy", 1.0, 1.0, None)


def test_only_metrics_that_were_asked_for_are_headlines():
    labels = skewed(0.9)
    outputs = scores(labels, 0.5)
    many = found(outputs, labels, CLASSES[:2])  # as for more than 100 classes
    assert (many.metric, many.baseline) == ("balanced-accuracy", 0.5)
    accuracy = measured(("accuracy",), outputs, labels)["accuracy"]
    assert found(outputs, labels, ("accuracy",)) == Headline("accuracy", accuracy, pytest.approx(0.9))
    assert found(scores(skewed(0.5), 0.5), skewed(0.5), ("auc",)).metric == "auc"
    few = headline_of_classes({"balanced-accuracy": 0.4}, np.array([90, 0, 5, 5]), None)
    assert few.baseline == 1 / 3, "a class without rows does not count"


def test_the_baseline_of_numbers_is_the_best_constant():
    """R2 of the mean is 0; no constant has a smaller mean absolute error than the median."""
    rng = np.random.default_rng(3)
    wanted = rng.exponential(2.0, 101)
    answers = wanted + rng.normal(size=101)
    targets, outputs = torch.from_numpy(wanted), torch.from_numpy(answers)[:, None]
    both = headline_of(measured(("r2", "mae"), outputs, targets, 3.0), outputs, targets, (), 3.0)
    assert (both.metric, both.baseline, both.only_class) == ("r2", 0.0, None)
    assert both.value == pytest.approx(reference.r2_score(wanted, answers))
    only = headline_of(measured(("mae",), outputs, targets, 3.0), outputs, targets, (), 3.0)
    dummy = DummyRegressor(strategy="median").fit(wanted[:, None], 3 * wanted)
    assert only.value == pytest.approx(reference.mean_absolute_error(3 * wanted, 3 * answers))
    assert only.baseline == pytest.approx(
        reference.mean_absolute_error(3 * wanted, dummy.predict(wanted[:, None]))
    )


def test_what_is_not_defined_is_said_so():
    headline = headline_of({"r2": None, "mae": 1.5}, torch.ones(4), torch.full((4,), 2.0), ())
    assert headline_text(headline, {"mae": 1.5}) == "R2 not defined (the mean 0.000), MAE 1.5"
    assert metric_text("mae", 12345.678) == "MAE 12,346"
    assert metric_text("accuracy", 0.98765) == "accuracy 98.8 %"
