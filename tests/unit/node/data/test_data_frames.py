"""Data frames and labels in words: understood as a file with the same columns is."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from node.api.peer import data_of, numbered, task_of
from node.data.dataset import load_dataset
from tests.own_data import TABLE, task, told

PLAIN = task_of({"task": {"name": "t"}, "model": {"class": "node.models:Linear", "args": {}}})
AGES = np.arange(20, 60)
COLUMNS: Mapping[str, object] = {
    "id": [f"p{age}" for age in AGES],
    "age": AGES.astype(float),
    "ward": np.array(["east", "west"] * 20, object),
    "smoker": np.array([True, False, None, True] * 10, object),
    "seen": np.array(["1970-01-02", "NaT"] * 20, "datetime64[ns]"),
    "outcome": np.array(["ill", "well", "well", "ill"] * 10, object),
}


class Frame:
    """What pandas and polars have in common: columns, each by its name."""

    def __init__(self, columns=COLUMNS):
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return self._columns[name]


def arrow():
    return pa.table({name: pa.array(np.asarray(one), from_pandas=True) for name, one in COLUMNS.items()})


def same(one, other):
    names = ("train_x", "train_y", "test_x", "test_y")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("frame", [Frame(), arrow()], ids=["frame", "arrow"])
def test_with_a_schema_a_frame_is_the_parquet_file_of_it(tmp_path, frame):
    pq.write_table(arrow(), tmp_path / "rows.parquet")
    chosen = task(TABLE)
    (given,) = numbered([data_of(frame)], chosen, together=False)
    one, other = (load_dataset(chosen, data, None) for data in (given, tmp_path / "rows.parquet"))
    assert same(one, other)
    assert (one.classes, one.class_names) == (2, ("ill", "well"))
    assert one.description == other.description.replace("rows.parquet", "a data frame")


def test_without_a_schema_the_last_column_is_the_target_and_words_are_classes(tmp_path):
    columns = {name: COLUMNS[name] for name in ("age", "outcome")}
    (given,) = numbered([data_of(Frame(columns))], PLAIN, together=True)
    found = load_dataset(PLAIN, given, None)
    assert (found.classes, found.class_names) == (2, ("ill", "well"))
    numbers = pa.table({"age": columns["age"], "outcome": [0, 1, 1, 0] * 10})
    pq.write_table(numbers, tmp_path / "rows.parquet")
    assert same(found, load_dataset(PLAIN, tmp_path / "rows.parquet", None))
    first = replace(PLAIN, data=replace(PLAIN.data, target="outcome"))
    (given,) = numbered([data_of(Frame(dict(reversed(columns.items()))))], first, together=True)
    assert load_dataset(first, given, None).classes == 2


def test_the_peers_of_one_program_number_the_labels_of_all():
    x = np.arange(12.0).reshape(6, 2)
    mine, its = (x, ["b", "a"] * 3), Frame({"x": np.arange(6.0), "y": ["c"] * 6})
    one, other = numbered([data_of(mine), data_of(its)], PLAIN, together=True)
    assert (one.y.tolist(), one.names) == ([1, 0] * 3, ("a", "b", "c"))
    assert (other.table["y"].to_pylist(), other.names) == ([2] * 6, ("a", "b", "c"))
    found = load_dataset(PLAIN, one, None)
    assert (found.classes, "target 'y' (classes 0 to 2)" in found.description) == (3, True)


def test_with_a_schema_words_beside_an_array_have_its_numbers():
    rows = data_of((np.ones((4, 7)), ["well", "ill", "well", "well"]))
    (given,) = numbered([rows], task(TABLE), together=False)
    assert (given.y.tolist(), given.names) == ([1, 0, 1, 1], ("ill", "well"))


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ([(np.ones((4, 2)), list("abab"))], "data: the label 'a' is text; its number depends on"),
        ([(np.ones((4, 2)), list("abab")), (np.ones((4, 2)), [0, 1, 0, 1])], "data: some peers have labels"),
        ([Frame({"x": [1.0, 2.0], "y": ["a", None]})], "data: row 2 has no label; leave such rows out"),
        ([Frame({"x": [1.0, 2.0], "y": [1.0]})], "data: the data frame cannot be read ("),
        ([Frame({"x": ["a", "b"], "y": ["a", "b"]})], "data: the label 'a' is text"),
    ],
    ids=["by itself", "with numbers", "a gap", "uneven", "no number either"],
)
def test_what_cannot_be_numbered_is_one_line(data, line):
    def read():
        numbered([data_of(one) for one in data], PLAIN, together=False)

    assert told(read).startswith(line)
    wrong = data_of((np.ones((2, 7)), ["ill", "dead"]))
    assert told(lambda: numbered([wrong], task(TABLE), together=True)).startswith(
        "data: the label 'dead' is no class of the task; allowed: 'ill, well'"
    )
