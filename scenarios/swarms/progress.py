"""The progress of a run: bars on a terminal, or one line per round without one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.progress import Progress

from node.runtime.record.figures import AGGREGATED, Record
from scenarios.frame.progress import Bar, Pace, Rounds, clock, columns, print_plain
from scenarios.frame.work import Call, Watch

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

    def calls(self, name: str, calls: Sequence[Call]) -> Watch:
        """What shows the progress of these calls under this name."""


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
        print_plain(self._console, text)

    def peers(self, peers: Sequence[PeerProgress]) -> None:
        """Print the round that all peers have ended, once."""
        ended = min(peer.round for peer in peers)
        if ended > self._said:
            self._said = ended
            left_s = self._pace.left_s(ended, self._rounds, time.monotonic())
            print_plain(self._console, round_line(peers, self._rounds, left_s))

    def calls(self, name: str, calls: Sequence[Call]) -> Watch:
        """Nothing is shown of calls, which take a few seconds."""
        return CallsBar(Progress(disable=True), name, calls)


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
    """A display for a terminal: a bar for the swarm, for each peer (up to 12), and for calls."""

    def __init__(self, progress: Progress, peers: int, rounds: int) -> None:
        self._progress = progress
        self._rounds = rounds
        self._swarm = Bar(progress, "[bold]swarm", rounds * peers)
        shown = peers if peers <= PEER_BARS_AT_MOST else 0
        self._peers = [
            progress.add_task(f"peer {peer}", total=rounds, left="", said="") for peer in range(shown)
        ]

    def stage(self, text: str) -> None:
        """Print the stage above the bars."""
        self._progress.console.print(text, highlight=False, markup=False)

    def peers(self, peers: Sequence[PeerProgress]) -> None:
        """Move the bars."""
        said = f"round {min(peer.round for peer in peers)}/{self._rounds}, accuracy {accuracy_range(peers)}"
        self._swarm.move(sum(peer.round for peer in peers), said)
        for bar, peer in zip(self._peers, peers, strict=False):
            text = f"{percent(peer.accuracy)}, {outcomes(peer.aggregated, peer.fallbacks)}"
            self._progress.update(bar, completed=peer.round, said=text)

    def calls(self, name: str, calls: Sequence[Call]) -> Watch:
        """A bar of their own."""
        return CallsBar(self._progress, f"[bold]{name}", calls)


class CallsBar:
    """A bar for the rounds of all `calls` together."""

    def __init__(self, progress: Progress, name: str, calls: Sequence[Call]) -> None:
        self._bar, self._rounds = Bar(progress, name, sum(call.rounds for call in calls)), Rounds()

    def round_ended(self, call: Call, round: int, figure: float) -> None:
        """See Watch.round_ended."""
        self._bar.move(self._rounds.ended(call.name, round))

    def call_ended(self, call: Call) -> None:
        """See Watch.call_ended."""
        self._bar.move(self._rounds.ended(call.name, call.rounds))


@contextmanager
def shown(console: Console, peers: int, rounds: int) -> Iterator[Display]:
    """Yield the display that fits the console, for the duration of the run."""
    if not console.is_terminal:
        yield Lines(console, rounds)
        return
    with Progress(*columns(), console=console) as progress:
        yield Bars(progress, peers, rounds)
