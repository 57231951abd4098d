"""`python -m node`: parses the options and runs a node; reports errors in one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from node.cli.error_handling import guarded, print_error
from node.cli.sigint import leave
from node.logs import complain, logging_to
from node.options import NodeOptions, command_line, parse_arguments

__all__ = ["command_line", "main"]


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status.

    0: done; 1: failed at run time; 2: bad arguments or configuration; 130: interrupted.
    """
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def _main(argv: Sequence[str]) -> int:
    options = parse_arguments(argv)
    with logging_to(sys.stderr, options.log):
        return guarded(lambda: _run(options), options.debug, complain(options.log, "node"))


def _run(options: NodeOptions) -> int:
    if not options.json:
        print(f"starting: a node with the task {options.task.task.name}", flush=True)
    from node.places import check_places  # noqa: PLC0415 - loads numpy, and the next line torch, seconds:

    check_places(options)
    from node.app import run  # noqa: PLC0415 - only once what the arguments name is checked

    return run(options)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
