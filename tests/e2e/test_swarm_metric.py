"""Real nodes with rare events: each sees the metric of all rows beside its own, and nobody else's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from node.data.dataset import load_dataset
from node.init import __main__ as init
from node.predict import __main__ as predict
from node.predict.model import open_model
from node.task.load import load_task
from tests.e2e.processes import Nursery, free_endpoint
from tests.e2e.swarm import one_digest
from tests.run_folders import history, summary


def clinic(number: int, rows: int) -> str:
    """Returns a CSV of which 6 to 12 % of the rows have an event, that two of three columns hint at."""
    rng = np.random.default_rng(number)
    x = rng.normal(size=(rows, 3))
    odds = 1.3 * x[:, 0] - x[:, 1] - 3.3 + 0.2 * number
    event = np.where(rng.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no")
    lines = [f"{a:.4f},{b:.4f},{c:.4f},{label}" for (a, b, c), label in zip(x, event, strict=True)]
    return "\n".join(["pulse,age,noise,event", *lines]) + "\n"


def test_each_node_sees_the_metric_of_all_rows_beside_its_own(
    nursery: Nursery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Round 4 measures the model that round 3 made."""
    count = 4
    monkeypatch.chdir(tmp_path)
    names = [f"{number}.csv" for number in range(count)]
    for number, name in enumerate(names):
        Path(name).write_text(clinic(number, 400 + 100 * number))
    asked = ("--target", "event", "--rounds", "4", "--privacy", "none", "--model", "linear")
    assert init.main(["--data", "0.csv", *asked]) == 0
    endpoints = [free_endpoint() for _ in names]
    outs = [tmp_path / f"out{number}" for number in range(count)]

    def run(rounds: int) -> list[dict[str, object]]:
        nodes = [
            nursery.fork(
                *("--task", "task.toml", "--data", name, "--peers", ",".join(endpoints), "--json"),
                *("--listen", endpoint, "--out", str(out), "--rounds", str(rounds)),
                *("--wait", "forever", "--set", f"aggregation.min_participants={count}"),
            )
            for endpoint, name, out in zip(endpoints, names, outs, strict=True)
        ]
        return [node.ends_well() for node in nodes]

    one_digest(run(3))
    shutil.copy(outs[0] / "model.safetensors", "third.safetensors")
    ends = run(4)
    one_digest(ends)

    task, third = load_task("task.toml", []), open_model(Path("third.safetensors"))
    tests = [load_dataset(task, Path(name), None) for name in names]
    with torch.inference_mode():
        scores = [third.model(data.test_x).diff().reshape(-1) for data in tests]
    every = torch.cat([data.test_y for data in tests])
    for number, (out, data, score) in enumerate(zip(outs, tests, scores, strict=True)):
        lines, found = history(out), history(out)[3]["swarm"]
        assert [line["participants"] for line in lines] == [count] * 4
        assert [line["swarm"] is None for line in lines] == [True, True, True, False]
        assert (found["metric"], found["baseline"], found["only_class"]) == ("auc", 0.5, None)
        assert (found["peers"], found["rows"], found["generation"]) == (count, len(every), 3)
        assert found["value"] == pytest.approx(roc_auc_score(every, torch.cat(scores)), abs=0.01)
        assert found["mine"] == pytest.approx(roc_auc_score(data.test_y, score), abs=0.01)
        assert found["mine"] == pytest.approx(lines[2]["metrics"]["auc"], abs=0.01)
        assert summary(out)["swarm"] == found
        assert (lines[3]["metric"], summary(out)["metric"]) == ("auc", "auc"), f"node {number}"
    values = [history(out)[3]["swarm"] for out in outs]
    assert len({value["value"] for value in values}) == 1
    assert len({value["mine"] for value in values}) == count

    capsys.readouterr()
    argv = ["--model", "out0", "--data", "1.csv", "--json"]
    assert predict.main(argv) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["metric"], said["baseline"]) == ("auc", 0.5)
    assert said["value"] > 0.7
