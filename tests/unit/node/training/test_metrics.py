"""Our metrics equal scikit-learn's, and are None if there is nothing to measure."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as reference

from node.errors import ConfigError
from node.training.metrics import accuracy_of, chosen_labels, chosen_metrics, measured, probabilities

ALL = ("accuracy", "balanced-accuracy", "auc")
NUMBERS = ("r2", "mae")


def answers(seed: int, rows: int, classes: int, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws logits (rows, classes) on a grid of `steps`, so that there are ties, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=rows)
    logits = rng.normal(size=(rows, classes)) + np.eye(classes)[labels]
    return torch.from_numpy((np.round(logits * steps) / steps).astype(np.float32)), torch.from_numpy(labels)


@pytest.mark.parametrize("seed", range(5))
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
    assert chosen_metrics(None, 2) == ALL
    assert chosen_metrics(None, 101) == ALL[:2]
    assert chosen_metrics(("auc",), 101) == ("auc",)
    assert chosen_metrics(None, None) == NUMBERS
    with pytest.raises(ConfigError) as caught:
        chosen_metrics(("accuracy", "r2"), 3)
    assert str(caught.value) == (
        "train.metrics = ['accuracy', 'r2'] is refused: the targets are classes, and 'r2' is not for them; "
        "allowed: accuracy, balanced-accuracy, auc"
    )
    with pytest.raises(ConfigError, match=r"the targets are numbers, and 'auc' is not .* allowed: r2, mae$"):
        chosen_metrics(("auc",), None)
