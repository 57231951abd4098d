"""Rows for a model of a task with a schema: classes by name, numbers in their own units."""

import csv
import json

import numpy as np
import pytest

from node.data.dataset import load_dataset
from node.predict import __main__ as predict
from node.runtime.record.artifacts import Folder
from node.task.load import read_task
from node.training.build import build_model
from node.training.gradient_steps import PlainSteps
from node.training.model_file import Card, read_about, task_table
from node.training.trainer import Trainer
from protocol.wire.messages import Base
from tests.unit.node.predict.test_model import write

BASE = Base(1, bytes(32), 3, bytes(32))
COLUMNS = [
    {"name": "age", "kind": "number", "mean": 50.0, "std": 10.0},
    {"name": "ward", "kind": "category", "values": ["north", "south"]},
]
OUTCOME = {"name": "outcome", "kind": "classes", "values": ["well", "ill"]}
DAYS = {"name": "days", "kind": "number", "mean": 8.0, "std": 2.0}
ROWS = [
    (30 + row, "north" if row % 3 else "south", "ill" if row > 20 else "well", row / 4) for row in range(40)
]
TEXTS = ["chest pain", "no complaints", "a cough", "nothing new"]
LINES = [("age", "ward", "outcome", "days"), *ROWS]


def folder(tmp_path, schema, features, outputs, data):
    """Makes a run's folder with a linear model for `schema`; returns the trainer."""
    model = {"class": "node.models:Linear", "args": {"inputs": features, "outputs": outputs}}
    return folder_of(tmp_path, model, schema, data)


def folder_of(tmp_path, model, schema, data):
    """Makes a run's folder with a model; returns the trainer."""
    task = read_task({"task": {"name": "ward"}, "model": model, "data": {"schema": schema}})
    dataset = load_dataset(task, data, None)
    trainer = Trainer(build_model(task, dataset), task.train, dataset, 0, PlainSteps)
    row, vector = tuple(dataset.train_x.shape[1:]), trainer.vector()
    card = Card(json.loads(json.dumps(task_table(task))), dataset.classes, row, ())
    Folder(tmp_path, card).models(trainer.tensors, BASE, (vector, vector), None)
    return trainer


def predicted(tmp_path, capsys, data, *more):
    """Returns (what was printed, the lines of predictions.csv)."""
    out = tmp_path / "out.csv"
    status = predict.main(["--model", str(tmp_path), "--data", str(data), "--out", str(out), "--json", *more])
    said = capsys.readouterr()
    assert (status, said.err) == (0, "")
    return json.loads(said.out), list(csv.DictReader(out.read_text().splitlines()))


def test_classes_have_their_names_and_rows_without_a_target_are_predicted_too(tmp_path, capsys):
    data = write(tmp_path / "train.csv", *LINES)
    folder(tmp_path, {"kind": "table", "target": OUTCOME, "columns": COLUMNS}, 4, 2, data)
    whole, lines = predicted(tmp_path, capsys, data)
    assert len(lines) == 40
    assert set(lines[0]) == {"row", "prediction", "p(well)", "p(ill)"}
    assert {line["prediction"] for line in lines} <= {"well", "ill"}
    right = [line["prediction"] == wanted[2] for line, wanted in zip(lines, LINES[1:], strict=True)]
    assert whole["metrics"]["accuracy"] == pytest.approx(np.mean(right))
    bare, without = predicted(tmp_path, capsys, write(tmp_path / "bare.csv", *(line[:2] for line in LINES)))
    assert (bare["metrics"], without) == (None, lines)
    holes = [line if row % 4 else (*line[:2], "", line[3]) for row, line in enumerate(LINES, 1)]
    some, again = predicted(tmp_path, capsys, write(tmp_path / "holes.csv", *holes))
    assert again == lines
    assert some["metrics"] is None, "measured only where all rows have a target"


def test_numbers_come_in_their_own_units(tmp_path, capsys):
    data = write(tmp_path / "train.csv", *LINES)
    trainer = folder(tmp_path, {"kind": "table", "target": DAYS, "columns": COLUMNS}, 4, 1, data)
    said, lines = predicted(tmp_path, capsys, data)
    answers = np.array([float(line["prediction"]) for line in lines])
    wanted = np.array([line[3] for line in LINES[1:]])
    assert said["metrics"]["mae"] == pytest.approx(np.abs(answers - wanted).mean(), rel=1e-4)
    error = ((answers - wanted) ** 2).sum() / ((wanted - wanted.mean()) ** 2).sum()
    assert said["metrics"]["r2"] == pytest.approx(1 - error, rel=1e-4)
    assert (said["metric"], said["baseline"], "accuracy" in said["metrics"]) == ("r2", 0.0, False)
    assert trainer.own_names == ()


def test_arrays_are_scaled_as_the_schema_says(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x, y = rng.normal(5, 2, (30, 2, 3)).astype(np.float32), np.array(["ill", "well"] * 15)
    np.savez(tmp_path / "train.npz", x=x, y=y)
    target = {"kind": "classes", "values": ["well", "ill"]}
    schema = {"kind": "array", "target": target, "shape": [2, 3], "mean": [5.0], "std": [2.0]}
    folder(tmp_path, schema, 6, 2, tmp_path / "train.npz")
    whole, lines = predicted(tmp_path, capsys, tmp_path / "train.npz")
    right = [line["prediction"] == label for line, label in zip(lines, y, strict=True)]
    assert whole["metrics"]["accuracy"] == pytest.approx(np.mean(right))
    np.savez(tmp_path / "bare.npz", x=x)
    bare, without = predicted(tmp_path, capsys, tmp_path / "bare.npz")
    assert (bare["metrics"], without) == (None, lines)


def test_a_class_that_the_task_has_not_is_one_line(tmp_path, one_line):
    data = write(tmp_path / "train.csv", *LINES)
    folder(tmp_path, {"kind": "table", "target": OUTCOME, "columns": COLUMNS}, 4, 2, data)
    other = write(tmp_path / "other.csv", LINES[0], *[(40, "north", "gone", 1)] * 3)
    argv = ["--model", str(tmp_path), "--data", str(other), "--out", str(tmp_path / "out.csv")]
    assert "column 'outcome': 'gone' is no class of the task" in one_line(predict.main, argv)


def test_a_prediction_is_the_sum_of_what_its_columns_add(tmp_path, capsys):
    """The last weight, 1, is the base: in the unit of a target with a std of 2, on cells of 1 / sqrt(3)."""
    data = write(tmp_path / "train.csv", *LINES)
    sizes = {"outputs": 1, "cells": 4, "edges": [[0.0]], "trees": 1}
    args = {"columns": [["number", 1], ["category", 3]], **sizes}
    schema = {"kind": "table", "target": DAYS, "columns": COLUMNS}
    trainer = folder_of(tmp_path, {"class": "node.models:Additive", "args": args}, schema, data)
    vector = np.linspace(-1, 1, len(trainer.vector()), dtype=np.float32)
    Folder(tmp_path, Card(read_about(tmp_path / "model.safetensors")["task"], None, (4,), ())).models(
        trainer.tensors, BASE, (vector, vector), None, True
    )
    _, lines = predicted(tmp_path, capsys, data, "--explain")
    parts = ("by age", "by ward", "by interactions")
    base = [float(line["prediction"]) - sum(float(line[part]) for part in parts) for line in lines]
    assert {line["by interactions"] for line in lines} == {"0"}
    assert len({line["by age"] for line in lines}) == 2
    assert base == pytest.approx([8 + 2 / 3**0.5] * 40, abs=1e-4)
    argv = ["--model", str(tmp_path), "--data", str(data), "--explain", "--out", str(tmp_path / "o.csv")]
    assert predict.main(argv) == 0
    told = capsys.readouterr().out
    assert f", exact sums over {BASE.members} members\n" in told
    added = "what it adds to days, from 9.1547 on; 'by interactions' is what trees add\n"
    assert told.endswith(f"explained: each column 'by ...' is {added}")


def test_other_models_have_no_parts_by_column(tmp_path, one_line):
    data = write(tmp_path / "train.csv", *LINES)
    folder(tmp_path, {"kind": "table", "target": OUTCOME, "columns": COLUMNS}, 4, 2, data)
    assert "--explain is refused: the parts of model.class = 'node.models:Linear'" in one_line(
        predict.main, ["--model", str(tmp_path), "--data", str(data), "--explain"]
    )


def test_new_rows_are_encoded_by_their_text_as_in_training(tmp_path, capsys):
    rows = [(f"{words} since day {row}", OUTCOME["values"][row % 2]) for row, words in enumerate(TEXTS * 5)]
    data = write(tmp_path / "train.csv", ("note", "outcome"), *rows)
    note = {"name": "note", "kind": "text", "width": 64}
    folder(tmp_path, {"kind": "table", "target": OUTCOME, "columns": [note]}, 64, 2, data)
    _, lines = predicted(tmp_path, capsys, data)
    new = write(tmp_path / "new.csv", ("note", "id"), *((note.upper(), 1) for note, _ in rows[3:5]))
    _, again = predicted(tmp_path, capsys, new)
    assert [line["p(ill)"] for line in again] == [line["p(ill)"] for line in lines[3:5]]
    assert len({line["p(ill)"] for line in lines}) == len(rows)
