"""Every script in examples/ runs unchanged in an empty folder, and leaves only its runs there."""

from __future__ import annotations

import pytest

from tests.e2e.processes import ROOT

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs(nursery, tmp_path, script):
    process = nursery.script(script, tmp_path)

    status = process.status()

    process.err.join()
    assert (status, process.err.all()) == (0, []), process.told()
    assert process.out.all()
    assert {path.name for path in tmp_path.iterdir()} <= {"runs"}


def test_there_are_examples():
    assert {"local_swarm", "own_arrays", "own_model", "privacy", "stop_early"} <= {
        one.stem for one in SCRIPTS
    }
