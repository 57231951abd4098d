"""`python -m node.tracker`: introduces peers to each other."""

from __future__ import annotations

from node.cli.command import Command
from node.cli.logs import logging_of
from node.tracker.options import TrackerOptions, command_line, parse_arguments


def _run(options: TrackerOptions) -> int:
    from node.tracker.serve import serve  # noqa: PLC0415 - loads aiohttp: only once the arguments are checked

    return serve(options)


main = Command(
    command_line,
    parse_arguments,
    _run,
    lambda options: f"introductions at {options.listen}",
    within=logging_of("tracker"),
)
main.start(__name__)
