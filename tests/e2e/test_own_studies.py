"""A study of one's own on real nodes, as a user runs it; in one process: tests/unit/scenarios/own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, Nursery


@pytest.mark.sampled
def test_real_nodes_run_a_study_of_one_s_own(nursery: Nursery, tmp_path: Path) -> None:
    """They draw their own noise, so that no engine repeats their figures."""
    folder = shutil.copytree(ROOT / "examples" / "studies", tmp_path / "mine")
    made = nursery.script(folder / "make_patients.py", folder)
    assert made.status() == 0, made.told()
    few = ("--quick", "--set", "scenario.arms=no-noise", "--jobs", "2")
    run = ("run", "study.toml", "--engine", "processes", "--out", "out", *few)
    process = nursery.plain("scenarios", *run, cwd=folder)
    assert process.status() == 0, process.told()
    seeds = json.loads((folder / "out" / "result.json").read_text())["arms"]["no-noise"]["seeds"]
    assert [len(one["figures"]) for one in seeds] == [2, 2]
    assert all(one["bytes were measured"] for one in seeds)
