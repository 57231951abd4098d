"""The audit's figures: sound mechanisms below their claims, faults refuted, and the choice of mechanisms."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.audit.findings import cases, quicker


def test_quick_audits_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert main(["audit", "--quick", "--only", "label DP, binary", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert [figure["figure"] for figure in figures] == [
        "epsilon is at least",
        "epsilon doubled",
        "drawn twice, counted once",
    ]
    assert all(figure["holds"] for figure in figures)
    assert figures[0]["at_most"] == 4.0
    assert "claim 4 refuted 1/1" in capsys.readouterr().out


def test_canaries_of_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--quick", "--only", "gaussian, one run"]) == 0
    sound, faulty = capsys.readouterr().out.splitlines()[-2:]
    assert "✓ at most 4" in sound
    assert "refuted 0/1" in sound
    assert "a quarter of the noise" in faulty
    assert "refuted 1/1" in faulty


def test_an_unknown_mechanism_is_answered_with_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--only", "magic"]) == 2
    said = capsys.readouterr().err
    assert "--only magic" in said
    assert all(case.mechanism in said for case in cases())
    assert said.count("\n") == 1


def test_every_mechanism_is_audited_sound_and_faulty() -> None:
    by_name: dict[str, list[str]] = {}
    for case in cases():
        by_name.setdefault(case.mechanism.split(",")[0], []).append(case.fault)
    wanted = {"gaussian", "ldp", "aldp", "linear-classic", "dp-sgd", "label DP", "embedding DP"}
    assert set(by_name) == wanted
    assert all("" in faults and len(faults) > 1 for faults in by_name.values())


def test_quick_is_once_and_keeps_the_power_against_faults() -> None:
    for case in cases():
        quick = quicker(case)
        assert quick.repeats == 1
        assert quick.trials == (case.trials if case.fault else min(case.trials, 2_000))
