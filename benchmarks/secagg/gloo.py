"""One process of a sum without protection, torch.distributed's all_reduce over gloo: a lower bound."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.secagg.cells import Cell
from benchmarks.secagg.meter import Meter, settle
from node.storage.file_shelf import FileShelves
from protocol.vectors.pieces import WORD_BYTES

ALL = "all"
_NOTHING: Mapping[str, int] = {}


def run(cell: Cell, member: int, store: str, parent: Connection) -> int:
    """Run rounds until the parent ends them; return the exit status. `store`: a path that does not exist."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=member, world_size=cell.n)
    rest = settle()
    parent.send(None)
    while (number := parent.recv()) is not None:
        _run_round(Meter(cell, member, number, rest), cell, parent)
    dist.destroy_process_group()
    return 0


def _run_round(meter: Meter, cell: Cell, parent: Connection) -> None:
    parent.send(None)
    parent.recv()
    begun = time.monotonic()
    meter.start(_NOTHING, FileShelves(Path()))
    mean = meter.hand_over()
    dist.all_reduce(torch.from_numpy(mean))  # in place: every process has the sum
    mean /= cell.n
    at = time.monotonic()
    parent.send(at)
    parent.recv()
    parent.send(meter.sample(mean, {ALL: ring_bytes(cell)}, at - begun))


def ring_bytes(cell: Cell) -> int:
    """Return the bytes that a process sends in a ring all_reduce. They are computed: gloo reports none."""
    return 2 * (cell.n - 1) * WORD_BYTES * cell.d // cell.n
