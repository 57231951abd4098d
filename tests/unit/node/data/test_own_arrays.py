"""npz files with and without a schema, and files of another kind than a schema requires."""

import gzip
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.data.dataset import load_dataset
from node.data.files import npz
from node.data.reading import read_with_schema
from node.task.load import load_task
from tests.own_data import IMAGES, TABLE, schema, told, ward
from tests.unit.node.cases import cases

PLAIN = load_task("digits", [])
CATS = {"kind": "classes", "values": ["cat", "dog"]}
ARRAY = {"kind": "array", "target": CATS, "shape": [2, 3], "mean": [1.0, 2.0], "std": [2.0, 4.0]}


@pytest.fixture
def save(tmp_path):
    def save(**arrays):
        np.savez(tmp_path / "rows.npz", **arrays)
        return tmp_path / "rows.npz"

    return save


def x(rows=4):
    return np.ones((rows, 2, 3))


def test_arrays_are_scaled_by_the_schema_s_first_axis(save):
    found = read_with_schema(save(x=x() * 5, y=["cat", "dog", "cat", "dog"]), schema(ARRAY))
    assert found.x[0].tolist() == [[2.0] * 3, [0.75] * 3]
    assert (found.x.dtype, found.y.dtype, found.y.tolist()) == (np.float32, np.int64, [0, 1, 0, 1])
    assert found.report.entries[0].remark == "'cat' 2, 'dog' 2"


@pytest.mark.parametrize(
    "labels", [[3, 7, 3, 7], [3.0, 7.0, 3.0, 7.0], [b"3", b"7", b"3", b"7"], ["3", "7", "3", "7"]]
)
def test_labels_may_be_numbers_or_text(save, labels):
    named = {**ARRAY, "target": {"kind": "classes", "values": ["3", "7"], "name": "label"}}
    assert read_with_schema(save(x=x(), label=np.array(labels)), schema(named)).y.tolist() == [0, 1, 0, 1]


def test_numbers_to_regress_on(save):
    table = {**ARRAY, "target": {"kind": "number", "mean": 10.0, "std": 5.0}}
    found = read_with_schema(save(x=x(), y=np.array([0, 5, 10, 15])), schema(table))
    assert (found.y.dtype, found.y.tolist()) == (np.float32, [-2, -1, 0, 1])


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        (
            {"x": np.ones((4, 3, 2)), "y": [0] * 4},
            ": x is (4, 3, 2); allowed by data.schema.shape: (n, 2, 3)",
        ),
        ({"x": x(), "y": ["cat"] * 3}, ": x is (4, 2, 3) and y is (3,); allowed: as many targets as rows"),
        ({"x": x(), "z": [0] * 4}, " has no array 'y'; it has 'x, z'"),
        (
            {"x": x(), "y": ["cat", "cow"] * 2},
            ", array 'y': 'cow' is no class of the task; allowed: 'cat, dog'",
        ),
        ({"x": x() * np.nan, "y": ["cat"] * 4}, ": x[0, 0, 0] = nan is not a finite number of at most 1e30"),
        ({"x": np.array([["a"]] * 2), "y": ["cat"] * 2}, ": x is (2, 1); allowed by data.schema.shape"),
        ({"x": x(1), "y": ["cat"]}, " has 1 rows; at least 2 are needed, to train and to validate"),
        ({"x": x(), "y": np.ones(4) + 1j}, ": array 'y' holds complex128; allowed: numbers or text"),
        ({"x": x(), "y": np.zeros(4, "M8[D]")}, ": array 'y' holds datetime64[D]; allowed: numbers or text"),
        ({"x": x(), "y": np.array([0, 1, np.nan, 1])}, ": y[2] = nan is not a finite number of at most 1e30"),
    ],
)
def test_a_bad_npz(save, arrays, line):
    assert line in told(read_with_schema, save(**arrays), schema(ARRAY))


def test_an_array_that_unfolds_too_far(save, monkeypatch):
    monkeypatch.setattr(npz, "MOST_BYTES", 100)
    line = told(read_with_schema, save(x=x(), y=["cat"] * 4), schema(ARRAY))
    assert "array 'x' has 192 bytes; allowed: at most 100, by what is free" in line


@cases("""
    name => kind => line
    rows.csv => array => does not fit data.schema.kind = 'array'; allowed: .npz
    rows.csv => images => data.schema.kind = 'images'; allowed: a folder with a folder for each
    rows.npz => table => data.schema.kind = 'table'; allowed: .csv, .tsv, .txt, .xlsx, .parquet or a folder
    rows.dat => table => is refused; allowed: .csv, .tsv or .txt (each also .gz), .xlsx, .parquet, .npz, or a
""")
def test_a_file_of_another_kind_than_the_schema_s(tmp_path, name, kind, line):
    (tmp_path / name).write_text(ward(10))
    (table,) = (one for one in (ARRAY, IMAGES, TABLE) if one["kind"] == kind)
    assert line in told(read_with_schema, tmp_path / name, schema(table))


def test_without_a_schema_files_are_numbers(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "b": [1, 2, 3], "y": [0, 1, 1]}), path)
    about = "rows.parquet: 3 rows, 2 features ('a' to 'b'), target 'y' (classes 0 to 1)"
    assert load_dataset(PLAIN, path, None).description.startswith(about)
    pq.write_table(pa.table({"a": ["x", "y", "z"], "y": [0, 1, 1]}), path)
    assert told(load_dataset, PLAIN, path, None).endswith(
        ", row 1, column 'a': 'x' is not a number (decimals have a point; at most 1e30); a task made by "
        "python -m node.init takes such columns"
    )
    pq.write_table(pa.table({"a": [1.0, None], "y": [0, 1]}), path)
    missing = ", row 2, column 'a': nan is not a finite number of at most 1e30"
    assert missing in told(load_dataset, PLAIN, path, None)
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(b"a;b;y\n1;2;0\n3;4;1\n"))
    assert load_dataset(PLAIN, packed, None).description.startswith("rows.csv.gz: 2 rows, 2 features")
    assert told(load_dataset, PLAIN, tmp_path, None).endswith(
        " needs a task that says which classes there are and how large images are: python -m node.init "
        "makes one"
    )


def test_a_node_on_numbers_of_an_npz_loads_no_library_for_tables_or_images(tmp_path):
    np.savez(tmp_path / "rows.npz", x=[[1.0, 2.0], [3.0, 4.0]], y=[0, 1])
    program = (
        "import sys; from pathlib import Path; import node.app.run; from node.task.load import load_task; "
        "from node.data.dataset import load_dataset; "
        "load_dataset(load_task('digits', []), Path('rows.npz'), None); "
        "print([name for name in ('pyarrow', 'PIL') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
