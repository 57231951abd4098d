import numpy as np
import pytest

from node.data.report import Entry, Report
from node.init.asked import NOTHING_ASKED
from node.init.dialect import find_dialect
from node.init.guess import in_order
from node.init.guess import understand as understand_as
from node.init.loss_choice import loss_for_classes, loss_for_numbers, loss_for_rows
from node.task.data_schema import BooleanColumn, CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from node.task.scaling import by_rows
from tests.own_data import frame, told

ROWS = 40


def table(**columns):
    """Makes a CSV of 40 rows; each column is a function of the row's number."""
    lines = [",".join(columns)]
    lines += [",".join(str(make(row)) for make in columns.values()) for row in range(ROWS)]
    return "\n".join(lines) + "\n"


def understand(frame, target, kind, unwanted, scaling):
    return understand_as(frame, target, kind, unwanted, scaling, find_dialect(frame, NOTHING_ASKED))


def found(tmp_path, kind="auto", unwanted=(), **columns):
    text = table(**columns, y=lambda row: "ill" if row % 3 else "well")
    return understand(frame(tmp_path, text), "y", kind, unwanted, by_rows)


def a(row):
    """Returns a number that cannot be mistaken for an identifier."""
    return row * row % 7


@pytest.mark.parametrize(
    ("make", "column"),
    [
        (lambda row: row % 10, NumberColumn("c", "number", 4.5, 2.9, False)),
        (lambda row: row % 10 if row % 4 else "?", NumberColumn("c", "number", 4.7, 2.9, True)),
        (lambda row: row / 7, NumberColumn("c", "number", 2.8, 1.6, False)),
        (lambda row: ("yes", "No")[row % 2], BooleanColumn("c", "boolean", False)),
        (lambda row: (0, 1, "")[row % 3], BooleanColumn("c", "boolean", True)),
        (lambda row: f"2026-01-{1 + row % 9:02d}", NumberColumn("c", "date", 20457.8, 2.6, False)),
        (lambda row: ("west", "east", "?")[row % 3], CategoryColumn("c", "category", ("east", "west"))),
        (lambda row: "rare" if row < 4 else ("b", "a")[row % 2], CategoryColumn("c", "category", ("a", "b"))),
        (lambda row: ("10", "9", "x")[row % 3], CategoryColumn("c", "category", ("10", "9", "x"))),
    ],
)
def test_what_a_column_is_taken_for(tmp_path, make, column):
    assert found(tmp_path, a=a, c=make).schema.columns[1] == column


@pytest.mark.parametrize(
    ("name", "make", "remark"),
    [
        ("c", lambda _: 7, "the same in every row that has a value: '7'"),
        ("c", lambda row: ("1", "1.0")[row % 2], "the same number in every row that has one"),
        ("c", lambda _: "?", "no value in any row"),
        ("c", lambda row: row + 1000, "an identifier: a different number in every row"),
        ("patient_id", lambda row: row * row, "an identifier: a different number in every row"),
        ("patientId", lambda row: row * row, "an identifier: a different number in every row"),
        ("c", lambda row: f"name {row}", "an identifier, or free text: different in nearly every row"),
        (
            "c",
            lambda row: row * row if row % 9 else "dead",
            "looks like numbers, but 5 cells such as 'dead' cannot be read as one: --missing WORD for",
        ),
        ("c", lambda row: f"group {row // 2}", "no value has 5 rows or more"),
    ],
)
def test_what_is_left_out_and_why(tmp_path, name, make, remark):
    entry = found(tmp_path, a=a, **{name: make}).omitted[0]
    assert (entry.column, entry.kind) == (name, "left out")
    assert entry.remark.startswith(remark)


def test_numbers_that_differ_are_no_identifier_by_that_alone(tmp_path):
    schema = found(tmp_path, valid=lambda row: row * row, paid=lambda row: row * row + 1).schema
    assert [column.name for column in schema.columns] == ["valid", "paid"]


def test_too_many_categories_and_what_somebody_does_not_want(tmp_path):
    lines = ["c,a,b,y", *(f"v{row % 150},{row % 7},{row % 5},{row % 2}" for row in range(600))]
    rows = frame(tmp_path, "\n".join(lines) + "\n")
    understood = understand(rows, "y", "auto", ("b",), by_rows)
    assert [column.name for column in understood.schema.columns] == ["a"]
    assert set(understood.omitted) == {
        Entry("c", "left out", "150 different values; at most 100 become features"),
        Entry("b", "left out", "as asked"),
    }


@pytest.mark.parametrize(
    ("make", "kind", "target"),
    [
        (lambda row: ("no", "yes")[row % 2], "auto", ClassTarget("classes", ("no", "yes"), "t")),
        (lambda row: (10, 9, 2)[row % 3], "auto", ClassTarget("classes", ("2", "9", "10"), "t")),
        (lambda row: (10, 9, 2)[row % 3], "number", NumberTarget("number", 7.1, 3.5, "t")),
        (lambda row: row / 2, "auto", NumberTarget("number", 9.8, 5.8, "t")),
        (lambda row: row + 5, "auto", NumberTarget("number", 24.0, 12.0, "t")),
        (lambda row: row % 3 / 2, "classes", ClassTarget("classes", ("0.0", "0.5", "1.0"), "t")),
    ],
)
def test_what_the_target_is(tmp_path, make, kind, target):
    text = table(a=a, t=make)
    assert understand(frame(tmp_path, text), "t", kind, (), by_rows).schema.target == target


@pytest.mark.parametrize(
    ("make", "kind", "line"),
    [
        (lambda _: "x", "auto", "has 1 different value; allowed: 2 to 10000 classes; name another"),
        (lambda _: 5.5, "number", "is the same in every row; name another column with --target"),
        (lambda row: row or "dead", "number", "mend it, or use --target-kind classes"),
    ],
)
def test_a_target_that_can_not_be_learned(tmp_path, make, kind, line):
    said = told(understand, frame(tmp_path, table(a=a, t=make)), "t", kind, (), by_rows)
    assert said.startswith("the target 't'")
    assert line in said


def test_names_that_are_not_there_and_nothing_to_learn_from(tmp_path):
    rows = frame(tmp_path, table(a=lambda _: 1, y=lambda row: row % 2))
    assert told(understand, rows, "z", "auto", (), by_rows).endswith(" has no column 'z'; it has 'a, y'")
    assert told(understand, rows, "y", "auto", ("b",), by_rows).endswith(" has no column 'b'; it has 'a, y'")
    assert told(understand, rows, "y", "auto", (), by_rows).endswith(
        ": no column is left to learn from; a: the same in every row that has a value: '1'"
    )


def test_an_order_that_says_nothing_about_how_often():
    assert in_order(["b", "a", "C"]) == ("C", "a", "b")
    assert in_order(["10", "9.5", "-1"]) == ("-1", "9.5", "10")


def test_the_report_is_a_table_of_short_lines():
    entries = (Entry("a\nb", "number", ""), Entry("long" * 40, "category of 2 values", "1 missing"))
    lines = Report("rows.csv: 2 rows", entries, ("1 row left out",)).lines()
    assert lines[0] == "rows.csv: 2 rows"
    assert lines[1].split() == ["column", "read", "as", "remarks"]
    assert lines[2].split() == ["a", "b", "number"]
    assert lines[3] == "  " + ("long" * 40)[:57] + "...  category of 2 values  1 missing"
    assert lines[4] == "1 row left out"


CLASSES, NUMBERS = ClassTarget("classes", ("no", "yes")), NumberTarget("number", 0.0, 1.0)


def test_a_rare_class_and_none():
    found = loss_for_rows(CLASSES, np.array([0] * 88 + [1] * 12))
    assert (found.name, found.args) == ("balanced-softmax", {"prior": [0.88, 0.12]})
    assert found.why.startswith("'no' has 88% of the rows")
    assert loss_for_rows(CLASSES, np.array([0] * 80 + [1] * 20)) is None
    assert loss_for_rows(CLASSES, np.zeros(99, np.int64)).args == {"prior": [0.99, 0.01]}, "none here is one"
    names = tuple("abcd")
    assert loss_for_classes(names, np.array([25, 25, 25, 25])) is None
    assert loss_for_classes(names, np.array([900, 50, 30, 20])).args == {"prior": [0.9, 0.05, 0.03, 0.02]}


@pytest.mark.parametrize(("farthest", "name"), [(6.0, None), (6.1, "huber"), (1e9, "huber")])
def test_heavy_tails(farthest, name):
    rows = loss_for_rows(NUMBERS, np.array([0.0, -farthest], np.float32))
    for found in (rows, loss_for_numbers(farthest)):
        assert (None if found is None else found.name) == name
