"""How node.init has free text and lists of numbers read."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.data.report import Report
from node.init.__main__ import main
from node.init.look import Look
from node.init.task_file import data_lines
from node.init.texts import chosen_texts
from node.options import parse_arguments
from node.task.data_schema import ClassTarget, TableSchema, TextColumn
from tests.own_data import told, toml

WORDS = {"ill": "chest pain since", "well": "no complaints since"}


@pytest.fixture(autouse=True)
def without_an_encoder(monkeypatch):
    monkeypatch.setattr("node.init.texts.is_installed", lambda: False)


@pytest.fixture
def made(tmp_path, monkeypatch, capsys):
    """Runs node.init on rows with a note and more columns; returns the status, the task and what was said."""
    monkeypatch.chdir(tmp_path)

    def made(*argv, more=1):
        with (tmp_path / "rows.csv").open("w") as file:
            lines = csv.writer(file)
            lines.writerow([*(f"c{place}" for place in range(more)), "note", "outcome"])
            for row in range(60):
                outcome = "ill" if row % 2 else "well"
                values = [row * row % (7 + place) for place in range(more)]
                lines.writerow([*values, f"{WORDS[outcome]} day {row}", outcome])
        status = main(["--data", "rows.csv", "--force", *argv])
        said = capsys.readouterr()
        return status, toml(tmp_path / "task.toml") if status == 0 else None, said.out + said.err

    return made


@pytest.mark.parametrize(
    ("argv", "more", "width"),
    [
        ([], 1, 256),
        (["--privacy", "none"], 8, 1024),
        (["--privacy", "none"], 9, None),
        (["--privacy", "none", "--text", "hashed"], 9, 1024),
        (["--privacy", "none", "--text", "leave-out"], 1, None),
        (["--model", "additive", "--privacy", "none"], 1, None),
        (["--leave-out", "note"], 1, None),
    ],
)
def test_free_text_beside_few_other_columns_is_read_by_its_words(made, argv, more, width):
    status, task, said = made(*argv, more=more)
    assert status == 0, said
    columns = {column["name"]: column for column in task["data"]["schema"]["columns"]}
    kept = {"name": "note", "kind": "text", "width": width, "encoder": "hashed"}
    assert columns.get("note") == (None if width is None else kept)
    assert ("free text is left out: 'note'" in said) == (width is None and "note" not in argv)
    assert ("warning: free text may name persons ('note')" in said) == (width is not None)
    assert width is None or task["model"]["class"] == "node.models:Linear"


def test_a_model_of_tables_has_no_part_for_a_text(made):
    status, _, said = made("--text", "hashed", "--model", "additive", "--privacy", "none")
    assert (status, "it has curves of single numbers, none of 'note'" in said) == (2, True)


def test_a_list_of_numbers_is_an_embedding(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lists = {"scan": list(rng.normal(size=(40, 5))), "odd": [[1.0] * (1 + row % 2) for row in range(40)]}
    pq.write_table(pa.table({**lists, "y": ["ill", "well"] * 20}), "rows.parquet")
    assert main(["--data", "rows.parquet", "--privacy", "none"]) == 0
    columns = toml(tmp_path / "task.toml")["data"]["schema"]["columns"]
    assert columns == [{"name": "scan", "kind": "embedding", "width": 5}]
    assert "lists of unlike lengths" in capsys.readouterr().out


def test_a_folder_of_texts_becomes_a_task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for row in range(16):
        outcome = "ill" if row % 2 else "well"
        path = tmp_path / "notes" / outcome / f"{row}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{WORDS[outcome]} day {row}")
    assert main(["--data", "notes", "--privacy", "none"]) == 0
    assert toml(tmp_path / "task.toml")["data"]["schema"]["target"]["values"] == ["ill", "well"]


def test_an_encoder_that_is_not_there_is_said(tmp_path):
    assert "cannot be used" in told(chosen_texts, str(tmp_path), False)


def test_where_the_encoder_is_does_not_stand_in_the_task(tmp_path):
    schema = TableSchema("table", ClassTarget("classes", ("ill", "well")), (TextColumn("note", "text", 8),))
    look = Look(schema, 20, (), Report("", (), ()), encoder_at=str(tmp_path))
    assert str(tmp_path) not in "".join(data_lines(look))
    options = parse_arguments(["--peers", "127.0.0.1:9001,127.0.0.1:9002", "--encoder", str(tmp_path)])
    assert options.task.data.encoder == str(tmp_path)
