"""Calls of functions that take long: in this process, in child processes, or on a cluster (engines.ray).

    Call ──▶ function(*arguments, say) ──▶ what it returns, as JSON in `path`
                       └──say(round, figure)──▶ Watch.round_ended

Where a call is made, nothing else changes: it is done when `path` is there, and an error is one line.
"""

from __future__ import annotations

import re
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol

from node.system.errors import UserError, reason
from scenarios.frame.children import PRELOAD, Children, warm_up
from scenarios.frame.folder import write_value

POLL_S = 0.2
_ROUND_LINE = re.compile(r"^round (\d+): (\S+)\n", re.MULTILINE)

Say = Callable[[int, float], None]
"""Reports that a round has ended with this figure."""


@dataclass(frozen=True)
class Call:
    """A call of `function`, as `module:function`, with `arguments` and a Say; it returns a dataclass.

    name: for the user. rounds: how many it reports. cores: the processor cores that it takes on a cluster.
    """

    name: str
    function: str
    arguments: tuple[Any, ...]
    rounds: int
    path: Path
    cores: int = 1

    @property
    def log(self) -> Path:
        """What the call prints in a process of its own, with a line per round; the traceback of an error."""
        return self.path.with_suffix(".log")

    def result(self, say: Say) -> Any:
        """Make the call in this process."""
        return resolve_name(self.function)(*self.arguments, say)

    def keep(self, result: Any) -> None:
        """Write the result; the file is complete or does not exist."""
        write_value(self.path, result)


class Watch(Protocol):
    """Learns of the progress of calls, which may be made side by side."""

    def round_ended(self, call: Call, round: int, figure: float) -> None:
        """A call has ended a round with this figure."""

    def call_ended(self, call: Call) -> None:
        """The result of a call is there."""


Do = Callable[[Sequence[Call], Watch], None]
"""Makes calls, in order. Raises UserError for the first that fails; results that are there stay."""


@contextmanager
def one_line(name: str, log: Path) -> Iterator[None]:
    """Turn any error into a UserError with the name; write the traceback of other errors to `log`."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{name}: {error}", error.status) from error
    except Exception as error:  # a user's mechanism or model may raise anything
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as lines:
            traceback.print_exc(file=lines)
        raise UserError(f"{name}: {reason(error)} (log: {log})") from error


def do_here(calls: Sequence[Call], watch: Watch) -> None:
    """Make the calls in this process, one by one; see Do."""
    for call in calls:
        with one_line(call.name, call.log):
            call.keep(call.result(partial(watch.round_ended, call)))
        watch.call_ended(call)


# -- in child processes ------------------------------------------------------------------------------------


def do_in_children(
    calls: Sequence[Call], watch: Watch, at_once: int, preload: Sequence[str] = PRELOAD
) -> None:
    """Make the calls in child processes, `at_once` side by side; see Do. The others are interrupted."""
    if not calls:
        return
    for call in calls:
        call.log.unlink(missing_ok=True)  # left by a stopped run
    warm_up(preload)
    look, waiting = Look(calls, watch), deque(calls)
    with Children() as children:
        while waiting or children.running():
            if waiting and len(children.running()) < at_once:
                call = waiting.popleft()
                children.start(call.name, call.log, f"{__name__}:made", call)
                continue
            look()
            children.wait(POLL_S)
    look()


def made(call: Call) -> int:
    """Make a call in a child process: print a line per round, keep the result, return the exit status."""
    try:
        call.keep(call.result(print_round))
    except UserError:
        raise
    except Exception as error:
        traceback.print_exc()  # the parent shows only the last line of the log
        raise UserError(reason(error)) from error
    return 0


@dataclass
class Look:
    """Reads the logs of `calls`, and tells `watch` the news since the last time."""

    calls: Sequence[Call]
    watch: Watch

    def __post_init__(self) -> None:
        self._told = dict.fromkeys(range(len(self.calls)), 0)  # rounds of each call that has not ended

    def __call__(self) -> None:
        """Read the logs once and tell the news."""
        for index, told in list(self._told.items()):
            call = self.calls[index]
            ended = call.path.exists()  # checked before reading, so that the log of an ended call is complete
            for number, figure in rounds_said(call.log)[told:]:
                self.watch.round_ended(call, number, figure)
                self._told[index] = number
            if ended:
                self.watch.call_ended(call)
                del self._told[index]


def round_line(number: int, figure: float) -> str:
    """The line that a child prints at the end of a round."""
    return f"round {number}: {float(figure)!r}"


def print_round(number: int, figure: float) -> None:
    """Print that line to the log and flush it."""
    print(round_line(number, figure), flush=True)


def rounds_said(log: Path) -> list[tuple[int, float]]:
    """The rounds in a log, in order, each with its number and figure."""
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    return [(int(number), float(figure)) for number, figure in _ROUND_LINE.findall(text)]
