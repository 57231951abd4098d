"""Sums of counts give the metrics of all rows in one place, as scikit-learn computes them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics as reference

from node.data.dataset import Dataset
from node.errors import ConfigError
from node.training.metrics import measured
from node.training.tallies import BINS, Confusion, Errors, Recalls, Scores, make_tally

CLASSES = ("accuracy", "balanced-accuracy", "auc")


def peers(seed: int, classes: int, steep: float = 1.0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Returns outputs (n, classes) and labels (n,) of three peers with 40 to 400 rows and other shares."""
    rng = np.random.default_rng(seed)
    found = []
    for rows in (40, 150, 400):
        labels = rng.choice(classes, rows, p=rng.dirichlet(np.ones(classes)))
        outputs = steep * (rng.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[labels])
        found.append((torch.from_numpy(outputs.astype(np.float32)), torch.from_numpy(labels)))
    return found


def pooled(parts: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    outputs, targets = zip(*parts, strict=True)
    return torch.cat(outputs), torch.cat(targets)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("kind", [Confusion, Recalls])
def test_counts_of_classes_add_up_to_the_metrics_of_all(seed, classes, kind):
    tally = kind(classes, ()) if kind is Confusion else kind(classes)
    parts = peers(seed, classes)
    totals = sum(tally.counted(*part) for part in parts)
    outputs, labels = pooled(parts)
    found = tally.measured(totals)
    assert totals.shape == (tally.size,)
    assert found.rows == len(labels) == 590
    chosen = outputs.argmax(1)
    assert found.metrics["accuracy"] == pytest.approx(reference.accuracy_score(labels, chosen))
    assert found.metrics["balanced-accuracy"] == pytest.approx(
        reference.balanced_accuracy_score(labels, chosen)
    )
    assert found.headline.baseline in (
        pytest.approx(np.bincount(labels).max() / 590),
        pytest.approx(1 / len(np.unique(labels))),
    )


def test_a_class_that_no_row_can_have_is_a_wrong_answer():
    wide = torch.nn.functional.one_hot(torch.tensor([3, 1, 2, 3]), 4).float()
    tally = Confusion(3, ())
    assert tally.measured(tally.counted(wide, torch.tensor([2, 1, 2, 0]))).metrics["accuracy"] == 0.5


def test_a_confusion_matrix_is_scikit_learns():
    tally, (outputs, labels) = Confusion(4, ()), pooled(peers(1, 4))
    matrix = reference.confusion_matrix(labels, outputs.argmax(1), labels=range(4))
    assert tally.counted(outputs, labels).tolist() == matrix.reshape(-1).tolist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("steep", [0.05, 1.0, 30.0])
def test_scores_give_an_auc_within_a_hundredth_and_the_rest_exactly(seed, steep):
    tally, parts = Scores(("no", "yes")), peers(seed, 2, steep)
    outputs, labels = pooled(parts)
    found = tally.measured(sum(tally.counted(*part) for part in parts))
    wanted = measured(CLASSES, outputs, labels)
    assert found.rows == 590
    assert found.metrics["accuracy"] == pytest.approx(wanted["accuracy"])
    assert found.metrics["balanced-accuracy"] == pytest.approx(wanted["balanced-accuracy"])
    score = (outputs[:, 1] - outputs[:, 0]).double()
    assert found.metrics["auc"] == pytest.approx(reference.roc_auc_score(labels, score), abs=0.01)


def test_one_logit_a_row_is_counted_as_two_are():
    tally, (outputs, labels) = Scores(()), pooled(peers(3, 2))
    single = (outputs[:, 1] - outputs[:, 0])[:, None]
    assert tally.counted(single, labels).tolist() == tally.counted(outputs, labels).tolist()
    at_zero = tally.counted(torch.tensor([[0.0], [1e-6], [-1e-6], [float("nan")]]), torch.ones(4).long())
    assert np.flatnonzero(at_zero).tolist() == [BINS + BINS // 2 - 1, BINS + BINS // 2]
    assert at_zero[BINS + BINS // 2] == 1, "only the row above 0 is given the second class"
    ends = tally.counted(torch.tensor([[-1e30], [1e30]]), torch.zeros(2).long())
    assert np.flatnonzero(ends).tolist() == [0, BINS - 1]


@pytest.mark.parametrize("tally", [Confusion(2, ("no", "yes")), Scores(("no", "yes"))])
def test_a_swarm_whose_model_says_one_class_is_named_so(tally):
    """Over all rows the largest class has 90 %, whatever a single peer has."""
    labels = torch.tensor([0] * 90 + [1] * 10)
    never = torch.tensor([[1.0, -1.0]]).repeat(100, 1)
    found = tally.measured(tally.counted(never, labels)).headline
    assert (found.only_class, found.value, found.baseline) == ("no", 0.5, 0.5)
    assert found.metric == ("auc" if isinstance(tally, Scores) else "balanced-accuracy")
    mixed = torch.cat([never[:99], -never[:1]])
    assert tally.measured(tally.counted(mixed, labels)).headline.only_class is None


def test_scores_of_one_class_have_no_area():
    tally = Scores(())
    found = tally.measured(tally.counted(torch.ones(5, 1), torch.ones(5).long()))
    assert (found.metrics["auc"], found.headline.metric, found.headline.value) == (None, "accuracy", 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_numbers_add_up_to_r2_and_mae_of_all(seed):
    rng = np.random.default_rng(seed)
    tally, parts = Errors(12.5), []
    for rows in (3, 50, 700):
        wanted = rng.normal(rng.normal(), 2, rows).astype(np.float32)
        answers = (wanted + rng.standard_t(3, rows)).astype(np.float32)
        parts.append((torch.from_numpy(answers)[:, None], torch.from_numpy(wanted)))
    answers, wanted = pooled(parts)
    found = tally.measured(sum(tally.counted(*part) for part in parts))
    assert (found.rows, found.headline.metric, found.headline.baseline) == (753, "r2", 0.0)
    assert found.metrics["r2"] == pytest.approx(reference.r2_score(wanted, answers), abs=1e-5)
    error = reference.mean_absolute_error(12.5 * wanted, 12.5 * answers)
    assert found.metrics["mae"] == pytest.approx(error, rel=1e-5)


def test_what_is_not_finite_or_out_of_scale_counts_as_a_large_error():
    tally = Errors(1.0)
    counts = tally.counted(torch.tensor([float("nan"), float("inf"), -1e30]), torch.zeros(3))
    assert counts[3] == 3 * 64**2 * 2**16
    found = tally.measured(tally.counted(torch.ones(4), torch.full((4,), 2.0)))
    assert found.metrics == {"r2": None, "mae": 1.0}, "equal targets have no R2"


@pytest.mark.parametrize("tally", [Confusion(3, ()), Scores(()), Recalls(3), Errors(1.0)])
def test_no_rows_have_no_metric(tally):
    assert tally.measured(np.zeros(tally.size, np.int64)) is None


def dataset(classes: int | None) -> Dataset:
    none = torch.zeros(0)
    return Dataset(none, none, none, none, "validation", classes, "a line", ("a", "b"), 2.0)


def test_the_task_and_the_targets_choose_the_tally():
    assert make_tally("confusion", dataset(32), False) == Confusion(32, ("a", "b"))
    assert make_tally("scores", dataset(2), False) == Scores(("a", "b"))
    assert make_tally("sums", dataset(1000), False) == Recalls(1000)
    assert make_tally("sums", dataset(None), True) == Errors(2.0)


@pytest.mark.parametrize(
    ("kind", "classes", "told"),
    [
        ("confusion", 33, "the targets are of 33 classes; allowed: at most 32 classes, or 'sums'"),
        ("confusion", None, "the targets are numbers; allowed: at most 32 classes, or 'sums'"),
        ("scores", 3, "the targets are of 3 classes; allowed: 2 classes, or 'sums'"),
        (
            "sums",
            None,
            "sums of numbers need the target's scale, and the task has no data.schema; write the task",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(kind, classes, told):
    with pytest.raises(ConfigError) as caught:
        make_tally(kind, dataset(classes), has_schema=False)
    assert str(caught.value).startswith(f"aggregation.swarm_metric = {kind!r} is refused: {told}")
    assert "\n" not in str(caught.value)
