"""Robust aggregators: they reduce (k, d) updates to one (d,) and limit the effect of a few lying clients.

Each docstring states a breakdown point: the largest share of clients that may send arbitrary values while the
result stays within a distance of the honest updates that does not depend on these values (Donoho & Huber
1983, "The notion of breakdown point", for replaced rows). Within that distance liars still have influence.

All require a server that sees single updates. Updates must be finite: first drop a client that sends NaN or
infinity (`finite_rows`). Sums and distances are computed in float64, results are float32.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import count, positive
from mechanisms.noise.clipping import Floats, NotFinite, blocks
from mechanisms.noise.noise import fill_gaussian
from mechanisms.noise.randomness import Words

Updates = NDArray[np.float32]
"""(k, d), one row per client."""
Doubles = NDArray[np.float64]

_COLUMNS = 1 << 12
"""Coordinates per block: a block of 50 clients stays in the cache."""
_WIDE = 1 << 15
"""Coordinates per block when only their sums are kept."""
_NEAR = 1e-7
"""The geometric median stops at a step shorter than this share of the median distance."""


def finite_rows(updates: Updates) -> NDArray[np.bool_]:
    """Returns (k,): True for each row of `updates` (k, d) that holds only finite numbers."""
    return np.asarray(np.isfinite(_checked(updates, finite=False)).all(axis=1))


# -- norms -------------------------------------------------------------------------------------------------


def norm_bounded_mean(updates: Updates, norm_bound: float) -> Floats:
    """The mean of the updates, each scaled to an L2 norm of at most `norm_bound`; Sun et al. 2019, 3.1.

    Whatever f of k clients send, they move the result by at most 2 f norm_bound / k: it never breaks down,
    but every client has that influence.
    """
    rows = _checked(updates)
    norms = np.sqrt(np.einsum("kd,kd->k", rows, rows, dtype=np.float64))
    factors = np.minimum(1.0, positive("norm_bound", norm_bound) / np.maximum(norms, np.finfo(float).tiny))
    return _single((factors / len(rows)) @ rows.astype(np.float64))


def weak_dp(updates: Updates, norm_bound: float, noise_std: float, words: Words) -> Floats:
    """`norm_bounded_mean` plus Gaussian noise of `noise_std` in each coordinate; Sun et al. 2019, 3.2.

    It is as robust as `norm_bounded_mean`. The name says "weak" because the noise is too small for a
    guarantee; this function claims none.
    """
    mean = norm_bounded_mean(updates, norm_bound)
    noise = np.empty_like(mean)
    fill_gaussian(noise, positive("noise_std", noise_std), words)
    noise += mean
    return noise


# -- coordinate by coordinate ------------------------------------------------------------------------------


def coordinate_median(updates: Updates) -> Floats:
    """The median of each coordinate, Yin et al. 2018, Algorithm 1; for even k the mean of the middle two.

    Breakdown point: floor((k - 1) / 2) of k. Up to it each coordinate lies between honest values.
    """
    rows = _checked(updates)
    low, high = (len(rows) - 1) // 2, len(rows) // 2
    result = np.empty(rows.shape[1], np.float32)
    for part in _blocks(rows.shape[1]):
        ordered = _ordered(rows[:, part])
        result[part] = (ordered[:, low].astype(np.float64) + ordered[:, high]) / 2
    return result


def trimmed_mean(updates: Updates, trimmed: int) -> Floats:
    """The mean of each coordinate without its `trimmed` largest and smallest values, Yin et al. 2018, Alg. 1.

    Breakdown point: `trimmed` of k, which is below k / 2.
    """
    rows = _checked(updates)
    most = (len(rows) - 1) // 2
    if type(trimmed) is not int or not 0 <= trimmed <= most:
        raise ValueError(
            f"trimmed = {trimmed!r} is not allowed: 0 to {most}, below half of the {len(rows)} updates"
        )
    result = np.empty(rows.shape[1], np.float32)
    kept = slice(trimmed, len(rows) - trimmed)
    for part in _blocks(rows.shape[1]):
        result[part] = _ordered(rows[:, part])[:, kept].mean(axis=1, dtype=np.float64)
    return result


# -- all coordinates together ------------------------------------------------------------------------------


def geometric_median(updates: Updates, steps: int = 1000) -> Floats:
    """The point with the least sum of distances to the updates, by Weiszfeld's iteration.

    The iteration of Vardi & Zhang 2000, "The multivariate L1-median and associated data depth", (2.6), starts
    at the coordinate median; it can leave a point that is one of the updates. It ends after `steps` steps, or
    when a step is at most 1e-7 of the median distance. Breakdown point: floor((k - 1) / 2) of k.
    """
    rows = _checked(updates)
    point = coordinate_median(rows).astype(np.float64)
    for _ in range(count("steps", steps)):
        distances = _distances(rows, point)
        following = _weiszfeld(rows, point, distances)
        moved = float(np.linalg.norm(following - point))
        point = following
        if moved <= _NEAR * float(np.median(distances)):
            break
    return _single(point)


def _weiszfeld(rows: Updates, point: Doubles, distances: Doubles) -> Doubles:
    """Returns the next point (d,) after `point` (d,), which is `distances` (k,) from the rows."""
    others = distances > 0
    if not others.any():
        return point
    inverse = np.zeros(len(rows))
    inverse[others] = 1 / distances[others]
    towards: Doubles = _weighted_sum(inverse / inverse.sum(), rows)
    here = len(rows) - int(others.sum())
    if not here:
        return towards
    # The `here` updates at the point hold it back: it moves only as far as the others outweigh them.
    pull = float(inverse.sum() * np.linalg.norm(towards - point))
    stay = min(1.0, here / pull) if pull > 0 else 1.0
    return (1 - stay) * towards + stay * point


def _distances(rows: Updates, point: Doubles) -> Doubles:
    """Returns the (k,) L2 distances of the rows (k, d) from `point` (d,)."""
    squares = np.zeros(len(rows))
    for part in _blocks(rows.shape[1]):
        away = rows[:, part] - point[part]
        squares += np.einsum("kd,kd->k", away, away)
    return np.sqrt(squares)


def _weighted_sum(weights: Doubles, rows: Updates) -> Doubles:
    """sum w_i x_i, (d,)."""
    total = np.empty(rows.shape[1])
    for part in _blocks(rows.shape[1]):
        total[part] = weights @ rows[:, part].astype(np.float64)
    return total


def centred_clipping(updates: Updates, centre: Floats, radius: float, steps: int = 1) -> Floats:
    """Starts at c = `centre` (d,); each of `steps` adds the mean of (x_i - c) min(1, radius / ||x_i - c||).

    Karimireddy, He & Jaggi 2021, "Learning from history", (3); `centre` is a value agreed before, such as the
    last aggregate. Whatever f of k clients send, they change a step by at most 2 f radius / k: like
    `norm_bounded_mean` it never breaks down, but around a point other than zero.
    """
    rows, point = _checked(updates), _single(centre).astype(np.float64)
    bound = positive("radius", radius)
    if point.shape != rows.shape[1:]:
        raise ValueError(f"centre has shape {point.shape}; allowed: {rows.shape[1:]}, as the updates have")
    for _ in range(count("steps", steps)):
        factors = np.minimum(1.0, bound / np.maximum(_distances(rows, point), np.finfo(float).tiny)) / len(
            rows
        )
        point = (1 - factors.sum()) * point + _weighted_sum(factors, rows)
    return _single(point)


# -- by distances (Krum and its successors) ------------------------------------------------------------------


def squared_distances(updates: Updates) -> Doubles:
    """Returns (k, k) squared L2 distances by float64 inner products; each depends on its two rows only."""
    rows = _checked(updates)
    products = np.zeros((len(rows), len(rows)))
    for part in _blocks(rows.shape[1], _WIDE):
        exact = rows[:, part].astype(np.float64)
        products += exact @ exact.T
    own = np.diag(products)
    squares: Doubles = np.maximum(own[:, None] + own[None, :] - 2 * products, 0.0)
    np.fill_diagonal(squares, 0.0)
    return squares


def krum(updates: Updates, attackers: int) -> Floats:
    """The update with the least score, Blanchard et al. 2017.

    A score is the sum of the squared distances to the nearest k - f - 2 updates.
    Breakdown point: f = `attackers` of k >= 2 f + 3.
    """
    rows = _checked(updates)
    best = _scored(squared_distances(rows), _few("attackers", attackers, len(rows), 2))[0]
    return np.array(rows[best])


def multi_krum(updates: Updates, attackers: int, chosen: int) -> Floats:
    """The mean of the `chosen` updates with the least scores, Blanchard et al. 2017, section 5.

    Breakdown point: f = `attackers` of k >= 2 f + 3, as long as `chosen` is at most k - f - 2.
    """
    rows = _checked(updates)
    most = len(rows) - _few("attackers", attackers, len(rows), 2) - 2
    if count("chosen", chosen) > most:
        raise ValueError(
            f"chosen = {chosen} is not allowed: 1 to {most}, of {len(rows)} less attackers and 2"
        )
    best = np.sort(_scored(squared_distances(rows), attackers)[:chosen])
    return _single(_weighted_sum(np.full(chosen, 1 / chosen), rows[best]))


def bulyan(updates: Updates, attackers: int) -> Floats:
    """Krum picks k - 2 f updates one by one; the result is the mean of their values nearest to the median.

    El Mhamdi et al. 2018, "The hidden vulnerability of distributed learning in Byzantium", section 4: each
    coordinate keeps k - 4 f values.
    Breakdown point: f = `attackers` of k >= 4 f + 3.
    """
    rows = _checked(updates)
    f = _few("attackers", attackers, len(rows), 4)
    squares, left, picked = squared_distances(rows), np.arange(len(rows)), []
    for _ in range(len(rows) - 2 * f):
        best = _scored(squares[np.ix_(left, left)], f)[0]
        picked.append(int(left[best]))
        left = np.delete(left, best)
    return _near_median(rows, np.sort(picked), len(rows) - 4 * f)


def _near_median(rows: Updates, picked: NDArray[np.int64], kept: int) -> Floats:
    """The mean (d,) of the `kept` values of the `picked` rows nearest to each coordinate's median."""
    result = np.empty(rows.shape[1], np.float32)
    low, high, window = (len(picked) - 1) // 2, len(picked) // 2, np.arange(kept)
    for part in _blocks(rows.shape[1]):
        ordered = _ordered(rows[picked, part])
        middle = (ordered[:, low] / 2 + ordered[:, high] / 2)[:, None]
        with np.errstate(over="ignore"):  # an infinite distance is far, too
            # The window moves up while its first value is farther away than the value after its last.
            begin = (middle - ordered[:, : len(picked) - kept] > ordered[:, kept:] - middle).sum(axis=1)
        nearest = np.take_along_axis(ordered, begin[:, None] + window, axis=1)  # (columns, kept)
        result[part] = nearest.mean(axis=1, dtype=np.float64)
    return result


def _scored(squares: Doubles, attackers: int) -> NDArray[np.int64]:
    """Returns the row numbers by Krum's score, the least first; a single remaining row has no neighbours."""
    near = min(len(squares) - 1, max(1, len(squares) - attackers - 2))
    ordered = np.sort(squares, axis=1)[:, 1 : near + 1]  # the first is the distance to itself
    return np.argsort(ordered.sum(axis=1), kind="stable")


# -- parts -------------------------------------------------------------------------------------------------


def _few(name: str, value: int, clients: int, times: int) -> int:
    """Returns `value` as f if `clients` >= times f + 3. Raises ValueError with the allowed range."""
    most = (clients - 3) // times
    if type(value) is not int or not 0 <= value <= most:
        allowed = f"0 to {most}" if most >= 0 else f"none, as there are only {clients} updates"
        raise ValueError(f"{name} = {value!r} is not allowed: {allowed}; there must be {times} f + 3 updates")
    return value


def _checked(updates: Updates, finite: bool = True) -> Updates:
    if updates.dtype != np.float32:
        raise TypeError(f"updates hold {updates.dtype}; allowed: float32")
    if updates.ndim != 2 or 0 in updates.shape:
        raise ValueError(f"updates have shape {updates.shape}; allowed: (k, d), neither of them 0")
    if finite and not np.isfinite(updates).all():
        raise NotFinite("updates hold a NaN or an infinity; drop those clients first")
    return updates


def _blocks(columns: int, width: int = _COLUMNS) -> Iterator[slice]:
    return blocks(columns, width)


def _ordered(block: Updates) -> Updates:
    """Returns (columns, k): each column of `block` (k, columns) sorted, in contiguous memory.

    A sort along the first axis has strides of a power of two, which share few cache lines: on an AMD EPYC it
    takes 46 ms for 50 x 100,000; the contiguous sort takes 12 ms.
    """
    columns = block.T.copy()
    columns.sort(axis=1)
    return columns


def _single(vector: NDArray[np.floating]) -> Floats:
    return vector.astype(np.float32)
