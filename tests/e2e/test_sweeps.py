"""A sweep that is killed or interrupted: finished cells stay, and the rest runs again."""

from __future__ import annotations

import io
import json
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scenarios.frame.children import INTERRUPTED
from scenarios.frame.harness import run
from scenarios.frame.spec import Request
from scenarios.runs.run import scenario_of
from tests.cases import soak
from tests.e2e.processes import Nursery, Process
from tests.own_studies import STUDY
from tests.ray_sessions import only_session

ARMS = ("plain", "noised")
ROUNDS = 20
IN_ALL = len(ARMS) * STUDY.seeds


def sweep(nursery: Nursery, folder: Path, *argv: str) -> Process:
    out = ("--out", str(folder / "out"), "--rounds", str(ROUNDS))
    return nursery.plain("tests.sweeps", "run", STUDY.name, *out, *argv, cwd=folder)


def kept(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = (folder / "out" / "cells").glob("*.json")
    return {file.stem: (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def results(folder: Path) -> dict[str, Any]:
    """Returns every arm's figures without its times."""
    arms: dict[str, Any] = json.loads((folder / "result.json").read_text())["arms"]
    for arm in arms.values():
        for seed in arm["seeds"]:
            del seed["seconds"], seed["clock"]
    return arms


@pytest.mark.sampled
@pytest.mark.slow  # a sweep in processes that import torch
def test_a_sweep_killed_after_its_first_cell_goes_on_and_ends_as_if_it_had_not_been(
    nursery: Nursery, tmp_path: Path
) -> None:
    killed = sweep(nursery, tmp_path, "--jobs", "2")
    killed.line("cell 1/")
    killed.send(signal.SIGKILL)
    assert killed.status() == -signal.SIGKILL
    before = kept(tmp_path)
    assert 1 <= len(before) < IN_ALL
    for name in ("whole", "out"):  # what the dead one started has time to end
        request = Request(rounds=ROUNDS, jobs=1, out=tmp_path / name)
        run(scenario_of(STUDY), request, Console(file=io.StringIO()))
    after = kept(tmp_path)
    assert len(after) == IN_ALL
    assert {name: after[name] for name in before} == before
    assert results(tmp_path / "out") == results(tmp_path / "whole")


@pytest.mark.sampled
@pytest.mark.slow  # Ray starts its processes, and each worker imports torch
@pytest.mark.parametrize("engine", ["inline", soak("ray")])
def test_an_interrupted_sweep_ends_with_one_line_and_keeps_what_is_finished(
    nursery: Nursery, tmp_path: Path, engine: str
) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    with only_session() if engine == "ray" else nullcontext():
        stopped = sweep(nursery, tmp_path, "--engine", engine, "--jobs", "2")
        stopped.line("cell 1/")
        stopped.send(signal.SIGINT)
        assert stopped.status() == INTERRUPTED
    stopped.err.join()
    assert stopped.err.all() == ["scenarios: interrupted; what was done is kept"]
    assert 1 <= len(kept(tmp_path)) < IN_ALL
    assert not (tmp_path / "out" / "result.json").exists()
