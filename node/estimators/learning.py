"""How `fit` learns: members agree on what their columns hold, unless they declare it; then they learn.

Each of the two is a node of its own, in the same folder and with the same key. A member that has ended the
first greets others that have not, and is refused by them; it tries again. Who differs is told by a warning,
as soon as it is met.
"""

from __future__ import annotations

import json
import math
import socket
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from torch import nn

from node.api.peer import close
from node.api.thread_runner import Run
from node.app.run import Prepared, prepare
from node.data.in_memory import FrameRows
from node.estimators.agreement import preparing
from node.estimators.proposal import Wishes
from node.estimators.stages import Stage
from node.jobs.cohort import Cohort
from node.jobs.column_survey import ColumnFacts, ColumnSurvey, OwnColumn, Word
from node.net.incoming.listening import endpoint_of
from node.options import NodeOptions, parse_arguments
from node.runtime.record.ending import Alone
from node.runtime.record.events import NodeEvent
from node.runtime.record.figures import Summary
from node.storage.folder_lock import KEY, SUMMARY
from node.system.errors import ConfigError, OtherSwarm, UserError, shown
from node.system.system import SYSTEM
from node.task.sections import Task

_AGAIN_S = 0.1
_OURS = "node."
T = TypeVar("T")


@dataclass(frozen=True)
class Contact:
    """How this member reaches the others, and where it keeps what it knows: arguments of an estimator."""

    peers: Sequence[str]
    tracker: str | None
    listen: str | socket.socket | None
    wait: int | str
    out: str | Path | None
    key: str | Path | None
    allow: str | Path | None
    open: bool

    def close(self) -> None:
        """Closes the socket that was given, so that others do not wait for an answer from it."""
        if isinstance(self.listen, socket.socket):
            self.listen.close()

    def options(self) -> NodeOptions:
        """Returns a node's options, without its task. Raises ConfigError."""
        listener = self.listen if isinstance(self.listen, socket.socket) else None
        named: Mapping[str, object] = {
            "peers": ",".join([self.peers] if isinstance(self.peers, str) else self.peers) or None,
            "tracker": self.tracker,
            "listen": self.listen if listener is None else endpoint_of(listener, None),
            "wait": self.wait,
            "out": self.out,
            "key": self.key,
            "allow": self.allow,
        }
        argv = [f"--{name}={value}" for name, value in named.items() if value is not None]
        return parse_arguments([*argv, "--alone=no", *(["--open"] if self.open else [])])


@dataclass(frozen=True)
class Found:
    """What an agreement has found."""

    facts: tuple[ColumnFacts, ...]
    words: tuple[Word, ...]
    rows: int


@dataclass(frozen=True)
class Learned:
    """What a member has learned, and where its files are."""

    model: nn.Module
    summary: Summary
    out: Path


class Member:
    """This member during one `fit`, with its address and its folder."""

    def __init__(self, contact: Contact, options: NodeOptions) -> None:
        """Raises ConfigError for a folder whose run is over."""
        out = options.out or Path("runs") / f"estimator-{SYSTEM.entropy(4).hex()}"
        self._run_folder, self._agreement = out / "run", out / "agreement"
        if _is_over(self._run_folder / SUMMARY):
            raise ConfigError(
                f"out = {shown(str(out))} has a run that is over; give a new folder, or None, to learn anew"
            )
        self._options = replace(options, out=self._run_folder, key=options.key or out / KEY)
        self._listener = contact.listen if isinstance(contact.listen, socket.socket) else None
        self._others = frozenset(peer.endpoint for peer in options.peers) - {options.listen or ""}
        self._agreed_on: str | None = None
        self._told: set[str] = set()

    def agree(
        self,
        names: Sequence[str],
        rows: int,
        columns: Sequence[OwnColumn],
        words: Sequence[Word],
        wishes: Wishes,
    ) -> Found:
        """Agrees with the others on what the columns hold. Raises UserError."""
        job = ColumnSurvey(rows, columns, words)
        options = replace(self._options, out=self._agreement, task=wishes.draft())
        prepared = preparing(job, rows, names, wishes)

        def noted(options: NodeOptions) -> Prepared:
            made = prepared(options)
            self._agreed_on = made.plan.parameters
            return made

        run = self._at(Stage(agrees=True, others=self._others), options, noted)
        base = job.initial() if run.vector is None else Cohort(job).of_job(run.vector)
        if not job.is_over(base):
            raise UserError("the members have not agreed on their columns; start all of them again")
        return Found(job.facts(base), job.all_words(base), job.all_rows(base))

    def learn(self, task: Task, rows: FrameRows) -> Learned:
        """Learns the task with the others, who may be in the agreement still. Raises UserError."""
        options = replace(self._options, task=task, data=rows)
        run = self._at(Stage(agrees=False, agreed_on=self._agreed_on, others=self._others), options, prepare)
        if run.module is None or run.summary is None:
            raise UserError("there is no model: the node ended before it had begun")
        if not run.summary.aggregated and run.summary.privacy is None:
            raise UserError(
                "the run of the others was over when this member came, so its rows are not in the model; "
                "call fit at all members again"
            )
        if not run.summary.aggregated:
            raise UserError(
                f"nothing was learned: key {options.key} has too little of its epsilon left for another "
                "sum; what was learned with it before is in the folders of those runs"
            )
        return Learned(run.module, run.summary, self._run_folder)

    def _at(self, stage: Stage, options: NodeOptions, prepared: Callable[[NodeOptions], Prepared]) -> Run:
        """Runs a stage; tries again as long as who refuses this member may be at another one."""
        tries = math.inf if math.isinf(options.wait_s) else math.ceil(options.wait_s / _AGAIN_S)
        pause = partial(time.sleep, _AGAIN_S)
        try:
            return once_there(lambda: self._run(stage, options, prepared), stage.check, tries, pause)
        except Alone as error:
            raise nobody_there(error) from error

    def _run(self, stage: Stage, options: NodeOptions, prepared: Callable[[NodeOptions], Prepared]) -> Run:
        """Runs a node to its end, and warns of what its owner must know, in this thread."""
        listener = None if self._listener is None else self._listener.dup()
        heard: SimpleQueue[NodeEvent | None] = SimpleQueue()
        run = Run(options, listener, _ignored, lambda _: heard.put(None), prepared, heard.put)
        run.start()
        try:
            while (event := heard.get()) is not None:
                self._tell(stage.told_of(event))
                stage.check_others()
        except BaseException:  # Ctrl-C, all others differ, or a warning is an error here
            close(run)
            raise
        run.join()
        return run

    def _tell(self, text: str | None) -> None:
        """Warns once of each text."""
        if text is not None and text not in self._told:
            self._told.add(text)
            warnings.warn(text, UserWarning, stacklevel=_levels_to_the_caller())


def nobody_there(error: Alone) -> UserError:
    """Returns, in a program's words, that a member gave up for want of others."""
    return UserError(f"{error.why}; call fit again when the others are there, or give a longer wait")


def once_there(
    attempt: Callable[[], T], check: Callable[[OtherSwarm], None], tries: float, pause: Callable[[], None]
) -> T:
    """Returns the result of an attempt to learn with others who may be at another stage still.

    Raises the OtherSwarm of the last of so many `tries`; `check` raises for one that does not pass, and
    `pause` is between them.
    """
    while True:
        try:
            return attempt()
        except OtherSwarm as error:
            check(error)
            tries -= 1
            if tries < 1:
                raise
        pause()


def _levels_to_the_caller() -> int:
    """Returns how many calls above the one who asks the program is that called `fit`."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(_OURS):
        frame, levels = frame.f_back, levels + 1
    return levels


def _is_over(summary: Path) -> bool:
    try:
        return bool(json.loads(summary.read_text("utf-8"))["finished"])
    except (OSError, ValueError, KeyError):
        return False


def _ignored(_: object) -> None:
    """Ignores a record or the end of the run."""
