"""The studies in examples/studies/, in small: own rows, own code, own claims."""

from __future__ import annotations

import csv
import json
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.__main__ import main

STUDIES = Path(__file__).parents[4] / "examples" / "studies"
LIMITS = {"own_study.py": 40, "study.toml": 40, "own_attack.py": 60, "attack.toml": 60, "peers.toml": 40}
Run = Callable[..., dict]


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a copy of the examples, with the rows that they use."""
    folder = tmp_path_factory.mktemp("studies") / "mine"
    shutil.copytree(STUDIES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        runpy.run_path("make_patients.py", run_name="__main__")
    return folder


@pytest.fixture
def folder(studies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a copy the working folder, where its own code is found."""
    own = shutil.copytree(studies, tmp_path / "mine")
    monkeypatch.chdir(own)
    monkeypatch.syspath_prepend(str(own))
    return own


@pytest.fixture
def run(folder: Path) -> Run:
    """Returns a function that runs a study in this process, and returns its result."""

    def call(target: str, *argv: str, out: str = "out") -> dict:
        assert main(["run", target, "--out", out, "--jobs", "1", *argv]) == 0
        return json.loads((folder / out / "result.json").read_text())

    return call


def test_a_study_by_file_is_run_and_judged_again(run: Run, one_line, folder: Path, capsys) -> None:
    few = ("--set", "scenario.arms=ldp-*,dp-sgd-epsilon1,no-noise")
    result = run("study.toml", "--quick", "--rounds", "1", *few)
    assert len(result["arms"]) == 5
    assert len(result["claims"]) == 2
    assert result["command"].startswith("python -m scenarios run study.toml")
    with (folder / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 * 2 * 1  # arms, seeds, rounds
    assert {row["epsilon"] for row in rows} == {"", "1", "10", "100"}

    assert "none of the catalogue; name the study" in one_line(main, ["judge", "out/result.json"])
    wrong = ("judge", "out/result.json", "--study", "attack.toml")
    assert "the result is of 'two-mechanisms', and --study attack.toml is 'attack'" in one_line(main, wrong)
    assert main(["judge", "out/result.json", "--study", "study.toml"]) == 0
    assert "The figure rises as epsilon grows (mechanism ldp)" in " ".join(capsys.readouterr().out.split())


def test_a_study_by_import_path_and_two_runs_compared(run: Run, capsys) -> None:
    few = ("--quick", "--set", "scenario.arms=ldp-epsilon1,no-noise")
    one = run("own_study:STUDY", *few, out="one")
    assert len(one["arms"]) == 2
    assert one["headline"].startswith("Test accuracy ")
    assert one["command"].startswith("python -m scenarios run own_study:STUDY --quick")
    run("own_study:STUDY", *few, "--rounds", "3", out="other")
    capsys.readouterr()
    assert main(["compare", "one", "other"]) == 0
    assert "other, no-noise: other train.rounds (2, not 3)" in capsys.readouterr().out.splitlines()


def test_peers_are_pulled_back(run: Run) -> None:
    few = ("--quick", "--set", "scenario.arms=proximal0,proximal1", "--set", "train.epochs=5")
    arms = run("peers.toml", *few, "--set", "train.batch_size=50")["arms"]
    assert arms["proximal0"]["figure"] > arms["proximal1"]["figure"]


def test_an_attack_and_an_aggregator_of_one_s_own(run: Run) -> None:
    few = ("--rounds", "3", "--set", "scenario.seeds=2")
    result = run("attack.toml", *few, "--set", "scenario.arms=mean-*,*-share0.2")
    assert len(result["claims"]) == 2
    figures = {name: arm["figure"] for name, arm in result["arms"].items()}
    assert figures["mean-share0.2"] < figures["nearest-share0.2"]


def test_they_run_in_a_study_of_the_catalogue(run: Run) -> None:
    attack = ("--set", "scenario.attack=own_attack:AgainstTheMean", "--set", "scenario.attackers=0.4")
    own = ("--set", "scenario.aggregator=own_attack:nearest", "--set", "scenario.arms=fedavg")
    result = run("mechanisms", *own, *attack, "--rounds", "1", "--set", "scenario.seeds=2")
    described = result["configuration"]["arms"]
    assert {name: arm["attackers"]["of"] for name, arm in described.items()} == {"fedavg": 0.4, "own": 0.4}
    assert described["own"]["mechanism"]["parameters"]["path"] == "own_attack:nearest"


def test_a_wrong_key_is_one_line_and_nothing_is_written(one_line, folder: Path) -> None:
    text = (folder / "study.toml").read_text()
    (folder / "wrong.toml").write_text(text.replace("rounds", "ronds"))
    run = ("run", "wrong.toml", "--out", "out")
    assert "'train.ronds' is not a known key (did you mean 'rounds'?)" in one_line(main, run)
    (folder / "wrong.toml").write_text(text.replace("patients.csv", "nobody.csv"))
    assert "nobody.csv" in one_line(main, run)
    assert not (folder / "out").exists()


def test_they_are_short() -> None:
    for name, most in LIMITS.items():
        assert len((STUDIES / name).read_text().splitlines()) <= most, name
