"""`python -m node.tracker`: parses the options and runs a tracker; reports errors in one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from node.cli.error_handling import guarded, print_error
from node.cli.sigint import leave
from node.logs import complain, logging_to
from node.tracker.options import TrackerOptions, command_line, parse_arguments

__all__ = ["command_line", "main"]


def main(argv: Sequence[str]) -> int:
    """Serves until interrupted; returns the exit status."""
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def _main(argv: Sequence[str]) -> int:
    options = parse_arguments(argv)
    with logging_to(sys.stderr, options.log):
        return guarded(lambda: _run(options), options.debug, complain(options.log, "tracker"))


def _run(options: TrackerOptions) -> int:
    print(f"starting: introductions at {options.listen}", flush=True)
    from node.tracker.serve import serve  # noqa: PLC0415 - loads aiohttp: only once the arguments are checked

    return serve(options)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
