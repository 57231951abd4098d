"""How a command of the node package ends: one line for a person, a status for a program."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress

from node.cli.sigint import INTERRUPTED
from node.errors import ConfigError, UserError, one_line, refusal

Complain = Callable[[str, int], None]
"""Says why a command ends with a status."""


def print_error(text: str, status: int) -> None:
    """In one line on standard error."""
    print(f"error: {text}", file=sys.stderr)


def guarded(call: Callable[[], int], debug: bool, complain: Complain) -> int:
    """Run; errors become one line and a status, tracebacks only with `debug`."""
    try:
        return _written(call)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        if debug:
            traceback.print_exc()
        _leave_output()
        complain("the output can not be written: what reads it has ended; let it run, or write to a file", 1)
        return 1
    except UserError as error:
        if debug:
            traceback.print_exc()
        complain(str(error), error.status)
        return error.status
    except Exception as error:  # noqa: BLE001 - a user never sees a traceback without --debug
        if debug:
            traceback.print_exc()
        complain(refusal(error) or fault_text(error), 1)
        return 1


def task_comes_first(argv: Sequence[str], usage: str) -> bool:
    """Whether a task is given, as the first word must be; False after the `usage` was printed.

    ConfigError for an option in its place.
    """
    if not argv or argv[0] in {"-h", "--help"}:
        print(usage)
        return False
    if argv[0].startswith("-"):
        raise ConfigError(f"{argv[0]} is refused: the task comes first; --help tells more")
    return True


def _written(call: Callable[[], int]) -> int:
    """The call's status. What it printed and can not be written is told here, not by Python's last flush."""
    try:
        status = call()
    except SystemExit:  # --help was printed
        print(end="", flush=True)
        raise
    print(end="", flush=True)
    return status


def _leave_output() -> None:
    """Standard output goes nowhere from here on: Python's own last flush would fail again, and say so."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fault_text(error: Exception) -> str:
    """The line for an error that nobody thought of."""
    what = f"{type(error).__name__}: {one_line(str(error))}"
    return f"{what} (this is a fault of the program; --debug shows where)"
