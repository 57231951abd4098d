"""Shares: the error of a sum for each kind of shares, and how fast one core encodes, masks and decodes."""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np

from benchmarks.spec import Benchmark, Figure, check_counts, figure
from protocol.aggregation.additive.shares import Shares, ShareSettings
from protocol.aggregation.fixed_point import FixedPoint
from protocol.vectors.pieces import Floats, Vector, pieces, raw

KINDS = ("seed", "ring", "float")
SIZES = (3, 10, 30)
CLIP, MAX_SHARE_VALUE = 4.0, 100.0
EXACT_DIMENSION, QUICK_EXACT_DIMENSION = 100_000, 20_000
FAST_DIMENSION = 1_000_000
REPEATS, QUICK_REPEATS = 15, 3
FLOAT_ERROR_AT_MOST, FLOAT_ERROR_MEMBERS = 1e-3, 10
FLOAT_ERROR = "M 1e-7 n^1.5, M = max_share_value"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--repeats", type=int, help=f"timings of each step (default {REPEATS})")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the errors of sums, then the speeds."""
    check_counts(arguments, "repeats")
    repeats = arguments.repeats or (QUICK_REPEATS if arguments.quick else REPEATS)
    return _figures(QUICK_EXACT_DIMENSION if arguments.quick else EXACT_DIMENSION, repeats)


def _figures(dimension: int, repeats: int) -> Iterator[Figure]:
    for kind in KINDS:
        for members in SIZES:
            yield from _error_figures(kind, members, dimension)
    for kind in KINDS:
        yield from _speed_figures(kind, FAST_DIMENSION, repeats)


def _seed(*names: object) -> bytes:
    return hashlib.sha256(repr(names).encode()).digest()


def _shares(kind: str, members: int) -> Shares:
    return ShareSettings(kind, CLIP, MAX_SHARE_VALUE).for_group(members)


def _update(member: int, dimension: int) -> Floats:
    """Return an update (dimension,) float32 within +-CLIP; its first two coordinates are CLIP and -CLIP."""
    values = np.random.default_rng(member).uniform(-1, 1, dimension).astype(np.float32)
    values[:2] = CLIP, -CLIP
    return values


# -- errors ------------------------------------------------------------------------------------------


def _error_figures(kind: str, members: int, dimension: int) -> Iterator[Figure]:
    updates = [_update(member, dimension) for member in range(members)]
    exact = np.sum(updates, axis=0, dtype=np.float64)
    error = np.abs(_decoded_sum(kind, updates) - exact)
    case = f"{kind} n={members}"
    if kind == "float":
        is_bound = members == FLOAT_ERROR_MEMBERS
        yield figure(
            "shares",
            case,
            "largest error of the sum",
            "",
            [error.max()],
            FLOAT_ERROR_AT_MOST if is_bound else None,
        )
        expected = MAX_SHARE_VALUE * 1e-7 * members**1.5
        rms = float(np.sqrt(np.mean(error**2)))
        yield figure("shares", case, "rms error of the sum", "", [rms], expected, FLOAT_ERROR)
    else:
        bound = members / FixedPoint(CLIP, members).scale
        yield figure("shares", case, "largest error of the sum", "", [error.max()], bound, "n/s")


def _decoded_sum(kind: str, updates: list[Floats]) -> np.ndarray:
    """Let members share out their updates; return the sum (d,) float64 that they decode."""
    shares, dimension = _shares(kind, len(updates)), len(updates[0])
    partials = [shares.encode(update, _seed("round", member))[0] for member, update in enumerate(updates)]
    for sender, recipient in permutations(range(len(updates)), 2):
        seed = _seed("mask", sender, recipient)
        shares.subtract(partials[sender], seed)
        for index in range(shares.payload_count(dimension)):
            shares.absorb(partials[recipient], index, shares.payload(seed, dimension, index))
    total = shares.empty(dimension)
    for partial in partials:
        _add(shares, total, partial)
    return total.astype(np.float64) if kind == "float" else FixedPoint(CLIP, len(updates)).decode_sum(total)


def _add(shares: Shares, total: Vector, partial: Vector) -> None:
    for index, part in pieces(len(partial)):
        shares.add(total, index, raw(partial, part))


# -- speeds ------------------------------------------------------------------------------------------


def _speed_figures(kind: str, dimension: int, repeats: int) -> Iterator[Figure]:
    shares, update = _shares(kind, 10), _update(0, dimension)
    accumulator, _ = shares.encode(update, _seed("round"))
    sum_of_all = shares.empty(dimension)
    steps: dict[str, Callable[[], object]] = {
        "encode": lambda: shares.encode(update, _seed("round")),
        "mask (one share out)": lambda: shares.subtract(accumulator, _seed("mask")),
        "add a partial sum": lambda: _add(shares, sum_of_all, accumulator),
        "decode": lambda: shares.decode(sum_of_all),
    }
    for name, step in steps.items():
        yield figure(
            "shares",
            f"{kind} d={dimension // 1_000_000}M",
            name,
            "GB/s",
            _gigabytes_a_second(step, 4 * dimension, repeats),
        )


def _gigabytes_a_second(step: Callable[[], object], size: int, repeats: int) -> list[float]:
    step()  # not timed: the first call warms up pages and caches
    speeds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        step()
        speeds.append(size / (time.perf_counter() - begun) / 1e9)
    return speeds


SHARES = Benchmark(add_options, run)
