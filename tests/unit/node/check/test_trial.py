"""What node.check says after two epochs: real training on made-up rows, and the rule by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from node.check import __main__ as check
from node.check.trial import Trial, verdict
from node.task.sections import TrainSection
from tests.own_data import COLUMNS, TABLE, ward
from tests.unit.node.cases import toml_file

SCHEMA = {**TABLE, "columns": [{**COLUMNS[0], "std": 20.0}, *COLUMNS[1:3]]}
LINEAR = {"class": "node.models:Linear", "args": {"inputs": 6, "outputs": 2}}
LEARNING = Trial(0.8, 0.4, 0.6, None, 0.7, "2 epochs on 99 rows", "on rows held back: auc 0.900")


@pytest.fixture
def learning(tmp_path, monkeypatch, capsys):
    """Runs the check on the rows in ward.csv; returns the line about learning: (level, text)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward.csv").write_text(ward(300))

    def run(schema=SCHEMA, model=LINEAR, **sections):
        whole = {"task": {"name": "ward"}, "model": model, "data": {"schema": schema}, **sections}
        (tmp_path / "task.toml").write_text(toml_file(whole))
        assert check.main(["task.toml", "--data", "ward.csv"]) == 0
        (line,) = (line for line in capsys.readouterr().out.splitlines() if " learning: " in line)
        level, _, said = line.partition(" learning: ")
        return level.strip(), said

    return run


def test_steps_that_are_too_long(learning):
    level, said = learning(train={"learning_rate": 100.0})
    assert level == "warning"
    assert said.endswith(": it diverges; lower train.learning_rate = 100")
    target = {"name": "age", "kind": "number", "mean": 50.0, "std": 20.0}
    schema = {**SCHEMA, "target": target, "columns": SCHEMA["columns"][1:]}
    model = {"class": "node.models:Linear", "args": {"inputs": 4, "outputs": 1}}
    level, said = learning(schema, model, train={"learning_rate": 1000.0})
    assert level == "warning"
    assert "to inf: it diverges" in said


def test_sums_over_the_own_rows_stand_for_those_of_all(learning, tmp_path):
    additive = {"class": "node.models:Additive"}
    level, said = learning(model=additive)
    assert level == "ok"
    assert " sums over 257 of your rows alone: the loss went from 0.69" in said
    assert "on rows held back: accuracy " in said
    cells = (f"{row},{row // 2 % 2},{'ill' if row % 2 else 'well'}" for row in range(300))
    (tmp_path / "ward.csv").write_text("\n".join(["number,smoker,outcome", *cells]))
    level, said = learning({**SCHEMA, "columns": [{"name": "smoker", "kind": "boolean"}]}, additive)
    assert level == "warning", said
    assert said.endswith(
        ", no better than always the same answer: these columns tell nothing of the target here"
    )


def test_a_task_that_learns_and_steps_that_are_too_short(learning):
    level, said = learning()
    assert level == "ok"
    assert said.startswith("2 epochs on 257 rows: the loss went from ")
    assert "on rows held back: accuracy " in said
    level, said = learning(train={"learning_rate": 1e-9})
    assert level == "warning"
    assert said.endswith("it does not learn yet; take another train.learning_rate = 1e-09, or more rounds")


def test_a_model_that_always_says_the_largest_class(learning, tmp_path):
    rng = np.random.default_rng(0)
    rows = ["age,ward,smoker,outcome"]
    rows += [f"{rng.integers(20, 80)},east,yes,{'ill' if row % 10 == 0 else 'well'}" for row in range(400)]
    (tmp_path / "ward.csv").write_text("\n".join(rows) + "\n")
    level, said = learning(train={"learning_rate": 0.02, "epochs": 1})
    assert level == "warning"
    assert "so far it is no better than always saying 'well' (90% of the rows have the largest class)" in said
    assert "train.loss = 'balanced-softmax'" in said


@pytest.mark.parametrize(
    ("mechanism", "train", "words"),
    [
        ("dp-sgd", {"rounds": 5, "batch_size": 64}, "2 epochs on 257 rows with noise: the "),
        ("distributed-dp-sgd", {"expected_rows": 900}, "50 steps with noise on 257 rows: the"),
    ],
)
def test_private_steps_are_tried_with_their_noise(learning, mechanism, train, words):
    loud = {**train, "learning_rate": 0.5}
    quiet = loud if mechanism == "dp-sgd" else train
    level, said = learning(privacy={"mechanism": mechanism, "epsilon": 8.0}, train=quiet)
    assert (level, said.startswith(words)) == ("ok", True)
    assert learning(privacy={"mechanism": mechanism, "epsilon": 0.01}, train=loud)[0] == "warning"


@pytest.mark.parametrize(
    ("changed", "level", "said"),
    [
        ({}, "ok", "auc 0.900"),
        ({"after": math.inf}, "warning", "diverges"),
        ({"after": math.nan}, "warning", "diverges"),
        ({"after": 1.3}, "warning", "diverges"),
        ({"after": 0.7}, "warning", "does not learn yet"),
        ({"after": 0.597}, "warning", "does not learn yet"),
        ({"after": 0.7, "chosen": "well"}, "warning", "no better than always saying 'well' (70% of"),
        ({"after": 0.5, "chosen": "well"}, "warning", "it learns, but so far always says 'well'; if that"),
        ({"constant": None}, "ok", "auc 0.900"),
        ({"constant": None, "after": 0.799}, "warning", "does not learn yet"),
    ],
)
def test_the_rule(changed, level, said):
    found = verdict(replace(LEARNING, **changed), TrainSection())
    assert (found.level, said in found.text) == (level, True), found.text


def test_the_best_answer_that_is_always_the_same_has_the_classes_entropy(learning):
    _, said = learning(train={"loss": "balanced-softmax", "loss_args": {"prior": [0.3, 0.7]}})
    share = sum(row.endswith("ill") for row in ward(300).splitlines()) / 300
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    same = float(said.split("always the same answer has ")[1].split(")")[0])
    assert same == pytest.approx(entropy, abs=0.01)
