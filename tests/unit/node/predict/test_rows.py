"""Rows for a trained model: encoded as in training, with targets or without."""

import numpy as np
import pytest

from node.data.encoding import encode
from node.data.files.csv_and_parquet import read_frame
from node.data.reading import read_rows_to_predict
from tests.own_data import IMAGES, TABLE, picture, schema, told, ward

OF_01 = {"kind": "classes", "values": ["0", "1"]}
ARRAY = {"kind": "array", "target": OF_01, "shape": [2], "mean": [1.0], "std": [2.0]}


@pytest.fixture
def rows(tmp_path):
    def write(text):
        (tmp_path / "rows.csv").write_text(text)
        return tmp_path / "rows.csv"

    return write


def without(text, place):
    """Returns a table without one column."""
    lines = [line.split(",") for line in text.splitlines()]
    return "\n".join(",".join(cells[:place] + cells[place + 1 :]) for cells in lines) + "\n"


def test_rows_with_targets_are_those_of_training_and_those_without_are_encoded_alike(rows):
    path = rows(ward(20))
    (x, y), wanted = read_rows_to_predict(path, schema(TABLE)), encode(schema(TABLE), read_frame(path, None))
    assert x.tobytes() == wanted.x.tobytes()
    assert y.tolist() == wanted.y.tolist()
    x, y = read_rows_to_predict(rows(without(ward(20), 5)), schema(TABLE))
    assert (y, x.tobytes()) == (None, wanted.x.tobytes())


def test_a_single_row_will_do(rows):
    x, y = read_rows_to_predict(rows(ward(1)), schema(TABLE))
    assert (x.shape, y) == ((1, 7), None)
    assert " has 0 rows; at least 1 are needed" in told(read_rows_to_predict, rows(ward(0)), schema(TABLE))
    message = told(read_rows_to_predict, rows(without(ward(20), 1)), schema(TABLE))
    assert " has no column 'age', which the task's schema asks for; it has 'id, ward," in message


def test_arrays_and_images(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, x=np.array([[1.0, 3.0]]))
    x, y = read_rows_to_predict(path, schema(ARRAY))
    assert (x.tolist(), y) == ([[0, 1]], None)
    np.savez(path, x=np.array([[1.0, 3.0]] * 2), y=np.array([0, 1]))
    assert read_rows_to_predict(path, schema(ARRAY))[1].tolist() == [0, 1]
    path.write_bytes(b"no")
    assert told(read_rows_to_predict, path, schema(ARRAY)).endswith(
        " is not an npz file; numpy.savez makes one"
    )
    for name in ("blue", "red"):
        picture(tmp_path / "scans" / name / "a.png", (0, 0, 0))
    assert read_rows_to_predict(tmp_path / "scans", schema(IMAGES))[1].tolist() == [0, 1]
