"""The headline is chosen by the rows, and a constant answer never looks good."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics as reference
from sklearn.dummy import DummyRegressor

from node.training.headline import Headline, headline_of_classes
from node.training.metric_words import headline_text, metric_text
from node.training.metrics import headline_of, measured

CLASSES = ("accuracy", "balanced-accuracy", "auc")


def skewed(share: float, rows: int = 1000) -> torch.Tensor:
    """Returns labels (rows,) of which `share` are 0 and the others 1."""
    return (torch.arange(rows) >= share * rows).long()


def found(
    outputs: torch.Tensor,
    labels: torch.Tensor,
    names: tuple[str, ...] = CLASSES,
    classes: tuple[str, ...] = (),
) -> Headline:
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
    assert found(outputs, labels, ("accuracy",)) == Headline(
        "accuracy", measured(("accuracy",), outputs, labels)["accuracy"], pytest.approx(0.9)
    )
    even = skewed(0.5)
    assert found(scores(even, 0.5), even, ("auc",)).metric == "auc"


def test_a_class_without_rows_does_not_change_the_baseline():
    assert headline_of_classes({"balanced-accuracy": 0.4}, np.array([90, 0, 5, 5]), None).baseline == 1 / 3


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


def test_an_auc_is_the_share_of_pairs_in_order():
    """Against the slow definition: pairs of a row of class 1 and one of class 0; ties count half."""
    labels = skewed(0.9, 120)
    outputs = torch.round(scores(labels, 0.5) * 2) / 2
    logit = outputs[:, 1] - outputs[:, 0]
    up, down = logit[labels == 1][:, None], logit[labels == 0][None]
    pairs = float(((up > down).double() + 0.5 * (up == down).double()).mean())
    assert found(outputs, labels).value == pytest.approx(pairs)
