"""What a command does with an error: one line for the user, an exit status for programs."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from node.cli.sigint import INTERRUPTED
from node.system.errors import UserError, one_line, refusal

Complain = Callable[[str, int], None]
"""Reports why a command ends, and its status."""


def print_error(text: str, status: int) -> None:
    """Prints one line on standard error."""
    print(f"error: {text}", file=sys.stderr)


def guarded(call: Callable[[], int], debug: bool, complain: Complain) -> int:
    """Runs `call`, returns the exit status; errors become one line, with a traceback only with `debug`."""
    try:
        status = call()
        print(end="", flush=True)  # so that write errors occur here, not at exit
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        if debug:
            traceback.print_exc()
        with suppress(OSError, ValueError):  # else Python's flush at exit would fail again, with a message
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        complain("the output cannot be written: its reader has ended; let that run, or write to a file", 1)
        return 1
    except UserError as error:
        if debug:
            traceback.print_exc()
        complain(str(error), error.status)
        return error.status
    except Exception as error:  # noqa: BLE001 - a user never sees a traceback without --debug
        if debug:
            traceback.print_exc()
        what = f"{type(error).__name__}: {one_line(str(error))}"
        complain(refusal(error) or f"{what} (this is a fault of the program; --debug shows where)", 1)
        return 1
