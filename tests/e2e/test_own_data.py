"""From users' own files to a model: three owners, a task that one of them made, three real nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from node.check import __main__ as check
from node.init import __main__ as init
from tests.e2e.processes import Nursery, free_endpoint
from tests.e2e.swarm import one_digest
from tests.own_data import ward
from tests.run_folders import history, summary


@pytest.fixture
def owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes three CSV files, and a task from the first one."""
    monkeypatch.chdir(tmp_path)
    names = [f"{number}.csv" for number in range(3)]
    for number, name in enumerate(names):
        Path(name).write_text(ward(400, number))
    assert init.main(["--data", "0.csv", "--target", "outcome", "--rounds", "3", "--privacy", "none"]) == 0
    return names


def test_three_nodes_learn_from_three_csvs(nursery: Nursery, owners: list[str], tmp_path: Path) -> None:
    endpoints = [free_endpoint() for _ in owners]
    peers = ("--peers", ",".join(endpoints))
    assert check.main(["task.toml", "--data", "1.csv", *peers]) == 0
    outs = [tmp_path / f"out{number}" for number in range(3)]
    nodes = [
        nursery.fork(
            *("--task", str(tmp_path / "task.toml"), "--data", str(tmp_path / own), *peers),
            *("--listen", endpoint, "--out", str(out), "--json"),
            *("--wait", "forever", "--set", "aggregation.min_participants=3"),
        )
        for endpoint, own, out in zip(endpoints, owners, outs, strict=True)
    ]
    ends = [node.ends_well() for node in nodes]
    one_digest(ends)
    assert [line["participants"] for line in history(outs[0])] == [3, 3, 3]
    assert min(summary(out)["accuracy"] for out in outs) > 0.85
    assert {summary(out)["accuracy_of"] for out in outs} == {"validation"}


def test_three_owners_share_the_noise_that_init_proposes(
    nursery: Nursery, owners: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--data", "0.csv", "--target", "outcome", "--peers", "3", "--rounds", "3", "--epsilon", "3"]
    assert init.main([*argv, "--out", "shared.toml"]) == 0
    endpoints = [free_endpoint() for _ in owners]
    peers = ("--peers", ",".join(endpoints))
    capsys.readouterr()
    assert check.main(["shared.toml", "--data", "1.csv", *peers]) == 0
    said = capsys.readouterr().out
    assert "ok       steps: 30 of them, a round is 10; each has 1000 of about 1000 rows of all peers" in said
    assert "protected with epsilon 3 as long as at least 1 of the other members is honest" in said
    outs = [tmp_path / f"out{number}" for number in range(3)]
    nodes = [
        nursery.fork(
            *("--task", str(tmp_path / "shared.toml"), "--data", str(tmp_path / own), *peers),
            *("--listen", endpoint, "--out", str(out), "--json"),
            *("--wait", "forever", "--set", "aggregation.min_participants=3"),
        )
        for endpoint, own, out in zip(endpoints, owners, outs, strict=True)
    ]
    one_digest([node.ends_well() for node in nodes])
    for out in outs:
        lines, end = history(out), summary(out)
        assert [line["participants"] for line in lines] == [3, 3, 3]
        assert [line["steps"] for line in lines] == [10, 10, 10]
        assert end["privacy"]["honest"] == 1
        assert end["privacy"]["epsilon_spent"] <= 3 < end["privacy"]["epsilon_alone"]
        assert end["accuracy"] > 0.75


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
    endpoints = [free_endpoint() for _ in painters]
    peers = ("--peers", ",".join(endpoints))
    outs = [tmp_path / f"out{number}" for number in range(3)]
    nodes = [
        nursery.fork(
            *("--task", str(tmp_path / "task.toml"), "--data", str(tmp_path / own), *peers),
            *("--listen", endpoint, "--out", str(out), "--json"),
            *("--wait", "forever", "--set", "aggregation.min_participants=3"),
        )
        for endpoint, own, out in zip(endpoints, painters, outs, strict=True)
    ]
    assert nodes[0].event("started")["features"] == "of body, computed once"
    ends = [node.ends_well() for node in nodes]
    one_digest(ends)
    assert min(summary(out)["accuracy"] for out in outs) > 0.9
    assert all(len(list((out / "features").iterdir())) == 2 for out in outs)
    written = tmp_path / "predictions.csv"
    process = nursery.predict(
        *("--model", str(outs[1]), "--data", str(tmp_path / "2.npz"), "--out", str(written), "--json")
    )
    assert process.status() == 0, process.told()
    process.out.join()
    assert json.loads(process.out.all()[-1])["metrics"]["accuracy"] > 0.9


def test_a_peer_with_another_schema_is_told_the_column(
    nursery: Nursery, owners: list[str], tmp_path: Path
) -> None:
    text = Path("task.toml").read_text()
    Path("other.toml").write_text(text.replace('["east", "west"]', '["west", "east"]'))
    endpoints = [free_endpoint() for _ in owners]
    nodes = [
        nursery.fork(
            *("--task", str(tmp_path / task), "--data", str(tmp_path / own)),
            *("--out", str(tmp_path / f"{own}.out")),
            *("--peers", ",".join(endpoints), "--listen", endpoint),
        )
        for task, own, endpoint in zip(("task.toml", "other.toml"), owners, endpoints, strict=False)
    ]
    assert (
        nodes[0]
        .line("is in another swarm")
        .endswith('data.schema.columns.1.values is ["east", "west"] here and ["west", "east"] there')
    )
