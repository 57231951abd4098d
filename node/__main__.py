"""`python -m node`: parse, run, and say in one line what went wrong."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from node.cli import guarded
from node.options import parse_arguments


def main(argv: Sequence[str]) -> int:
    """The exit status: 0 done, 1 failed at run time, 2 bad arguments or configuration, 130 interrupted."""
    return guarded(lambda: _main(argv), "--debug" in argv)


def _main(argv: Sequence[str]) -> int:
    options = parse_arguments(argv)
    if options.debug:
        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(message)s")
    from node.runner import run  # noqa: PLC0415 - loads torch, seconds: not before the arguments are right

    return run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
