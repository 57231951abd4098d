"""From three hospitals' exports, as they are, to a model and its predictions: nobody edits a file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from node.check import __main__ as check
from node.init import __main__ as init
from tests.e2e.processes import Nursery, free_endpoint
from tests.e2e.swarm import one_digest, settings
from tests.hospitals import SITES, TARGET, make_rows, write

ROWS = 4000
LEARNING = settings("train.learning_rate=0.02", "train.batch_size=64", "train.momentum=0.9")
CLOSE = 0.01


def pooled_auc() -> float:
    """Returns the AUC on all sites' new rows of logistic regression over all sites' old rows."""
    old = [make_rows(site, ROWS, seed) for seed, site in enumerate(SITES)]
    new = [make_rows(site, ROWS, 100 + seed) for seed, site in enumerate(SITES)]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(np.concatenate([rows.features for rows in old]), np.concatenate([rows.ill for rows in old]))
    scores = model.predict_proba(np.concatenate([rows.features for rows in new]))[:, 1]
    return float(roc_auc_score(np.concatenate([rows.ill for rows in new]), scores))


def test_from_exports_to_predictions(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, site in enumerate(SITES):
        write(tmp_path / f"{site.name}.csv", site, make_rows(site, ROWS, seed))
        write(tmp_path / f"{site.name}-new.csv", site, make_rows(site, ROWS, 100 + seed))
    names = [site.name for site in SITES]
    asked = ("--agree", "--privacy", "none", "--model", "linear", "--rounds", "10", "--out", "task.toml")
    assert init.main(["--data", f"{names[0]}.csv", "--target", TARGET, *asked]) == 0
    said = capsys.readouterr().out
    assert "written with: decimals with a comma (3 columns); thousands with a point (1 column); dates" in said

    endpoints = [free_endpoint() for _ in names]
    peers = ("--peers", ",".join(endpoints))
    agreeing = [
        nursery.module(
            "node.agree",
            *(str(tmp_path / "task.toml"), "--data", str(tmp_path / f"{name}.csv"), *peers),
            *("--listen", endpoint, "--out", str(tmp_path / f"{name}-agreed"), "--json"),
            *("--write", str(tmp_path / f"{name}.toml")),
        )
        for name, endpoint in zip(names, endpoints, strict=True)
    ]
    one_digest([process.ends_well() for process in agreeing])
    assert len({(tmp_path / f"{name}.toml").read_text() for name in names}) == 1

    for name in names:
        status, said = check.main([f"{name}.toml", "--data", f"{name}.csv"]), capsys.readouterr().out
        assert (status, "with: decimals with a comma; thousands with a point" in said) == (0, True), said
    nodes = [
        nursery.fork(
            *("--task", str(tmp_path / f"{name}.toml"), "--data", str(tmp_path / f"{name}.csv"), *peers),
            *("--listen", endpoint, "--out", str(tmp_path / f"{name}-run"), "--json", *LEARNING),
        )
        for name, endpoint in zip(names, endpoints, strict=True)
    ]
    one_digest([node.ends_well() for node in nodes])

    predicting = [
        nursery.predict(
            *("--model", str(tmp_path / f"{name}-run"), "--data", str(tmp_path / f"{name}-new.csv")),
            *("--out", str(tmp_path / f"{name}-predicted.csv"), "--json"),
        )
        for name in names
    ]
    for process in predicting:
        assert process.status() == 0, process.told()
        process.out.join()
        assert json.loads(process.out.all()[-1])["rows"] == ROWS
    scores = [chance for name in names for chance in chances(tmp_path / f"{name}-predicted.csv")]
    ill = np.concatenate([make_rows(site, ROWS, 100 + seed).ill for seed, site in enumerate(SITES)])
    reached, wanted = float(roc_auc_score(ill, scores)), pooled_auc()
    print(f"AUC {reached:.4f}, pooled logistic regression {wanted:.4f}")
    assert reached > wanted - CLOSE
    assert 0.77 < wanted < 0.83, "the signal that this test is about"


def chances(path: Path) -> list[float]:
    """Returns the predicted chance to be ill of each row."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [float(row["p(ja)"]) for row in rows]
