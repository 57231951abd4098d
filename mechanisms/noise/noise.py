"""Gaussian noise on a grid: the low bits of a noised float reveal nothing about the value under the noise.

A sum of floats leaks: which sums are possible depends on the value to which the noise is added (Mironov 2012,
"On significance of the least significant bits for differential privacy"). So value and noise both lie on a
grid of spacing g, a power of two:

    y = g (trunc(x / g) + rint(N / g)),   N ~ N(0, noise_std^2)

- g follows from public values alone, and every |y| < 2^23 g, so all arithmetic is exact in float32.
- trunc rounds towards zero, so it never makes a clipped vector longer.
- A whole number m plus rint(N / g) is rint(m + N / g). So y is the continuous mechanism on the truncated
  vector, rounded afterwards. Rounding is post-processing: Balle & Wang 2018, Theorem 8 holds unchanged.

The caller clips, and so decides the unit of privacy and the neighbours; the norm is L2.

The sampler is exact. It is a ziggurat (Marsaglia & Tsang 2000): a stack of layers of equal area covers the
curve e(x) = exp(-x^2 / 2). The sampler draws a layer, a position x within its width and a height y within its
range, all uniform, and accepts x if y < e(x). An accepted x has a density proportional to e(x), whatever the
widths are, if

1. the layers' ranges [h_i, h_(i+1)) join without a gap from h_0 = 0 to a top of at least 1,
2. each has the same area w_i (h_(i+1) - h_i) = A, so that a uniform layer gives a uniform point,
3. none is too narrow: e(w_i) <= h_i, and the strips beside layer 0 cover e beyond its edge, and
4. `y < e(x)` is decided as for real numbers.

Proof: by 1 and 3 the layers cover everything under the curve, by 2 the point (x, y) is uniform on the layers,
and by 4 it is accepted exactly if it is under the curve. So an accepted point is uniform under the curve.

For 1 to 3, widths are doubles, rounded up. Heights follow from them as integers in units of 2^-256, so areas
are equal up to a factor of 1 +- 2^-240. For 4, and for rounding to the nearest integer, doubles decide where
their error cannot change the answer. Elsewhere exact fractions decide, with as many further random bits of x
and y as it takes. Layer and position come from disjoint bits (Doornik 2005).

Two errors remain: no draw is beyond 11 noise_std, a total variation of 2^-91 in each coordinate; and areas
have the ratio 1 +- 2^-240. Noise on d coordinates, T times, adds at most T d 2^-90 (1 + e^epsilon) to delta
and T d 2^-239 to epsilon: less than 1e-12 at T d = 10^11 and epsilon = 8. This assumes uniform words, and
that numpy's exp is within 4 units in the last place. It does not cover the time that drawing takes.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import at_least_zero, positive
from mechanisms.noise.clipping import Floats, blocks, norm
from mechanisms.noise.randomness import Words, uniform64

_MANTISSA = 2.0**23
REACH = 11.0  # no draw is beyond this many noise_std
_NORM_SLACK = 2.0**-40  # relative error bound of the norm in float64
_BLOCK = 1 << 15  # elements per block: about 1.5 MB of buffers, which stay in the cache
COARSEST = 2.0**32  # the largest noise_std in units: with more, most draws would need further bits

# The ziggurat of exp(-x^2 / 2). Layer 0 is 2 strips wider than the edge: they stand for the whole tail.
_LAYERS = 1024
_EDGE = 4.045392376317927
_STRIP = ((_EDGE + 2 * math.log(2) / _EDGE) - _EDGE) / 2  # so _EDGE + 2 _STRIP is a double, exactly
_HEIGHT_BITS = 256
# More than the rounding of widths (up) and cores (down), which are then on the safe side of the curve.
_WIDER, _NARROWER = 1 + 2.0**-50, 1 - 2.0**-48
# More than the relative error of what is compared: 2^-46 in `_find_rejected`, 2^-43 in `_draw_tail`.
_DOUBT = 2.0**-42
_LEAST, _MOST = 2.0**-120, 2.0**100  # of g: far from the ends of float32


def grid(noise_std: float, radius: float) -> float:
    """Returns g, the least power of two with radius + 11 noise_std < 2^23 g. Both arguments must be public.

    Raises ValueError if g is far too small or too large for float32, or for an argument out of range.
    """
    most = at_least_zero("radius", radius) + REACH * positive("noise_std", noise_std)
    spacing = power_of_two(most / _MANTISSA)
    if not _LEAST <= spacing <= _MOST:
        raise ValueError(f"noise_std = {noise_std} with radius = {radius} is not allowed: beyond float32")
    return spacing


def power_of_two(least: float) -> float:
    """The least power of two above `least`, which is above 0."""
    return math.ldexp(1.0, math.frexp(least)[1])


def noised(vector: Floats, noise_std: float, radius: float, words: Words) -> Floats:
    """Returns a new (d,) float32: `vector` (d,), whose L2 norm is at most `radius`, plus noise, on `grid`.

    It needs memory for the new vector and about 1.5 MB. Raises ValueError if the vector is longer than
    `radius`; otherwise as `clip_l2` and `grid`.
    """
    spacing, size = grid(noise_std, radius), norm(vector)
    if size > radius * (1 + _NORM_SLACK):
        raise ValueError(f"vector has an L2 norm of {size:g}; allowed: at most radius = {radius:g}")
    out = np.empty_like(vector)
    noise = _Units(noise_std / spacing, len(vector), words)
    for part in blocks(len(vector), _BLOCK):
        target = out[part]
        np.multiply(vector[part], np.float32(1 / spacing), out=target)
        np.trunc(target, out=target)
        target += noise.draw32(len(target))
        target *= np.float32(spacing)
    return out


def fill_gaussian(out: Floats, noise_std: float, words: Words) -> None:
    """Overwrites `out` (d,) float32 with N(0, noise_std^2) on the grid of `noise_std` and radius 0."""
    spacing = grid(noise_std, 0.0)
    noise = _Units(noise_std / spacing, len(out), words)
    for part in blocks(len(out), _BLOCK):
        np.multiply(noise.draw32(part.stop - part.start), np.float32(spacing), out=out[part])


def add_units(units: NDArray[np.float64], noise_std: float, spacing: float, words: Words) -> None:
    """Adds rint(N(0, noise_std^2) / spacing) to each of `units` (d,), float64 whole numbers, in place.

    Raises ValueError if noise_std is more than 2^32 `spacing`.
    """
    std = positive("noise_std", noise_std) / positive("spacing", spacing)
    if std > COARSEST:
        raise ValueError(f"noise_std = {noise_std} is not allowed: at most {COARSEST:g} spacing")
    noise = _Units(std, len(units), words)
    for part in blocks(len(units), _BLOCK):
        units[part] += noise.draw(part.stop - part.start)


def _layers() -> tuple[NDArray[np.float64], list[int]]:
    """Returns widths (1025,) and heights (1025,), in units of 2^-256, of 1024 layers of equal area.

    Layer i reaches from 0 to widths[i] and from heights[i] to heights[i + 1]. The area is slightly too large:
    so the top is above 1, although each width is rounded up.
    """
    edge = Decimal(_EDGE)
    with_room = (-edge * edge / 2).exp(Context(prec=90)) * (1 + Decimal(2) ** -44)
    widths = [_EDGE + 2 * _STRIP, _EDGE]
    heights = [0, int(with_room * 2**_HEIGHT_BITS)]
    area = Fraction(widths[0]) * heights[1]
    while len(widths) < _LAYERS:
        heights.append(heights[-1] + int(area / Fraction(widths[-1])))
        lacking = math.ldexp((1 << _HEIGHT_BITS) - heights[-1], -_HEIGHT_BITS)
        height = math.ldexp(heights[-1], -_HEIGHT_BITS)
        logarithm = math.log(height) if lacking > 0.5 else math.log1p(-lacking)
        widths.append(math.sqrt(-2 * logarithm) * _WIDER)
    return np.array([*widths, 0.0]), [*heights, heights[-1] + int(area / Fraction(widths[-1]))]


_WIDTHS, _EXACT_HEIGHTS = _layers()
_HEIGHTS = np.array([math.ldexp(height, -_HEIGHT_BITS) for height in _EXACT_HEIGHTS])
# A word whose absolute value is below its layer's core is under the curve at every height of the layer.
_CORES = _WIDTHS[1:] / _WIDTHS[:-1] * (2.0**63 * _NARROWER)

_EDGE_CELL = int(Fraction(_EDGE) / Fraction(_WIDTHS[0]) * 2**53)


class _Uniform:
    """A uniform number in [start, start + width), of which more binary digits are drawn when needed."""

    def __init__(self, start: int, bits: int, words: Words) -> None:
        """`start`: the digits drawn so far, in units of 2^-`bits`."""
        self._words = words
        self.width = Fraction(1, 1 << bits)
        self.start = start * self.width

    @property
    def end(self) -> Fraction:
        """start + width."""
        return self.start + self.width

    def narrow(self) -> None:
        """Draws 64 more digits."""
        self.width /= 2**64
        self.start += int(uniform64(1, self._words)[0]) * self.width


class _Units:
    """Draws rint(N(0, std^2)) one block at a time, in reused buffers."""

    def __init__(self, std: float, most: int, words: Words) -> None:
        size = _candidate_count(min(_BLOCK, most))
        self._std, self._source = std, words
        self._steps = _WIDTHS[:-1] * (std * 2.0**-63)
        self._sure = 0.5 - std * 2.0**-48  # a draw nearer than this to an integer is rounded right
        self._words = np.empty(size, dtype=np.int64)
        self._layer = np.empty(size, dtype=np.intp)
        self._draws, self._size, self._noise = np.empty(size), np.empty(size), np.empty(size)
        self._outside = np.empty(size, dtype=np.bool_)
        self._positions: dict[int, _Uniform] = {}

    def draw32(self, count: int) -> Floats:
        """Returns `draw` as (count,) float32, which is exact up to 2^24."""
        noise32 = self._draws.view(np.float32)[:count]  # which `draw` no longer needs
        np.copyto(noise32, self.draw(count), casting="same_kind")
        return noise32

    def draw(self, count: int) -> NDArray[np.float64]:
        """Returns (count,) float64 integers, at most a block, in a buffer that the next draw overwrites.

        Spare candidates replace rejected ones. If there are too few of them, it draws all again; how many
        are rejected tells nothing about the values of the others.
        """
        drawn = _candidate_count(count)
        while len(rejected := self._draw_candidates(drawn)) > drawn - count:
            pass
        holes = rejected[rejected < count]
        spare = np.ones(drawn - count, dtype=np.bool_)
        spare[rejected[len(holes) :] - count] = False
        self._noise[holes] = self._noise[count:drawn][spare][: len(holes)]
        return self._noise[:count]

    def _draw_candidates(self, count: int) -> NDArray[np.intp]:
        """Draws (count,) integers into the buffer; returns the ascending indices (m,) of those rejected."""
        words, layer, noise = self._words[:count], self._layer[:count], self._noise[:count]
        draws, size = self._draws[:count], self._size[:count]
        self._positions.clear()
        self._source.fill(words.view(np.uint32))
        np.bitwise_and(words, _LAYERS - 1, out=layer)
        np.copyto(size, words)
        self._steps.take(layer, out=draws, mode="clip")
        draws *= size
        np.abs(size, out=size)
        _CORES.take(layer, out=noise, mode="clip")
        outside = np.greater_equal(size, noise, out=self._outside[:count]).nonzero()[0]
        np.rint(draws, out=noise)
        draws -= noise
        if max(draws.max(), -draws.min()) >= self._sure:
            # 54 bits of U leave open which integer is nearest: fractions decide.
            for place in (np.abs(draws) >= self._sure).nonzero()[0].tolist():
                width = Fraction(_WIDTHS[layer[place]]) * Fraction(self._std)
                noise[place] = _nearest(self._position(place), width, Fraction(0))
        return self._find_rejected(outside)

    def _position(self, place: int) -> _Uniform:
        """U at `place`, in [-1, 1). It is kept for the block, so that no digit is drawn twice."""
        if place not in self._positions:
            self._positions[place] = _Uniform(int(self._words[place]) // _LAYERS, 53, self._source)
        return self._positions[place]

    def _find_rejected(self, outside: NDArray[np.intp]) -> NDArray[np.intp]:
        """Returns the indices (n,) of rejected draws among those `outside` (m,) the core of their layer.

        In doubles x has an error of 2^-53 of the width, as later digits of U are not drawn yet, and a
        relative one of 2^-52. With 2^-50 for exp, e(x) is off by less than 2^-46.6 for |x| < 4.4. The height
        y is off by less than 2^-48.
        """
        layer = self._layer[outside]
        value = self._size[outside] * (_WIDTHS[layer] * 2.0**-63)
        random = uniform64(3 * len(outside), self._source).reshape(-1, 3)
        low, high = _HEIGHTS[layer], _HEIGHTS[layer + 1]
        height, curve = low + random[:, 0] * 2.0**-64 * (high - low), np.exp(value * value * -0.5)
        accepted = height < curve
        for row in (np.abs(height - curve) <= curve * _DOUBT).nonzero()[0].tolist():
            accepted[row] = self._is_under(int(outside[row]), int(layer[row]), int(random[row, 0]))
        for row in (layer == 0).nonzero()[0].tolist():
            if self._is_beyond_edge(int(outside[row])):
                accepted[row] = self._draw_tail(int(outside[row]), *random[row].tolist())
        rejected: NDArray[np.intp] = outside[~accepted]
        return rejected

    def _is_under(self, place: int, layer: int, chance: int) -> bool:
        """Whether the draw at `place` is under the curve; `chance` are the first digits of its height."""
        low, high = _EXACT_HEIGHTS[layer : layer + 2]
        height = _Uniform(chance, 64, self._source)
        return _is_below_curve(
            height, low, high - low, self._position(place), Fraction(0), Fraction(_WIDTHS[layer])
        )

    def _is_beyond_edge(self, place: int) -> bool:
        """Whether the draw at `place`, of layer 0, is in the strips, which stand for the tail."""
        drawn = int(self._words[place]) // _LAYERS
        cell = drawn if drawn >= 0 else -drawn - 1  # |U| is from cell 2^-53 to (cell + 1) 2^-53
        if cell != _EDGE_CELL:
            return cell > _EDGE_CELL
        share, position = Fraction(_EDGE) / Fraction(_WIDTHS[0]), self._position(place)
        while position.start < share < position.end or position.start < -share < position.end:
            position.narrow()
        return position.start >= share or position.end <= -share

    def _draw_tail(self, place: int, chance: int, strips: int, position: int) -> bool:
        """Draws from the tail beyond the edge r, puts it at `place`, and returns whether it is accepted.

        Strips of width s, with r s = ln 2 up to rounding, cover e(x) beyond r. Strip k begins at r + k s and
        is h_1 2^-k high, as e(r + k s) = e(r) 2^-k exp(-(k s)^2 / 2). Together they have the area of 2 strips
        of height h_1, so strip k is drawn with probability 2^-(k + 1). In doubles the exponent, whose terms
        are at most 61, is off by less than 2^-44; h_1 is above e(r) by 2^-44.
        """
        strip = 64 - strips.bit_length()
        size = _EDGE + _STRIP * (strip + position * 2.0**-64)
        if size >= REACH:
            return False
        nearest = round(size * self._std)
        curve = math.exp((_EDGE * _EDGE - size * size) / 2 + strip * math.log(2))
        height = chance * 2.0**-64
        accepted = height < curve
        is_open = abs(size * self._std - nearest) >= self._sure
        if is_open or abs(height - curve) <= curve * _DOUBT + 2.0**-63:
            within = _Uniform(position, 64, self._source)
            start, width = Fraction(_EDGE) + strip * Fraction(_STRIP), Fraction(_STRIP)
            nearest = _nearest(within, width * Fraction(self._std), start * Fraction(self._std))
            top = Fraction(_EXACT_HEIGHTS[1], 1 << strip)
            accepted = _is_below_curve(_Uniform(chance, 64, self._source), 0, top, within, start, width)
        self._noise[place] = nearest if self._words[place] >= 0 else -nearest
        return accepted


def _nearest(share: _Uniform, width: Fraction, start: Fraction) -> int:
    """The integer nearest to start + width share; draws as many digits of `share` as it needs."""
    while round(start + share.start * width) != round(start + share.end * width):
        share.narrow()
    return round(start + share.start * width)


def _is_below_curve(
    height: _Uniform, low: int, rise: Fraction | int, share: _Uniform, start: Fraction, width: Fraction
) -> bool:
    """Whether low + rise height, in units of 2^-256, is less than e(start + width share).

    It bounds both sides from below and above. Until the bounds decide, it draws more digits of height and
    share, and computes more digits of the curve.
    """
    precision = 60
    while True:
        ends = sorted(abs(start + width * end) for end in (share.start, share.end))
        least, most = _curve(ends[1], precision, -1), _curve(ends[0], precision, 1)
        if low + rise * height.end <= least:
            return True
        if low + rise * height.start >= most:
            return False
        height.narrow()
        share.narrow()
        precision += 40


def _curve(x: Fraction, precision: int, side: int) -> Fraction:
    """A bound on e(x) in units of 2^-256, above (`side` 1) or below (-1), by about 10^-precision of it."""
    context = Context(prec=precision + 5)
    square = x * x / 2
    exponent = context.divide(Decimal(-square.numerator), Decimal(square.denominator))
    slack = 1 + side * Fraction(1, 10**precision)
    return Fraction(context.exp(exponent)) * slack * (1 << _HEIGHT_BITS)


def _candidate_count(count: int) -> int:
    """How many candidates to draw for `count` draws, of which 0.2 % are rejected."""
    return count + count // 128 + 2
