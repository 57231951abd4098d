"""The Python in documents runs as it stands: README's scripts, the notebook, the recipe for a model file."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from node import Swarm
from tests.e2e.documents import fences
from tests.e2e.processes import ROOT, free_endpoint
from tests.notebooks import code_cells, run_cells
from tests.patience import ENOUGH_S

NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"
RECIPE = "## Without this package\n"
TASK = """
[task]
name = "ward"
[model]
class = "node.models:Linear"
args = { inputs = 2, outputs = 2 }
[data]
target = "outcome"
[train]
rounds = 3
"""
ENDPOINT = re.compile(r"127\.0\.0\.1:\d+")
BARRED = """
import importlib.abc, sys

class Barred(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"node", "protocol", "mechanisms", "scenarios"}:
            raise ImportError(f"{name} must not be needed")

sys.meta_path.insert(0, Barred())
"""


def scripts(path: Path, after: str = "") -> list[str]:
    """Returns the blocks of Python in a document, or in its section that begins with the line `after`."""
    text = path.read_text("utf-8")
    if after:
        text = text.partition(after)[2].partition("\n## ")[0]
    return [content for _, language, content in fences(text) if language == "python"]


def run(path: Path) -> str:
    """Runs a script as a user does; returns its output."""
    ended = subprocess.run(
        [sys.executable, path.name],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_the_first_script_of_the_readme_runs_in_one_program(nursery, tmp_path):
    swarm, *_ = scripts(ROOT / "README.md")
    (tmp_path / "swarm.py").write_text(swarm, "utf-8")

    process = nursery.script(tmp_path / "swarm.py", tmp_path)
    assert process.status() == 0, process.told()
    process.out.join()
    told = [re.fullmatch(r"(peer \d): [1-5] of 5 rounds aggregated, .*", line) for line in process.out.all()]
    assert [found and found[1] for found in told] == [f"peer {number}" for number in range(5)]


def test_the_second_script_of_the_readme_runs_three_times_at_once(nursery, tmp_path):
    """Three owners start it, each in a folder with a table of its own and the common task."""
    _, peer, *_ = scripts(ROOT / "README.md")
    named = dict.fromkeys(ENDPOINT.findall(peer))
    assert len(named) == 3
    for endpoint in named:
        peer = peer.replace(endpoint, free_endpoint())
    random = np.random.default_rng(0)
    for owner in "abc":
        folder = tmp_path / owner
        folder.mkdir()
        rows = random.normal(size=(120, 2)).round(3)
        lines = [f"{a},{b},{int(a + b > 0)}" for a, b in rows]
        (folder / "mine.csv").write_text("\n".join(["x,y,outcome", *lines]) + "\n", "utf-8")
        (folder / "ward.toml").write_text(TASK, "utf-8")
        (folder / "peer.py").write_text(peer, "utf-8")

    processes = [nursery.script(tmp_path / owner / "peer.py", tmp_path / owner) for owner in "abc"]
    for process in processes:
        assert process.status() == 0, process.told()
        process.out.join()
        lines = process.out.all()
        assert [line.split()[:2] for line in lines[:3]] == [[str(n), "aggregated"] for n in (1, 2, 3)]


@pytest.mark.sampled
def test_the_recipe_loads_a_model_without_this_package(tmp_path):
    (recipe,) = scripts(ROOT / "docs" / "models.md", RECIPE)
    results = Swarm.local(3, "digits", rounds=2, out=tmp_path / "swarm").run()
    (tmp_path / "runs").mkdir()
    (tmp_path / "swarm" / "0").rename(tmp_path / "runs" / "a")
    # Not a word of the recipe is about measuring; what follows it shows that the model is the swarm's.
    measured = """
import torch
from sklearn.datasets import load_digits

assert not {"node", "protocol"} & set(sys.modules)
rows, targets = load_digits(return_X_y=True)
with torch.no_grad():
    outputs = model(torch.tensor(rows / 16, dtype=torch.float32))
print(outputs[:3].tolist(), float((outputs.argmax(1) == torch.tensor(targets)).float().mean()))
bare = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
bare.load_state_dict({name.removeprefix("layers."): tensor for name, tensor in load_file(path).items()})
assert torch.equal(bare(torch.ones(1, 64)), model(torch.ones(1, 64)))
"""
    (tmp_path / "recipe.py").write_text(BARRED + recipe + measured, "utf-8")

    about, found = run(tmp_path / "recipe.py").splitlines()
    assert about.startswith("{'args': {'sizes': [64, 64, 10]}, 'class': 'node.models:MLP'} [64] 10")
    outputs, _, accuracy = found.rpartition(" ")

    rows = torch.tensor(load_digits().data / 16, dtype=torch.float32)
    assert json.loads(outputs) == results.model(rows)[:3].tolist()
    assert float(accuracy) > 0.7


@pytest.mark.sampled
def test_the_cells_of_the_notebook_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = asyncio.run(run_cells(NOTEBOOK))

    assert "one model, bit for bit: True" in said[0]
    assert [line.split(":")[0] for line in said[1].splitlines()] == ["round 1", "round 2", "round 3"]
    kept = ["".join(part["text"]) for cell in code_cells(NOTEBOOK) for part in cell["outputs"]]
    assert [len(text.splitlines()) for text in kept] == [len(text.splitlines()) for text in said]
