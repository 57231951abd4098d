"""The systems' studies on made-up figures, which their TOML files hold: claims, charts, tables, headlines.

    [claims]
    "Beginning of its name".flips   changes after each of which the verdict is the other one
                           .alone   changes that flip this claim and no other
                           .stays   changes that leave the verdict, on the other side of a bound for instance
                           .unsaid  changes after which it is not judged

`fails` names the claims that do not hold as made up, `elsewhere` those that other tests are about. `runs` are
runs of some arms: what is judged, drawn and said.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from scenarios.catalogue import SCENARIOS
from scenarios.frame.report import Ended, Provenance, render
from scenarios.frame.spec import Claim, judge
from scenarios.study.arms import as_arm, is_number
from scenarios.study.sweep import Sweep, arms_json
from tests.unit.scenarios.systems.made_up import SYSTEMS, System, by_arm, matches_any

every_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
CHANGES = [
    pytest.param(system, key, kind, change, id=f"{name}-{key}-{kind}{number}")
    for name, system in SYSTEMS.items()
    for key, told in system.told["claims"].items()
    for kind in ("flips", "alone", "stays", "unsaid")
    for number, change in enumerate(told.get(kind, ()))
]
RUNS = [
    pytest.param(system, run, id=f"{name}-{number}")
    for name, system in SYSTEMS.items()
    for number, run in enumerate(system.told["runs"])
]


def holds(claim: Claim[Sweep], sweep: Sweep) -> bool | None:
    verdict = claim.judge(sweep)
    return None if verdict is None else verdict.holds


def key_of(system: System, claim: str) -> str:
    keys = [
        key for key in (*system.told["claims"], *system.told.get("elsewhere", ())) if claim.startswith(key)
    ]
    assert len(keys) == 1, f"{claim}: {keys}"
    return keys[0]


@every_system
def test_every_arm_has_a_name_factors_of_its_own_and_a_made_up_figure(system: System) -> None:
    assert len(system.arms) == len(system.study.arms)
    without = system.told.get("without", ())
    assert set(system.figures) == {arm for arm in system.arms if not matches_any(arm, without)}
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]+", arm) for arm in system.arms)
    factors = {tuple(sorted(arm.factors.items())) for arm in system.arms.values()}
    assert len(factors) == len(system.arms)
    columns = {*system.sweep().frame().column_names}
    assert columns >= {name for arm in system.figures for name in system.arms[arm].factors}


@every_system
def test_the_arms_are_what_their_factors_and_names_say(system: System) -> None:
    """`cells`: where a cell may have a factor; the first such place counts. Names have no other numbers."""
    for name in system.figures:
        arm = system.arms[name]
        for factor, places in system.told["cells"].items():
            if factor in arm.factors:
                assert found_in(arm.cell, places) == arm.factors[factor], (name, factor)
        numbers = {float(text) for text in re.findall(system.told.get("numbers", r"[\d.]+(?:e\d)?"), name)}
        assert numbers <= {*filter(is_number, arm.factors.values())}, name


def found_in(cell: object, places: Sequence[str]) -> object:
    for place in places:
        found = cell
        for part in place.split("."):
            found = found.get(part) if isinstance(found, Mapping) else getattr(found, part, None)
        if found is not None:
            return found
    return None


@every_system
def test_the_quick_form_has_arms_of_every_kind_that_it_names(system: System) -> None:
    assert all(any(fnmatchcase(arm, one) for arm in system.arms) for one in system.study.quick.arms)


@every_system
def test_every_claim_has_an_entry_that_can_fail_and_every_entry_a_claim(system: System) -> None:
    assert SCENARIOS[system.study.name].load().presentation.claims is system.study.claims
    keys = [key_of(system, claim.name) for claim in system.study.claims]
    assert sorted(keys) == sorted([*system.told["claims"], *system.told.get("elsewhere", ())])
    assert all(told.get("flips") or told.get("alone") for told in system.told["claims"].values())


@every_system
def test_as_made_up_all_claims_hold_but_those_that_are_named(system: System) -> None:
    judged = judge(system.study.claims, system.sweep())
    assert {key_of(system, one.name) for one in judged} == {*system.told["claims"]}
    failed = {key_of(system, one.name) for one in judged if not one.verdict.holds}
    assert failed == {*system.told.get("fails", ())}
    for one in judged:
        assert one.verdict.numbers
        assert all(isinstance(value, int | float | str) for value in one.verdict.numbers.values())


@pytest.mark.parametrize(("system", "key", "kind", "change"), CHANGES)
def test_a_change_of_figures_flips_the_verdict_or_leaves_it(system, key, kind, change):
    before = {one: one not in system.told.get("fails", ()) for one in system.told["claims"]}
    sweep = system.sweep(change)
    about = [claim for claim in system.study.claims if kind == "alone" or claim.name.startswith(key)]
    after = {key_of(system, claim.name): holds(claim, sweep) for claim in about}
    expected = {"stays": before[key], "unsaid": None}.get(kind, not before[key])
    assert after == ({**before, key: expected} if kind == "alone" else {key: expected})


@pytest.mark.parametrize(("system", "run"), RUNS)
def test_a_run_of_some_arms_has_what_can_be_said_of_them(system: System, run: Mapping[str, Any]) -> None:
    """`arms`: their patterns, or "quick"; `peers`, `rounds`: of all arms."""
    only = system.study.quick.arms if run.get("arms") == "quick" else run.get("arms", ("*",))
    sweep = system.sweep(only=only)
    if "peers" in run:
        sweep = replace(sweep, arms=tuple(as_arm(arm).among(run["peers"]) for arm in sweep.arms))
    if "rounds" in run:
        sweep = replace(sweep, arms=tuple(as_arm(arm).lasting(run["rounds"]) for arm in sweep.arms))
    study = system.study
    judged = {key_of(system, one.name): one.verdict.holds for one in judge(study.claims, sweep)}
    if "judged" in run:
        assert {*judged} == {*run["judged"]}
    if "unsaid" in run:
        assert {*system.told["claims"]} - {*judged} == {*run["unsaid"]}
    if "fails" in run:
        assert {key for key, holds in judged.items() if not holds} == {*run["fails"]}
    if "charts" in run:
        assert [chart.key for chart in study.charts(sweep)] == run["charts"]
    if "tables" in run:
        assert [table.title for table in study.tables(sweep)] == run["tables"]
    if "headline" in run:
        assert fnmatchcase(study.headline(sweep), run["headline"])


@every_system
def test_the_report_of_any_arms_is_whole(system: System) -> None:
    study = system.study
    quick = [arm for arm in system.figures if matches_any(arm, study.quick.arms)]
    for only in (("*",), quick, quick[:1]):
        sweep = system.sweep(only=only)
        charts, tables, said = study.charts(sweep), study.tables(sweep), study.headline(sweep)
        for table in tables:
            assert table.rows
            assert {len(row) for row in table.rows} == {len(table.headings)}
        made = Provenance("again", {}, "now", 1.0)
        ended = Ended(study.name, study.source, said, "", {"seed": 0}, made)
        page = render(ended, charts, tables, judge(study.claims, sweep))
        assert all(f"id='chart-{chart.key}'" in page and chart.title in page for chart in charts)
        json.dumps([asdict(chart) for chart in charts], allow_nan=False)
        json.dumps(arms_json(sweep), allow_nan=False)
        assert said


@every_system
def test_charts_have_the_traces_that_are_told(system: System) -> None:
    """`names`: of all traces. A text stands for the made-up figures of the arms that match it."""
    charts = {chart.key: chart for chart in system.study.charts(system.sweep())}
    for key, told in system.told.get("charts", {}).items():
        traces = {trace["name"]: trace for trace in charts[key].traces if "name" in trace}
        for name, wanted in told.items():
            if name == "names":
                assert list(traces) == wanted
                continue
            for field, values in wanted.items():
                meant = by_arm({values: 0}, system.figures) if isinstance(values, str) else ()
                expected = [system.figures[arm] for arm in meant] or values
                assert list(traces[name][field]) == pytest.approx(expected), (key, name, field)


@every_system
def test_tables_have_the_rows_that_are_told(system: System) -> None:
    """Each row is told by the patterns of its first cells."""
    tables = {table.title: table for table in system.study.tables(system.sweep())}
    for title, told in system.told.get("tables", {}).items():
        table = next(table for name, table in tables.items() if fnmatchcase(name, title))
        assert len(table.rows) == told.get("count", len(table.rows))
        assert list(table.headings) == told.get("headings", list(table.headings))
        for wanted in told.get("rows", ()):
            row = next((row for row in table.rows if row[0] == wanted[0]), None) or pytest.fail(wanted[0])
            assert all(fnmatchcase(*pair) for pair in zip(row, wanted, strict=False)), (row, wanted)
