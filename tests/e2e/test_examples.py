"""Every script in examples/ runs unchanged in an empty folder, and leaves only its runs there."""

from __future__ import annotations

from tests.e2e.processes import ROOT


def test_all_examples_run(nursery, tmp_path):
    scripts = sorted((ROOT / "examples").glob("*.py"))
    assert {"local_swarm", "own_arrays", "own_model", "privacy", "stop_early"} <= {
        one.stem for one in scripts
    }
    running = {}
    for script in scripts:
        (tmp_path / script.stem).mkdir()
        running[script.stem] = nursery.script(script, tmp_path / script.stem)
    for name, process in running.items():
        status = process.status()
        process.err.join()
        assert (status, process.err.all()) == (0, []), process.told()
        assert process.out.all(), name
        assert {path.name for path in (tmp_path / name).iterdir()} <= {"runs"}
