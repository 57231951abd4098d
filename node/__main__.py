"""`python -m node`: parse, run, and say in one line what went wrong."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Sequence

from node.errors import UserError, one_line
from node.options import parse_arguments

INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """The exit status: 0 done, 1 failed at run time, 2 bad arguments or configuration, 130 interrupted."""
    return guarded(lambda: _main(argv), "--debug" in argv)


def _main(argv: Sequence[str]) -> int:
    options = parse_arguments(argv)
    if options.debug:
        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(message)s")
    from node.runner import run  # noqa: PLC0415 - loads torch, seconds: not before the arguments are right

    return run(options)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
