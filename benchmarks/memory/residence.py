"""The resident memory of a process, and its peak; its CPU seconds."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

_EVERY_S = 0.002
_RESET_PEAK = "5"  # proc(5), /proc/pid/clear_refs: VmHWM becomes the current VmRSS


def resident_bytes(pid: int | str, field: str) -> int:
    """Return a field of /proc/PID/status, such as VmRSS, in bytes; 0 once the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    found = (line.split()[1] for line in lines if line.startswith(f"{field}:"))
    return 1024 * int(next(found, "0"))


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds, user and system, of a process so far (stat, proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class OwnPeak:
    """The peak of this process's resident memory above `rest` bytes while the context is entered.

    The kernel records the peak. If it does not allow a reset, a thread samples /proc/self/statm instead.
    """

    def __init__(self, rest: int) -> None:
        self._rest = rest
        self._sampled = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> OwnPeak:
        try:
            Path("/proc/self/clear_refs").write_text(_RESET_PEAK, "ascii")
        except OSError:
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()
        return self

    def _sample(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        statm = Path("/proc/self/statm")
        while not self._over.wait(_EVERY_S):
            self._sampled = max(self._sampled, page * int(statm.read_text("ascii").split()[1]))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def above_rest(self) -> int:
        """The peak above rest, in bytes."""
        peak = self._sampled if self._thread is not None else resident_bytes("self", "VmHWM")
        return peak - self._rest


class OtherPeak:
    """The peak of another process's private memory (RssAnon), sampled by a thread, above its first value."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.rest = self._peak = resident_bytes(pid, "RssAnon")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> OtherPeak:
        self._thread.start()
        return self

    def _sample(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._peak = max(self._peak, resident_bytes(self._pid, "RssAnon"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def above_rest(self) -> int:
        """The peak above rest, in bytes."""
        return self._peak - self.rest
