"""Ctrl-C before a command has begun to write: the process ends at once, silently, with the usual status.

Loading takes seconds, and nothing is written yet. An exception would not do: in the middle of the import of a
native library it ends in a traceback or a crash.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
PACKAGES = ("node", "scenarios", "benchmarks")
SCRIPT = "murmuration"


def is_script(argv: Sequence[str]) -> bool:
    """Returns whether `argv`, which is sys.argv, starts the installed command."""
    return bool(argv) and argv[0].rpartition("/")[2] == SCRIPT


def is_command(argv: Sequence[str], whole: Sequence[str]) -> bool:
    """Returns whether Python is loading a command of this project.

    `argv` is sys.argv, which begins with "-m" until the command's module is found; `whole` is
    sys.orig_argv, which has the module's name in that place. The installed command has its path in both; the
    sys.argv of a child process has its parent's arguments.
    """
    begins = whole[-len(argv) :][:1] if argv else []
    if argv[:1] == ["-m"]:
        return bool(begins) and begins[0].removeprefix("-m").partition(".")[0] in PACKAGES
    return is_script(argv) and begins == argv[:1]


def loading() -> None:
    """Makes Ctrl-C end the process at once if a command is being loaded; else changes nothing."""
    if is_command(sys.argv, sys.orig_argv) and _on_interrupt() is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def begun() -> None:
    """Restores Ctrl-C to KeyboardInterrupt: the command begins to write."""
    if _on_interrupt() is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def leave(status: int) -> NoReturn:
    """Ends a command as Python does, but without taking the interpreter down. Ctrl-C ends it at once.

    A thread of a native library that calls Python meanwhile would be killed in the middle of its C++, and
    the process would abort with it: pyarrow still reads ahead in a file whose first error was reported.
    """
    if _on_interrupt() is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it
            stream.flush()
    os._exit(status)


def _on_interrupt() -> object:
    return signal.getsignal(signal.SIGINT)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(INTERRUPTED)
