"""Every script in examples/ runs unchanged in an empty folder, and leaves only its runs there."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.e2e.processes import ROOT

EXTRAS = {"learner_flower": "flwr", "learner_jax": "jax", "learner_lightning": "lightning"}
"""The packages that scripts need, none of which is installed by default."""


@pytest.mark.sampled
def test_all_examples_run(nursery, tmp_path):
    scripts = [
        one
        for one in sorted((ROOT / "examples").glob("*.py"))
        if one.stem not in EXTRAS or find_spec(EXTRAS[one.stem]) is not None
    ]
    assert {"learner_sklearn", "local_swarm", "own_arrays", "own_model", "privacy", "stop_early"} <= {
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
