"""Gaussian noise on a grid: the low bits of a noised float reveal nothing about the value under the noise.

Adding floats leaks: which sums are possible depends on the summand (Mironov 2012, "On significance of the
least significant bits for differential privacy"). So value and noise both lie on a grid g, a power of two:

    y = g (trunc(x / g) + rint(N / g)),   N ~ N(0, noise_std^2)

- g follows from public values only, and every |y| < 2^23 g: all arithmetic is exact in float32.
- trunc rounds towards zero and so never lengthens a vector that is clipped to a radius.
- An integer plus rint(N / g) is rint of the integer plus N / g: y is the continuous mechanism on the clipped,
  truncated vector, then rounded, which is post-processing (Balle & Wang 2018, Theorem 8 holds unchanged).

The caller clips, and so decides the unit of privacy and the neighbours; the norm is L2.

The sampler is exact. It is a ziggurat (Marsaglia & Tsang 2000): layers of equal area, stacked, cover the
curve e(x) = exp(-x^2 / 2). It chooses a layer, a position x in its width and a height y in its range, all
uniform, and accepts x if y < e(x). Whatever the layers' widths are, an accepted x then has a density
proportional to e(x) if

1. the layers' ranges [h_i, h_(i+1)) join without a gap from h_0 = 0 to a top of at least 1,
2. each has the area w_i (h_(i+1) - h_i) = A, so that choosing layers uniformly is choosing a point uniformly,
3. none is too narrow: e(w_i) <= h_i, and the strips beside layer 0 cover e beyond its edge, and
4. `y < e(x)` is decided as for real numbers.

Proof: by 1 and 3 the layers cover everything under the curve, by 2 the point (x, y) is uniform on the layers,
and by 4 it is accepted exactly if it is under the curve. So x is uniform under the curve.

For 1 to 3 widths are doubles, rounded up, and heights follow from them as integers in units of 2^-256: areas
are equal up to a factor of 1 +- 2^-240. For 4, and to round to the nearest integer, doubles decide where
their error cannot change the answer; elsewhere exact fractions do, with as many further random bits of x and
y as it takes. Layer and position come from disjoint bits (Doornik 2005).

What remains: no draw is beyond 11 noise_std, which is a total variation of 2^-91 in each coordinate; and the
ratio 1 +- 2^-240. Noise on d coordinates, T times, adds at most T d 2^-90 (1 + e^epsilon) to delta and T d
2^-239 to epsilon: less than 1e-12 at T d = 10^11 and epsilon = 8. This assumes that numpy's exp is within 4
units in the last place and that the words are uniform. It does not cover the time that drawing takes.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import at_least_zero, positive
from mechanisms.noise.clipping import Floats, blocks, norm
from mechanisms.noise.randomness import Words

_MANTISSA = 2.0**23
REACH = 11.0  # no draw is beyond this many noise_std
_NORM_SLACK = 2.0**-40  # relative error bound of the norm in float64
_BLOCK = 1 << 15  # elements per block: about 1.5 MB of buffers, which stay in the cache
COARSEST = 2.0**32  # noise_std in units: beyond it most draws would need more bits

# The ziggurat under exp(-x^2 / 2). Layer 0 is 2 strips wider than the edge: they stand for the whole tail.
_LAYERS = 1024
_EDGE = 4.045392376317927
_STRIP = ((_EDGE + 2 * math.log(2) / _EDGE) - _EDGE) / 2  # so _EDGE + 2 _STRIP is a double, exactly
_HEIGHT_BITS = 256
# Above the rounding of widths (up) and cores (down), which are then on the safe side of the curve.
_WIDER, _NARROWER = 1 + 2.0**-50, 1 - 2.0**-48
# Above the relative error of doubles that are compared with the curve: 2^-46 in `_judge`, 2^-43 in `_tail`.
_DOUBT = 2.0**-42
_LEAST, _MOST = 2.0**-120, 2.0**100  # of g: far from the ends of float32


def grid(noise_std: float, radius: float) -> float:
    """Returns g: the least power of two with radius + 11 noise_std < 2^23 g. The arguments must be public."""
    most = at_least_zero("radius", radius) + REACH * positive("noise_std", noise_std)
    spacing = power_of_two(most / _MANTISSA)
    if not _LEAST <= spacing <= _MOST:
        raise ValueError(f"noise_std = {noise_std} with radius = {radius} is not allowed: beyond float32")
    return spacing


def power_of_two(least: float) -> float:
    """The least power of two above `least`, which is above 0."""
    return math.ldexp(1.0, math.frexp(least)[1])


def noised(vector: Floats, noise_std: float, radius: float, words: Words) -> Floats:
    """Returns a new (d,) float32: `vector` (d,), with L2 norm at most `radius`, plus noise, both on the grid.

    It needs memory for the new vector and about 1.5 MB. Raises NotFinite on NaN or infinity, ValueError on a
    vector longer than `radius`, an empty one, or a `noise_std` that is not above 0.
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


def gaussian(out: Floats, noise_std: float, words: Words) -> None:
    """Overwrites `out` (d,) float32 with N(0, noise_std^2) on the grid of `noise_std` and radius 0."""
    spacing = grid(noise_std, 0.0)
    noise = _Units(noise_std / spacing, len(out), words)
    for part in blocks(len(out), _BLOCK):
        np.multiply(noise.draw32(part.stop - part.start), np.float32(spacing), out=out[part])


def add_units(units: NDArray[np.float64], noise_std: float, spacing: float, words: Words) -> None:
    """Adds rint(N(0, noise_std^2) / spacing) to each of `units` (d,), float64 integers: sums on a grid."""
    std = positive("noise_std", noise_std) / positive("spacing", spacing)
    if std > COARSEST:
        raise ValueError(f"noise_std = {noise_std} is not allowed: at most {COARSEST:g} spacing")
    noise = _Units(std, len(units), words)
    for part in blocks(len(units), _BLOCK):
        units[part] += noise.draw(part.stop - part.start)


def _layers() -> tuple[NDArray[np.float64], list[int]]:
    """Returns the widths (1025,) and the heights (1025,) in units of 2^-256 of layers of equal area.

    Layer i extends to widths[i] and from heights[i] to heights[i + 1]. The first area is slightly too large,
    so that the top is above 1 although each width is rounded up.
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
# A word with a smaller absolute value is under the curve at every height of its layer.
_CORES = _WIDTHS[1:] / _WIDTHS[:-1] * (2.0**63 * _NARROWER)

_EDGE_CELL = int(Fraction(_EDGE) / Fraction(_WIDTHS[0]) * 2**53)


class _Uniform:
    """A uniform number whose binary digits are drawn as they are needed: it is in [start, start + width)."""

    def __init__(self, start: int, bits: int, words: Words) -> None:
        """`start` in units of 2^-bits is all that has been drawn so far."""
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
        self.start += int(_drawn(self._words, 1)[0]) * self.width


def _drawn(words: Words, count: int) -> NDArray[np.uint64]:
    """Returns (count,) new words of 64 bits."""
    drawn = np.empty(count, dtype=np.uint64)
    words.fill(drawn.view(np.uint32))
    return drawn


class _Units:
    """Draws rint(N(0, std^2)) one block at a time, in reused buffers."""

    def __init__(self, std: float, most: int, words: Words) -> None:
        size = _with_spare(min(_BLOCK, most))
        self._std, self._source = std, words
        self._steps = _WIDTHS[:-1] * (std * 2.0**-63)
        self._sure = 0.5 - std * 2.0**-48  # rounding cannot change the integer of a draw nearer than this
        self._words = np.empty(size, dtype=np.int64)
        self._layer = np.empty(size, dtype=np.intp)
        self._draws, self._size, self._noise = np.empty(size), np.empty(size), np.empty(size)
        self._outside = np.empty(size, dtype=np.bool_)
        self._positions: dict[int, _Uniform] = {}

    def draw32(self, count: int) -> Floats:
        """Returns `draw` as (count,) float32: exact as long as no integer is beyond 2^24."""
        noise32 = self._draws.view(np.float32)[:count]  # free by then
        np.copyto(noise32, self.draw(count), casting="same_kind")
        return noise32

    def draw(self, count: int) -> NDArray[np.float64]:
        """Returns (count,) float64 integers in a buffer that the next draw overwrites; count at most a block.

        It draws a few spare candidates to replace the rejected ones. If they are too few, which says nothing
        about the accepted values, it draws all again.
        """
        drawn = _with_spare(count)
        while len(rejected := self._candidates(drawn)) > drawn - count:
            pass
        holes = rejected[rejected < count]
        spare = np.ones(drawn - count, dtype=np.bool_)
        spare[rejected[len(holes) :] - count] = False
        self._noise[holes] = self._noise[count:drawn][spare][: len(holes)]
        return self._noise[:count]

    def _candidates(self, count: int) -> NDArray[np.intp]:
        """Draws (count,) integers into the buffer; returns the (m,) ascending indices of rejected ones."""
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
            self._refine((np.abs(draws) >= self._sure).nonzero()[0])
        return self._judge(outside)

    def _refine(self, places: NDArray[np.intp]) -> None:
        """Finds the integers at `places`, for which 54 bits of U are too few."""
        for place in places.tolist():
            width = Fraction(_WIDTHS[self._layer[place]]) * Fraction(self._std)
            self._noise[place] = _nearest(self._position(place), width, Fraction(0))

    def _position(self, place: int) -> _Uniform:
        """U at `place`, in [-1, 1): the same number whoever asks, so that no digit is drawn twice."""
        if place not in self._positions:
            self._positions[place] = _Uniform(int(self._words[place]) // _LAYERS, 53, self._source)
        return self._positions[place]

    def _judge(self, outside: NDArray[np.intp]) -> NDArray[np.intp]:
        """Returns the (n,) rejected ones among the draws `outside` (m,) the core of their layer.

        In doubles x is off by 2^-53 of the width (digits of U not yet drawn) and relatively by 2^-52, so e(x)
        by less than 2^-46.6 for |x| < 4.4, with 2^-50 for exp. The height y is off by less than 2^-48.
        """
        layer = self._layer[outside]
        value = self._size[outside] * (_WIDTHS[layer] * 2.0**-63)
        random = _drawn(self._source, 3 * len(outside)).reshape(-1, 3)
        low, high = _HEIGHTS[layer], _HEIGHTS[layer + 1]
        height, curve = low + random[:, 0] * 2.0**-64 * (high - low), np.exp(value * value * -0.5)
        accepted = height < curve
        for row in (np.abs(height - curve) <= curve * _DOUBT).nonzero()[0].tolist():
            accepted[row] = self._is_under(int(outside[row]), int(layer[row]), int(random[row, 0]))
        for row in (layer == 0).nonzero()[0].tolist():
            if self._is_beyond_edge(int(outside[row])):
                accepted[row] = self._tail(int(outside[row]), *random[row].tolist())
        rejected: NDArray[np.intp] = outside[~accepted]
        return rejected

    def _is_under(self, place: int, layer: int, chance: int) -> bool:
        """Whether the draw at `place` is under the curve, at a height that begins with `chance`."""
        low, high = _EXACT_HEIGHTS[layer : layer + 2]
        height = _Uniform(chance, 64, self._source)
        return _is_below_curve(
            height, low, high - low, self._position(place), Fraction(0), Fraction(_WIDTHS[layer])
        )

    def _is_beyond_edge(self, place: int) -> bool:
        """Whether the draw at `place`, of layer 0, stands for the tail."""
        drawn = int(self._words[place]) // _LAYERS
        cell = drawn if drawn >= 0 else -drawn - 1  # |U| is from cell 2^-53 to (cell + 1) 2^-53
        if cell != _EDGE_CELL:
            return cell > _EDGE_CELL
        share, position = Fraction(_EDGE) / Fraction(_WIDTHS[0]), self._position(place)
        while position.start < share < position.end or position.start < -share < position.end:
            position.narrow()
        return position.start >= share or position.end <= -share

    def _tail(self, place: int, chance: int, strips: int, position: int) -> bool:
        """Puts a draw beyond the edge r at `place`; returns whether it is accepted.

        Strips of width s, r s = ln 2 up to rounding, cover e(x) beyond r: strip k from r + k s is h_1 2^-k
        high, as e(r + k s) = e(r) 2^-k exp(-(k s)^2 / 2). All together they are as large as 2 strips of
        height h_1, and strip k is chosen with probability 2^-(k + 1). In doubles the exponent, at most 61
        before it cancels, is off by less than 2^-44; h_1 is above e(r) by 2^-44.
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
    """The integer nearest to start + width share; draws as many digits as needed."""
    while round(start + share.start * width) != round(start + share.end * width):
        share.narrow()
    return round(start + share.start * width)


def _is_below_curve(
    height: _Uniform, low: int, rise: Fraction | int, share: _Uniform, start: Fraction, width: Fraction
) -> bool:
    """Whether low + rise height, in units of 2^-256, is less than e(start + width share).

    It brackets both sides, and draws more digits of both, with more digits of the curve, until they are
    apart.
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
    """A bound of e(x) in units of 2^-256, from above (`side` 1) or below (-1), off by about 10^-precision."""
    context = Context(prec=precision + 5)
    square = x * x / 2
    exponent = context.divide(Decimal(-square.numerator), Decimal(square.denominator))
    slack = 1 + side * Fraction(1, 10**precision)
    return Fraction(context.exp(exponent)) * slack * (1 << _HEIGHT_BITS)


def _with_spare(count: int) -> int:
    """The number of candidates for `count` draws; 0.2 % are rejected."""
    return count + count // 128 + 2
