"""`python -m node`: a peer, from its first round to its last."""

from __future__ import annotations

from node.cli.command import Command
from node.cli.logs import logging_of
from node.options import NodeOptions, command_line, parse_arguments


def _run(options: NodeOptions) -> int:
    from node.app.start_checks import check_start  # noqa: PLC0415 - loads numpy, and the next line torch, seconds:

    check_start(options)
    from node.app.run import run  # noqa: PLC0415 - only once what the arguments name is checked

    return run(options)


main = Command(
    command_line,
    parse_arguments,
    _run,
    lambda options: None if options.json else f"a node with the task {options.task.task.name}",
    within=logging_of("node"),
)
main.start(__name__)
