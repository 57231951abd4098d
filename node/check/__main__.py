"""`python -m node.check TASK ...`: finds before a run what would fail. One line per check."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from node.cli.command import Command
from node.cli.commands import task_first, usage
from node.options import NodeOptions, command_line, parse_arguments
from node.system.errors import ConfigError, UserError, one_line

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


@dataclass(frozen=True)
class Asked:
    """The node whose start is checked. `met`: whether its options name peers or a tracker."""

    task: str
    node: NodeOptions
    met: bool


def _read(argv: Sequence[str]) -> Asked:
    task = task_first(argv, f"{usage('node.check', *_CALL)}\n\n{_HELP}")
    met = not {part.partition("=")[0] for part in argv[1:]}.isdisjoint(("--peers", "--tracker"))
    try:
        node = parse_arguments(["--task", *argv, *([] if met else ["--peers", _NOBODY])])
    except UserError as error:
        raise ConfigError(f"before anything could be checked: {error}") from None
    return Asked(task, node, met)


def _run(asked: Asked) -> int:
    # On standard error: every line on standard output is a finding and begins with its level.
    print(f"starting: checks of {one_line(asked.task)}", file=sys.stderr, flush=True)
    from node.check.checks import check_all  # noqa: PLC0415 - loads torch: only once the arguments are checked

    problems = 0
    for finding in check_all(asked.node, asked.met):
        problems += finding.level == "problem"
        print("\n".join(finding.lines()), flush=True)
    print(
        f"{problems} problem{'' if problems == 1 else 's'}" if problems else "nothing found that would fail"
    )
    return 2 if problems else 0


main = Command(command_line, _read, _run)
main.start(__name__)
