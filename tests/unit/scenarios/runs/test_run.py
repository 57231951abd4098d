"""A study run as a scenario, in this process: its folder, what is kept, and what is refused."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from node.system.errors import ConfigError, UserError
from scenarios.engines.choice import EngineChoice, RaySection
from scenarios.engines.inline import InlineEngine
from scenarios.engines.nodes import ProcessesEngine
from scenarios.frame.harness import run
from scenarios.frame.spec import Request
from scenarios.runs.run import engine_of, scenario_of
from tests.own_studies import SHRINKING, STUDY

SMALL = scenario_of(STUDY)
CELLS = ["noised-0", "noised-1", "plain-0", "plain-1"]
TWO = ("scenario.arms=plain,noised",)


def ran(out: Path, *overrides: str, **fields: Any) -> str:
    said = io.StringIO()
    asked = Request(out=out, quick=True, jobs=1, overrides=(*TWO, *overrides), **fields)
    run(SMALL, asked, Console(file=said, width=120))
    return said.getvalue()


def stamps(out: Path) -> dict[str, tuple[int, bytes]]:
    files = sorted((out / "cells").glob("*.json"))
    return {file.stem: (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def arms(out: Path) -> dict[str, Any]:
    return json.loads((out / "result.json").read_text())["arms"]


def test_a_run_leaves_a_file_a_cell_and_the_results_and_runs_once(tmp_path: Path) -> None:
    said = ran(tmp_path)
    before = stamps(tmp_path)
    assert list(before) == CELLS
    assert "4 of them finished before" in ran(tmp_path)
    assert stamps(tmp_path) == before
    with pytest.raises(ConfigError, match="holds a run with another seed"):
        ran(tmp_path, seed=1)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["scenario"] == "small"
    assert result["configuration"]["engine"] == "inline"
    assert result["seed"] == 0
    assert [claim["name"] for claim in result["claims"]] == ["Noise costs accuracy."]
    assert {name: len(arm["seeds"]) for name, arm in result["arms"].items()} == {"plain": 2, "noised": 2}
    assert "--set scenario.arms=plain,noised" in result["command"]
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 1 + 4 * 2  # 4 cells of 2 rounds
    assert (tmp_path / "results.parquet").exists()
    report = (tmp_path / "report.html").read_text()
    assert "five parts of one table" in report
    assert "After the last round." in report
    assert f"4 cells; if stopped, the same command with --out {tmp_path} goes on" in said


def test_a_run_that_goes_on_runs_only_what_is_missing_and_ends_the_same(tmp_path: Path) -> None:
    ran(tmp_path)
    before, whole = stamps(tmp_path), arms(tmp_path)
    (tmp_path / "cells" / "noised-1.json").unlink()
    (tmp_path / "result.json").unlink()
    said = ran(tmp_path)
    assert "4 cells, 3 of them finished before" in said
    assert "cell 1/1  noised, seed 1" in said
    after, again = stamps(tmp_path), arms(tmp_path)
    assert {name: after[name] for name in CELLS if name != "noised-1"} == {
        name: before[name] for name in CELLS if name != "noised-1"
    }
    for measured in ("seconds", "clock"):
        whole["noised"]["seeds"][1][measured] = again["noised"]["seeds"][1][measured]
    assert again == whole


def test_a_damaged_cell_s_file_is_one_line_before_anything_is_run(tmp_path: Path) -> None:
    ran(tmp_path)
    broken = tmp_path / "cells" / "plain-1.json"
    (tmp_path / "cells" / "noised-0.json").unlink()
    broken.write_text(broken.read_text()[:40])
    with pytest.raises(UserError, match="remove it, and the same command runs that cell again") as raised:
        ran(tmp_path)
    assert str(raised.value).startswith(f"{broken} cannot be read")
    assert not (tmp_path / "cells" / "noised-0.json").exists()
    broken.unlink()
    ran(tmp_path)
    assert list(stamps(tmp_path)) == CELLS


def test_every_arm_has_figures_of_its_clients_and_costs_and_the_target_may_change(tmp_path: Path) -> None:
    own = (f"scenario.mechanism={SHRINKING}", "scenario.parameters={clients_per_round = 3}")
    said = ran(tmp_path, *own, "scenario.target=.5")
    report, found = (tmp_path / "report.html").read_text(), arms(tmp_path)
    for title in ("Clients: accuracy on", "Partition: total variation", "Cost: bytes a client and round"):
        assert title in report
        assert title in said
    assert "The first round whose mean figure is at least 0.5" in report
    assert list(found) == ["plain", "noised", "own"]
    hashes = {found[name]["seeds"][0]["model sha256"] for name in ("own", "plain")}
    assert len(hashes) == 2
    first = found["plain"]["seeds"][0]
    assert first["bytes up a client and round"] == 4 * (30 * 8 + 8 + 8 * 2 + 2)
    assert first["bytes of a round"] == [2 * 3 * first["bytes up a client and round"]] * 2
    assert first["clients"] == 5
    assert 0 < first["clock"][0] < first["clock"][1]
    assert found["plain"]["target"] == 0.5
    assert found["plain"]["reached"]["round"] in (1, 2)
    before = stamps(tmp_path)
    ran(tmp_path, *own, "scenario.target=2")
    assert stamps(tmp_path) == before
    assert arms(tmp_path)["plain"]["reached"] is None


def test_cells_that_an_earlier_version_stored_are_taken_as_they_are(tmp_path: Path) -> None:
    ran(tmp_path)
    for file in (tmp_path / "cells").glob("*.json"):
        fields = json.loads(file.read_text())
        facts = {name: fields["facts"][name] for name in ("epsilon", "stated", "delta", "model sha256")}
        file.write_text(json.dumps({"figures": fields["figures"], "facts": facts, "seconds": 1.0}))
    before = stamps(tmp_path)
    said = ran(tmp_path, "scenario.target=0.5")
    assert "4 of them finished before" in said
    assert stamps(tmp_path) == before
    assert "Clients: accuracy" not in (tmp_path / "report.html").read_text()
    assert "not known" in said


@pytest.mark.parametrize("target", ["0", "-1", "high", "true", "nan", "inf", "[1]"])
def test_a_target_that_is_no_figure_is_one_line(tmp_path: Path, target: str) -> None:
    with pytest.raises(ConfigError, match=r"scenario\.target = .* allowed: a number above 0, such as 0\.9"):
        ran(tmp_path / "out", f"scenario.target={target}")


def test_the_engine_of_a_choice() -> None:
    inline = engine_of(EngineChoice("inline", 3, RaySection()))
    assert isinstance(inline, InlineEngine)
    assert inline.jobs == 3
    assert engine_of(EngineChoice("processes", None, RaySection())) == ProcessesEngine(1)
    pytest.importorskip("ray")
    section = RaySection(address="auto")
    ray = engine_of(EngineChoice("ray", None, section))
    assert (type(ray).__name__, vars(ray)) == ("RayEngine", {"jobs": None, "section": section})
