"""What one process spends in one round, from the same starting line for every protocol."""

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
from protocol.vectors.pieces import Floats, raw


def trim() -> None:
    """Give freed memory back to the system: what stays there would count in the next round."""
    gc.collect()
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


def settle() -> int:
    """At the start, before any vector: what is loaded by now stays, and no collection goes through it.

    The bytes resident from then on: a process's rest, the same in all its rounds. Between two rounds a
    process may hold vectors of the first: as long as it does they are above rest.
    """
    trim()
    gc.freeze()
    return resident_bytes("self", "VmRSS")


def cpu_seconds() -> float:
    """Of this process so far, all threads, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Meter:
    """One round of one member. Memory counts from before its vector is made, CPU and bytes from `go`.

    `rest`: see `settle`.
    """

    def __init__(self, cell: Cell, member: int, round: int, rest: int) -> None:
        trim()
        self._cell, self._member, self._round = cell, member, round
        self._peak = OwnPeak(rest)
        self._peak.__enter__()
        self._vector: Floats | None = cell.vector(member, round)

    def handed_over(self) -> Floats:
        """The vector (d,) float32, once: nothing keeps it here."""
        vector, self._vector = self._vector, None
        if vector is None:
            raise RuntimeError("a round's vector is handed over once")
        return vector

    def go(self, sent: Mapping[str, int]) -> None:
        """The signal came; `sent`: bytes by phase since the process began."""
        self._sent = Counter(sent)
        self._cpu_s = cpu_seconds()

    def sample(self, mean: Floats, sent: Mapping[str, int], aggregate_s: float) -> Sample:
        """The round is over for everybody."""
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
        )
