"""One process of torch.distributed's all_reduce over gloo: the lower bound, without any protection."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection

import torch
import torch.distributed as dist

from benchmarks.secagg.cells import Cell
from benchmarks.secagg.meter import Meter, settle
from protocol.vectors.pieces import WORD_BYTES, Floats

ALL = "all"
_NOTHING: Mapping[str, int] = {}


def run(cell: Cell, member: int, store: str, parent: Connection) -> int:
    """Run the process to its end; return its exit status. `store`: the path of a file that does not exist."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=member, world_size=cell.n)
    rest = settle()
    parent.send(None)
    while (number := parent.recv()) is not None:
        _round(Meter(cell, member, number, rest), cell, parent)
    dist.destroy_process_group()
    return 0


def _round(meter: Meter, cell: Cell, parent: Connection) -> None:
    parent.send(None)
    parent.recv()
    begun = time.monotonic()
    meter.go(_NOTHING)
    mean = _mean(meter.handed_over(), cell.n)
    at = time.monotonic()
    parent.send(at)
    parent.recv()
    parent.send(meter.sample(mean, {ALL: ring_bytes(cell)}, at - begun))


def _mean(vector: Floats, n: int) -> Floats:
    """Replace `vector` (d,) float32 by the mean of all processes, in place; return it."""
    tensor = torch.from_numpy(vector)
    dist.all_reduce(tensor)
    vector /= n
    return vector


def ring_bytes(cell: Cell) -> int:
    """The bytes that a process sends in a ring all_reduce; computed, as gloo does not report them."""
    return 2 * (cell.n - 1) * WORD_BYTES * cell.d // cell.n
