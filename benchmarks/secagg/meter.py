"""Measures what one process spends in one round, from the same point for every protocol."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import resource
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from benchmarks.memory.residence import OwnPeak, resident_bytes
from benchmarks.secagg.cells import Cell, Sample
from node.storage.file_shelf import FileShelves
from protocol.vectors.pieces import Floats, raw


def trim() -> None:
    """Return freed memory to the system: it would count in the next round."""
    gc.collect()
    with suppress(OSError, AttributeError):  # a C library other than glibc
        ctypes.CDLL(None).malloc_trim(0)


def settle() -> int:
    """Freeze the objects loaded so far, which the garbage collector then skips; return the resident bytes.

    Call it before the first vector is made: the result is the process's rest for all rounds. So what a
    process still holds of an earlier round counts as memory above rest.
    """
    trim()
    gc.freeze()
    return resident_bytes("self", "VmRSS")


def cpu_seconds() -> float:
    """Return the CPU seconds of this process so far, of all threads, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Meter:
    """Measures one member's round: memory from before its vector is made, CPU time and bytes from `start`.

    `rest`: what `settle` returned, in bytes.
    """

    def __init__(self, cell: Cell, member: int, round: int, rest: int) -> None:
        trim()
        self._cell, self._member, self._round = cell, member, round
        self._peak = OwnPeak(rest)
        self._peak.__enter__()
        self._vector: Floats | None = cell.vector(member, round)

    def hand_over(self) -> Floats:
        """Return the round's vector (d,) float32, and let go of it. Raises RuntimeError on a second call."""
        vector, self._vector = self._vector, None
        if vector is None:
            raise RuntimeError("a round's vector is handed over once")
        return vector

    def start(self, sent: Mapping[str, int], shelves: FileShelves) -> None:
        """Start to count CPU time and bytes. `sent`: bytes by phase since the process began."""
        self._sent = Counter(sent)
        self._shelves, self._kept = shelves, (shelves.bytes, shelves.seconds)
        self._cpu_s = cpu_seconds()

    def sample(self, mean: Floats, sent: Mapping[str, int], aggregate_s: float) -> Sample:
        """Return what the round cost. Call it after all members have the mean; `sent` as in `start`."""
        cpu_s = cpu_seconds() - self._cpu_s
        peak_bytes = self._peak.above_rest
        self._peak.__exit__(None, None, None)
        return Sample(
            cpu_s=cpu_s,
            sent=dict(Counter(sent) - self._sent),
            peak_bytes=peak_bytes,
            aggregate_s=aggregate_s,
            mean=hashlib.sha256(raw(mean, slice(None))).digest(),
            error=self._cell.error(mean, self._round) if self._member == 0 else None,
            file_bytes=self._shelves.bytes - self._kept[0],
            file_s=self._shelves.seconds - self._kept[1],
        )
