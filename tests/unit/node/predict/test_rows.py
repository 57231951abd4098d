"""Rows for a trained model: encoded as in training, with targets or without."""

import numpy as np
import pytest

from node.data.encoding import encode
from node.data.files.csv_and_parquet import read_frame
from node.data.reading import read_rows_to_predict, read_with_schema
from tests.own_data import IMAGES, TABLE, TARGET, picture, schema, told, ward

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
    found, wanted = read_rows_to_predict(path, schema(TABLE)), encode(schema(TABLE), read_frame(path, None))
    assert found.x.tobytes() == wanted.x.tobytes()
    assert found.y.tolist() == wanted.y.tolist()
    bare = read_rows_to_predict(rows(without(ward(20), 5)), schema(TABLE))
    assert (bare.y, bare.x.tobytes()) == (None, wanted.x.tobytes())


def test_a_single_row_will_do(rows):
    found = read_rows_to_predict(rows(ward(1)), schema(TABLE))
    assert (found.x.shape, found.y) == ((1, 7), None)
    assert " has 0 rows; at least 1 are needed" in told(read_rows_to_predict, rows(ward(0)), schema(TABLE))
    message = told(read_rows_to_predict, rows(without(ward(20), 1)), schema(TABLE))
    assert " has no column 'age', which the task's schema asks for; it has 'id, ward," in message


def test_arrays(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, x=np.array([[1.0, 3.0]]))
    found = read_rows_to_predict(path, schema(ARRAY))
    assert (found.x.tolist(), found.y) == ([[0, 1]], None)
    np.savez(path, x=np.array([[1.0, 3.0]] * 2), y=np.array([0, 1]))
    assert read_rows_to_predict(path, schema(ARRAY)).y.tolist() == [0, 1]
    path.write_bytes(b"no")
    assert told(read_rows_to_predict, path, schema(ARRAY)).endswith(
        " is not an npz file; numpy.savez makes one"
    )


def test_images_lie_in_folders_by_class_or_in_one_and_have_names(tmp_path):
    for name in ("blue", "red"):
        picture(tmp_path / "scans" / name / "a.png", (0, 0, 0))
    found = read_rows_to_predict(tmp_path / "scans", schema(IMAGES))
    assert (found.y.tolist(), found.names) == ([0, 1], ["blue/a.png", "red/a.png"])
    bare = tmp_path / "scans" / "red"
    picture(bare / "b.png", (255, 255, 255))
    (bare / "0.png").write_bytes(b"no image")
    found = read_rows_to_predict(bare, schema(IMAGES))
    assert (found.y, found.names, len(found.x)) == (None, ["a.png", "b.png"], 2)
    assert (found.x[1] > found.x[0]).all()
    assert found.remarks[0].startswith("1 image left out, cannot be read: 'red/0.png': ")
    for name in found.names:
        (bare / name).unlink()
    assert "no image can be read; 'red/0.png'" in told(read_rows_to_predict, bare, schema(IMAGES))


def test_texts_lie_in_folders_by_class_or_in_one_and_have_names(tmp_path):
    columns = [{"name": "text", "kind": "text", "width": 64, "encoder": "hashed"}]
    notes = schema({"kind": "table", "target": {**TARGET, "name": "class"}, "columns": columns})
    for name, text in (("well/a", "no pain"), ("ill/a", "in pain"), ("ill/b", "much pain")):
        path = tmp_path / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    found = read_rows_to_predict(tmp_path, notes)
    assert (found.y.tolist(), found.names) == ([0, 0, 1], ["ill/a.txt", "ill/b.txt", "well/a.txt"])
    bare = read_rows_to_predict(tmp_path / "ill", notes)
    assert (bare.y, bare.names, bare.x.tobytes()) == (None, ["a.txt", "b.txt"], found.x[:2].tobytes())
    assert " has no column 'class', which the task's schema asks for; it has 'text'" in told(
        read_with_schema, tmp_path / "ill", notes
    )
