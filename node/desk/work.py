"""The work that takes long, one piece at a time, in a thread: how far it is, and how it ended."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from node.system.errors import UserError, one_line, refusal

Values = Mapping[str, object]
"""What becomes a JSON object."""
Tell = Callable[[Values], None]
"""Shows a piece of news while the work goes on."""
MOST_TOLD = 1000


@dataclass(frozen=True)
class Step:
    """What a person asked for: `run` does it and returns what came of it, as `command` does in a terminal."""

    name: str
    command: str
    run: Callable[[Tell], Values]


@dataclass(frozen=True)
class Work:
    """A piece of work as it is now: `told` is its news so far, `error` why it failed, one line."""

    number: int
    step: str
    command: str
    state: Literal["running", "done", "failed"] = "running"
    told: tuple[Values, ...] = ()
    result: Values | None = None
    error: str = ""


class Busy(UserError):
    """Another piece of work goes on."""


class Worker:
    """Does one piece of work at a time, and keeps the last one for those who ask."""

    def __init__(self, *, debug: bool = False) -> None:
        """`debug`: print the tracebacks of errors."""
        self._debug = debug
        self._lock = threading.Lock()
        self._work: Work | None = None
        self._thread: threading.Thread | None = None

    @property
    def work(self) -> Work | None:
        """The last piece of work; None before the first."""
        return self._work

    def begin(self, step: Step) -> Work:
        """Begins a step in a thread. Raises Busy while another one runs."""
        with self._lock:
            last = self._work
            if last is not None and last.state == "running":
                raise Busy(f"one thing at a time: {last.command} still runs; wait until it is done")
            begun = Work(1 if last is None else last.number + 1, step.name, step.command)
            self._work = begun
            # A daemon: the end of the command does not wait for it.
            self._thread = threading.Thread(target=self._run, args=(begun, step), name="desk", daemon=True)
        self._thread.start()
        return begun

    def wait(self, limit_s: float) -> None:
        """Waits until the work is over, at most `limit_s`."""
        if self._thread is not None:
            self._thread.join(limit_s)

    def _run(self, work: Work, step: Step) -> None:
        told: list[Values] = []

        def tell(news: Values) -> None:
            if len(told) < MOST_TOLD:
                told.append(news)
                self._work = replace(work, told=tuple(told))

        try:
            result = step.run(tell)
        except Exception as error:  # noqa: BLE001 - the page shows it, as a command does
            if self._debug:
                traceback.print_exc()
            self._work = replace(work, state="failed", told=tuple(told), error=_in_words(error))
        else:
            self._work = replace(work, state="done", told=tuple(told), result=result)


def _in_words(error: Exception) -> str:
    """Returns the line that a command would print."""
    if isinstance(error, UserError):
        return str(error)
    what = f"{type(error).__name__}: {one_line(str(error))}"
    return refusal(error) or f"{what} (this is a fault of the program; murmuration desk --debug shows where)"
