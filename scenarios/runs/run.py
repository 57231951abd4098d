"""Turns a study into the scenario that the command line runs: engine, results, report."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rich.console import Console

from scenarios.engines.choice import ENGINES, EngineChoice
from scenarios.engines.engine import Engine, Place, cores
from scenarios.engines.inline import InlineEngine
from scenarios.engines.nodes import ProcessesEngine
from scenarios.frame.progress import print_plain
from scenarios.frame.spec import CommandLine, Json, Presentation, Scenario, Table
from scenarios.runs.progress import sweep_shown
from scenarios.runs.request import OPTIONS, StudyRun, described, study_run
from scenarios.study.cells import Cell, Shelf
from scenarios.study.common_tables import common_tables
from scenarios.study.comparison import METHOD
from scenarios.study.plots import usual_charts, usual_headline
from scenarios.study.sweep import Study, Sweep, arms_json, collect, stored, substitutions
from scenarios.study.tables import usual_tables
from scenarios.study.targets import targets_json


def scenario_of(study: Study, target: str = "") -> Scenario[StudyRun, Sweep]:
    """Return the scenario that runs a study. target: what `scenarios run` takes for it; "": its name."""
    return Scenario(
        name=study.name,
        source=study.source,
        summary=study.summary,
        command_line=CommandLine(
            options=OPTIONS,
            engines=ENGINES,
            plan=partial(study_run, study),
            describe=described,
            again=lambda run: run.given,
            target=target,
        ),
        execute=execute,
        presentation=Presentation(
            headline=study.headline or usual_headline,
            arms=_arms,
            claims=study.claims,
            charts=study.charts or usual_charts,
            tables=partial(_tables, study),
            files=_write_frame,
            method=METHOD,
        ),
        stored=partial(stored, study),
    )


def _arms(sweep: Sweep) -> dict[str, Json]:
    """Every arm's figures, and when it reaches the target."""
    reached = targets_json(sweep)
    return {arm: {**figures, **reached.get(arm, {})} for arm, figures in arms_json(sweep).items()}


def _tables(study: Study, sweep: Sweep) -> tuple[Table, ...]:
    tables = (*(study.tables or usual_tables)(sweep), *common_tables(sweep))
    return (*tables, substitutions(study)) if study.stands_in else tables


def _write_frame(sweep: Sweep, folder: Path) -> None:
    from scenarios.study.frame import write_frame  # noqa: PLC0415  its writers are slow to load

    write_frame(folder, sweep.frame())


def execute(run: StudyRun, folder: Path, console: Console) -> Sweep:
    """Run every cell that is not finished, and collect the outcomes of all. Raises UserError."""
    place = Place(folder, run.data_dir)
    missing = [cell for cell in run.cells if not _kept(cell, place.shelf)]
    kept = len(run.cells) - len(missing)
    told = f"{len(run.cells)} cells, {kept} of them finished before" if kept else f"{len(run.cells)} cells"
    print_plain(console, f"{told}; if stopped, the same command with --out {folder} goes on")
    if missing:
        with sweep_shown(console, missing) as display:
            engine_of(run.engine).run(missing, place, display)
    return collect(run.study, run.arms, run.seeds, place.shelf.get, run.target)


def _kept(cell: Cell, shelf: Shelf) -> bool:
    """Whether an earlier run finished the cell. Raises UserError for a damaged file, before a cell runs."""
    return shelf.holds(cell) and shelf.get(cell) is not None


def engine_of(choice: EngineChoice) -> Engine:
    """Return the chosen engine."""
    match choice.name:
        case "ray":
            from scenarios.engines.ray import RayEngine  # noqa: PLC0415  an extra, and a slow import

            return RayEngine(choice.jobs, choice.ray)
        case "processes":
            return ProcessesEngine(choice.jobs or 1)
        case _:
            return InlineEngine(choice.jobs or cores(), cores())
