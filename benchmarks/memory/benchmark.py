"""Memory: the peak of a process above its rest, in bytes and in vectors of 4 d bytes.

A member must hold three vectors: x, which is its offer; its accumulator, which becomes its partial sum; and
the total. `float` shares are added in the order of keys, so a member also holds what arrives too early: up to
n - 2 vectors, if the member with the lowest key sends last. A whole node holds its base and its model
besides. They count as rest, and training takes its memory at other times.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

from benchmarks.memory.member import Cell, measure, serve
from benchmarks.memory.node import PEERS, node_peak
from benchmarks.spec import Benchmark, Figure, figure
from node.system.errors import ConfigError, UserError
from protocol.vectors.pieces import WORD_BYTES
from protocol.wire.limits import MAX_MEMBERS

DIMENSIONS = (1_000_000, 10_000_000)
MEMBERS = 4
LEAST_MEMBERS = 3
KINDS = ("seed", "ring", "float")
HELD = 3
"""How many vectors a member must hold: x, its accumulator, the total."""
BUFFERS_BYTES = 12 << 20
"""What a member may hold beside vectors, whatever their length: a few pieces of 1 MiB in transit."""
NODE_BUFFERS_BYTES = 64 << 20
"""The same for a whole node: for each thread its allocator keeps freed pieces, too."""
_PATIENCE_S = 600.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--n", type=int, default=MEMBERS, help=f"members of the session (default {MEMBERS})")
    parser.add_argument("--kinds", default=",".join(KINDS), help="share kinds, with commas (default all)")
    parser.add_argument("--no-node", action="store_true", help="leave out the whole node")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the figures of each share kind and length, then those of a whole node."""
    if not LEAST_MEMBERS <= arguments.n <= MAX_MEMBERS:
        raise ConfigError(f"--n {arguments.n}: allowed are {LEAST_MEMBERS} to {MAX_MEMBERS}")
    kinds = arguments.kinds.split(",")
    if not set(kinds) <= set(KINDS):
        raise ConfigError(f"--kinds {arguments.kinds}: allowed are {', '.join(KINDS)}")
    dimensions = DIMENSIONS[:1] if arguments.quick else DIMENSIONS
    return _all_figures(kinds, arguments.n, dimensions, () if arguments.no_node else dimensions)


def _all_figures(
    kinds: list[str], members: int, dimensions: Sequence[int], of_nodes: Sequence[int]
) -> Iterator[Figure]:
    for dimension in dimensions:
        for kind in kinds:
            yield from _member_figures(Cell(kind, members, dimension, late=False))
        if "float" in kinds:
            yield from _member_figures(Cell("float", members, dimension, late=True))
    for dimension in of_nodes:
        peak = node_peak(kinds[0], dimension)
        case = f"node {kinds[0]} {_dimension_text(dimension)}"
        what = f"x, partial sum, total; {PEERS} peers, at rest {peak.rest / 1e6:.0f} MB"
        yield from _figures(case, peak.above_rest, peak.dimension, HELD, NODE_BUFFERS_BYTES, what)


def _member_figures(cell: Cell) -> Iterator[Figure]:
    held = HELD + (cell.members - 2 if cell.kind == "float" and cell.late else 0)
    what = "x, partial sum, total" + (f", {cell.members - 2} waiting for key order" if held > HELD else "")
    case = f"{cell.kind}{' (lowest key late)' if cell.late else ''} {_dimension_text(cell.dimension)}"
    yield from _figures(case, _peak_above_rest(cell), cell.dimension, held, BUFFERS_BYTES, what)


def _figures(
    case: str, above_rest: int, dimension: int, held: int, buffers: int, what: str
) -> Iterator[Figure]:
    vector = WORD_BYTES * dimension
    most = held * vector + buffers
    yield figure("memory", case, "peak above rest", "bytes", [above_rest], most)
    yield figure(
        "memory", case, "in vectors", "x 4d", [above_rest / vector], None, f"must hold {held}: {what}"
    )


def _dimension_text(dimension: int) -> str:
    return f"d={dimension // 1_000_000}M"


def _peak_above_rest(cell: Cell) -> int:
    """Run a session, with one new process for the member and one for all others; return the peak in bytes."""
    context = multiprocessing.get_context("spawn")
    member, others = context.Pipe()
    results, sender = context.Pipe(duplex=False)
    processes = [
        context.Process(target=measure, args=(cell, member, sender), daemon=True),
        context.Process(target=serve, args=(cell, others), daemon=True),
    ]
    for process in processes:
        process.start()
    for end in (member, others, sender):
        end.close()
    try:
        return _receive_peak(results, cell)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _receive_peak(results: Connection, cell: Cell) -> int:
    try:
        if not results.poll(_PATIENCE_S):
            raise UserError(f"memory: no result for {cell} within {_PATIENCE_S:.0f} s")
        above_rest, error = results.recv()
    except EOFError as ended:
        raise UserError(f"memory: the process for {cell} ended without a result") from ended
    if not error < 1e-3:
        raise UserError(f"memory: the mean of {cell} is off by {error:g}")
    return int(above_rest)


MEMORY = Benchmark(add_options, run)
