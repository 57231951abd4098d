"""The command line: `python -m scenarios list`, and `run`, `data`, `judge` and `compare`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from node.cli.command import Command
from node.cli.commands import program
from node.cli.parser import NodeParser
from node.cli.sigint import INTERRUPTED, begun
from node.system.errors import ConfigError
from scenarios.catalogue import SCENARIOS, Entry
from scenarios.data.sources import ALL, data_folder, source
from scenarios.engines.choice import ENGINES
from scenarios.frame.children import warm_up
from scenarios.frame.progress import print_plain
from scenarios.frame.spec import Request, Scenario

DESCRIPTION = "Runs of whole swarms, judged by the claims that they make."
RUN_DESCRIPTION = (
    "Run a scenario. It ends with a table, result.json and report.html in the --out folder. "
    "Options that a scenario does not have are refused."
)
DATA_DESCRIPTION = (
    "See that a data set is there: fetch it from its publisher, go on with what was interrupted, check it, "
    "and make the files that scenarios read. What is there and whole is not fetched again. Without a name: "
    "the licence of each data set, where it lies, and its size."
)
JUDGE_DESCRIPTION = (
    "Judge the claims of a stored result.json again, by the claims of this version, without a new run. "
    "The figures of all arms and seeds stay as they are. A study of your own is named by --study."
)
COMPARE_DESCRIPTION = (
    "Put the arms of several runs side by side, each with its difference from the first run, seed by seed "
    "where the seeds agree."
)
DATA_DIR_HELP = "where data lies; else $MURMURATION_DATA, else the user's cache folder"
DEBUG = "--debug"


def _complain(text: str, status: int) -> None:
    print(f"scenarios: {text}", file=sys.stderr)


def _dispatch(arguments: argparse.Namespace) -> int:
    do = {"list": _list, "run": _run, "data": _data, "judge": _judge, "compare": _compare}
    try:
        do[arguments.command](arguments, Console())
    except KeyboardInterrupt:
        print("scenarios: interrupted; what was done is kept", file=sys.stderr)
        return INTERRUPTED
    return 0


def _list(arguments: argparse.Namespace, console: Console) -> None:
    begun()
    console.print(overview())


def _run(arguments: argparse.Namespace, console: Console) -> None:
    """Say what begins, before what it takes is loaded: that may take seconds."""
    if is_own(arguments.name):
        print_plain(console, f"study {arguments.name}")
    else:
        entry = find(arguments.name)
        print_plain(console, f"scenario {entry.name}: {entry.summary}")
        if entry.swarms and arguments.engine != "ray" and not arguments.overrides:
            warm_up()  # it loads beside this process; with another task it may have to load more
    from scenarios.frame.harness import run  # noqa: PLC0415 - loads plotly

    scenario = loaded(arguments.name)
    begun()
    run(scenario, request(arguments), console)


def _data(arguments: argparse.Namespace, console: Console) -> None:
    folder, name = data_folder(arguments.data_dir, os.environ), arguments.name
    print_plain(console, f"data in {folder}" if name is None else f"data set {name}, in {folder}")
    if name is None:
        from scenarios.data.overview import overview as data_overview  # noqa: PLC0415 - needed here only

        begun()
        console.print(data_overview(folder))
    else:
        from scenarios.data.getting import get  # noqa: PLC0415 - loads aiohttp

        begun()
        get(name, folder, console)


def _judge(arguments: argparse.Namespace, console: Console) -> None:
    print_plain(console, f"claims of {arguments.result}")
    from scenarios.frame.harness import claim_line  # noqa: PLC0415 - loads plotly
    from scenarios.frame.spec import holding  # noqa: PLC0415
    from scenarios.frame.stored import judged_again, read_result, write_again  # noqa: PLC0415

    result = read_result(arguments.result)
    scenario = _judging(result["scenario"], arguments.study)
    begun()
    again, claims = judged_again(scenario, result)
    for claim in claims:
        console.print(claim_line(claim), soft_wrap=True)
    print_plain(console, f"{holding(claims)}. {again['headline']}")
    if arguments.write:
        write_again(arguments.result, again)
        print_plain(console, f"written: {arguments.result}")


def _judging(name: str, study: str | None) -> Scenario[Any, Any]:
    """The scenario of a result that bears this name; `study`: one of one's own. Raises ConfigError."""
    if study is None and name not in SCENARIOS:
        raise ConfigError(
            f"scenario {name!r} of the result is none of the catalogue; name the study that it is of: "
            "--study package.module:STUDY or --study FILE.toml"
        )
    scenario = loaded(name if study is None else study)
    if scenario.name != name:
        raise ConfigError(
            f"the result is of {name!r}, and --study {study} is {scenario.name!r}; name its own"
        )
    return scenario


def _compare(arguments: argparse.Namespace, console: Console) -> None:
    from scenarios.frame.harness import terminal_table  # noqa: PLC0415 - loads plotly
    from scenarios.runs.compare import compared_json, compared_table, notes, read_run  # noqa: PLC0415

    begun()
    if len(arguments.runs) < 2:
        raise ConfigError("compare takes two runs or more: the folders of their --out")
    runs = [read_run(folder) for folder in arguments.runs]
    if arguments.json:
        print(json.dumps(compared_json(runs), indent=2))
        return
    console.print(terminal_table(compared_table(runs)))
    for line in notes(runs):
        print_plain(console, line)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line as argparse has it. Raises ConfigError."""
    return command_line().parse_args(argv)


def command_line() -> NodeParser:
    """The parser; values are judged by the scenario, once it is loaded."""
    parser = NodeParser(prog=program("scenarios"), description=DESCRIPTION, allow_abbrev=False)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="list | run | data | judge | compare", parser_class=NodeParser
    )
    commands.add_parser("list", help="name, source and one line for every scenario")
    _add_data(commands)
    _add_run(commands)
    _add_judge(commands)
    _add_compare(commands)
    for command in commands.choices.values():
        command.add_argument(DEBUG, action="store_true", help="tracebacks of errors")
    return parser


def _add_data(commands: Any) -> None:
    getter = commands.add_parser(
        "data",
        help="download a data set; without a name, show where each lies",
        description=DATA_DESCRIPTION,
        allow_abbrev=False,
    )
    getter.add_argument(
        "name", nargs="?", metavar="NAME", type=_data_set, choices=ALL, help=f"one of: {', '.join(ALL)}"
    )
    getter.add_argument("--data-dir", type=Path, metavar="DIR", help=DATA_DIR_HELP)


def _add_run(commands: Any) -> None:
    runner = commands.add_parser(
        "run", help="run a scenario", description=RUN_DESCRIPTION, allow_abbrev=False
    )
    runner.add_argument(
        "name",
        metavar="NAME",
        type=_scenario,
        choices=_Targets(SCENARIOS),
        help=f"one of: {', '.join(SCENARIOS)}; or a study of your own: package.module:STUDY, or FILE.toml",
    )
    runner.add_argument("--peers", type=int, metavar="N", help="how many peers take part")
    runner.add_argument("--rounds", type=int, metavar="N", help="how many rounds they train")
    runner.add_argument(
        "--seed", type=int, metavar="N", help="initial model, test split and partition (task.seed)"
    )
    runner.add_argument("--engine", choices=ENGINES, help="how peers are run")
    runner.add_argument("--jobs", type=int, metavar="N", help="cells of a sweep side by side")
    runner.add_argument("--data-dir", type=Path, metavar="DIR", help=DATA_DIR_HELP)
    runner.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the results; the same run goes on in it"
    )
    runner.add_argument("--quick", action="store_true", default=None, help="a short run to see that it works")
    runner.add_argument(
        "--set",
        action="append",
        dest="overrides",
        metavar="SECTION.KEY=VALUE",
        help="a key of the task, repeatable",
    )


def _add_judge(commands: Any) -> None:
    judge = commands.add_parser(
        "judge",
        help="judge the claims of a stored result again",
        description=JUDGE_DESCRIPTION,
        allow_abbrev=False,
    )
    judge.add_argument("result", type=Path, metavar="FILE", help="a result.json")
    judge.add_argument(
        "--study",
        metavar="STUDY",
        type=_scenario,
        help="the study of your own that the result is of: package.module:STUDY, or FILE.toml",
    )
    judge.add_argument(
        "--write", action="store_true", help="replace the claims and the headline in the file. Default: no"
    )


class _Targets(dict[str, Entry]):
    """The scenarios, for a shell's completion; `_scenario` has judged what is given, so all else is in it."""

    def __contains__(self, name: object) -> bool:
        return True


def _add_compare(commands: Any) -> None:
    compared = commands.add_parser(
        "compare", help="put runs side by side", description=COMPARE_DESCRIPTION, allow_abbrev=False
    )
    compared.add_argument(
        "runs", nargs="+", type=Path, metavar="DIR", help="the --out folder of a run, or its result.json"
    )
    compared.add_argument("--json", action="store_true", help="print JSON")


def _scenario(name: str) -> str:
    """The name or the study of one's own, if it can be one: the complaint is ours."""
    return name if is_own(name) else find(name).name


def is_own(name: str) -> bool:
    """Whether `scenarios run` is given a study by import path or file, not a name of the catalogue."""
    return ":" in name or name.endswith(".toml")


def loaded(name: str) -> Scenario[Any, Any]:
    """The scenario of that name, or of a study by import path or file. Raises ConfigError."""
    if not is_own(name):
        return find(name).load()
    from scenarios.own.opened import opened  # noqa: PLC0415 - loads torch

    return opened(name)


def _data_set(name: str) -> str:
    return source(name).name


def request(arguments: argparse.Namespace) -> Request:
    """The arguments of `run` as a value."""
    return Request(
        peers=arguments.peers,
        rounds=arguments.rounds,
        seed=arguments.seed,
        engine=arguments.engine,
        jobs=arguments.jobs,
        data_dir=arguments.data_dir,
        out=arguments.out,
        quick=arguments.quick,
        overrides=None if arguments.overrides is None else tuple(arguments.overrides),
    )


def find(name: str) -> Entry:
    """The scenario of that name, not loaded yet. Raises ConfigError."""
    if name not in SCENARIOS:
        raise ConfigError(
            f"scenario {name!r} is unknown; allowed: {', '.join(SCENARIOS)}, or a study of your own as "
            "package.module:STUDY or FILE.toml"
        )
    return SCENARIOS[name]


def overview() -> Table:
    """Name, source and one line for every scenario."""
    table = Table(box=box.SIMPLE)
    for heading in ("name", "source", "what it shows"):
        table.add_column(heading, overflow="fold")
    for entry in SCENARIOS.values():
        table.add_row(entry.name, entry.source, entry.summary)
    return table


main = Command(command_line, parse, _dispatch, complain=_complain)
main.start(__name__)
