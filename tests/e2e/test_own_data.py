"""From users' own files to a model: three owners, a task that one of them made, three real nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from node.check import __main__ as check
from node.init import __main__ as init
from tests.e2e.processes import Nursery, Process, free_endpoint
from tests.e2e.swarm import one_digest
from tests.own_data import ward
from tests.run_folders import history, summary


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


def test_three_owners_share_the_noise_that_init_proposes(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"{number}.csv" for number in range(3)]
    for number, name in enumerate(names):
        Path(name).write_text(ward(400, number))
    argv = ["--data", "0.csv", "--target", "outcome", "--peers", "3", "--rounds", "3", "--epsilon", "3"]
    assert init.main(argv) == 0
    capsys.readouterr()
    peers = ("--peers", ",".join(free_endpoint() for _ in names))
    assert check.main(["task.toml", "--data", "1.csv", *peers]) == 0
    said = capsys.readouterr().out
    assert "ok       steps: 30 of them, a round is 10; each has 1000 of about 1000 rows of all peers" in said
    assert "protected with epsilon 3 as long as at least 1 of the other members is honest" in said
    waiting = ("--wait", "forever", "--set", "aggregation.min_participants=3")
    one_digest([node.ends_well() for node in started(nursery, tmp_path, names, *waiting)])
    for number in range(3):
        lines, end = history(tmp_path / f"out{number}"), summary(tmp_path / f"out{number}")
        assert [line["participants"] for line in lines] == [3, 3, 3]
        assert [line["steps"] for line in lines] == [10, 10, 10]
        assert end["privacy"]["honest"] == 1
        assert end["privacy"]["epsilon_spent"] <= 3 < end["privacy"]["epsilon_alone"]
        assert (end["accuracy_of"], end["accuracy"] > 0.75) == ("validation", True)


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
