"""Sums of counts give the metrics of all rows, as scikit-learn does; with noise, estimates or none."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn import metrics as reference

from mechanisms.noised_counts import COARSEST, CountGrid, CountNoise
from node.training.figures.metrics import measured
from node.training.figures.tallies import BINS, Confusion, Errors, Recalls, Scores, with_errors

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


@pytest.mark.parametrize("seed", range(2))
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


def test_a_confusion_matrix_is_scikit_learns_and_a_class_that_no_row_can_have_is_a_wrong_answer():
    tally, (outputs, labels) = Confusion(4, ()), pooled(peers(1, 4))
    matrix = reference.confusion_matrix(labels, outputs.argmax(1), labels=range(4))
    assert tally.counted(outputs, labels).tolist() == matrix.reshape(-1).tolist()
    wide = torch.nn.functional.one_hot(torch.tensor([3, 1, 2, 3]), 4).float()
    tally = Confusion(3, ())
    assert tally.measured(tally.counted(wide, torch.tensor([2, 1, 2, 0]))).metrics["accuracy"] == 0.5


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


TALLIES = [Confusion(3, ()), Recalls(3), Scores(()), Errors(2.0)]
each_tally = pytest.mark.parametrize("exact", TALLIES, ids=lambda tally: type(tally).__name__)


def rows(tally, seed, count=60, steep=2.0):
    """Returns outputs and targets of `count` rows for a tally, some of them extreme, and some not finite."""
    rng = np.random.default_rng(seed)
    odd = rng.choice(count, max(1, count // 8), replace=False)
    if isinstance(tally, Errors):
        targets = rng.normal(size=count)
        targets[odd] *= 1e6
        outputs = 0.8 * targets + 0.3 * rng.normal(size=count)
        outputs[odd] = rng.choice([math.nan, math.inf, -math.inf, 1e30, -1e30], len(odd))
        return torch.from_numpy(outputs.astype(np.float32)), torch.from_numpy(targets.astype(np.float32))
    classes = 2 if isinstance(tally, Scores) else 3
    labels = rng.integers(classes, size=count)
    outputs = rng.normal(size=(count, classes)) + steep * np.eye(classes)[labels]
    outputs[odd] *= 1e6
    return torch.from_numpy(outputs.astype(np.float32)), torch.from_numpy(labels)


def on_grid(tally, outputs, targets, unit):
    return np.rint(tally.counted(outputs, targets) / unit)


@each_tally
@pytest.mark.parametrize("unit", [COARSEST, 2.0**-11])
def test_a_row_moves_the_counts_by_at_most_the_sensitivity(exact, unit):
    """Each row of many is taken out, ordinary and extreme ones; the bound is reached, or almost."""
    tally, moved = replace(exact, noised=True), []
    for seed in range(8):
        outputs, targets = rows(exact, seed)
        whole = on_grid(tally, outputs, targets, unit)
        assert whole.shape == (tally.size,)
        for row in range(len(targets)):
            kept = torch.arange(len(targets)) != row
            without = on_grid(tally, outputs[kept], targets[kept], unit)
            moved.append(float(np.linalg.norm(whole - without)) * unit)
    assert max(moved) <= tally.sensitivity * (1 + 1e-12)
    assert max(moved) > 0.97 * tally.sensitivity


@each_tally
def test_a_person_moves_the_counts_by_at_most_the_sensitivity_and_counts_once(exact):
    """Persons with one row to seven are taken out; the sums are of whole units, so differences are exact."""
    tally, moved = replace(exact, noised=True), []
    grid = CountGrid(CountNoise(4.0, 5, 2), tally.sensitivity, 64)
    for seed in range(8):
        outputs, targets = rows(exact, seed)
        persons = np.sort(np.random.default_rng(seed).integers(0, 17, len(targets)))

        def counted(kept, outputs=outputs, targets=targets, persons=persons):
            added, (_, own) = (
                tally.added(outputs[kept], targets[kept]),
                np.unique(persons[kept], return_inverse=True),
            )
            return grid.count_persons(added.places, added.amounts, own, tally.size)

        whole = counted(np.arange(len(targets)))
        assert np.array_equal(whole, np.rint(whole / grid.unit) * grid.unit)
        others = (counted(np.flatnonzero(persons != person)) for person in np.unique(persons))
        moved.extend(float(np.linalg.norm(whole - without)) for without in others)
        if not isinstance(exact, Errors):
            assert whole.sum() == pytest.approx(len(np.unique(persons)), abs=0.5)
    assert max(moved) <= tally.sensitivity
    assert max(moved) > 0.9 * tally.sensitivity


def test_the_sensitivities_are_those_that_are_stated():
    assert [tally.sensitivity for tally in TALLIES[:3]] == [1.0, 1.0, 1.0]
    assert TALLIES[3].sensitivity == pytest.approx(math.sqrt(5) * (1 + 1 / 64))


@each_tally
def test_without_noise_to_speak_of_the_estimates_are_those_of_all_rows(exact):
    outputs, targets = rows(exact, 1, 4000)
    if isinstance(exact, Errors):  # only what is beyond 4 deviations is cut otherwise
        kept = targets.abs() < 4
        outputs, targets = outputs[kept], targets[kept]
        outputs = outputs.clamp(targets - 4, targets + 4)
    tally = replace(exact, noised=True)
    found = tally.measured(tally.counted(outputs, targets), 1e-9)
    wanted = exact.measured(exact.counted(outputs, targets))
    assert round(found.rows) == wanted.rows
    for name, value in wanted.metrics.items():
        assert found.metrics[name] == pytest.approx(value, abs=2e-3 if name == "auc" else 1e-4), name


@each_tally
def test_the_error_is_what_the_noise_makes(exact):
    """Of 60 noised sums, the values spread as their stated errors, around the true value."""
    tally = replace(exact, noised=True)
    outputs, targets = rows(exact, 2, 6000)
    counts, std = tally.counted(outputs, targets), 12.0
    true = tally.measured(counts, 1e-9)
    rng = np.random.default_rng(3)
    found = [with_errors(tally, counts + rng.normal(0, std, tally.size), std) for _ in range(60)]
    metric = found[0].headline.metric
    values = np.array([one.headline.value for one in found])
    errors = np.array([one.error for one in found])
    assert {one.headline.metric for one in found} == {metric}
    assert values.std() == pytest.approx(errors.mean(), rel=0.35)
    assert values.mean() == pytest.approx(true.metrics[metric], abs=5 * errors.mean() / math.sqrt(60) + 1e-3)
    assert np.mean([one.rows for one in found]) == pytest.approx(true.rows, rel=0.02)


@each_tally
def test_noise_that_drowns_the_rows_leaves_no_figure(exact):
    tally = replace(exact, noised=True)
    counts = tally.counted(*rows(exact, 5, 30))
    assert with_errors(tally, counts, 1000.0) is None
    assert with_errors(tally, np.zeros(tally.size), 1.0) is None
    assert with_errors(tally, np.full(tally.size, -50.0), 1.0) is None


def test_a_value_that_may_be_anything_is_not_shown():
    """About 1000 rows are clear of a noise of 32, but not how much of their spread the model explains."""
    tally = Errors(2.0, noised=True)
    found = with_errors(tally, np.array([1000.0, 0.0, 110.0, 110.0, 200.0]), 32.0)
    assert (found.rows, found.headline.metric, found.headline.value) == (1000, "r2", None)
    assert found.error is None
    same = torch.full((5000,), 0.5)
    equal = tally.measured(tally.counted(same + 0.25, same), 2.0)
    assert equal.metrics == {"r2": None, "mae": pytest.approx(0.5)}
    assert tally.measured(np.array([1000.0, 0.0, 90.0, 50.0, 200.0]), 32.0).metrics["r2"] is None
    assert tally.measured(np.array([1000.0, 0.0, 900.0, -5.0, 200.0]), 32.0).metrics["r2"] == 1.0


def test_a_class_of_which_the_noise_may_have_made_all_rows_counts_as_absent():
    tally = Recalls(3, noised=True)
    found = tally.measured(np.array([100.0, 200.0, 10.0, 300.0, 600.0, -4.0]), 5.0)
    assert found.by_class.tolist() == [400, 800, 0]
    assert found.metrics["balanced-accuracy"] == pytest.approx(0.75)
    assert found.rows == 1206
    bounded = Recalls(2, noised=True).measured(np.array([-30.0, -20.0, 500.0, 400.0]), 8.0)
    assert bounded.metrics == {"accuracy": 1.0, "balanced-accuracy": 1.0}
