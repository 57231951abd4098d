"""A task's schema and a file as columns and rows of statistics."""

import numpy as np
import pytest

from node.jobs.statistics.columns import Category, Number
from node.stats.rows import columns_of, read_rows
from node.system.errors import ConfigError
from tests.own_data import schema

COLUMNS = [
    {"name": "age", "kind": "number", "mean": 50.0, "std": 20.0, "low": 0.0, "high": 100.0},
    {"name": "ward", "kind": "category", "values": ["east", "west"]},
    {"name": "smoker", "kind": "boolean"},
    {"name": "note", "kind": "text", "width": 8},
]
CLASSES = {"name": "outcome", "kind": "classes", "values": ["ill", "well"]}
NUMBER = {"name": "outcome", "kind": "number", "mean": 0.0, "std": 1.0, "low": -4.0, "high": 4.0}


@pytest.mark.parametrize(
    ("target", "column", "values"),
    [
        (CLASSES, Category("outcome", ("ill", "well")), ["ill", "well", "", "well"]),
        (NUMBER, Number("outcome", -4.0, 4.0), ["0", "1", "", "1"]),
    ],
)
def test_a_file_as_rows_by_column(tmp_path, target, column, values):
    of = schema({"kind": "table", "target": target, "columns": COLUMNS})
    found = columns_of(of)
    wards = Category("ward", ("east", "west")), Category("smoker", ("no", "yes"))
    assert list(found.values()) == [Number("age", 0.0, 100.0), *wards, column]
    rows = ["25,east,yes,a", "?,south,,b", "120,west,no,c", "7,,no,"]
    lines = [f"{row},{value}" for row, value in zip(rows, values, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,ward,smoker,note,outcome", *lines]) + "\n")
    table = read_rows(tmp_path / "rows.csv", of)
    nan = np.nan
    expected = {
        "age": [25, nan, 120, 7],
        "ward": [0, nan, 1, nan],
        "smoker": [1, nan, 0, 0],
        "outcome": [0, 1, nan, 1],
    }
    for name, values in expected.items():
        assert np.array_equal(table[name], values, equal_nan=True), name
        assert table[name].dtype == np.float64


@pytest.mark.parametrize(("name", "cells"), [("outcome", "east,maybe"), ("ward", "maybe,ill")])
def test_an_event_is_one_of_two_values(tmp_path, name, cells):
    of = schema({"kind": "table", "target": CLASSES, "columns": [COLUMNS[1]]})
    (tmp_path / "rows.csv").write_text(f"ward,outcome\neast,ill\n,\n{cells}\n")
    assert len(read_rows(tmp_path / "rows.csv", of)[name]) == 3
    with pytest.raises(ConfigError, match=f", row 3, column '{name}': 'maybe' is neither "):
        read_rows(tmp_path / "rows.csv", of, (name,))


def test_what_has_no_public_range_or_is_no_table_is_refused():
    bare = {key: value for key, value in COLUMNS[0].items() if key not in ("low", "high")}
    with pytest.raises(ConfigError, match="'age' has no low and high"):
        columns_of(schema({"kind": "table", "target": CLASSES, "columns": [bare]}))
    array = {"kind": "array", "target": CLASSES, "shape": [3], "mean": [0.0], "std": [1.0]}
    with pytest.raises(ConfigError, match="is no table"):
        columns_of(schema(array))
