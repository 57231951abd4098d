"""The studies in examples/studies/ as a user runs them: own rows, own code, own claims."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, Nursery

STUDIES = ROOT / "examples" / "studies"
ENOUGH_S = 300.0
ARMS = 7
LIMITS = {"own_study.py": 40, "study.toml": 40, "own_attack.py": 60, "attack.toml": 60, "peers.toml": 40}


@pytest.fixture
def folder(tmp_path: Path, nursery: Nursery) -> Path:
    """Returns a copy of the examples, with the rows that they use."""
    shutil.copytree(STUDIES, tmp_path / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    made = nursery.script(tmp_path / "mine" / "make_patients.py", tmp_path / "mine")
    assert made.status() == 0, made.told()
    return tmp_path / "mine"


def ran(nursery: Nursery, folder: Path, target: str, *argv: str, out: str = "out") -> dict:
    process = nursery.plain("scenarios", "run", target, "--out", out, "--jobs", "2", *argv, cwd=folder)
    assert process.status(ENOUGH_S) == 0, process.told()
    return json.loads((folder / out / "result.json").read_text())


def said(nursery: Nursery, folder: Path, *argv: str) -> str:
    process = nursery.plain("scenarios", *argv, cwd=folder)
    assert process.status(ENOUGH_S) == 2, process.told()
    process.err.join()
    (line,) = process.err.all()
    return line


@pytest.mark.slow  # 21 cells
def test_a_study_by_file(nursery: Nursery, folder: Path) -> None:
    result = ran(nursery, folder, "study.toml")
    assert len(result["arms"]) == ARMS
    assert len(result["claims"]) == 2
    assert result["command"].startswith("python -m scenarios run study.toml")
    with (folder / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == ARMS * 3 * 4  # seeds, rounds
    assert {row["epsilon"] for row in rows} == {"", "1", "10", "100"}


@pytest.mark.slow  # twice six cells, one after the other
def test_a_study_by_import_path_and_two_runs_compared(nursery: Nursery, folder: Path) -> None:
    few = ("--quick", "--set", "scenario.arms=ldp-*,no-noise")
    one = ran(nursery, folder, "own_study:STUDY", *few, out="one")
    assert len(one["arms"]) == 4
    assert one["command"].startswith("python -m scenarios run own_study:STUDY --quick")
    ran(nursery, folder, "own_study:STUDY", *few, "--rounds", "3", out="other")
    compared = nursery.plain("scenarios", "compare", "one", "other", cwd=folder)
    assert compared.status() == 0, compared.told()
    compared.out.join()
    assert "other, no-noise: other train.rounds (2, not 3)" in compared.out.all()


@pytest.mark.slow  # four cells of 20 epochs a round
def test_peers_are_pulled_back(nursery: Nursery, folder: Path) -> None:
    result = ran(nursery, folder, "peers.toml", "--quick", "--set", "scenario.arms=proximal0,proximal1")
    figures = [result["arms"][name]["figure"] for name in ("proximal0", "proximal1")]
    assert figures[0] > figures[1]


@pytest.mark.slow  # eight nodes, or a Ray cluster that starts
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_every_engine_runs_it(nursery: Nursery, folder: Path, engine: str) -> None:
    """Real nodes draw their own noise; without any, a Ray cluster has the very figures of one process."""
    few = ("--quick", "--set", "scenario.arms=no-noise")
    usual, other = (ran(nursery, folder, "study.toml", *few, *how, out=out) for how, out in (
        ((), "inline"), (("--engine", engine), "other")))  # fmt: skip
    figures = [[one["figures"] for one in result["arms"]["no-noise"]["seeds"]] for result in (usual, other)]
    assert [len(rounds) for rounds in figures[1]] == [2, 2]
    if engine == "ray":
        assert figures[0] == figures[1]
    else:
        assert other["arms"]["no-noise"]["seeds"][0]["bytes were measured"]


@pytest.mark.slow  # two cells
def test_its_stored_result_is_judged_again(nursery: Nursery, folder: Path) -> None:
    ran(nursery, folder, "study.toml", "--quick", "--set", "scenario.arms=no-noise,ldp-*")
    assert "none of the catalogue; name the study" in said(nursery, folder, "judge", "out/result.json")
    wrong = ("judge", "out/result.json", "--study", "attack.toml")
    assert "the result is of 'two-mechanisms', and --study attack.toml is 'attack'" in said(
        nursery, folder, *wrong
    )
    judged = nursery.plain("scenarios", "judge", "out/result.json", "--study", "study.toml", cwd=folder)
    assert judged.status() == 0, judged.told()
    judged.out.join()
    assert "The figure rises as epsilon grows (mechanism ldp)" in " ".join(judged.out.all())


@pytest.mark.slow  # 18 cells in a process that imports torch
def test_an_attack_and_an_aggregator_of_one_s_own(nursery: Nursery, folder: Path) -> None:
    result = ran(nursery, folder, "attack.toml")
    assert len(result["claims"]) == 2
    figures = {name: arm["figure"] for name, arm in result["arms"].items()}
    assert figures["mean-share0.2"] < figures["nearest-share0.2"]


@pytest.mark.slow  # cells in a process that imports torch
def test_they_run_in_a_study_of_the_catalogue(nursery: Nursery, folder: Path) -> None:
    attack = ("--set", "scenario.attack=own_attack:AgainstTheMean", "--set", "scenario.attackers=0.4")
    own = ("--set", "scenario.aggregator=own_attack:nearest", "--set", "scenario.arms=fedavg")
    quick = ("--rounds", "2", "--set", "scenario.seeds=2")
    result = ran(nursery, folder, "mechanisms", *own, *attack, *quick)
    described = result["configuration"]["arms"]
    assert {name: arm["attackers"]["of"] for name, arm in described.items()} == {"fedavg": 0.4, "own": 0.4}
    assert described["own"]["mechanism"]["parameters"]["path"] == "own_attack:nearest"


def test_a_wrong_key_is_one_line_and_nothing_is_written(nursery: Nursery, folder: Path) -> None:
    text = (folder / "study.toml").read_text()
    (folder / "wrong.toml").write_text(text.replace("rounds", "ronds"))
    assert "'train.ronds' is not a known key (did you mean 'rounds'?)" in said(
        nursery, folder, "run", "wrong.toml", "--out", "out"
    )
    (folder / "wrong.toml").write_text(text.replace("patients.csv", "nobody.csv"))
    assert "nobody.csv" in said(nursery, folder, "run", "wrong.toml", "--out", "out")
    assert "no_study" in said(nursery, folder, "run", "no_study:STUDY", "--out", "out")
    assert not (folder / "out").exists()


@pytest.mark.parametrize(("name", "most"), LIMITS.items())
def test_they_are_short(name: str, most: int) -> None:
    assert len((STUDIES / name).read_text().splitlines()) <= most
