"""`python -m node.stats TASK ...`: statistics of all members' rows, by secure sums."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from node.cli.command import Command
from node.cli.commands import task_first, usage
from node.cli.logs import logging_of
from node.cli.options import command_line as parser_of
from node.cli.options import option, reachable_path, switch
from node.cli.parser import NodeParser
from node.cli.written_file import BESIDE, STATISTICS_ENDING, written_file
from node.options import NodeOptions, read_kind
from node.storage.swarm_file import SWARM, TASK
from node.system.errors import one_line

_CALL = (
    "TASK --data PATH (--peers HOST:PORT,... | --tracker KEY@URL)",
    "[--write FILE.html] [--force] [any other option of python -m node]",
    "or a FOLDER that invite or join named, for TASK and the rest of its line",
)
_HELP = """\
Members compute statistics of all their rows by secure sums, as if the rows were in one table: nobody sees
another's. TASK is a FILE.toml with public ranges and a section [statistics], the same at every member:

  [statistics]
  by = "arm"                                                    the groups of table one
  tables = [["sex", "died"]]                                    cross tables
  models = [{ formula = "died ~ age + sex", family = "binomial" }]
  survival = [{ time = "days", event = "died", by = "arm", grid = 1, cox = ["age", "sex"] }]

family: binomial, gaussian or poisson. grid: the step of the times, in their unit. Without privacy all sums
have the members of the first one: if one is gone for good, the statistics stop, and --again begins others
with the rest, after it has said what both totals tell together. With privacy, table one alone is computed,
with noise that statistics.share of the budget pays for. Counts below 5 are not printed.

  --write FILE.html  the report; FILE.json and FILE-table1.csv are written beside it. Default:
                     TASK-statistics.html beside TASK
  --force            replace these files if they exist

exit status: 0 done, 1 not done, 2 bad arguments or data, 130 interrupted

example, at each of three members, each with data of its own:
  python -m node.stats ward.toml --data ward.csv --peers 10.0.0.5:9001,10.0.0.7:9001,10.0.0.9:9001 --open"""


@dataclass(frozen=True, kw_only=True)
class StatsOptions(NodeOptions):
    """A node's options, and where the report goes."""

    write: Path = option("the report", reachable_path, absent=BESIDE, metavar="FILE.html")
    force: bool = switch("replace files that exist")


def _read(argv: Sequence[str]) -> StatsOptions:
    task = task_first(argv, f"{usage('node.stats', *_CALL)}\n\n{_HELP}")
    if (Path(task) / SWARM).exists():
        from node.invitation.node_options import statistics_options  # noqa: PLC0415 - few have such a folder

        options = statistics_options(StatsOptions, Path(task), argv[1:])
        task = str(Path(task) / TASK)
    else:
        options = read_kind(StatsOptions, ["--task", *argv], os.environ)
    path = written_file(options.write, task, STATISTICS_ENDING, force=options.force)
    return replace(options, write=path)


def _run(options: StatsOptions) -> int:
    from node.app.start_checks import check_start  # noqa: PLC0415 - loads numpy, and what follows torch

    check_start(options)
    from node.stats.run import stats  # noqa: PLC0415 - loads torch: only once the arguments are checked

    return stats(options, options.write)


def command_line() -> NodeParser:
    """Returns the parser of what may follow the task."""
    return parser_of("node.stats", StatsOptions, "")


main = Command(
    command_line,
    _read,
    _run,
    lambda options: None if options.json else f"statistics for {one_line(str(options.write))}",
    within=logging_of("node"),
)
main.start(__name__)
