"""Gaussian noise on a grid: the low bits of a noised float reveal nothing about the value under the noise.

Adding floats leaks: which sums are possible depends on the summand (Mironov 2012, "On significance of the
least significant bits for differential privacy"). So value and noise both lie on a grid g, a power of two:

    y = g (trunc(x / g) + rint(N / g)),   N ~ N(0, noise_std^2)

- g follows from public values only, and every |y| < 2^23 g: all arithmetic is exact in float32.
- trunc rounds towards zero and so never lengthens a vector that is clipped to a radius.
- An integer plus rint(N / g) is rint of the integer plus N / g: y is the continuous mechanism on the clipped,
  truncated vector, then rounded, which is post-processing (Balle & Wang 2018, Theorem 8 holds unchanged).

The caller clips, and so decides the unit of privacy and the neighbours; the norm is L2.

Distance of the sampler from N. It is a ziggurat (Marsaglia & Tsang 2000) whose layer and position come from
disjoint bits (Doornik 2005). A draw is start + width U, with U uniform; the sampler first draws 54 bits of U.
If these and the rounding of doubles do not determine the nearest integer, it draws more bits and decides with
exact fractions, so no product is rounded. The remaining error, as total variation of one coordinate:
- widths are doubles, off by a relative 2^-54 in the mean over the layers: less than 2^-54;
- heights and exp in doubles decide 0.4 % of the draws: less than 2^-56; no draw is beyond 11 std: 2^-91.
The noise of d coordinates is within d 2^-53 of the exact one in total variation (1.2e-9 at d = 10^7), and
delta is larger by at most (1 + e^epsilon) times that. This assumes that numpy's exp is within 4 units in the
last place and that the words are uniform. It does not cover the time that drawing takes.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import at_least_zero, positive
from mechanisms.noise.clipping import Floats, blocks, norm
from mechanisms.noise.randomness import Words

_MANTISSA = 2.0**23
_REACH = 11.0  # no draw is beyond this many noise_std
_NORM_SLACK = 2.0**-40  # relative error bound of the norm in float64
_BLOCK = 1 << 15  # elements per block: about 1.5 MB of buffers, which stay in the cache
_COARSEST = 2.0**32  # noise_std in units: beyond it most draws would need more bits

# The ziggurat under exp(-x^2 / 2): r, the start of its tail, and the area of a layer times 2^128.
_LAYERS = 1024
_EDGE = 4.045392376317927
_AREA = 0x505ED43E206FD1E6D2F71FE6F9C1D4
_STRIP = math.log(2) / _EDGE
_LEAST, _MOST = 2.0**-120, 2.0**100  # of g: far from the ends of float32


def grid(noise_std: float, radius: float) -> float:
    """Returns g: the least power of two with radius + 11 noise_std < 2^23 g. The arguments must be public."""
    most = at_least_zero("radius", radius) + _REACH * positive("noise_std", noise_std)
    spacing = math.ldexp(1.0, math.frexp(most / _MANTISSA)[1])
    if not _LEAST <= spacing <= _MOST:
        raise ValueError(f"noise_std = {noise_std} with radius = {radius} is not allowed: beyond float32")
    return spacing


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
    if std > _COARSEST:
        raise ValueError(f"noise_std = {noise_std} is not allowed: at most {_COARSEST:g} spacing")
    noise = _Units(std, len(units), words)
    for part in blocks(len(units), _BLOCK):
        units[part] += noise.draw(part.stop - part.start)


def _layers() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the widths (1025,) and heights (1025,) of layers of equal area.

    Layer i extends to widths[i] and from heights[i] to heights[i + 1]. Layer 0 also holds the strips of the
    tail (see `_tail`), laid beside it: 2 of them. Heights are summed in integers, so errors do not add up.
    """
    widths, heights = [_EDGE], [math.exp(-_EDGE * _EDGE / 2)]
    height = int(math.ldexp(heights[0], 128))
    while len(widths) < _LAYERS - 1:
        height += (_AREA << 64) // int(math.ldexp(widths[-1], 64))
        heights.append(math.ldexp(height, -128))
        lacking = math.ldexp((1 << 128) - height, -128)
        logarithm = math.log(heights[-1]) if lacking > 0.5 else math.log1p(-lacking)
        widths.append(math.sqrt(-2 * logarithm))
    return np.array([_EDGE + 2 * _STRIP, *widths, 0.0]), np.array([0.0, *heights, 1.0])


_WIDTHS, _HEIGHTS = _layers()
# A word with a smaller absolute value is under the curve at every height of its layer; rounded down.
_CORES = _WIDTHS[1:] / _WIDTHS[:-1] * (2.0**63 * (1 - 2.0**-50))


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
            position, layer = divmod(int(self._words[place]), _LAYERS)
            step = Fraction(_WIDTHS[layer]) * Fraction(self._std) / 2**53
            self._noise[place] = self._nearest(position * step, step)

    def _nearest(self, start: Fraction, width: Fraction) -> int:
        """The integer nearest to start + width V, V uniform in [0, 1); draws as many bits as needed."""
        while round(start) != round(start + width):
            width /= 2**64
            start += int(self._random(1)[0]) * width
        return round(start)

    def _judge(self, outside: NDArray[np.intp]) -> NDArray[np.intp]:
        """Returns the (n,) rejected ones among the draws `outside` (m,) the core of their layer."""
        layer = self._layer[outside]
        value = self._size[outside] * (_WIDTHS[layer] * 2.0**-63)
        random = self._random(3 * len(outside)).reshape(-1, 3)
        low, high = _HEIGHTS[layer], _HEIGHTS[layer + 1]
        accepted = low + random[:, 0] * 2.0**-64 * (high - low) < np.exp(value * value * -0.5)
        for row in (layer == 0).nonzero()[0].tolist():
            accepted[row] = self._tail(int(outside[row]), *random[row].tolist())
        return outside[~accepted]

    def _tail(self, place: int, chance: int, strips: int, position: int) -> bool:
        """Puts a draw beyond r at `place`; returns whether it is accepted.

        Strips of width ln 2 / r, each half as high as the one before, cover exp(-x^2 / 2) beyond r: strip k
        has probability 2^-(k + 1), and x in it is accepted with probability exp(-x^2 / 2) over its height.
        """
        strip = 64 - strips.bit_length()
        size = _EDGE + _STRIP * (strip + position * 2.0**-64)
        nearest = round(size * self._std)
        if abs(size * self._std - nearest) >= self._sure:
            step = Fraction(_STRIP) * Fraction(self._std) / 2**64
            start = Fraction(_EDGE) * Fraction(self._std)
            nearest = self._nearest(start + ((strip << 64) + position) * step, step)
        self._noise[place] = nearest if self._words[place] >= 0 else -nearest
        over_height = math.exp((_EDGE * _EDGE - size * size) / 2 + strip * math.log(2))
        return size < _REACH and chance * 2.0**-64 < over_height

    def _random(self, count: int) -> NDArray[np.uint64]:
        """Returns (count,) new words."""
        words = np.empty(count, dtype=np.uint64)
        self._source.fill(words.view(np.uint32))
        return words


def _with_spare(count: int) -> int:
    """The number of candidates for `count` draws; 0.2 % are rejected."""
    return count + count // 128 + 2
