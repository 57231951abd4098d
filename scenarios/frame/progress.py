"""The lines and bars of a terminal, with the time left, for whatever goes by rounds."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn


def print_plain(console: Console, text: str) -> None:
    """Print a line as it is, without colours or breaks."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


class Pace:
    """Estimates the time left from the steps since the first call; the time to start up does not count."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def left_s(self, done: float, in_all: float, now_s: float) -> float | None:
        """Seconds left at `now_s` if the pace stays the same; None before a pace is known."""
        if self._first is None:
            self._first = (done, now_s)
        done_first, first_s = self._first
        if done >= in_all:
            return 0.0
        return (in_all - done) * (now_s - first_s) / (done - done_first) if done > done_first else None


class Bar:
    """A bar of a terminal: name, bar, time left, text."""

    def __init__(self, progress: Progress, name: str, total: int) -> None:
        self._progress, self._total = progress, total
        self._task = progress.add_task(name, total=total, left="", said="")
        self._pace = Pace()

    def move(self, done: int, said: str = "") -> None:
        """Show that `done` steps have ended, and a text."""
        left_s = self._pace.left_s(done, self._total, time.monotonic())
        left = "done" if done >= self._total else f"{clock(left_s)} left"
        self._progress.update(self._task, completed=done, left=left, said=said)


class Rounds:
    """Counts the ended rounds of what runs side by side, by name."""

    def __init__(self) -> None:
        self._ended: dict[str, int] = {}

    def ended(self, name: str, round: int) -> int:
        """Note that one has ended this round; return the number of ended rounds of all."""
        self._ended[name] = round
        return sum(self._ended.values())


def columns() -> tuple[ProgressColumn, ...]:
    """The columns of a bar."""
    return (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[left]}", style="cyan"),
        TextColumn("{task.fields[said]}"),
    )


def clock(seconds: float | None) -> str:
    """Seconds as m:ss, `-:--` for an unknown time."""
    if seconds is None:
        return "-:--"
    return f"{int(seconds + 0.5) // 60}:{int(seconds + 0.5) % 60:02d}"
