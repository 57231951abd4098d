"""Errors about data, models and keys that no other test covers, each in full."""

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from node.app.start_checks import existing_key
from node.data.files import csv_and_parquet, numeric_tables
from node.data.images import read_images
from node.data.reading import read_with_schema
from node.init import __main__ as init
from node.init.look import look
from node.key import __main__ as key
from node.options import parse_arguments
from node.predict import __main__ as predict
from node.predict.model import SavedModel, answer
from node.system.errors import UserError
from node.task.data_schema import NumberTarget
from node.task.scaling import by_rows
from node.training.model_file import write_model
from tests.own_data import IMAGES, frame, picture, schema, task, told

N = 20
OF_01 = {"kind": "classes", "values": ["0", "1"]}
ARRAY = {"kind": "array", "target": OF_01, "shape": [6], "mean": [0.0] * 6, "std": [1.0] * 6}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arrays(**changed):
    np.savez("a.npz", **{"x": np.arange(2.0 * N).reshape(N, 2), "y": np.arange(N) % 2, **changed})
    return Path("a.npz")


def test_too_many_columns_and_too_many_values(here, monkeypatch):
    monkeypatch.setattr(csv_and_parquet, "MOST_COLUMNS", 2)
    assert told(frame, here, "a,b,c\n1,2,3\n").endswith(" has 3 columns; allowed: at most 2")
    monkeypatch.setattr(numeric_tables, "MOST_CELLS", 4)
    Path("a.csv").write_text("a,b\n" + "1,2\n" * 4)
    assert told(numeric_tables.read_table, Path("a.csv"), None, None) == (
        "data file 'a.csv' has more than 4 values; allowed: at most that many; take a part of it"
    )


def test_two_columns_of_one_name_in_parquet(here):
    both = pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    pq.write_table(both, "a.parquet")
    assert told(csv_and_parquet.read_frame, Path("a.parquet"), None) == (
        "data file 'a.parquet' has two columns of the same name; each needs a name of its own"
    )


@pytest.mark.parametrize(
    ("changed", "kind", "line"),
    [
        (
            {"x": np.zeros(N)},
            "auto",
            ": x is (20,) and y is (20,); allowed: shapes (n, ...) and (n,), n 2 or more",
        ),
        ({"y": np.zeros(N)}, "classes", ": y has 1 different values; allowed: 2 to 1000 classes"),
        (
            {"x": np.zeros((1001, 1)), "y": np.arange(1001)},
            "classes",
            ": y has 1001 different values; allowed: 2 to",
        ),
        ({"y": np.ones(N)}, "number", ": y is the same in every row; name another array with --target"),
    ],
)
def test_arrays_that_nothing_can_be_learned_from(here, changed, kind, line):
    assert told(look, arrays(**changed), None, kind, (), by_rows).startswith(f"data file 'a.npz'{line}")


def test_a_damaged_array_under_a_schema(here):
    with zipfile.ZipFile("a.npz", "w") as file:
        for name in ("x.npy", "y.npy"):
            file.writestr(name, b"no array")
    line = told(read_with_schema, Path("a.npz"), schema(ARRAY))
    assert line.startswith("data file 'a.npz' cannot be read: the magic string is not correct")


@pytest.mark.parametrize(
    ("command", "argv", "line"),
    [
        (
            init,
            "--data a.parquet --target y",
            "the target 'y' is of type list<element: int64>; name another column",
        ),
        (
            predict,
            "--model m --data a.csv --out /proc/self/mem",
            "--out '/proc/self/mem' cannot be read: Input/output error",
        ),
        (key, "/proc/none/node.key", "the folder /proc/none cannot be made: No such file or directory"),
    ],
)
def test_what_a_command_can_not_use(here, one_line, command, argv, line):
    pq.write_table(pa.table({"a": [1, 2], "y": [[1], [2]]}), "a.parquet")
    assert one_line(command.main, argv.split()) == f"error: {line}"


def test_images_have_classes_only(here):
    numbers = replace(schema(IMAGES), target=NumberTarget("number", 0.0, 1.0, None))
    for number in range(2):
        picture(here / "data" / "red" / f"{number}.png", (255, 0, 0))
    assert told(read_images, numbers, here / "data") == (
        "data.schema.target.kind = 'number' is refused for images; allowed: 'classes'"
    )


def test_a_model_that_does_not_take_the_rows():
    about = task(ARRAY, **{"class": "node.models:Linear", "args": {"inputs": 6, "outputs": 2}})
    saved = SavedModel(nn.Linear(3, 2), about, 2, (6,), {})
    assert told(answer, saved, torch.zeros(4, 6)).startswith(
        "model node.models:Linear does not take these rows: RuntimeError: mat1 and mat2 shapes cannot be"
    )


def test_a_model_that_there_is_no_room_for(here):
    with pytest.raises(UserError, match=r"/none/model.safetensors cannot be written: .*; make room there$"):
        write_model(here / "none" / "model.safetensors", {"a": np.zeros(2)}, {})


def test_a_key_that_goes_while_a_node_starts(here):
    options = parse_arguments(["--peers", "127.0.0.1:1", "--shard", "0/3", "--key", "node.key"])
    assert told(existing_key, options) == "the key file node.key is gone; start again"


def test_a_choice_in_a_file_that_is_none(here):
    Path("c.toml").write_text('tls = "maybe"\n')
    assert told(parse_arguments, ["--config", "c.toml"]) == (
        "tls in c.toml: argument --tls: invalid choice: 'maybe' (choose from 'auto', 'on', 'off'); "
        "python -m node --help shows what is allowed"
    )
