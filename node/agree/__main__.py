"""`python -m node.agree TASK ...`: peers agree on scales and lists by a secure sum before they learn."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from node.cli.command import Command
from node.cli.commands import task_first, usage
from node.cli.logs import logging_of
from node.cli.options import Place, option, reachable_path, repeated, switch
from node.cli.options import command_line as parser_of
from node.cli.overrides import Override
from node.cli.parser import NodeParser
from node.cli.written_file import BESIDE, written_file
from node.options import NodeOptions, read_kind
from node.system.errors import ConfigError, one_line

_CALL = (
    "TASK --data PATH (--peers HOST:PORT,... | --tracker KEY@URL)",
    "[--write FILE.toml] [--force] [--without NAME ...] [--leave-out-missing] [--also-class NAME ...]",
    "[any other option of python -m node]",
)
_HELP = """\
Peers agree on means, spreads and category lists over the rows of all of them, by one secure sum of counts,
sums and squares: nobody sees another's. TASK is a FILE.toml with public ranges, the same at every peer, as
python -m node.init --agree writes it. With privacy on, noise in every peer's sums protects each row; a share
of the task's budget ([agreement] share) pays for it. Every peer writes the same task, for python -m node.

  --write FILE.toml   the file for the agreed task. Default: TASK-agreed.toml beside TASK
  --force             replace that file if it exists
  --without NAME      do not wait for this peer, named as in --peers or --names; repeatable. All peers must
                      say it. Default: an agreement needs all of --peers
  --leave-out-missing leave out of the agreed task what columns some peer's file lacks; how many lack each
                      is told to all. All peers must say it
  --also-class NAME   a class that some peer has and the task lacks, declared to all: the agreed task has
                      it, and a model with one more output; repeatable. All peers must say the same

exit status: 0 agreed, 1 no agreement, 2 bad arguments or data, 130 interrupted

example, at each of three peers, each with data of its own:
  python -m node.agree ward.toml --data ward.csv --peers 10.0.0.5:9001,10.0.0.7:9001,10.0.0.9:9001 --open
  python -m node.check ward-agreed.toml --data ward.csv"""


@dataclass(frozen=True, kw_only=True)
class AgreeOptions(NodeOptions):
    """A node's options, and those of the agreement. What all peers must say alike becomes keys of the task.

    `write`: unless it is given, a file beside the task.
    """

    write: Path = option("the file for the agreed task", reachable_path, absent=BESIDE, metavar="FILE.toml")
    force: bool = switch("replace that file if it exists")
    without: tuple[str, ...] = repeated("do not wait for this peer", metavar="NAME")
    leave_out_missing: bool = switch("leave out what columns some peer's file lacks")
    also_class: tuple[str, ...] = repeated("a class that the task lacks", metavar="NAME")

    @classmethod
    def changes(cls, given: Mapping[str, Any], place: Place) -> Iterator[Override]:
        """Yields what the options change in the task."""
        yield from super().changes(given, place)
        if given["leave_out_missing"]:
            yield Override(("agreement", "leave_out_missing"), True, place("leave_out_missing"))
        if given["also_class"]:
            yield Override(("agreement", "classes"), list(given["also_class"]), place("also_class"))


def _read(argv: Sequence[str]) -> AgreeOptions:
    task = task_first(argv, f"{usage('node.agree', *_CALL)}\n\n{_HELP}")
    options = read_kind(AgreeOptions, ["--task", *argv], os.environ)
    if options.again:
        raise ConfigError(
            "--again is refused: an agreement is one sum, of which nothing is left to begin anew; allowed: "
            "the same command without it, and --without NAME for who is gone"
        )
    path = written_file(options.write, task, "-agreed.toml", force=options.force)
    return replace(options, write=path)


def _run(options: AgreeOptions) -> int:
    from node.app.start_checks import check_start  # noqa: PLC0415 - loads numpy, and what follows torch

    check_start(options)
    from node.agree.run import agree  # noqa: PLC0415 - loads torch: only once the arguments are checked

    return agree(options, options.write, options.without)


def command_line() -> NodeParser:
    """Returns the parser of what may follow the task."""
    return parser_of("node.agree", AgreeOptions, "")


main = Command(
    command_line,
    _read,
    _run,
    lambda options: None if options.json else f"an agreement for {one_line(str(options.write))}",
    within=logging_of("node"),
)
main.start(__name__)
