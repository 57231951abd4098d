"""Defaults beside scikit-learn: who has which rows, what counts as enough, and what a run says."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.defaults.choosing import validation_split
from benchmarks.defaults.comparison import Found, class_scores, verdicts
from scenarios.data.tables import SETS, Table, table
from scenarios.tables.sites import split_of, write

HERE = Path()
FOUND = Found("wine", 0, "Linear", "adam", "Ridge", {"r2": 0.5}, {"r2": 0.5}, 9, 3, 1.0, 1.0)


@pytest.mark.parametrize("name", ["wine", "heavy-tails"])
def test_sites_and_test_rows_share_no_row_and_splits_differ(name):
    whole = table(name, HERE)
    first, second = (split_of(SETS[name], whole, number) for number in (0, 1))

    def rows(part):
        return {tuple(row) for row in np.stack(list(part.columns.values()), axis=1)}

    sets = [rows(part) for part in (*first.sites, first.test)]
    assert len(set.union(*sets)) == sum(map(len, sets)) == len(rows(whole))
    assert rows(first.pooled_rows) == set.union(*sets[:-1])
    assert rows(first.test) != rows(second.test)
    assert [len(site) for site in first.sites] == pytest.approx([len(first.pooled_rows) / 3] * 3, abs=1)


@pytest.mark.parametrize("name", ["wine", "heavy-tails"])
def test_rates_are_chosen_on_training_rows_alone(name):
    split = split_of(SETS[name], table(name, HERE), 0)
    inner = validation_split(split, 0)

    def rows(part):
        return {tuple(row) for row in np.stack(list(part.columns.values()), axis=1)}

    assert rows(inner.pooled_rows) | rows(inner.test) == rows(split.pooled_rows)
    assert not rows(inner.pooled_rows) & rows(inner.test)
    assert not (rows(inner.pooled_rows) | rows(inner.test)) & rows(split.test)
    assert len(inner.test) == pytest.approx(len(split.pooled_rows) / 5, rel=0.1)
    assert all(rows(part) < rows(site) for part, site in zip(inner.sites, split.sites, strict=True))


@pytest.mark.sampled
def test_a_choice_names_the_best_rate_and_how_far_the_table_is_below(tmp_path, capsys):
    file = tmp_path / "choose.json"
    argv = ["defaults", "--choose", "--sets", "wine", "--splits", "2", "--factors", "0.001", "--jobs", "1"]
    assert main([*argv, "--json", str(file)]) == 0
    slow, usual, choice = json.loads(file.read_text())
    assert [(one["factor"], one["rates"]) for one in (slow, usual)] == [(0.001, [0.00003]), (1.0, [0.03])]
    assert slow["mean"] < 0.9 < usual["mean"]
    assert (choice["best"], choice["below"]) == (1.0, 0.0)
    assert (
        "wine           the table is 0.0000 ± 0.0000 below the best, 1 x its rate" in capsys.readouterr().out
    )


def test_files_hold_what_a_site_has_and_metrics_go_by_the_kind_of_target(tmp_path):
    cells = {"age": np.array([1.5, np.nan]), "ward": np.array(["east", ""])}
    path = write(tmp_path, "site0", "csv", Table(np.array(["ill", "well"]), cells))
    assert path.read_text().splitlines() == ["age,ward,target", "1.5,east,ill", ",,well"]
    images = Table(np.array(["1", "7"]), {}, np.zeros((2, 4, 4), np.uint8))
    folder = write(tmp_path, "test", "images", images)
    assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*.png")) == ["1/0.png", "7/1.png"]
    names, chances = np.array(["no", "yes"]), np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.8, 0.2]])
    assert class_scores(np.array(["no", "yes", "yes", "no"]), chances, names) == {"auc": 1.0}
    rare = class_scores(np.array(["no"] * 9 + ["yes"]), np.array([[0.6, 0.4]] * 9 + [[0.55, 0.45]]), names)
    assert rare == {"auc": 1.0, "balanced-accuracy": 0.5}
    three = class_scores(np.array(["a", "b", "c"]), np.eye(3), np.array(["a", "b", "c"]))
    assert three == {"balanced-accuracy": 1.0}


def test_a_shortfall_of_two_points_or_two_standard_errors_is_allowed():
    def of(*swarm):
        found = [replace(FOUND, split=number, swarm={"r2": value}) for number, value in enumerate(swarm)]
        (verdict,) = verdicts(found)
        return verdict

    assert (of(0.481, 0.481).holds, of(0.479, 0.479).holds) == (True, False)
    loud = of(0.40, 0.52, 0.46, 0.46)
    assert loud.difference == pytest.approx(-0.04)
    assert loud.standard_error == pytest.approx(np.std([0.40, 0.52, 0.46, 0.46], ddof=1) / 2)
    assert loud.holds
    assert loud.allowed_shortfall == pytest.approx(2 * loud.standard_error)
    assert not of(0.40, 0.42, 0.41, 0.41).holds


@pytest.mark.sampled
def test_a_quick_run_learns_as_much_as_scikit_learn(tmp_path, capsys):
    file = tmp_path / "defaults.json"
    assert main(["defaults", "--quick", "--sets", "wine", "--jobs", "1", "--json", str(file)]) == 0
    (found,) = json.loads(file.read_text())
    assert (found["set"], found["metric"], found["splits"]) == ("wine", "balanced-accuracy", 2)
    assert found["holds"]
    assert found["swarm"] > 0.9
    assert found["training"] == ["adam 0.03 cosine, 20 x 2 epochs, batch 8, loss auto"]
    assert (found["train_rows"], found["test_rows"]) == (142, 36)
    assert "LogisticRegression" in capsys.readouterr().out
