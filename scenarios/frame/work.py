"""Work for child processes: each prints a line per round to its log and writes one result file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from scenarios.frame.children import PRELOAD, Children, warm_up

POLL_S = 0.2
_ROUND_LINE = re.compile(r"^round (\d+): (\S+)\n", re.MULTILINE)


class Work(Protocol):
    """Work for a child process, which prints a line per round to `log` and at its end writes `path`."""

    @property
    def name(self) -> str:
        """The name for the user."""

    @property
    def rounds(self) -> int:
        """The number of rounds, each with a line in the log."""

    @property
    def path(self) -> Path:
        """The result file: if it exists, the work is done."""

    @property
    def log(self) -> Path:
        """The log with the lines of the rounds."""

    @property
    def worker(self) -> str:
        """The function that does the work, as `module:function`."""


def do_all(
    queue: Sequence[Work], at_once: int, look: Callable[[], None], preload: Sequence[str] = PRELOAD
) -> None:
    """Do all work of `queue`, in order, `at_once` at a time; call `look` for possible news and at the end.

    Raises UserError for the first work that fails: the others are interrupted, finished results stay.
    """
    if queue:
        for job in queue:
            job.log.unlink(missing_ok=True)  # left by a stopped run
        warm_up(preload)
        with Children() as children:
            _work(list(queue), at_once, look, children)


def _work(waiting: list[Work], at_once: int, look: Callable[[], None], children: Children) -> None:
    while waiting or children.running():
        if waiting and len(children.running()) < at_once:
            job = waiting.pop(0)
            children.start(job.name, job.log, job.worker, job)
            continue
        look()
        children.wait(POLL_S)
    look()


def rounds_done(job: Work) -> int:
    """The number of rounds of the job that have ended."""
    if job.path.exists():
        return job.rounds
    return min(job.rounds, job.log.read_bytes().count(b"\n")) if job.log.exists() else 0


def round_line(number: int, figure: float) -> str:
    """The line that a child prints at the end of a round."""
    return f"round {number}: {float(figure)!r}"


def rounds_said(log: Path) -> list[tuple[int, float]]:
    """The rounds in a log, in order, each with its number and figure."""
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    return [(int(number), float(figure)) for number, figure in _ROUND_LINE.findall(text)]
