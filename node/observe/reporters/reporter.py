"""What a reporter is, and the thread in which it writes: a slow disk never holds up a node."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from node.observe.flat_record import numbers
from node.observe.journal import PAGE
from node.runtime.record import events
from node.runtime.record.events import NodeEvent
from node.system.errors import one_line

MAX_WAITING = 10_000
"""The most events that wait for a slow reporter; it misses further ones."""
_WRITTEN = (events.Started, events.RoundEnded, events.Finished)


class Reporter(Protocol):
    """Writes what a run says. Its methods run in one thread, in the order of the events."""

    def describe(self, lines: Mapping[str, str]) -> None:
        """Writes what the run is: a line of words for each name."""

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Writes the figures of a round."""

    def finish(self, figures: Mapping[str, float]) -> None:
        """Writes the figures of the whole run."""

    def close(self) -> None:
        """Ends the writing; the reporter is not used again."""


class ReporterThread:
    """An observer that hands a node's events to a reporter, in a thread.

    The first error ends the reporter, not the node: the owner gets one warning.
    """

    def __init__(self, name: str, begin: Callable[[], Reporter], warn: Callable[[str], None]) -> None:
        """`begin` opens the reporter, in the thread; `warn` may be called from it."""
        self._name = name
        self._begin = begin
        self._warn = warn
        self._waiting: queue.Queue[NodeEvent | None] = queue.Queue(MAX_WAITING)
        self._missed = 0
        self._thread = threading.Thread(target=self._run, name=f"report-{name}", daemon=True)
        self._thread.start()

    def handle(self, event: NodeEvent) -> None:
        """Queues an event that a reporter writes; does not block."""
        if isinstance(event, _WRITTEN) and self._thread.is_alive():
            try:
                self._waiting.put_nowait(event)
            except queue.Full:
                self._missed += 1

    def close(self) -> None:
        """Waits until everything is written."""
        if self._thread.is_alive():
            self._waiting.put(None)
        self._thread.join()
        if self._missed:
            self._warn(f"--report {self._name} was too slow: it misses {self._missed} events")

    def _run(self) -> None:
        try:
            reporter = self._begin()
            try:
                while (event := self._waiting.get()) is not None:
                    _write(reporter, event)
            finally:
                reporter.close()
        except Exception as error:  # noqa: BLE001 - a library's error never ends a node
            self._warn(f"--report {self._name} ends: {type(error).__name__}: {one_line(str(error))[:200]}")


def _write(reporter: Reporter, event: NodeEvent) -> None:
    match event:
        case events.Started(lines):
            reporter.describe({name: text for name, text in lines.items() if name != PAGE})
        case events.RoundEnded(record):
            figures = numbers(record.as_json())
            reporter.round(record.round, {name: value for name, value in figures.items() if name != "round"})
        case events.Finished(summary):
            reporter.finish(numbers(summary.as_json()))
