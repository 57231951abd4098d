"""How a command of the node package ends: one line for a person, a status for a program."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

from node.errors import UserError, one_line

INTERRUPTED = 130


def guarded(call: Callable[[], int], debug: bool) -> int:
    """Run; errors become one line on standard error and a status, tracebacks only with `debug`."""
    try:
        return call()
    except KeyboardInterrupt:
        return INTERRUPTED
    except UserError as error:
        if debug:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except Exception as error:  # noqa: BLE001 - a user never sees a traceback without --debug
        if debug:
            traceback.print_exc()
        what = f"{type(error).__name__}: {one_line(str(error))}"
        print(f"error: {what} (this is a fault of the program; --debug shows where)", file=sys.stderr)
        return 1
