"""Noise on a grid: each draw against the ziggurat in 60 digits, the grid itself, what is refused."""

import tracemalloc
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest

from mechanisms.noise import noise as module
from mechanisms.noise.clipping import NotFinite
from mechanisms.noise.noise import add_units, fill_gaussian, grid, noised
from tests.unit.mechanisms.settings import words

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


def exact(number):
    return mpmath.mpf(number.numerator) / number.denominator


def test_layers_are_those_of_the_ziggurat():
    """Built a second way, from the equation for r, in 60 digits."""
    with mpmath.workdps(60):
        area, widths, heights = ziggurat()
        assert float(widths[1]) == module._EDGE
        assert (len(module._WIDTHS), module._WIDTHS[-1]) == (LAYERS + 1, 0)
        off = [float(abs(got / width - 1)) for got, width in zip(module._WIDTHS, widths, strict=False)]
        assert max(off) < 2.0**-35
        got = [mpmath.mpf(height) / 2**256 for height in module._EXACT_HEIGHTS]
        off = [float(abs(height - other)) for height, other in zip(got, heights, strict=False)]
        assert max(off) < 2.0**-39
        assert abs(module._WIDTHS[0] * got[1] / area - 1) < 2.0**-43


def test_what_makes_the_sampler_exact():
    """Conditions 1 to 3 of the module's proof, in fractions and in 100 digits."""
    widths = [Fraction(width) for width in module._WIDTHS[:-1]]
    heights = [Fraction(height, 2**256) for height in module._EXACT_HEIGHTS]
    assert heights[0] == 0
    assert 1 < heights[-1] < 1 + Fraction(1, 2**40)
    areas = [width * (high - low) for width, low, high in zip(widths, heights[:-1], heights[1:], strict=True)]
    assert max(areas) / min(areas) < 1 + Fraction(1, 2**240)
    assert widths[0] == Fraction(module._EDGE) + 2 * Fraction(module._STRIP)
    with mpmath.workdps(100):
        for width, height in zip(widths[1:], heights[1:-1], strict=True):
            assert curve(exact(width)) <= exact(height)
        edge, strip = mpmath.mpf(module._EDGE), mpmath.mpf(module._STRIP)
        for k in range(42):
            assert curve(edge + k * strip) <= exact(heights[1]) / 2**k


def test_cores_are_under_the_curve_but_hardly_smaller():
    """Also at the far end of the position's last digit, 2^-53 of the width."""
    with mpmath.workdps(100):
        for layer in range(LAYERS - 1):
            core = mpmath.mpf(module._CORES[layer]) / 2**63
            farthest = module._WIDTHS[layer] * (core + mpmath.mpf(2) ** -53)
            assert curve(farthest) > mpmath.mpf(module._EXACT_HEIGHTS[layer + 1]) / 2**256 or layer == 0
            assert core * module._WIDTHS[layer] > module._WIDTHS[layer + 1] * (1 - 2**-46)
    assert module._CORES[0] * module._WIDTHS[0] < module._EDGE * 2**63
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
    place = (1 << (63 - strip)) | (1 << (63 - strip)) >> 3, int(mpmath.mpf(within) * 2**64)
    level = int(curve(value) / curve(edge) * 2**strip * 2**64)
    margin = max(4, level >> 40)
    assert abs(drawn(start, max(0, level - margin), *place) - sign * value * 2**20) <= 0.5 + 1e-6
    if level + margin <= MOST:
        assert drawn(start, level + margin, *place) == 0


@pytest.mark.parametrize(("strips", "position"), [(0, 0), (1, 0), (1 << 22, 0), (1 << 23, MOST)])
def test_no_draw_is_beyond_the_room_of_the_grid(strips, position):
    """11 std: in strip 40. One a little below it stays on the grid."""
    assert drawn(word(0, 0.97), 0, strips, position) == 0
    farthest = (word(0, 0.97), CENTRE, CENTRE, 0, 1 << 23, 37 << 58)
    out = np.zeros(1, dtype=np.float32)
    fill_gaussian(out, 1.0, Listed(*farthest))
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
        assert drawn(((position - 1) << 10) | 600) == near, "settled: needs no more"
        assert drawn(((position + 1) << 10) | 600) == near + 1


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


def nearest_chance(layer, position):
    """The word for the height at which the curve crosses the layer, and its next 64 digits, at a position."""
    with mpmath.workdps(100):
        low, high = (mpmath.mpf(height) / 2**256 for height in module._EXACT_HEIGHTS[layer : layer + 2])
        x = module._WIDTHS[layer] * mpmath.mpf(position) / 2**53
        chance = (curve(x) - low) / (high - low) * 2**64
        return int(chance), int((chance - mpmath.floor(chance)) * 2**64)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("layer", [1, 2, 300, 1022, 1023])
def test_where_doubles_cannot_decide_more_digits_do(layer, sign):
    """The curve and the height agree in all 64 bits that were drawn; the digits after them differ."""
    inside = (3 * module._WIDTHS[layer + 1] + module._WIDTHS[layer]) / 4
    position = int(sign * inside / module._WIDTHS[layer] * 2**53)
    start = (position << 10) | layer
    value = round(module._WIDTHS[layer] * position / 2**53 * 2**20)
    chance, digits = nearest_chance(layer, position)
    assert drawn(start, chance, 0, 0, digits - 2**40, 0) == value  # the last word: digits of the position
    assert drawn(start, chance, 0, 0, digits + 2**40, 0) == 0


def test_where_the_digits_drawn_next_decide_nothing_more_are_drawn():
    layer, position = 300, int(module._WIDTHS[301] / module._WIDTHS[300] * 2**53) + 2**20
    chance, digits = nearest_chance(layer, position)
    value = round(module._WIDTHS[layer] * position / 2**53 * 2**20)
    start = (position << 10) | layer
    assert drawn(start, chance, 0, 0, digits, 0, 0, 0) == value
    assert drawn(start, chance, 0, 0, digits, 0, MOST, 0) == 0


def test_every_decision_may_be_exact(monkeypatch):
    """If doubles are never trusted, the same words give the same noise."""
    units, exactly = np.zeros(30_000), np.zeros(30_000)
    add_units(units, 2.0**20, 1.0, words(11))
    monkeypatch.setattr(module, "_DOUBT", 2.0)
    add_units(exactly, 2.0**20, 1.0, words(11))
    assert np.array_equal(units, exactly)


@pytest.mark.parametrize("strip", [0, 3, 20, 39])
def test_the_tail_is_decided_exactly_too(strip):
    """Far out the curve is below 2^-30 of its strip, so that 64 bits are too few."""
    with mpmath.workdps(100):
        x = module._EDGE + mpmath.mpf(module._STRIP) * (strip + mpmath.mpf(0.5))
        top = mpmath.mpf(module._EXACT_HEIGHTS[1]) / 2**256
        chance = curve(x) / top * 2**strip * 2**64
        first, digits = int(chance), int((chance - mpmath.floor(chance)) * 2**64)
        value = round(float(x * 2**20))
    start = word(0, 0.97), first, 1 << (63 - strip), 1 << 63
    assert drawn(*start, digits - 2**44, 0) == value
    assert drawn(*start, digits + 2**44, 0) == 0


def test_digits_of_a_position_are_drawn_once():
    """A position between two integers and at the curve: its next digits settle both."""
    layer = 300
    low, high = module._WIDTHS[layer + 1], module._WIDTHS[layer]
    with mpmath.workdps(100):
        position, change = halfway(layer, int((low + high) / 2 * 2**20))
        digit = int(change * 2**64) + 5
        floor, top = (mpmath.mpf(height) / 2**256 for height in module._EXACT_HEIGHTS[layer : layer + 2])
        x = module._WIDTHS[layer] * (position + mpmath.mpf(digit) / 2**64) / 2**53
        chance = (curve(x) - floor) / (top - floor) * 2**64
        first, digits = int(chance), int((chance - mpmath.floor(chance)) * 2**64)
        value = int((low + high) / 2 * 2**20) + 1
    start = (position << 10) | layer
    assert drawn(start, digit, first, 0, 0, digits - 2**44, 0) == value
    assert drawn(start, digit, first, 0, 0, digits + 2**44, 0) == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_where_the_tail_begins_is_decided_exactly(sign):
    """Beside the edge, in layer 0: one position is under the curve or not, the next stands for the tail."""
    share = Fraction(module._EDGE) / Fraction(module._WIDTHS[0]) * 2**53
    position = int(share)
    change = int((share - position) * 2**64)
    first = position - 1 if sign > 0 else -position
    inside, across, beyond = ((first + sign * step) << 10 for step in range(3))
    tail, farther = (0, 1 << 63, 0), (0, 1 << 62, 0)  # at the very edge: strip 0, position 0
    near, strip = round(module._EDGE * 2**20), round((module._EDGE + module._STRIP) * 2**20)
    assert drawn(inside, *farther) == sign * near
    assert drawn(beyond, *farther) == sign * strip
    low, high = (change - 1, change + 1) if sign > 0 else (MOST - change - 1, MOST - change + 1)
    assert drawn(across, *farther, low) == sign * (near if sign > 0 else strip)
    assert drawn(across, *farther, high) == sign * (strip if sign > 0 else near)
    assert drawn(beyond, *tail) == sign * near


def test_rejected_draws_are_replaced_by_spare_ones_in_order_or_all_drawn_again():
    top, first, last = word(LAYERS - 1, 0.99), word(5, 0.25), word(5, 0.5)
    units = np.zeros(2)
    add_units(units, 2.0**20, 1.0, Listed(top, first, top, last, *[MOST] * 6))
    assert list(units) == [round(module._WIDTHS[5] * share * 2**20) for share in (0.5, 0.25)]
    one, again = np.zeros(1), Listed(top, top, top, *[MOST] * 9, last, CENTRE, CENTRE)
    add_units(one, 2.0**20, 1.0, again)
    assert again.given == len(again.words)
    assert one[0] == round(module._WIDTHS[5] * 2**19)


def test_a_seed_repeats_the_noise_which_is_added_to_units():
    units = np.zeros(6)
    add_units(units, 2.0**20, 1.0, words(7))
    assert units.tolist() == [-1025825.0, -277604.0, -856124.0, 458341.0, 1181782.0, -264960.0]
    large = np.full(3, 2.0**40)
    add_units(large, 1.0, 2.0**-10, words())
    assert np.array_equal(large, np.rint(large)), "more than 2^24 stay exact"
    assert 0 < np.abs(large - 2.0**40).max() < 11 * 2**10
    fine = np.zeros(1000)
    add_units(fine, 0.004, 1.0, words())
    assert not fine.any(), "far finer than the grid it is mostly nothing"
    with pytest.raises(ValueError, match=r"noise_std = 5000000000\.0 is not allowed"):
        add_units(fine, 5e9, 1.0, words())


@pytest.mark.parametrize(
    ("noise_std", "radius", "power"),
    [
        (1.0, 0.0, -19),
        (1.0, 4.9, -19),
        (1.0, 5.0, -18),
        (1e-9, 1.0, -22),
        (0.09, 0.0, -23),
        (2.0**50, 0.0, 31),
    ],
)
def test_the_grid_has_room_for_radius_and_noise(noise_std, radius, power):
    """11 std and the radius are below 2^23 steps: exactly as much would not do."""
    assert grid(noise_std, radius) == 2.0**power


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
        noised(np.zeros(3, dtype=np.float32), noise_std, radius, words())


@pytest.mark.parametrize("size", [1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_noised_is_the_truncated_vector_plus_noise_that_does_not_hang_on_it(size):
    values = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    values *= np.float32(0.99 / np.linalg.norm(values))
    before = values.copy()
    spacing = grid(0.5, 1.0)
    noise = noised(np.zeros_like(values), 0.5, 1.0, words())
    got = noised(values, 0.5, 1.0, words())
    assert got.dtype == np.float32
    assert np.array_equal(values, before)
    truncated = np.trunc(values.astype(np.float64) / spacing) * spacing
    assert np.array_equal(got.astype(np.float64), truncated + noise.astype(np.float64))
    assert np.array_equal(got / spacing, np.rint(got / spacing))
    assert np.count_nonzero(noise) >= size - 1
    alone, units = np.full(size, 7, dtype=np.float32), np.zeros(size)
    fill_gaussian(alone, 3.0, words())
    add_units(units, 3.0, grid(3.0, 0.0), words())
    assert np.array_equal(alone, units * grid(3.0, 0.0))


def test_a_vector_that_was_not_clipped_or_is_not_finite_is_refused():
    values = np.array([0.6, 0.8], dtype=np.float32)
    noised(values, 1.0, 1.0000001, words())
    with pytest.raises(ValueError, match=r"vector has an L2 norm of 1; allowed: at most radius = 0\.9999"):
        noised(values, 1.0, 0.9999, words())
    with pytest.raises(ValueError, match=r"vector has shape \(0,\)"):
        noised(values[:0], 1.0, 1.0, words())
    for bad in (np.nan, np.inf):
        with pytest.raises(NotFinite, match="vector holds a NaN or an infinity"):
            noised(np.array([0, bad], dtype=np.float32), 1.0, 1.0, words())


def test_noise_needs_one_copy_of_the_vector_and_a_megabyte():
    values = np.zeros(2_000_000, dtype=np.float32)
    tracemalloc.start()
    try:
        noised(values, 1.0, 1.0, words())
        assert tracemalloc.get_traced_memory()[1] <= values.nbytes + 2_000_000
    finally:
        tracemalloc.stop()
