"""Work for child processes, so many at a time: each says a line a round to its log and leaves one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from scenarios.frame.children import PRELOAD, Children, warm_up

POLL_S = 0.2


class Work(Protocol):
    """Work for a child process, which says a line a round to `log` and at its end writes `path`."""

    @property
    def name(self) -> str:
        """What the user sees."""

    @property
    def rounds(self) -> int:
        """How many lines it will say."""

    @property
    def path(self) -> Path:
        """Its result: when this is there, the work is done."""

    @property
    def log(self) -> Path:
        """Its lines."""

    @property
    def worker(self) -> str:
        """`module:function` that does it."""


def do_all(
    queue: Sequence[Work], at_once: int, look: Callable[[], None], preload: Sequence[str] = PRELOAD
) -> None:
    """Do all of it, in order, `at_once` at a time; `look` is called when there may be news, and at the end.

    Raises UserError for the first that fails: the others are interrupted, and what is done stays.
    """
    if queue:
        for job in queue:
            job.log.unlink(missing_ok=True)  # of a run that was stopped
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
    """How many rounds of it have ended."""
    if job.path.exists():
        return job.rounds
    return min(job.rounds, job.log.read_bytes().count(b"\n")) if job.log.exists() else 0
