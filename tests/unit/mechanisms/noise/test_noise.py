"""Noise on a grid: each draw against the ziggurat in 60 digits, the grid itself, what is refused."""

from __future__ import annotations

import tracemalloc
from functools import cache

import mpmath
import numpy as np
import pytest

from mechanisms.noise import noise as module
from mechanisms.noise.clipping import NotFinite
from mechanisms.noise.noise import add_units, gaussian, grid, noised
from mechanisms.noise.randomness import SeededWords

BLOCK = 1 << 15
LAYERS = 1024
MOST = 2**64 - 1
CENTRE = 5  # a word of layer 5 at 0: accepted


class Listed:
    """Gives the words of 64 bits it was made with, in order; all of them must be asked for."""

    def __init__(self, *words: int) -> None:
        self.words = np.array([word % 2**64 for word in words], dtype=np.uint64).view(np.uint32)
        self.given = 0

    def fill(self, out: np.ndarray) -> None:
        assert self.given + len(out) <= len(self.words)
        out[:] = self.words[self.given : self.given + len(out)]
        self.given += len(out)


def seeded(seed=0):
    return SeededWords(np.random.default_rng(seed))


def curve(x):
    return mpmath.exp(-(mpmath.mpf(x) ** 2) / 2)


def built(edge):
    """Widths and heights, from r upwards; the last height is 1 if r is right."""
    area = (edge + 2 * mpmath.log(2) / edge) * curve(edge)
    widths, heights = [area / curve(edge), edge], [mpmath.mpf(0), curve(edge)]
    while len(widths) < LAYERS:
        heights.append(heights[-1] + area / widths[-1])
        widths.append(mpmath.sqrt(-2 * mpmath.log(heights[-1])))
    return area, widths, heights, heights[-1] + area / widths[-1]


@cache
def ziggurat():
    """Area, widths and heights in 60 digits, r by the secant rule."""
    with mpmath.workdps(60):
        edge = mpmath.findroot(lambda r: built(r)[3] - 1, (mpmath.mpf("4.04539"), mpmath.mpf("4.0454")))
        area, widths, heights, top = built(edge)
        assert abs(top - 1) < 1e-40
        return area, widths, heights


def drawn(*words, std=2.0**20):
    """One draw, in units, of a std of 2^20 units, where two more candidates are 0."""
    units = np.zeros(1)
    listed = Listed(words[0], CENTRE, CENTRE, *words[1:])
    add_units(units, std, 1.0, listed)
    assert listed.given == len(listed.words)
    return float(units[0])


def word(layer, share):
    """The word of a layer at a share of its width, in [-1, 1)."""
    return (int(mpmath.mpf(share) * 2**53) << 10) | layer


def test_layers_have_equal_areas_and_the_tail_in_layer_0():
    with mpmath.workdps(60):
        area, widths, heights = ziggurat()
        assert abs(module._AREA * mpmath.mpf(2) ** -128 / area - 1) < 1e-35
        assert float(widths[1]) == module._EDGE
        assert (len(module._WIDTHS), module._WIDTHS[-1]) == (LAYERS + 1, 0)
        assert (len(module._HEIGHTS), module._HEIGHTS[-1]) == (LAYERS + 1, 1)
        off = [float(abs(got / exact - 1)) for got, exact in zip(module._WIDTHS, widths, strict=False)]
        assert max(off) < 2.0**-49
        assert np.mean(off) < 2.0**-54
        off = [float(abs(got - exact)) for got, exact in zip(module._HEIGHTS, heights, strict=False)]
        assert max(off) < 2.0**-53
        edges = np.append(module._HEIGHTS[:-1], 1.0)
        areas = module._WIDTHS[1:-1] * np.diff(edges)[1:]
        assert np.abs(areas / float(area) - 1).max() < 1e-12
        assert module._WIDTHS[0] * module._HEIGHTS[1] == pytest.approx(float(area), rel=1e-15)


def test_the_strips_cover_the_tail():
    """Their areas add up to what layer 0 holds beside r; each is at least as high as the curve."""
    edge, strip = mpmath.mpf(module._EDGE), mpmath.mpf(module._STRIP)
    assert 2 * strip + edge == pytest.approx(module._WIDTHS[0], rel=1e-15)
    for k in range(40):
        assert curve(edge + k * strip) <= curve(edge) / 2**k * (1 + 1e-14)


def test_cores_are_under_the_curve_but_hardly_smaller():
    _, widths, _ = ziggurat()
    for layer in range(LAYERS - 1):
        exact = widths[layer + 1] / widths[layer]
        assert 2**-52 < 1 - module._CORES[layer] * mpmath.mpf(2) ** -63 / exact < 2**-48
    assert module._CORES[-1] == 0


@pytest.mark.parametrize("layer", [0, 1, 2, 77, 500, 1000, 1022])
@pytest.mark.parametrize("share", [0.0, 0.3, -0.3, "core", "-core"])
def test_a_draw_in_the_core_is_the_share_of_the_width(layer, share):
    _, widths, _ = ziggurat()
    core = widths[layer + 1] / widths[layer] * (1 - mpmath.mpf(2) ** -30)
    share = {"core": core, "-core": -core}.get(share, share)
    expected = widths[layer] * share * 2**20
    assert abs(drawn(word(layer, share)) - expected) <= 0.5 + 1e-6


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("layer", [1, 2, 300, 1022, 1023])
@pytest.mark.parametrize("within", [0.001, 0.5, 0.999])
def test_beside_the_core_what_is_under_the_curve_is_accepted(sign, layer, within):
    _, widths, heights = ziggurat()
    low = widths[layer + 1] if layer < LAYERS - 1 else mpmath.mpf(0)
    high = heights[layer + 1] if layer < LAYERS - 1 else mpmath.mpf(1)
    value = low + within * (widths[layer] - low)
    start = word(layer, sign * value / widths[layer])
    level = (curve(value) - heights[layer]) / (high - heights[layer]) * 2**64
    margin = 2**34
    assert abs(drawn(start, int(level) - margin, 0, 0) - sign * value * 2**20) <= 0.5 + 1e-6
    assert drawn(start, int(level) + margin, 0, 0) == 0  # a candidate that was to spare


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("strip", [0, 1, 7, 38])
@pytest.mark.parametrize("within", [0.0, 0.37, 0.999])
def test_beyond_the_edge_the_strips_are_judged(sign, strip, within):
    edge = mpmath.mpf(module._EDGE)
    value = edge + mpmath.log(2) / edge * (strip + mpmath.mpf(within))
    start = word(0, sign * 0.97)
    words = (1 << (63 - strip)) | (1 << (63 - strip)) >> 3, int(mpmath.mpf(within) * 2**64)
    level = int(curve(value) / curve(edge) * 2**strip * 2**64)
    assert abs(drawn(start, max(0, level - 2**16), *words) - sign * value * 2**20) <= 0.5 + 1e-6
    if level + 2**16 <= MOST:
        assert drawn(start, level + 2**16, *words) == 0


@pytest.mark.parametrize(("strips", "position"), [(0, 0), (1, 0), (1 << 22, 0), (1 << 23, MOST)])
def test_no_draw_is_beyond_the_room_of_the_grid(strips, position):
    """11 std: in strip 40. One a little below it stays on the grid."""
    assert drawn(word(0, 0.97), 0, strips, position) == 0
    farthest = (word(0, 0.97), CENTRE, CENTRE, 0, 1 << 23, 37 << 58)
    out = np.zeros(1, dtype=np.float32)
    gaussian(out, 1.0, Listed(*farthest))
    assert 10.9 < out[0] < 11 < 2**23 * grid(1.0, 0.0)


def halfway(layer, near):
    """A position at which U leaves open which integer is nearest, and where the change is, in [0, 1)."""
    step = mpmath.mpf(module._WIDTHS[layer]) * 2**20 / 2**53
    position = (mpmath.floor(near) + mpmath.mpf("0.5")) / step
    return int(mpmath.floor(position)), position - mpmath.floor(position)


@pytest.mark.parametrize("near", [1000, -1001, 123456])
def test_where_54_bits_leave_it_open_more_are_drawn(near):
    with mpmath.workdps(60):
        position, change = halfway(600, near)
        digit = int(change * 2**64)
        start = (position << 10) | 600
        assert drawn(start, digit - 1) == near
        assert drawn(start, digit + 1) == near + 1
        assert drawn(start, digit, 0) == near
        assert drawn(start, digit, MOST) == near + 1


def test_a_draw_near_the_middle_of_two_that_is_settled_needs_no_more():
    with mpmath.workdps(60):
        position, _ = halfway(600, 1000)
    assert drawn(((position - 1) << 10) | 600) == 1000
    assert drawn(((position + 1) << 10) | 600) == 1001


@pytest.mark.parametrize("sign", [1, -1])
def test_more_bits_are_drawn_for_the_tail_too(sign):
    with mpmath.workdps(60):
        edge, strip = mpmath.mpf(module._EDGE), mpmath.mpf(module._STRIP)
        position = ((mpmath.floor(edge * 2**20) + mpmath.mpf("10.5")) / 2**20 - edge) / strip * 2**64
        start = word(0, sign * 0.97), 0, 1 << 63
        low = int(mpmath.floor(edge * 2**20)) + 10
        digit = int((position - mpmath.floor(position)) * 2**64)
        assert drawn(*start, int(position), digit - 1) == sign * low
        assert drawn(*start, int(position), digit + 1) == sign * (low + 1)


def test_too_many_rejected_are_all_drawn_again():
    top = word(LAYERS - 1, 0.99)
    again = word(5, 0.5), CENTRE, CENTRE
    units = np.zeros(1)
    listed = Listed(top, top, top, *[MOST] * 9, *again)
    add_units(units, 2.0**20, 1.0, listed)
    assert listed.given == len(listed.words)
    assert units[0] == round(module._WIDTHS[5] * 2**19)


def test_rejected_draws_are_replaced_by_spare_ones_in_order():
    top, first, last = word(LAYERS - 1, 0.99), word(5, 0.25), word(5, 0.5)
    units = np.zeros(2)
    add_units(units, 2.0**20, 1.0, Listed(top, first, top, last, *[MOST] * 6))
    assert list(units) == [round(module._WIDTHS[5] * share * 2**20) for share in (0.5, 0.25)]


def test_a_seed_repeats_the_noise():
    units = np.zeros(6)
    add_units(units, 2.0**20, 1.0, seeded(7))
    assert units.tolist() == [-1025825.0, -277604.0, -856124.0, 458341.0, 1181782.0, -264960.0]


def test_noise_far_finer_than_the_grid_is_mostly_nothing():
    units = np.zeros(1000)
    add_units(units, 0.004, 1.0, seeded())
    assert not units.any()


def test_noise_too_coarse_for_the_bits_is_refused():
    with pytest.raises(ValueError, match=r"noise_std = 5000000000\.0 is not allowed"):
        add_units(np.zeros(1), 5e9, 1.0, seeded())


@pytest.mark.parametrize(
    ("noise_std", "radius", "expected"),
    [
        (1.0, 0.0, 2.0**-19),  # 11 < 16
        (1.0, 4.9, 2.0**-19),
        (1.0, 5.0, 2.0**-18),  # exactly 16 would not do
        (1e-9, 1.0, 2.0**-22),
        (0.09, 0.0, 2.0**-23),
        (2.0**50, 0.0, 2.0**31),
    ],
)
def test_the_grid_has_room_for_radius_and_noise(noise_std, radius, expected):
    assert grid(noise_std, radius) == expected


@pytest.mark.parametrize(
    ("noise_std", "radius", "said"),
    [
        (0, 1, "noise_std = 0 is not allowed: a number above 0"),
        (-1.0, 1, "noise_std = -1.0 is not allowed"),
        (np.nan, 1, "noise_std = nan is not allowed"),
        (1, -1.0, "radius = -1.0 is not allowed: a number of at least 0"),
        (1e-36, 0, "noise_std = 1e-36 with radius = 0 is not allowed: beyond float32"),
        (1, 1e38, r"noise_std = 1 with radius = 1e\+38 is not allowed: beyond float32"),
    ],
)
def test_noise_without_a_grid_is_refused(noise_std, radius, said):
    with pytest.raises(ValueError, match=said):
        grid(noise_std, radius)
    with pytest.raises(ValueError, match=said):
        noised(np.zeros(3, dtype=np.float32), noise_std, radius, seeded())


@pytest.mark.parametrize("size", [1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_noised_is_the_truncated_vector_plus_noise_that_does_not_hang_on_it(size):
    values = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    values *= np.float32(0.99 / np.linalg.norm(values))
    before = values.copy()
    spacing = grid(0.5, 1.0)
    noise = noised(np.zeros_like(values), 0.5, 1.0, seeded())
    got = noised(values, 0.5, 1.0, seeded())
    assert got.dtype == np.float32
    assert np.array_equal(values, before)
    truncated = np.trunc(values.astype(np.float64) / spacing) * spacing
    assert np.array_equal(got.astype(np.float64), truncated + noise.astype(np.float64))
    assert np.array_equal(got / spacing, np.rint(got / spacing))
    assert np.count_nonzero(noise) >= size - 1


def test_gaussian_is_the_noise_alone():
    out = np.full(BLOCK + 5, 7, dtype=np.float32)
    gaussian(out, 3.0, seeded())
    again = np.zeros(len(out))
    add_units(again, 3.0, grid(3.0, 0.0), seeded())
    assert np.array_equal(out, again * grid(3.0, 0.0))
    assert out.std() == pytest.approx(3.0, rel=0.03)


def test_noise_is_added_to_units():
    """Units of more than 2^24 stay exact."""
    units = np.full(3, 2.0**40)
    add_units(units, 1.0, 2.0**-10, seeded())
    assert np.array_equal(units, np.rint(units))
    assert np.abs(units - 2.0**40).max() < 11 * 2**10
    assert (units != 2.0**40).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad):
    with pytest.raises(NotFinite, match="vector holds a NaN or an infinity"):
        noised(np.array([0, bad], dtype=np.float32), 1.0, 1.0, seeded())


def test_a_vector_that_was_not_clipped_is_refused():
    values = np.array([0.6, 0.8], dtype=np.float32)
    noised(values, 1.0, 1.0000001, seeded())
    with pytest.raises(ValueError, match=r"vector has an L2 norm of 1; allowed: at most radius = 0\.9999"):
        noised(values, 1.0, 0.9999, seeded())
    with pytest.raises(ValueError, match=r"vector has shape \(0,\)"):
        noised(values[:0], 1.0, 1.0, seeded())


def test_noise_needs_one_copy_of_the_vector_and_a_megabyte():
    values = np.zeros(2_000_000, dtype=np.float32)
    tracemalloc.start()
    try:
        noised(values, 1.0, 1.0, seeded())
        assert tracemalloc.get_traced_memory()[1] <= values.nbytes + 2_000_000
    finally:
        tracemalloc.stop()
