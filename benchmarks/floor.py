"""Floor: the CPU time of a masked round's arithmetic, without messages, sockets or an event loop.

A process computes one member's masks, digests, check and signatures, by the product's own functions, on
buffers in memory. It runs alone first; then n such processes run at once, as in `secagg` with n peers. What
`secagg` measures beyond that is the cost of the state machine and the transport.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from statistics import median

import numpy as np

from benchmarks.secagg.cells import CLIP, RINGS, Cell
from benchmarks.spec import Benchmark, Figure, figure
from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.masked import linear_check
from protocol.aggregation.masked.chunks import MaskedVector, masks_of
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.mask_keys import pair_seed, private_key, public_key
from protocol.crypto.bulk_digest import bulk_digest
from protocol.crypto.node_key import NodeKey, verify
from protocol.crypto.prg import Stream
from protocol.vectors.pieces import Words
from protocol.vectors.shelf import in_memory

CELLS = ((10, 1_000_000), (4, 10_000_000))
QUICK_CELLS = ((4, 100_000),)
REPEATS, QUICK_REPEATS = 9, 3
SIGNED = 7
"""Signatures of each other member to verify: READY, JOIN, JOINED, masks, total, check, ACK or RELEASE."""
_SID, _SEED = b"s" * 32, b"\x07" * 32

_start: Barrier | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add nothing: this benchmark has no options of its own."""


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the CPU seconds of a peer and round, by step, alone and beside the others."""
    cells = QUICK_CELLS if arguments.quick else CELLS
    repeats = QUICK_REPEATS if arguments.quick else REPEATS
    return (found for n, d in cells for one in RINGS for found in _figures(one, n, d, repeats))


def _figures(protocol: str, n: int, d: int, repeats: int) -> Iterator[Figure]:
    cell = Cell(protocol, n, d)
    alone = _run_members(1, cell, repeats)
    together = _run_members(n, cell, repeats)
    case = f"{protocol} n={n} d={d}"
    for name in alone[0]:
        yield figure("floor", case, f"{name}, alone", "CPU s", [sample[name] for sample in alone])
    for name in together[0]:
        yield figure("floor", case, f"{name}, {n} at once", "CPU s", [sample[name] for sample in together])


def _run_members(processes: int, cell: Cell, repeats: int) -> list[dict[str, float]]:
    """Let so many processes compute the same member at once; return the medians of each."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    with ProcessPoolExecutor(processes, context, _keep_barrier, (barrier,)) as pool:
        return [one.result() for one in [pool.submit(_member_cpu_s, cell, repeats) for _ in range(processes)]]


def _keep_barrier(barrier: Barrier) -> None:
    global _start  # noqa: PLW0603 - a pool's process can receive a barrier only when it starts
    _start = barrier


def _member_cpu_s(cell: Cell, repeats: int) -> dict[str, float]:
    """Return the median CPU seconds of one member: of each step, and of all steps together."""
    if _start is not None:
        _start.wait()
    taken = [_round_cpu_s(cell) for _ in range(repeats + 1)][1:]
    spent = {name: median(one[name] for one in taken) for name in taken[0]}
    return {**spent, "all": median(sum(one.values()) for one in taken)}


def _round_cpu_s(cell: Cell) -> dict[str, float]:
    """Return the CPU seconds of each step of a round's arithmetic."""
    n, ring, key = cell.n, RINGS[cell.protocol], NodeKey(_SEED)
    layout, point = Layout(cell.d, n, ring=ring), FixedPoint(CLIP, n, ring)
    seeds = [hashlib.sha256(bytes([number])).digest() for number in range(n)]
    masks = masks_of(0, seeds[0], [None, *seeds[1:]], _SEED)
    own = MaskedVector(cell.vector(0, 0), masks, point, layout, key, _SID, in_memory(0))
    indices = range(layout.chunks)
    mine = [index for index in indices if index % n == 0]
    spent: dict[str, float] = {}
    _time_step(spent, "own vector", lambda: [own.message(index) for index in indices])
    chunks = [own.message(index).payload for index in indices]
    _time_step(spent, "digests", lambda: [bulk_digest(chunk) for chunk in (*chunks, *chunks)])

    def add() -> None:
        for index in mine:
            linear_check.add_up([chunks[index]] * n, layout.length(index), ring)

    _time_step(spent, "sums", add)
    carries = [np.zeros(layout.length(index), dtype=np.uint8) for index in indices]
    coefficients = linear_check.Coefficients(_SEED, layout)

    def check() -> None:
        for index in indices:
            coefficients.products(index, own.words(index))
            coefficients.total_products(index, own.words(index), carries[index])

    _time_step(spent, "check", check)
    total = np.concatenate([own.words(index) for index in indices])
    _time_step(spent, "masks off, mean", lambda: _unmask(total, seeds, point))
    _time_step(spent, "signatures, keys", lambda: _check_signatures(n, key))
    return spent


def _time_step(spent: dict[str, float], name: str, call: Callable[[], object]) -> None:
    begun = time.process_time()
    call()
    spent[name] = time.process_time() - begun


def _unmask(total: Words, seeds: list[bytes], point: FixedPoint) -> None:
    """Take all masks off a total, as protocol.aggregation.masked.unmasking does if no member is missing."""
    streams, size = [Stream(seed) for seed in seeds], 1 << 17
    mean = np.empty(len(total), dtype=point.result)
    for first in range(0, len(total), size):
        part = total[first : first + size].copy()
        for stream in streams:
            stream.subtract_from(part, first)
        point.decode(part, len(seeds), mean[first : first + size])


def _check_signatures(n: int, key: NodeKey) -> None:
    """For each other member: verify its signatures; agree with it on a seed and on a sealed share's key."""
    signature, far = key.sign(b"check", _SID), public_key(int.from_bytes(_SEED, "little") % 2**254)
    near = private_key(1 << 200)
    for _ in range(n - 1):
        for _ in range(SIGNED):
            verify(key.public, b"check", _SID, signature)
        for _ in range(2):
            pair_seed(near, far, _SID, b"1" * 32, b"2" * 32)


FLOOR = Benchmark(add_options, run)
