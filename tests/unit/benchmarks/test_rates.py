"""The origin of the defaults: who sees which rows, whose noise is simulated, and what a run says."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.rates.cases import CASES, Folders, full_split, validation_split
from benchmarks.rates.search import Grid
from benchmarks.rates.simulation import private_metric, rule_of_all, table_settings
from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.gradients.shared_noise import SharedNoise
from node.task.step_defaults import step_defaults

DIGITS, HERE = CASES["digits"], Folders(Path(), None)


def test_settings_are_chosen_on_training_rows_alone():
    whole, chosen = full_split(DIGITS, HERE, 1), validation_split(DIGITS, HERE, 1)
    train = {row.tobytes() for row in whole.train_x.numpy()}
    test = {row.tobytes() for row in whole.test_x.numpy()} - train
    held_out = {row.tobytes() for row in chosen.test_x.numpy()}
    assert held_out <= train
    assert not held_out & test
    assert (len(whole.train_y), len(whole.test_y)) == (1438, 359)
    assert (len(chosen.train_y), len(chosen.test_y)) == (1150, 288)


def test_one_member_adds_the_noise_of_all():
    rule = SharedNoise(
        GradientRule(0.5, 1.25, 0.1), honest=3, expected_batch=100, members=64, size=9, steps=5
    )
    for members in (4, 10):
        assert rule_of_all(rule, members).share_std == pytest.approx(rule.share_std * members**0.5)
    everybody = rule_of_all(rule, 4)
    assert everybody.share_std == pytest.approx(rule.gradient.noise_std), "all honest: as a trusted server"


def test_a_run_follows_from_its_seed_and_more_noise_is_worse():
    dataset = validation_split(DIGITS, HERE, 0)
    table = table_settings(DIGITS, len(dataset.train_y), 8.0, 5, 2)
    short = replace(table, steps=replace(table.steps, steps=20, learning_rate=0.5))
    assert private_metric(short, DIGITS, dataset, 0) == private_metric(short, DIGITS, dataset, 0) > 0.6
    assert private_metric(replace(short, epsilon=0.01), DIGITS, dataset, 0) < 0.5


def test_a_grid_around_the_table():
    found = step_defaults(60_000, 3.0, frozen_body=False)
    grid = Grid(factors=(0.5, 1.0), steps=(found.steps, 5), batches=(1e6,), clips=(1.0,))
    settings = list(grid.settings_around(found, 60_000))
    assert len(settings) == 4
    assert not any(is_table for is_table, _ in settings), "another batch than the table's"
    assert {steps.expected_batch for _, steps in settings} == {60_000}
    assert {(steps.steps, steps.report_every) for _, steps in settings} == {
        *((found.steps, found.report_every), (5, 5))
    }
    clipped = list(Grid((1.0,), (), (), (1.0, 0.1)).settings_around(found, 60_000))
    assert [is_table for is_table, _ in clipped] == [True, False]
    assert clipped[1][1].learning_rate == pytest.approx(10 * found.learning_rate), "steps keep their length"


def test_a_quick_run_says_each_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rates.json"
    assert main(["rates", "--quick", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert [(row["case"], row["kind"], row["epsilon"]) for row in found] == [("digits", "held-out", 3.0)] * 2
    assert found[1]["learning_rate"] == 2 * found[0]["learning_rate"]
    assert all(0.5 < row["mean"] < 1 and row["rows"] == 1150 and row["steps"] == 20 for row in found)
    assert all((row["members"], row["honest"]) == (5, 2) for row in found)
    assert "accuracy" in capsys.readouterr().out


@pytest.mark.sampled
def test_goals_stand_beside_what_the_test_rows_say(tmp_path, capsys):
    file = tmp_path / "rates.json"
    assert (
        main(["rates", "--test", "--cases", "digits", "--epsilons", "8", "--seeds", "2", "--json", str(file)])
        == 0
    )
    (test,) = json.loads(file.read_text())
    assert test["kind"] == "test"
    assert test["variance"] == pytest.approx(5 / 3)
    assert (test["at_least"], test["holds"], test["rows"]) == (0.945, test["mean"] >= 0.945, 1438)
    assert len(test["values"]) == 2
    assert test["mean"] == pytest.approx(np.mean(test["values"]))
    assert test["mean"] > 0.9
    assert "at least 0.9450" in capsys.readouterr().out
