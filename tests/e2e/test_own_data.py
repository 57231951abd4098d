"""From users' own files to a model: three owners of images, a task that one of them made, three nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from node.init import __main__ as init
from tests.e2e.processes import Nursery, Process, free_endpoint
from tests.e2e.swarm import one_digest
from tests.run_folders import summary


def started(nursery: Nursery, folder: Path, files: list[str], *more: str) -> list[Process]:
    """Starts a node for each file in the folder."""
    endpoints = [free_endpoint() for _ in files]
    return [
        nursery.fork(
            *(
                "--task",
                str(folder / "task.toml"),
                "--data",
                str(folder / own),
                "--peers",
                ",".join(endpoints),
            ),
            *("--listen", endpoint, "--out", str(folder / f"out{number}"), "--json", *more),
        )
        for number, (endpoint, own) in enumerate(zip(endpoints, files, strict=True))
    ]


@pytest.fixture
def painters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes three files of striped images, and a task with privacy from the first one."""
    monkeypatch.chdir(tmp_path)
    names = [f"{number}.npz" for number in range(3)]
    for number, name in enumerate(names):
        rng = np.random.default_rng(number)
        upright = rng.integers(0, 2, 240)
        stripes = np.sin(np.arange(12) * 1.5 + rng.uniform(0, 6, (240, 1)))[:, None, :].repeat(12, 1)
        images = np.where(upright[:, None, None] == 1, stripes, stripes.transpose(0, 2, 1))
        np.savez(
            name, x=(images + rng.normal(size=images.shape) * 0.3)[:, None].astype(np.float32), y=upright
        )
    assert init.main(["--data", "0.npz", "--rounds", "2", "--epsilon", "4"]) == 0
    return names


@pytest.mark.sampled
def test_private_images_are_learned_on_features_that_are_computed_once(
    nursery: Nursery, painters: list[str], tmp_path: Path
) -> None:
    text = Path("task.toml").read_text()
    assert 'class = "node.models:Scattering"' in text
    assert 'body = "body"' in text
    nodes = started(nursery, tmp_path, painters, "--wait", "forever")
    assert nodes[0].event("started")["features"] == "of body, computed once"
    one_digest([node.ends_well() for node in nodes])
    outs = [tmp_path / f"out{number}" for number in range(3)]
    assert min(summary(out)["accuracy"] for out in outs) > 0.9
    assert all(len(list((out / "features").iterdir())) == 2 for out in outs)
    where = ("--data", str(tmp_path / "2.npz"), "--out", str(tmp_path / "predictions.csv"), "--json")
    process = nursery.predict("--model", str(outs[1]), *where)
    assert process.status() == 0, process.told()
    process.out.join()
    assert json.loads(process.out.all()[-1])["metrics"]["accuracy"] > 0.9
