"""Counts with noise: how far one row moves them, and that their estimates are those of all rows, or none."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mechanisms.noised_counts import COARSEST
from node.training.noised_tallies import noised, noised_measure
from node.training.tallies import Confusion, Errors, Recalls, Scores

TALLIES = [Confusion(3, ()), Recalls(3), Scores(()), Errors(2.0)]
IDS = [type(tally).__name__ for tally in TALLIES]


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


@pytest.mark.parametrize("exact", TALLIES, ids=IDS)
@pytest.mark.parametrize("unit", [COARSEST, 2.0**-11])
def test_a_row_moves_the_counts_by_at_most_the_sensitivity(exact, unit):
    """Each row of many is taken out, ordinary and extreme ones; the bound is reached, or almost."""
    tally, moved = noised(exact), []
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


def test_the_sensitivities_are_those_that_are_stated():
    assert [noised(tally).sensitivity for tally in TALLIES[:3]] == [1.0, 1.0, 1.0]
    assert noised(TALLIES[3]).sensitivity == pytest.approx(math.sqrt(5) * (1 + 1 / 64))


@pytest.mark.parametrize("exact", TALLIES, ids=IDS)
def test_without_noise_to_speak_of_the_estimates_are_those_of_all_rows(exact):
    outputs, targets = rows(exact, 1, 4000)
    if isinstance(exact, Errors):  # only what is beyond 4 deviations is cut otherwise
        kept = targets.abs() < 4
        outputs, targets = outputs[kept], targets[kept]
        outputs = outputs.clamp(targets - 4, targets + 4)
    found = noised(exact).estimated(noised(exact).counted(outputs, targets), 1e-9)
    wanted = exact.measured(exact.counted(outputs, targets))
    assert round(found.rows) == wanted.rows
    for name, value in wanted.metrics.items():
        assert found.metrics[name] == pytest.approx(value, abs=2e-3 if name == "auc" else 1e-4), name


@pytest.mark.parametrize("exact", TALLIES, ids=IDS)
def test_the_error_is_what_the_noise_makes(exact):
    """Of 60 noised sums, the values spread as their stated errors, around the true value."""
    tally = noised(exact)
    outputs, targets = rows(exact, 2, 6000)
    counts, std = tally.counted(outputs, targets), 12.0
    true = tally.estimated(counts, 1e-9)
    rng = np.random.default_rng(3)
    found = [noised_measure(tally, counts + rng.normal(0, std, tally.size), std) for _ in range(60)]
    metric = found[0].headline.metric
    values = np.array([one.headline.value for one in found])
    errors = np.array([one.error for one in found])
    assert {one.headline.metric for one in found} == {metric}
    assert values.std() == pytest.approx(errors.mean(), rel=0.35)
    assert values.mean() == pytest.approx(true.metrics[metric], abs=5 * errors.mean() / math.sqrt(60) + 1e-3)
    assert np.mean([one.rows for one in found]) == pytest.approx(true.rows, rel=0.02)


def test_all_members_find_the_same_figure():
    exact = TALLIES[0]
    counts = noised(exact).counted(*rows(exact, 4, 3000)) + 5.5
    assert noised_measure(noised(exact), counts, 8.0) == noised_measure(noised(exact), counts.copy(), 8.0)


@pytest.mark.parametrize("exact", TALLIES, ids=IDS)
def test_noise_that_drowns_the_rows_leaves_no_figure(exact):
    tally = noised(exact)
    counts = tally.counted(*rows(exact, 5, 30))
    assert noised_measure(tally, counts, 1000.0) is None
    assert noised_measure(tally, np.zeros(tally.size), 1.0) is None
    assert noised_measure(tally, np.full(tally.size, -50.0), 1.0) is None


def test_a_value_that_may_be_anything_is_not_shown():
    """About 1000 rows are clear of a noise of 32, but not how much of their spread the model explains."""
    tally = noised(Errors(2.0))
    found = noised_measure(tally, np.array([1000.0, 0.0, 110.0, 110.0, 200.0]), 32.0)
    assert (found.rows, found.headline.metric, found.headline.value) == (1000, "r2", None)
    assert found.error is None


def test_a_class_of_which_the_noise_may_have_made_all_rows_counts_as_absent():
    tally = noised(Recalls(3))
    found = tally.estimated(np.array([100.0, 200.0, 10.0, 300.0, 600.0, -4.0]), 5.0)
    assert found.by_class.tolist() == [400, 800, 0]
    assert found.metrics["balanced-accuracy"] == pytest.approx(0.75)
    assert found.rows == 1206


def test_shares_stay_between_0_and_1():
    tally = noised(Recalls(2))
    found = tally.estimated(np.array([-30.0, -20.0, 500.0, 400.0]), 8.0)
    assert found.metrics == {"accuracy": 1.0, "balanced-accuracy": 1.0}


def test_equal_targets_have_no_r2():
    tally = noised(Errors(2.0))
    same = torch.full((5000,), 0.5)
    found = tally.estimated(tally.counted(same + 0.25, same), 2.0)
    assert found.metrics["r2"] is None
    assert found.metrics["mae"] == pytest.approx(0.5)


def test_a_tally_of_unknown_sensitivity_is_refused():
    with pytest.raises(TypeError, match="has no counts with a known sensitivity"):
        noised(object())
