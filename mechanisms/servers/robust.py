"""Robust aggregators: they reduce (k, d) updates to one (d,) and limit the effect of a few lying clients.

Each docstring states a breakdown point: how many of k clients may send arbitrary values so that the result
still stays within some distance of the honest updates, whatever the values are (Donoho & Huber 1983, "The
notion of breakdown point", for replaced rows). Within this distance liars still have influence.

All need a server that sees single updates. Updates must be finite: first drop a client that sends NaN or
infinity (`finite_rows`). Sums and distances are computed in float64; results are float32.
"""

from __future__ import annotations

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
"""Coordinates in a block, so that a block of 50 clients stays in the cache."""
_WIDE = 1 << 15
"""Coordinates in a block of which only sums are kept."""
_NEAR = 1e-7
"""The geometric median stops at a step shorter than this share of the median distance."""


def finite_rows(updates: Updates) -> NDArray[np.bool_]:
    """Returns (k,): whether a row of `updates` (k, d) holds only finite numbers."""
    return np.asarray(np.isfinite(_check_updates(updates, finite=False)).all(axis=1))


# -- norms -------------------------------------------------------------------------------------------------


def norm_bounded_mean(updates: Updates, norm_bound: float) -> Floats:
    """The mean of the updates, each scaled to an L2 norm of at most `norm_bound`; Sun et al. 2019, 3.1.

    Whatever f of k clients send, they move the result by at most 2 f norm_bound / k. So it never breaks down,
    but every client has this influence.
    """
    rows = _check_updates(updates)
    norms = np.sqrt(np.einsum("kd,kd->k", rows, rows, dtype=np.float64))
    factors = np.minimum(1.0, positive("norm_bound", norm_bound) / np.maximum(norms, np.finfo(float).tiny))
    return _in_float32((factors / len(rows)) @ rows.astype(np.float64))


def weak_dp(updates: Updates, norm_bound: float, noise_std: float, words: Words) -> Floats:
    """`norm_bounded_mean` plus Gaussian noise of `noise_std` in each coordinate; Sun et al. 2019, 3.2.

    It is as robust as `norm_bounded_mean`. Privacy is "weak": the noise is too small for a guarantee, and
    this function claims none.
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
    rows = _check_updates(updates)
    low, high = (len(rows) - 1) // 2, len(rows) // 2
    result = np.empty(rows.shape[1], np.float32)
    for part in blocks(rows.shape[1], _COLUMNS):
        ordered = _sort_columns(rows[:, part])
        result[part] = (ordered[:, low].astype(np.float64) + ordered[:, high]) / 2
    return result


def trimmed_mean(updates: Updates, trimmed: int) -> Floats:
    """The mean of each coordinate without its `trimmed` largest and smallest values, Yin et al. 2018, Alg. 1.

    Breakdown point: `trimmed` of k, which is below k / 2.
    """
    rows = _check_updates(updates)
    most = (len(rows) - 1) // 2
    if type(trimmed) is not int or not 0 <= trimmed <= most:
        raise ValueError(
            f"trimmed = {trimmed!r} is not allowed: 0 to {most}, below half of the {len(rows)} updates"
        )
    result = np.empty(rows.shape[1], np.float32)
    kept = slice(trimmed, len(rows) - trimmed)
    for part in blocks(rows.shape[1], _COLUMNS):
        result[part] = _sort_columns(rows[:, part])[:, kept].mean(axis=1, dtype=np.float64)
    return result


# -- all coordinates together ------------------------------------------------------------------------------


def geometric_median(updates: Updates, steps: int = 1000) -> Floats:
    """The point with the least sum of distances to the updates, by Weiszfeld's iteration.

    It starts at the coordinate median and takes the steps of Vardi & Zhang 2000, "The multivariate L1-median
    and associated data depth", (2.6), which can leave a point that is one of the updates. It ends after
    `steps` steps, or when a step is at most 1e-7 of the median distance. Breakdown point: floor((k - 1) / 2)
    of k.
    """
    rows = _check_updates(updates)
    point = coordinate_median(rows).astype(np.float64)
    for _ in range(count("steps", steps)):
        distances = _distances(rows, point)
        following = _weiszfeld_step(rows, point, distances)
        moved = float(np.linalg.norm(following - point))
        point = following
        if moved <= _NEAR * float(np.median(distances)):
            break
    return _in_float32(point)


def _weiszfeld_step(rows: Updates, point: Doubles, distances: Doubles) -> Doubles:
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
    # `here` updates lie at the point and hold it back: it moves as far as the others outweigh them.
    pull = float(inverse.sum() * np.linalg.norm(towards - point))
    stay = min(1.0, here / pull) if pull > 0 else 1.0
    return (1 - stay) * towards + stay * point


def _distances(rows: Updates, point: Doubles) -> Doubles:
    """Returns the (k,) L2 distances of the rows (k, d) from `point` (d,)."""
    squares = np.zeros(len(rows))
    for part in blocks(rows.shape[1], _COLUMNS):
        away = rows[:, part] - point[part]
        squares += np.einsum("kd,kd->k", away, away)
    return np.sqrt(squares)


def _weighted_sum(weights: Doubles, rows: Updates) -> Doubles:
    """sum w_i x_i, (d,)."""
    total = np.empty(rows.shape[1])
    for part in blocks(rows.shape[1], _COLUMNS):
        total[part] = weights @ rows[:, part].astype(np.float64)
    return total


def centred_clipping(updates: Updates, centre: Floats, radius: float, steps: int = 1) -> Floats:
    """Starts at c = `centre` (d,); each of `steps` adds the mean of (x_i - c) min(1, radius / ||x_i - c||).

    Karimireddy, He & Jaggi 2021, "Learning from history", (3). `centre` is a value agreed before, such as the
    last aggregate. Whatever f of k clients send, they move a step by at most 2 f radius / k. So it never
    breaks down, like `norm_bounded_mean`, which does the same around zero.
    """
    rows, point = _check_updates(updates), _in_float32(centre).astype(np.float64)
    bound = positive("radius", radius)
    if point.shape != rows.shape[1:]:
        raise ValueError(f"centre has shape {point.shape}; allowed: {rows.shape[1:]}, as the updates have")
    for _ in range(count("steps", steps)):
        distances = np.maximum(_distances(rows, point), np.finfo(float).tiny)
        factors = np.minimum(1.0, bound / distances) / len(rows)
        point = (1 - factors.sum()) * point + _weighted_sum(factors, rows)
    return _in_float32(point)


# -- by distances (Krum and its successors) ------------------------------------------------------------------


def squared_distances(updates: Updates) -> Doubles:
    """Returns squared L2 distances (k, k), by float64 inner products; each depends on its two rows alone."""
    rows = _check_updates(updates)
    products = np.zeros((len(rows), len(rows)))
    for part in blocks(rows.shape[1], _WIDE):
        exact = rows[:, part].astype(np.float64)
        products += exact @ exact.T
    own = np.diag(products)
    squares: Doubles = np.maximum(own[:, None] + own[None, :] - 2 * products, 0.0)
    np.fill_diagonal(squares, 0.0)
    return squares


def krum(updates: Updates, attackers: int) -> Floats:
    """The update with the least score, Blanchard et al. 2017.

    The score is the sum of the squared distances to the nearest k - f - 2 updates.
    Breakdown point: f = `attackers` of k >= 2 f + 3.
    """
    rows = _check_updates(updates)
    best = _rank_by_score(squared_distances(rows), _check_attackers(attackers, len(rows), 2))[0]
    return np.array(rows[best])


def multi_krum(updates: Updates, attackers: int, chosen: int) -> Floats:
    """The mean of the `chosen` updates with the least scores, Blanchard et al. 2017, section 5.

    Breakdown point: f = `attackers` of k >= 2 f + 3, as long as `chosen` is at most k - f - 2.
    """
    rows = _check_updates(updates)
    most = len(rows) - _check_attackers(attackers, len(rows), 2) - 2
    if count("chosen", chosen) > most:
        raise ValueError(
            f"chosen = {chosen} is not allowed: 1 to {most}, the {len(rows)} updates less attackers and 2"
        )
    best = np.sort(_rank_by_score(squared_distances(rows), attackers)[:chosen])
    return _in_float32(_weighted_sum(np.full(chosen, 1 / chosen), rows[best]))


def bulyan(updates: Updates, attackers: int) -> Floats:
    """Krum picks k - 2 f updates one by one; the result is the mean of their values nearest to the median.

    Each coordinate is the mean of k - 4 f values. El Mhamdi et al. 2018, "The hidden vulnerability of
    distributed learning in Byzantium", section 4. Breakdown point: f = `attackers` of k >= 4 f + 3.
    """
    rows = _check_updates(updates)
    f = _check_attackers(attackers, len(rows), 4)
    squares, left, picked = squared_distances(rows), np.arange(len(rows)), []
    for _ in range(len(rows) - 2 * f):
        best = _rank_by_score(squares[np.ix_(left, left)], f)[0]
        picked.append(int(left[best]))
        left = np.delete(left, best)
    return _near_median(rows, np.sort(picked), len(rows) - 4 * f)


def _near_median(rows: Updates, picked: NDArray[np.int64], kept: int) -> Floats:
    """Returns each coordinate's mean (d,) of the `kept` values nearest to the median of the `picked` rows."""
    result = np.empty(rows.shape[1], np.float32)
    low, high, window = (len(picked) - 1) // 2, len(picked) // 2, np.arange(kept)
    for part in blocks(rows.shape[1], _COLUMNS):
        ordered = _sort_columns(rows[picked, part])
        middle = (ordered[:, low] / 2 + ordered[:, high] / 2)[:, None]
        with np.errstate(over="ignore"):  # a distance may overflow to infinity, which is far, too
            # The window moves up while its first value is farther away than the value after its last.
            begin = (middle - ordered[:, : len(picked) - kept] > ordered[:, kept:] - middle).sum(axis=1)
        nearest = np.take_along_axis(ordered, begin[:, None] + window, axis=1)  # (columns, kept)
        result[part] = nearest.mean(axis=1, dtype=np.float64)
    return result


def _rank_by_score(squares: Doubles, attackers: int) -> NDArray[np.int64]:
    """Returns the row numbers by Krum's score, the least first. A single row has no neighbours."""
    near = min(len(squares) - 1, max(1, len(squares) - attackers - 2))
    ordered = np.sort(squares, axis=1)[:, 1 : near + 1]  # the first is the distance to itself
    return np.argsort(ordered.sum(axis=1), kind="stable")


# -- parts -------------------------------------------------------------------------------------------------


def _check_attackers(attackers: int, clients: int, times: int) -> int:
    """Returns `attackers`. Raises ValueError unless `clients` >= `times` attackers + 3."""
    most = (clients - 3) // times
    if type(attackers) is not int or not 0 <= attackers <= most:
        allowed = f"0 to {most}" if most >= 0 else f"none, as there are only {clients} updates"
        raise ValueError(
            f"attackers = {attackers!r} is not allowed: {allowed}; there must be {times} f + 3 updates"
        )
    return attackers


def _check_updates(updates: Updates, finite: bool = True) -> Updates:
    if updates.dtype != np.float32:
        raise TypeError(f"updates hold {updates.dtype}; allowed: float32")
    if updates.ndim != 2 or 0 in updates.shape:
        raise ValueError(f"updates have shape {updates.shape}; allowed: (k, d), neither of them 0")
    if finite and not np.isfinite(updates).all():
        raise NotFinite("updates hold a NaN or an infinity; drop those clients first")
    return updates


def _sort_columns(block: Updates) -> Updates:
    """Returns the columns of `block` (k, columns), each sorted: (columns, k), in contiguous memory.

    Sorting along the first axis of 50 x 100,000 takes 46 ms on an AMD EPYC, as its strides are a power of two
    and share few cache lines. The contiguous sort takes 12 ms.
    """
    columns = block.T.copy()
    columns.sort(axis=1)
    return columns


def _in_float32(vector: NDArray[np.floating]) -> Floats:
    return vector.astype(np.float32)
