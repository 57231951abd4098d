"""The progress of a run: bars on a terminal, or one line per round without one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn

from node.runtime.record.figures import AGGREGATED, Record

PEER_BARS_AT_MOST = 12


@dataclass(frozen=True)
class PeerProgress:
    """The progress of one peer: its last round, the outcomes of its rounds, its current accuracy."""

    round: int
    aggregated: int
    fallbacks: int
    accuracy: float | None

    @staticmethod
    def of(rounds: Sequence[Record]) -> PeerProgress:
        """The progress of a peer that has ended these rounds, in order."""
        if not rounds:
            return PeerProgress(0, 0, 0, None)
        aggregated = sum(entry.outcome == AGGREGATED for entry in rounds)
        return PeerProgress(rounds[-1].round, aggregated, len(rounds) - aggregated, rounds[-1].accuracy)


class Display(Protocol):
    """Shows the progress of a run."""

    def stage(self, text: str) -> None:
        """Show that a new part of the run begins."""

    def peers(self, peers: Sequence[PeerProgress]) -> None:
        """Show that the peers have ended rounds."""

    def baselines(self, rounds_done: int, rounds_in_all: int) -> None:
        """Show that the baselines together have ended `rounds_done` rounds of `rounds_in_all`."""


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


def clock(seconds: float | None) -> str:
    """Seconds as m:ss, `-:--` for an unknown time."""
    if seconds is None:
        return "-:--"
    return f"{int(seconds + 0.5) // 60}:{int(seconds + 0.5) % 60:02d}"


def percent(accuracy: float | None) -> str:
    """An accuracy in [0, 1] in per cent; `-` if there is none."""
    return "-" if accuracy is None else f"{accuracy:.1%}"


def outcomes(aggregated: int, fallbacks: int) -> str:
    """The outcomes of the rounds so far, in words."""
    return f"{aggregated} aggregated" + (f", {fallbacks} fell back" if fallbacks else "")


class Lines:
    """A display for logs and pipes: a line for every round that all peers have ended, and for every stage."""

    def __init__(self, console: Console, rounds: int) -> None:
        self._console = console
        self._rounds = rounds
        self._said = 0
        self._pace = Pace()

    def stage(self, text: str) -> None:
        """Print the stage."""
        self._say(text)

    def peers(self, peers: Sequence[PeerProgress]) -> None:
        """Print the round that all peers have ended, once."""
        ended = min(peer.round for peer in peers)
        if ended > self._said:
            self._said = ended
            left_s = self._pace.left_s(ended, self._rounds, time.monotonic())
            self._say(round_line(peers, self._rounds, left_s))

    def baselines(self, rounds_done: int, rounds_in_all: int) -> None:
        """Do nothing: the baselines take a few seconds."""

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def round_line(peers: Sequence[PeerProgress], rounds: int, left_s: float | None) -> str:
    """The line about the last round that all peers have ended."""
    ended = min(peer.round for peer in peers)
    said = outcomes(sum(peer.aggregated for peer in peers), sum(peer.fallbacks for peer in peers))
    return f"round {ended}/{rounds}  accuracy {accuracy_range(peers)}  {said}  {clock(left_s)} left"


def accuracy_range(peers: Sequence[PeerProgress]) -> str:
    """The peers' accuracy: one figure if they agree, otherwise the lowest and the highest."""
    known = [peer.accuracy for peer in peers if peer.accuracy is not None]
    if not known:
        return "-"
    low, high = percent(min(known)), percent(max(known))
    return low if low == high else f"{low} to {high}"


class Bars:
    """A display for a terminal: a bar for the swarm, for each peer (up to 12), and for the baselines."""

    def __init__(self, progress: Progress, peers: int, rounds: int) -> None:
        self._progress = progress
        self._rounds = rounds
        self._swarm = self._add("[bold]swarm", rounds * peers)
        shown = peers if peers <= PEER_BARS_AT_MOST else 0
        self._peers = [self._add(f"peer {peer}", rounds) for peer in range(shown)]
        self._swarm_pace = Pace()
        self._baselines_pace = Pace()
        self._baselines: TaskID | None = None

    def _add(self, name: str, total: int) -> TaskID:
        return self._progress.add_task(name, total=total, left="", said="")

    def stage(self, text: str) -> None:
        """Print the stage above the bars."""
        self._progress.console.print(text, highlight=False, markup=False)

    def peers(self, peers: Sequence[PeerProgress]) -> None:
        """Move the bars."""
        done, in_all = sum(peer.round for peer in peers), self._rounds * len(peers)
        left = _left(self._swarm_pace, done, in_all)
        said = f"round {min(peer.round for peer in peers)}/{self._rounds}, accuracy {accuracy_range(peers)}"
        self._progress.update(self._swarm, completed=done, left=left, said=said)
        for bar, peer in zip(self._peers, peers, strict=False):
            text = f"{percent(peer.accuracy)}, {outcomes(peer.aggregated, peer.fallbacks)}"
            self._progress.update(bar, completed=peer.round, said=text)

    def baselines(self, rounds_done: int, rounds_in_all: int) -> None:
        """Move the baselines' bar, which the first call adds."""
        if self._baselines is None:
            self._baselines = self._add("[bold]baselines", rounds_in_all)
        left = _left(self._baselines_pace, rounds_done, rounds_in_all)
        self._progress.update(self._baselines, completed=rounds_done, left=left)


def _left(pace: Pace, done: int, in_all: int) -> str:
    left_s = pace.left_s(done, in_all, time.monotonic())
    return "done" if done >= in_all else f"{clock(left_s)} left"


def columns() -> tuple[ProgressColumn, ...]:
    """The columns of a line on a terminal: name, bar, time left, text."""
    return (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[left]}", style="cyan"),
        TextColumn("{task.fields[said]}"),
    )


@contextmanager
def shown(console: Console, peers: int, rounds: int) -> Iterator[Display]:
    """Yield the display that fits the console, for the duration of the run."""
    if not console.is_terminal:
        yield Lines(console, rounds)
        return
    with Progress(*columns(), console=console) as progress:
        yield Bars(progress, peers, rounds)
