"""Words of a category that are one value: found in a file, written into the task, read at every peer."""

import numpy as np
import pytest

from node.agree.width import with_classes
from node.data.data_frames import labelled
from node.data.in_memory import rows_of
from node.data.reading import read_rows_to_predict, read_with_schema
from node.init.look import look
from node.init.spellings import alike
from node.init.task_file import plain
from node.system.toml_text import toml
from node.task.data_schema import CategoryColumn, ClassTarget
from node.task.load import read_task
from node.task.scaling import by_rows
from tests.own_data import picture, schema, told
from tests.unit.node.cases import toml_file


def site(tmp_path, *words, name="ward.csv"):
    """Writes 60 rows; column a has these words in turn."""
    rows = (f"{words[row % len(words)]},{row % 7},{('well', 'ill')[row % 3 == 0]}" for row in range(60))
    path = tmp_path / name
    path.write_text("\n".join(["a,b,y", *rows]) + "\n")
    return path


def looked(path):
    return look(path, "y", "classes", (), by_rows)


def test_spellings_of_a_sex_are_one_value_here_and_at_peers_that_write_it_otherwise(tmp_path):
    """Before, each was a value of its own, and one of another site counted as other."""
    found = looked(site(tmp_path, "m", "male", "w", "M", "m", "w", "M\u00e4nnlich"))
    column = found.schema.columns[0]
    assert column.values == ("m", "w")
    assert [(group[0], "m\u00e4nnlich" in group, "female" in group) for group in column.spellings] == [
        ("m", True, False),
        ("w", False, True),
    ]
    entry = next(entry for entry in found.report.entries if entry.column == "a")
    assert entry.remark == "'m' is also written 'M', 'M\u00e4nnlich', 'male'"
    other = site(tmp_path, "MALE", "m\u00e4nnlich", "Female", "x", name="other.csv")
    x = read_with_schema(other, found.schema).x
    assert np.argmax(x[:4, :3], axis=1).tolist() == [0, 0, 1, 2]
    once = looked(site(tmp_path, "m", "w", name="once.csv")).schema.columns[0]
    assert (once.values, once.spellings) == (("m", "w"), None), "as before, where nothing is written twice"
    wards = looked(site(tmp_path, "East", "EAST", "West", name="wards.csv")).schema.columns[0]
    assert (wards.values, wards.spellings) == (("East", "West"), (("East", "east"),))


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ({"East": 9, "east": 3, "west": 5}, {"East": 12, "west": 5}),
        ({"AA": 9, "Aa": 3, "aa": 5}, {"AA": 9, "Aa": 3, "aa": 5}),
        ({"m": 9, "f": 8, "w": 7, "divers": 1}, {"m": 9, "f": 15, "divers": 1}),
        ({"m": 9, "s": 8, "male": 7}, {"m": 9, "s": 8, "male": 7}),
        ({"m": 9, "male": 7}, {"m": 9, "male": 7}),
    ],
)
def test_what_is_one_value_and_what_is_not(rows, values):
    assert {value: each.rows for value, each in alike(rows).items()} == values


def test_a_task_holds_them_and_one_of_before_is_the_same(tmp_path):
    column = CategoryColumn("a", "category", ("East", "west"), (("East", "east"), ("gone", "away")))
    table = {"kind": "table", "target": {"name": "y", "kind": "classes", "values": ["ill", "well"]}}
    read = schema({**table, "columns": [plain(column)]})
    assert read.columns[0] == column
    assert [column.place(word) for word in ("East", "EAST", "west", "WEST", "away")] == [0, 0, 1, 2, 2]
    assert "spellings" not in toml(plain(CategoryColumn("a", "category", ("east", "west"))))
    assert toml_file({"data": {"schema": {"columns": [plain(column)]}}})


CLASSES = {"kind": "classes", "values": ["ill", "well"], "spellings": [["well", "fine", "gesund"]]}


def outcomes(tmp_path, *words, name="ward.csv"):
    """Writes 60 rows; the target has these words in turn."""
    rows = (f"{row % 7},{words[row % len(words)]}" for row in range(60))
    path = tmp_path / name
    path.write_text("\n".join(["b,y", *rows]) + "\n")
    return path


def test_spellings_of_a_class_are_one_class_here_and_at_peers(tmp_path):
    """Before, each was a class of its own, and the same words at a peer whose file has one were refused."""
    found = look(outcomes(tmp_path, "Well", "well", "ill", "well"), "y", "auto", (), by_rows)
    assert found.schema.target == ClassTarget("classes", ("ill", "well"), "y", (("well",),))
    assert found.report.entries[0].remark == "'ill', 'well'; 'well' is also written 'Well'"
    other = outcomes(tmp_path, "WELL", "ill", name="other.csv")
    assert read_with_schema(other, found.schema).y[:4].tolist() == [1, 0, 1, 0]
    assert read_rows_to_predict(other, found.schema).y[:4].tolist() == [1, 0, 1, 0]
    once = look(outcomes(tmp_path, "well", "ill", name="once.csv"), "y", "auto", (), by_rows)
    assert plain(once.schema.target) == {"kind": "classes", "values": ["ill", "well"], "name": "y"}
    shouted = outcomes(tmp_path, "ILL", "well", name="shouted.csv")
    assert "row 1, column 'y': 'ILL' is no class of the task" in told(read_with_schema, shouted, found.schema)
    assert "has 1 different value; allowed: 2 to" in told(
        look, outcomes(tmp_path, "Well", "well"), "y", "auto", (), by_rows
    )


def test_labels_of_arrays_images_and_frames_and_classes_that_are_added(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 2)), y=np.array(["Well", "ill", "well", "well"]))
    found = look(tmp_path / "a.npz", None, "auto", (), by_rows)
    assert found.schema.target == ClassTarget("classes", ("ill", "well"), "y", (("well",),))
    assert read_with_schema(tmp_path / "a.npz", found.schema).y.tolist() == [1, 0, 1, 1]
    for place, name in enumerate(("red", "Red", "blue", "red")):
        picture(tmp_path / "images" / name / f"{place}.png", (200, 0, 0), (8, 8))
    images = look(tmp_path / "images", None, "auto", (), by_rows)
    assert images.schema.target.spellings == (("red",),)
    assert "'red' is also written 'Red'" in images.report.lines()[-2]
    assert sorted(read_with_schema(tmp_path / "images", images.schema).y.tolist()) == [0, 1, 1, 1]
    table = {"kind": "array", "target": CLASSES, "shape": [2], "mean": [0.0], "std": [1.0]}
    model = {"class": "node.models:Linear", "args": {"inputs": 2, "outputs": 2}}
    about = {"task": {"name": "t"}, "model": model, "data": {"schema": table}}
    task = read_task(about)
    rows = rows_of((np.zeros((2, 2)), ["Gesund", "ill"]))
    assert labelled([rows], task, together=True)[0].y.tolist() == [1, 0]
    more = read_task({**about, "agreement": {"classes": ["Fine"]}})
    assert "'Fine' is a class of the task already" in told(with_classes, more)
