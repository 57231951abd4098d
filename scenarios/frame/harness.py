"""Carries out one run of a scenario: its folder, its execution, result.json, report.html, the terminal."""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from node.system.distribution import installed_version
from node.system.errors import ConfigError
from scenarios.frame.folder import claimed, fresh_folder, write_json, write_text
from scenarios.frame.progress import print_plain
from scenarios.frame.report import Ended, Provenance, numbers, render
from scenarios.frame.spec import Judged, Request, Scenario, Table, claims_json, is_figures, judge

PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "aiohttp",
    "cryptography",
    "msgpack",
    "plotly",
    "ray",
)
NOT_INSTALLED = "not installed as a package"
QUICK_NOTE = "A quick run: the claims are stated for a full one."
FLAGS = {"data_dir": "--data-dir", "overrides": "--set"}


def run(scenario: Scenario[Any, Any], request: Request, console: Console) -> None:
    """Run a scenario as asked. Raises ConfigError before anything is written, UserError when it fails."""
    refuse_foreign_options(scenario, request)
    command, shown = scenario.command_line, scenario.presentation
    configuration = command.plan(request)
    described = dict(command.describe(configuration))
    now, started_s = datetime.now().astimezone(), time.monotonic()
    argv = ("scenarios", "run", command.target or scenario.name, *command.again(configuration))
    folder = request.out or fresh_folder(scenario.name, now)
    with claimed(folder, scenario.name, described):
        results = scenario.execute(configuration, folder, console)
        judged = judge(shown.claims, results)
        ended = Ended(
            name=scenario.name,
            source=scenario.source,
            headline=shown.headline(results),
            note=note(request, len(shown.claims) - len(judged)),
            method=shown.method,
            configuration=described,
            provenance=Provenance(
                command=shlex.join(("python", "-m", *argv)),
                versions=versions(),
                started=now.isoformat(timespec="seconds"),
                seconds=time.monotonic() - started_s,
            ),
        )
        tables = shown.tables(results)
        shown.files(results, folder)
        write_json(folder / "result.json", result(scenario, results, ended, judged))
        write_text(folder / "report.html", render(ended, shown.charts(results), tables, judged))
    say(console, ended, tables, judged, folder / "report.html")


def note(request: Request, unjudged: int) -> str:
    """What is to be known before the claims are read; "" for a full run."""
    omitted = f"Claims left out because this run has not their arms: {unjudged}." if unjudged else ""
    return " ".join(text for text in (QUICK_NOTE if request.quick else "", omitted) if text)


def refuse_foreign_options(scenario: Scenario[Any, Any], request: Request) -> None:
    """Raise ConfigError for an option or an engine that the scenario does not have."""
    accepted = scenario.command_line
    foreign = sorted(request.given() - accepted.options)
    if foreign:
        allowed = ", ".join(sorted(flag(name) for name in accepted.options))
        raise ConfigError(
            f"{flag(foreign[0])}: scenario {scenario.name} does not have it; allowed are {allowed}"
        )
    if request.engine is not None and request.engine not in accepted.engines:
        allowed = ", ".join(accepted.engines)
        raise ConfigError(
            f"--engine {request.engine}: scenario {scenario.name} does not have it; allowed: {allowed}"
        )


def flag(field: str) -> str:
    """The command line's name for a field of Request."""
    return FLAGS.get(field, f"--{field}")


def versions() -> dict[str, str]:
    """What the run ran on: Python, the platform, and every package that the figures depend on."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    found["murmuration"] = installed_version() or NOT_INSTALLED
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = NOT_INSTALLED
    return found


def result(
    scenario: Scenario[Any, Any], results: Any, ended: Ended, judged: Sequence[Judged]
) -> dict[str, Any]:
    """The content of result.json."""
    return {
        "scenario": ended.name,
        "source": ended.source,
        "configuration": ended.configuration,
        "seed": ended.configuration["seed"],
        "versions": ended.provenance.versions,
        "command": ended.provenance.command,
        "started": ended.provenance.started,
        "seconds": ended.provenance.seconds,
        "note": ended.note,
        "headline": ended.headline,
        "method": ended.method,
        "arms": dict(scenario.presentation.arms(results)),
        "claims": claims_json(judged),
    }


def say(
    console: Console, ended: Ended, tables: Sequence[Table], judged: Sequence[Judged], report: Path
) -> None:
    """Tell the end of a run on the terminal."""
    for table in tables:
        console.print(terminal_table(table))
    for claim in judged:
        console.print(claim_line(claim), soft_wrap=True)
    for line in (ended.note, ended.headline, f"{ended.provenance.seconds:.0f} s in all. Report: {report}"):
        if line:
            print_plain(console, line)


def terminal_table(table: Table) -> RichTable:
    """A table for the terminal."""
    drawn = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for position, heading in enumerate(table.headings):
        drawn.add_column(heading, justify="right" if is_figures(table, position) else "left")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn


def claim_line(claim: Judged) -> Text:
    """A claim with a tick or a cross and its numbers, for the terminal."""
    mark, style = ("✓ ", "green") if claim.verdict.holds else ("✗ ", "bold red")
    kind = " (identity)" if claim.kind == "identity" else ""
    return Text.assemble((mark, style), claim.name, (f"{kind}  {numbers(claim.verdict)}", "dim"))
