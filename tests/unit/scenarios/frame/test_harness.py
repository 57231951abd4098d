import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from node.system.errors import ConfigError, UserError
from scenarios.frame.harness import run
from scenarios.frame.spec import Claim, CommandLine, Json, Presentation, Request, Scenario, Table, Verdict


def plan(request: Request) -> int:
    return request.peers or 1


def execute(peers: int, folder: Path, console: Console) -> list[int]:
    if peers == 13:
        raise UserError("peer 12 ended with exit status 1")
    return list(range(peers))


def describe(peers: int) -> Json:
    return {"seed": 0, "peers": peers}


COUNTING: Scenario[int, list[int]] = Scenario(
    name="counting",
    source="nobody",
    summary="Counts.",
    command_line=CommandLine(
        options=frozenset({"peers", "out", "quick", "engine"}),
        engines=("inline",),
        plan=plan,
        describe=describe,
        again=lambda peers: ("--peers", str(peers)),
    ),
    execute=execute,
    presentation=Presentation(
        headline=lambda results: f"Counted {len(results)}.",
        arms=lambda results: {"all": {"count": len(results)}},
        claims=(
            Claim("More than three", lambda results: Verdict(len(results) > 3, {"count": len(results)})),
            Claim("Starts at 0", lambda results: Verdict(results[0] == 0, {"first": results[0]}), "identity"),
        ),
        charts=lambda results: (),
        tables=lambda results: (Table("Counts", ("what", "count"), (("all", str(len(results))),)),),
    ),
)


def run_counting(request: Request) -> str:
    out = io.StringIO()
    run(COUNTING, request, Console(file=out, width=100))
    return out.getvalue()


def test_a_run_leaves_result_and_report_and_tells_both(tmp_path: Path) -> None:
    said = run_counting(Request(peers=2, out=tmp_path / "out"))
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["configuration"] == {"seed": 0, "peers": 2}
    assert (result["scenario"], result["seed"], result["arms"]) == ("counting", 0, {"all": {"count": 2}})
    assert result["claims"] == [
        {"name": "More than three", "kind": "finding", "holds": False, "numbers": {"count": 2}},
        {"name": "Starts at 0", "kind": "identity", "holds": True, "numbers": {"first": 0}},
    ]
    assert result["command"] == "python -m scenarios run counting --peers 2"
    assert {"python", "torch", "numpy"} <= result["versions"].keys()
    assert "Counted 2." in (tmp_path / "out" / "report.html").read_text()
    assert "✗ More than three  count 2" in said
    assert "✓ Starts at 0 (identity)  first 0" in said
    assert "0 of 1 hold, 1 of 1 identities hold" in (tmp_path / "out" / "report.html").read_text()
    assert "Counted 2." in said
    assert str(tmp_path / "out" / "report.html") in said


def test_without_out_every_run_has_a_folder_of_its_own_and_a_quick_one_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "quick run" in run_counting(Request(quick=True))
    (first,) = (tmp_path / "runs").iterdir()
    assert "quick run" in json.loads((first / "result.json").read_text())["note"]
    run_counting(Request())
    folders = list((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    assert all(folder.name.startswith("counting-") for folder in folders)


def test_an_option_or_engine_that_the_scenario_does_not_have_is_refused(tmp_path):
    with pytest.raises(ConfigError) as refused:
        run_counting(Request(seed=1, out=tmp_path / "out"))
    assert str(refused.value) == (
        "--seed: scenario counting does not have it; allowed are --engine, --out, --peers, --quick"
    )
    assert not (tmp_path / "out").exists()
    with pytest.raises(
        ConfigError, match="--engine ray: scenario counting does not have it; allowed: inline"
    ):
        run_counting(Request(engine="ray"))


def test_a_run_that_fails_leaves_no_result_and_can_go_on(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(UserError, match="peer 12"):
            run_counting(Request(peers=13, out=tmp_path / "out"))
    assert not (tmp_path / "out" / "result.json").exists()
