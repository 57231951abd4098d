"""Child processes that always end: one warm fork-server starts them, and the parent watches them.

Invariants:
- Loading torch takes seconds; the fork-server does it once, and every child starts with it in memory.
- The fork-server only imports: it computes nothing, and has a single thread whenever it forks.
- Each child has its own process group, so a Ctrl-C at the terminal reaches it once, from the parent.
- A child that loses its parent (killed, crashed) interrupts itself as Ctrl-C would, and then kills itself.
- Leaving `Children` by an exception interrupts every child, waits, and kills the children that are left.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from pathlib import Path
from pkgutil import resolve_name
from types import TracebackType
from typing import Any

from node.cli.sigint import INTERRUPTED
from node.system.errors import UserError

PRELOAD = ("node.app.run", "scenarios.swarms.baselines", "sklearn.datasets")
"""What a swarm's children need, imported once for all of them; the digits are in scikit-learn."""
INTERRUPT_GRACE_S = 15.0
KILL_GRACE_S = 5.0

FAILED = 1


def warm_up(preload: Sequence[str] = PRELOAD) -> None:
    """Start the fork-server, which imports `preload` in the background; return at once.

    If it runs already, do nothing: what it lacks, each child imports.
    """
    modules = ["scenarios.frame.shared_pages", *preload]
    multiprocessing.get_context("forkserver").set_forkserver_preload(modules)
    resource_tracker.ensure_running()  # started later, it would unblock the signal blocked below
    # A Ctrl-C at the terminal also reaches the fork-server, which ignores it only after its imports.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True)
class Child:
    """A started process, with its name for the user and the log of its output."""

    name: str
    process: BaseProcess
    log: Path

    def failure(self) -> UserError | None:
        """The error of a child that failed, one line; None while it runs or if it succeeded."""
        status = self.process.exitcode
        if status is None or status == 0:
            return None
        said = last_line(self.log) or "it said nothing"
        return UserError(f"{self.name} ended with {ending(status)}: {said} (log: {self.log})")


class Children:
    """The owner of child processes: `with Children() as children: children.start(...)`."""

    def __init__(self, interrupt_grace_s: float = INTERRUPT_GRACE_S) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._interrupt_grace_s = interrupt_grace_s
        self._children: list[Child] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None:
                for process in self._alive():
                    # The fork-server reaps children: one may be gone before this process has read its end.
                    with suppress(ProcessLookupError):
                        if process.pid is not None:
                            os.kill(process.pid, signal.SIGINT)
            deadline = time.monotonic() + (self._interrupt_grace_s if kind is not None else 0.0)
            for process in self._alive():
                process.join(max(0.0, deadline - time.monotonic()))
        finally:
            for process in self._alive():
                process.kill()
                process.join(KILL_GRACE_S)

    def start(self, name: str, log: Path, target: str, *arguments: Any) -> Child:
        """Run the function `target`, as `package.module:function`, in a process; its output goes to `log`.

        The function returns the exit status. Because of the name only the child imports its module.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        process = self._context.Process(target=_enter, args=(str(log), target, arguments), name=name)
        process.start()
        child = Child(name, process, log)
        self._children.append(child)
        return child

    def running(self) -> list[Child]:
        """The children that have not ended. Raises UserError for the first child that failed."""
        for child in self._children:
            failure = child.failure()
            if failure is not None:
                raise failure
        return [child for child in self._children if child.process.exitcode is None]

    def wait(self, timeout_s: float) -> None:
        """Wait until a running child ends, at most `timeout_s`."""
        sentinels = [child.process.sentinel for child in self._children if child.process.exitcode is None]
        wait_for_any(sentinels, timeout_s)

    def _alive(self) -> list[BaseProcess]:
        return [child.process for child in self._children if child.process.exitcode is None]


def command(module: str, folder: Path, *argv: str) -> int:
    """A function for a child: do what `python -m MODULE ARGV` does in `folder`; return the exit status."""
    os.chdir(folder)
    return int(resolve_name(f"{module}.__main__:main")(argv))


def ending(status: int) -> str:
    """An exit status in words; for multiprocessing a negative status is the number of the signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def last_line(log: Path) -> str:
    """The last non-empty line of a log; "" if there is none."""
    try:
        lines = log.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _enter(log: str, target: str, arguments: tuple[Any, ...]) -> None:
    """The entry point of a child: redirect its output to the log, handle interrupts, call the target."""
    os.setpgid(0, 0)
    _redirect(log)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_follow_parent, daemon=True).start()
    sys.exit(_status(target, arguments))


def _status(target: str, arguments: tuple[Any, ...]) -> int:
    try:
        return int(resolve_name(target)(*arguments))
    except KeyboardInterrupt:
        return INTERRUPTED
    except UserError as error:
        print(error, file=sys.stderr)
        return error.status
    except Exception:  # noqa: BLE001 - the log gets any error, the parent an exit status
        traceback.print_exc()
        return FAILED


def _redirect(log: str) -> None:
    # Descriptors, not sys.stdout: a crash inside a native library must land in the log too.
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(INTERRUPT_GRACE_S)
        os.kill(os.getpid(), signal.SIGKILL)
