"""Robust aggregators: against slow second implementations, and at their breakdown points."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import trim_mean

from mechanisms.noise.clipping import NotFinite
from mechanisms.servers.robust import (
    bulyan,
    centred_clipping,
    coordinate_median,
    finite_rows,
    geometric_median,
    krum,
    multi_krum,
    norm_bounded_mean,
    squared_distances,
    trimmed_mean,
    weak_dp,
)
from tests.unit.mechanisms.settings import words


def updates(k: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((k, d)).astype(np.float32)


def lied(rows: np.ndarray, liars: int, value: float) -> np.ndarray:
    """The last `liars` rows send `value` everywhere."""
    changed = rows.copy()
    changed[len(rows) - liars :] = np.float32(value)
    return changed


def slow_scores(rows: np.ndarray, f: int) -> list[float]:
    exact = rows.astype(np.float64)
    scores = []
    for i, own in enumerate(exact):
        away = sorted(float(((own - other) ** 2).sum()) for j, other in enumerate(exact) if j != i)
        scores.append(sum(away[: max(1, len(rows) - f - 2)]))
    return scores


def slow_bulyan(rows: np.ndarray, f: int) -> np.ndarray:
    left, picked = list(range(len(rows))), []
    for _ in range(len(rows) - 2 * f):
        best = left[int(np.argmin(slow_scores(rows[left], f)))]
        picked.append(best)
        left.remove(best)
    chosen, kept = rows[sorted(picked)].astype(np.float64), len(rows) - 4 * f
    result = []
    for values in chosen.T:
        nearest = np.argsort(np.abs(values - np.median(values)))
        result.append(np.mean(values[nearest[:kept]]))
    return np.array(result)


@pytest.mark.parametrize(("k", "trimmed"), [(1, 0), (2, 0), (5, 2), (8, 3), (10, 4), (7, 1)])
def test_the_median_is_numpys_and_the_trimmed_mean_scipys(k: int, trimmed: int) -> None:
    rows = updates(k, 5000, k)
    np.testing.assert_allclose(coordinate_median(rows), np.median(rows, axis=0), rtol=1e-6)
    expected = trim_mean(rows.astype(np.float64), (trimmed + 1e-9) / k, axis=0)
    np.testing.assert_allclose(trimmed_mean(rows, trimmed), expected, rtol=1e-4, atol=1e-6)


@given(st.integers(0, 10_000), st.integers(7, 14))
@settings(max_examples=30)
def test_krum_and_bulyan_as_written_down(seed: int, k: int) -> None:
    rows = updates(k, 6, seed)
    f = (k - 3) // 2
    scores = slow_scores(rows, f)
    np.testing.assert_array_equal(krum(rows, f), rows[int(np.argmin(scores))])
    best = np.argsort(scores, kind="stable")[: k - f - 2]
    np.testing.assert_allclose(multi_krum(rows, f, k - f - 2), rows[best].mean(axis=0), atol=1e-6)
    few = (k - 3) // 4
    np.testing.assert_allclose(bulyan(rows, few), slow_bulyan(rows, few), atol=1e-5)


def test_distances_are_those_of_the_differences() -> None:
    rows = updates(6, 100_000, 0)
    exact = rows.astype(np.float64)
    expected = [[((a - b) ** 2).sum() for b in exact] for a in exact]
    np.testing.assert_allclose(squared_distances(rows), expected, rtol=1e-10)


@pytest.mark.parametrize("k", [3, 4, 9, 20])
def test_at_the_geometric_median_the_pulls_cancel(k: int) -> None:
    rows = updates(k, 50, k)
    point = geometric_median(rows).astype(np.float64)
    away = rows - point
    pulls = away / np.linalg.norm(away, axis=1, keepdims=True)
    assert np.linalg.norm(pulls.sum(axis=0)) < 1e-4 * k
    sums = [np.linalg.norm(rows - geometric_median(rows, steps), axis=1).sum() for steps in (1, 2, 4, 8, 16)]
    assert all(after <= before + 1e-5 for before, after in pairwise(sums)), "no step is worse"


def test_a_geometric_median_that_is_one_of_the_updates() -> None:
    here = np.array([7, -3], np.float32)
    rows = here + np.array([[0, 0], [0, 0], [0, 0], [4, 0], [0, 4]], np.float32)
    np.testing.assert_array_equal(geometric_median(rows), here)
    np.testing.assert_array_equal(geometric_median(rows, 1), here)  # and never left it
    np.testing.assert_array_equal(geometric_median(np.ones((4, 3), np.float32)), np.ones(3))
    triangle = np.array([[0, 0], [1, 0], [-1, 0], [0, 1]], np.float32)  # each coordinate's median: no update
    assert np.linalg.norm(triangle - geometric_median(triangle), axis=1).sum() <= 3 + 1e-6


def test_the_iteration_leaves_an_update_that_does_not_hold_it() -> None:
    # At the first one the others' directions add up to 1.79, and it holds with 1.
    rows = np.array([[0, 0], [1, 0.1], [1, -0.1], [-0.1, 1], [-0.1, -1]], np.float32)
    np.testing.assert_array_equal(coordinate_median(rows), [0, 0])
    found = geometric_median(rows)
    least = min(float(np.linalg.norm(rows - [x, 0], axis=1).sum()) for x in np.linspace(0, 1, 10_001))
    assert found[0] > 0.01
    assert np.linalg.norm(rows - found, axis=1).sum() <= least + 1e-6


def test_norms_are_bounded_before_the_mean() -> None:
    rows = updates(7, 300, 1)
    scaled = [row * min(1, 5.0 / np.linalg.norm(row)) for row in rows.astype(np.float64)]
    np.testing.assert_allclose(norm_bounded_mean(rows, 5.0), np.mean(scaled, axis=0), atol=1e-6)
    np.testing.assert_allclose(norm_bounded_mean(rows, 1e6), rows.mean(axis=0), atol=1e-6)
    np.testing.assert_array_equal(norm_bounded_mean(np.zeros((3, 4), np.float32), 1.0), np.zeros(4))
    many = updates(5, 100_000, 2) + 10
    noise = weak_dp(many, 1e6, 0.25, words()) - norm_bounded_mean(many, 1e6)
    assert noise.std() == pytest.approx(0.25, rel=0.02), "weak DP adds noise"
    assert abs(noise.mean()) < 0.004


def test_centred_clipping_as_written_down() -> None:
    rows, centre = updates(6, 40, 4), updates(1, 40, 5)[0]
    away = rows.astype(np.float64) - centre
    norms = np.linalg.norm(away, axis=1)
    expected = centre + np.mean([v * min(1, 3 / n) for v, n in zip(away, norms, strict=True)], axis=0)
    once = centred_clipping(rows, centre, 3.0)
    np.testing.assert_allclose(once, expected, atol=1e-6)
    twice = centred_clipping(rows, centre, 3.0, 2)
    np.testing.assert_allclose(twice, centred_clipping(rows, once, 3.0), atol=1e-6)


BREAKING = {
    "coordinate median": (coordinate_median, 11, 5),
    "trimmed mean": (lambda rows: trimmed_mean(rows, 3), 11, 3),
    "geometric median": (geometric_median, 11, 5),
    "krum": (lambda rows: krum(rows, 4), 11, 4),
    "multi-krum": (lambda rows: multi_krum(rows, 4, 5), 11, 4),
    "bulyan": (lambda rows: bulyan(rows, 2), 11, 2),
}


@pytest.mark.parametrize("name", BREAKING)
@pytest.mark.parametrize("value", [1e6, -1e20, 3e38])
def test_up_to_its_breakdown_point_lies_do_not_carry_it_away(name: str, value: float) -> None:
    aggregate, k, liars = BREAKING[name]
    honest = updates(k, 30, 6)
    reach = 4 * np.abs(honest).max() * np.sqrt(30)
    assert np.linalg.norm(aggregate(lied(honest, liars, value))) < reach


@pytest.mark.parametrize(
    ("name", "liars"),
    [("coordinate median", 6), ("trimmed mean", 4), ("geometric median", 6), ("krum", 6), ("multi-krum", 6)],
)
def test_beyond_its_breakdown_point_lies_that_agree_carry_it_away(name: str, liars: int) -> None:
    aggregate, k, _ = BREAKING[name]
    assert np.linalg.norm(aggregate(lied(updates(k, 30, 6), liars, 1e6))) > 1e4


def test_bulyan_keeps_one_coordinate_that_krum_would_let_go() -> None:
    honest = updates(11, 5000, 7)
    hidden = lied(honest, 0, 0)
    hidden[-2:] = honest[:-2].mean(axis=0)
    hidden[-2:, 0] += 40  # near in all other coordinates: the distance looks ordinary
    assert abs(krum(hidden, 2)[0]) > 30
    assert abs(bulyan(hidden, 2)[0]) < 3


@pytest.mark.parametrize("liars", [1, 5, 9])
@pytest.mark.parametrize("value", [1e6, -3e38])
def test_a_bounded_norm_bounds_what_any_number_of_liars_moves(liars: int, value: float) -> None:
    honest, bound = updates(10, 30, 8), 2.0
    lying, centre = lied(honest, liars, value), np.zeros(30, np.float32)
    moved = norm_bounded_mean(lying, bound) - norm_bounded_mean(honest, bound)
    assert np.linalg.norm(moved) <= 2 * liars * bound / 10 + 1e-5
    moved = centred_clipping(lying, centre, bound) - centred_clipping(honest, centre, bound)
    assert np.linalg.norm(moved) <= 2 * liars * bound / 10 + 1e-5


@pytest.mark.parametrize("name", [name for name in BREAKING if name != "bulyan"])
def test_the_order_of_clients_does_not_matter(name: str) -> None:
    """But for bulyan's last picks, which have one neighbour each: of two that are each other's, either."""
    rows, (aggregate, _, _) = updates(11, 40, 9), BREAKING[name]
    shuffled = rows[np.random.default_rng(0).permutation(11)]
    np.testing.assert_allclose(aggregate(rows), aggregate(shuffled), atol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda rows: trimmed_mean(rows, 3), ValueError, "trimmed = 3 is not allowed: 0 to 2"),
        (lambda rows: trimmed_mean(rows, True), ValueError, "trimmed = True"),
        (lambda rows: krum(rows, 2), ValueError, "attackers = 2 is not allowed: 0 to 1; there must be 2 f"),
        (lambda rows: krum(rows[:2], 0), ValueError, "none, as there are only 2 updates"),
        (lambda rows: multi_krum(rows, 1, 4), ValueError, "chosen = 4 is not allowed: 1 to 3"),
        (lambda rows: bulyan(rows, 1), ValueError, "attackers = 1 is not allowed: 0 to 0; there must be 4 f"),
        (lambda rows: norm_bounded_mean(rows, 0.0), ValueError, "norm_bound = 0.0"),
        (lambda rows: geometric_median(rows, 0), ValueError, "steps = 0"),
        (lambda rows: centred_clipping(rows, rows[0, :2], 1.0), ValueError, r"centre has shape \(2,\)"),
        (lambda rows: coordinate_median(rows.astype(np.float64)), TypeError, "float64"),
        (lambda rows: coordinate_median(rows[0]), ValueError, r"shape \(3,\)"),
        (lambda rows: coordinate_median(rows[:0]), ValueError, r"shape \(0, 3\)"),
    ],
)
def test_what_can_not_be_is_refused(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call(updates(6, 3, 0))
    rows = updates(4, 3, 0)
    rows[1, 2], rows[3, 0] = np.nan, np.inf
    assert finite_rows(rows).tolist() == [True, False, True, False]
    with pytest.raises(NotFinite, match="drop those clients first"):
        coordinate_median(rows)
