"""Starts a node repeatedly in copies of one folder, and kills it at its first step, its second, and so on.

A step is a call that changes a file or waits for the disk: open, rename, link, remove, mkdir, fsync, or an
SQLite statement. After each kill the node starts again unharmed. The product has no hook for this: Python's
audit events and trace callbacks report the steps.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from node.app.run import Prepared, prepare, run_as
from node.observe.lines import JsonOutput
from node.options import parse_arguments

FINISHED = 77
_CHANGES = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.truncate", "sqlite3.connect"}
_MOST = 500


def main(argv: list[str]) -> int:
    """Runs all trials. `argv`: their folder, the folder that each one copies (or ""), and a node's arguments.

    Prints one line of JSON for each trial. `{}` in an argument stands for the trial's own folder.
    """
    home, source, *words = argv
    for number in range(1, _MOST):
        trial = Path(home) / str(number)
        if source:
            shutil.copytree(source, trial)
        else:
            trial.mkdir()
        prepared = prepare(parse_arguments([word.replace("{}", str(trial)) for word in words]))
        first, where = _start(prepared, partial(arm, number, trial))
        second, why = _start(prepared, lambda: None)
        told = {"trial": str(trial), "first": first, "at": where, "second": second, "why": why}
        print(json.dumps(told), flush=True)
        if first != -signal.SIGKILL:
            return 0
    return 1


def _start(prepared: Prepared, arm: Callable[[], None]) -> tuple[int, str]:
    """Starts a node in its own process; returns how it ended and its last output."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.dup2(writer, 2)
        status = 1
        try:
            arm()
            status = run_as(prepared, None, JsonOutput(io.StringIO()), _ends_at_once) or FINISHED
        except BaseException:  # noqa: BLE001  told to whoever waits
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as told:
        said = told.read().strip().splitlines()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said[-1] if said else ""


async def _ends_at_once(engine: Any, agreed: Any) -> None:
    """The run of a node that ends as soon as it listens."""


def arm(last: int, folder: Path) -> None:
    """Counts the steps of this process under `folder` from now on; kills it before the last one."""
    seen = 0

    def step(what: str) -> None:
        nonlocal seen
        seen += 1
        if seen == last:
            os.write(2, f"{what}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES and any(_is_under(folder, value) for value in arguments[:2]):
            step(f"{event} {arguments[0]}")

    fsync, connect = os.fsync, sqlite3.connect

    def syncing(descriptor: int) -> None:
        step(f"fsync {Path(f'/proc/self/fd/{descriptor}').readlink()}")
        fsync(descriptor)

    def executing(statement: str) -> None:
        if not statement.startswith("select"):
            step(f"sqlite {statement[:60]}")

    def connecting(*arguments: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **more)
        connection.set_trace_callback(executing)
        return connection

    os.fsync, sqlite3.connect = syncing, connecting  # type: ignore[assignment]
    sys.addaudithook(audit)


def _is_under(folder: Path, value: object) -> bool:
    """Returns whether a path, or the file of a descriptor, is in the folder."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 2:
        try:
            value = Path(f"/proc/self/fd/{value}").readlink()
        except OSError:
            return False
    if not isinstance(value, str | bytes | os.PathLike):
        return False
    return os.fsdecode(value).startswith(str(folder))
