"""`python -m node.check TASK ...`: finds before a run what would fail. One line per check."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from node.cli.commands import task_comes_first, usage
from node.cli.error_handling import guarded, print_error
from node.cli.parser import NodeParser
from node.cli.sigint import leave
from node.errors import ConfigError, UserError, one_line
from node.options import NodeOptions, parse_arguments
from node.options import command_line as node_command_line

_CALL = (
    "TASK [--data PATH | --shard I/N] [--peers HOST:PORT,... | --tracker KEY@URL]",
    "[any other option of python -m node]",
)
_HELP = """\
Reports before a run what would fail: data against task, model, privacy budget against rounds, memory, ports,
keys, allow-list, peers that answer and their clocks. Takes the same options as the node; writes nothing, and
begins no round. TASK is a built-in task or a FILE.toml.

Each line begins with ok, warning or problem. exit status: 0 no problem, 2 a problem.

examples:
  python -m node.check ward.toml --data ward.csv
  python -m node.check ward.toml --data ward.csv --peers 127.0.0.1:9001,127.0.0.1:9002,127.0.0.1:9003"""

_NOBODY = "127.0.0.1:1"
"""Stands in for peers that were not named, because a node's options require some."""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status.

    0: no problem; 2: a problem or bad arguments; 130: interrupted.
    """
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def _main(argv: Sequence[str]) -> int:
    if not task_comes_first(argv, f"{usage('node.check', *_CALL)}\n\n{_HELP}"):
        return 0 if argv else 2
    named = {part.partition("=")[0] for part in argv[1:]} & {"--peers", "--tracker"}
    options = _options(argv, bool(named))
    # On standard error: every line on standard output is a finding and begins with its level.
    print(f"starting: checks of {one_line(argv[0])}", file=sys.stderr, flush=True)
    from node.check.checks import check_all  # noqa: PLC0415 - loads torch: only once the arguments are checked

    problems = 0
    for finding in check_all(options, met=bool(named)):
        problems += finding.level == "problem"
        print("\n".join(finding.lines()), flush=True)
    print(
        f"{problems} problem{'' if problems == 1 else 's'}" if problems else "nothing found that would fail"
    )
    return 2 if problems else 0


def command_line() -> NodeParser:
    """Returns the parser of what may follow the task: a node's options."""
    return node_command_line()


def _options(argv: Sequence[str], met: bool) -> NodeOptions:
    """Returns the node's options; raises ConfigError if they are wrong."""
    try:
        return parse_arguments(["--task", *argv, *([] if met else ["--peers", _NOBODY])])
    except UserError as error:
        raise ConfigError(f"before anything could be checked: {error}") from None


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
