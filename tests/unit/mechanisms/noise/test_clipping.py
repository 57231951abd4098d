"""Clipping: never above the radius in exact arithmetic, the direction kept, nothing copied without need."""

from fractions import Fraction

import numpy as np
import pytest

from mechanisms.noise.clipping import (
    NotFinite,
    clip_elements,
    clip_l2,
    clip_layers,
    clip_rows,
    layers_radius,
    norm,
)
from tests.unit.mechanisms.settings import refused, vector

BLOCK = 1 << 15


def test_norm():
    assert norm(vector(3, 4)) == 5
    assert norm(vector(0, 0)) == 0
    assert norm(vector(3e38, 4e37)) == pytest.approx(3.02655e38, rel=1e-5)  # squares are beyond float32
    for size in (1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7):
        values = np.random.default_rng(size).standard_normal(size).astype(np.float32)
        assert norm(values) == pytest.approx(np.linalg.norm(values.astype(np.float64)), rel=1e-12), size


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad):
    values = np.zeros(BLOCK + 3, dtype=np.float32)
    values[-1] = bad
    for call in (norm, lambda v: clip_l2(v, 1), lambda v: clip_elements(v, 1)):
        with pytest.raises(NotFinite, match="vector holds a NaN or an infinity"):
            call(values)
    with pytest.raises(NotFinite, match="rows hold"):
        clip_rows(np.array([[1.0, 2.0], [bad, 0.0]], np.float32), 1.0)


@pytest.mark.parametrize(
    "call",
    [norm, lambda v: clip_l2(v, 1), lambda v: clip_elements(v, 1), lambda v: clip_layers(v, [1], [1.0])],
)
def test_what_is_no_vector_is_refused(call):
    with pytest.raises(ValueError, match=r"vector has shape \(0,\); allowed: \(d,\) with d at least 1"):
        call(vector())
    with pytest.raises(ValueError, match=r"vector has shape \(2, 2\)"):
        call(np.zeros((2, 2), dtype=np.float32))
    with pytest.raises(TypeError, match=r"vector holds float64; allowed: float32"):
        call(np.zeros(2))


def test_a_vector_within_is_returned_itself_and_a_longer_one_is_scaled_and_stays_as_it_was():
    values = vector(3, 4)
    assert clip_l2(values, 5.0001) is values
    assert clip_l2(vector(0, 0), 1).tolist() == [0, 0]
    clipped = clip_l2(values, 1)
    assert clipped.dtype == np.float32
    assert clipped == pytest.approx([0.6, 0.8], rel=1e-6)
    assert values.tolist() == [3, 4]


def test_a_radius_at_the_rounded_norm_is_not_exceeded():
    """The norm in float64 is as often below the exact one as above."""
    for seed in range(40):
        values = np.random.default_rng(seed).standard_normal(50).astype(np.float32)
        exact = sum(Fraction(float(value)) ** 2 for value in clip_l2(values, norm(values)))
        assert exact <= Fraction(norm(values)) ** 2, seed


def test_numbers_at_the_ends_of_float32():
    huge = np.full(4, 3.4e38, dtype=np.float32)
    assert clip_l2(huge, 1e-20) == pytest.approx(np.full(4, 5e-21), rel=1e-6)
    with pytest.raises(ValueError, match=r"radius = 1e-40 is not allowed: at least 7\.88"):
        clip_l2(huge, 1e-40)
    for radius in (0, -1.0, np.nan, np.inf):
        refused(lambda radius: clip_l2(vector(1), radius), radius=radius)


def test_layers_are_clipped_each_to_its_own_radius():
    values = vector(3, 4, 0.5, 6, 8)
    clipped = clip_layers(values, [2, 1, 2], [1, 1, 5])
    assert clipped == pytest.approx([0.6, 0.8, 0.5, 3, 4], rel=1e-6)
    assert values.tolist() == [3, 4, 0.5, 6, 8]
    assert norm(clipped) <= layers_radius([1, 1, 5])
    assert clip_layers(values, [2, 3], [6, 11]) is values


def test_the_radius_of_all_layers():
    assert layers_radius([3, 4]) == pytest.approx(5, rel=1e-12)
    for radius in range(1, 40):  # rounded up, never down
        assert Fraction(layers_radius([1, radius])) ** 2 >= 1 + radius**2
    with pytest.raises(ValueError, match="radii is empty"):
        layers_radius([])
    with pytest.raises(ValueError, match=r"radii = 0 is not allowed"):
        layers_radius([1, 0])


@pytest.mark.parametrize(
    ("sizes", "radii", "said"),
    [
        ([1, 1], [1.0], "radii has 1 values for 2 layers"),
        ([1, 2], [1.0, 1.0], "sizes add up to 3 for a vector of 2"),
        ([], [], "sizes add up to 0 for a vector of 2"),
        ([2, 0], [1.0, 1.0], "sizes = 0 is not allowed"),
    ],
)
def test_layers_that_do_not_fit_are_refused(sizes, radii, said):
    with pytest.raises(ValueError, match=said):
        clip_layers(vector(1, 2), sizes, radii)


@pytest.mark.parametrize("bound", [0.1, 0.3, 1.0, 2.5, 1e-45, 1e39])
def test_elements_never_exceed_the_bound(bound):
    values = vector(-3e38, -0.2, 0.05, 0.1, 7)
    clipped = clip_elements(values, bound)
    assert np.abs(clipped.astype(np.float64)).max() <= bound
    assert clipped == pytest.approx(np.clip(values.astype(np.float64), -bound, bound), rel=1e-6)
    assert clipped is not values


def test_rows_are_clipped_each_by_itself():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [-30.0, 40.0]], np.float32)
    before = rows.copy()
    clipped = clip_rows(rows, 2.0)
    assert clipped == pytest.approx(np.array([[1.2, 1.6], [0.3, 0.4], [0, 0], [-1.2, 1.6]]))
    assert clipped.dtype == np.float32
    np.testing.assert_array_equal(rows, before)
    assert not np.shares_memory(rows, clip_rows(rows, 1e9))


def test_no_clipped_row_is_longer_than_the_radius():
    rows = np.random.default_rng(0).normal(0, 5, (500, 3, 7)).astype(np.float32)
    for radius in (0.1, 1.0, 20.0):
        exact = clip_rows(rows, radius).reshape(500, -1).astype(np.longdouble)
        assert np.sqrt((exact**2).sum(axis=1)).max() <= radius
