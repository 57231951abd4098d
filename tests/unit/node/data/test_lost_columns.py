"""What is lost of a column, and what to do: values that are cut, other words, columns that are swapped."""

from dataclasses import replace

import numpy as np
import pytest

from node.check.checks import _doubts
from node.data.encoding import encode
from node.data.report import Report
from node.data.swaps import swapped
from node.task.data_schema import BooleanColumn, CategoryColumn, ClassTarget, NumberColumn, TableSchema
from node.task.dialect import Dialect
from tests.own_data import frame

ROWS = 200
SCHEMA = TableSchema(
    "table",
    ClassTarget("classes", ("ill", "well"), "y"),
    (
        NumberColumn("height", "number", 170.0, 10.0),
        NumberColumn("weight", "number", 75.0, 15.0),
        CategoryColumn("sex", "category", ("m", "w")),
        CategoryColumn("ward", "category", ("east", "west")),
    ),
)
USUAL = {
    "height": lambda row: 150 + row % 41,
    "weight": lambda row: 55 + row % 41,
    "sex": lambda row: "mw"[row % 2],
    "ward": lambda row: ("east", "west")[row % 2],
}


def entries(tmp_path, schema=SCHEMA, **own):
    """Returns the report's entries of a site's rows: usual ones, but for the columns in `own`."""
    makes = {**USUAL, **own, "y": lambda row: ("ill", "well")[row % 2]}
    lines = [",".join(makes), *(",".join(str(make(row)) for make in makes.values()) for row in range(ROWS))]
    found = encode(schema, frame(tmp_path, "\n".join(lines) + "\n", [*makes]))
    return {entry.column: entry for entry in found.report.entries}


def said(found):
    return _doubts(Report("", tuple(found.values()), ()))


def test_nothing_is_said_of_usual_rows(tmp_path):
    assert said(entries(tmp_path)) == ("ok", "")


@pytest.mark.parametrize(
    ("share", "level"), [(0.04, "ok"), (0.06, "warning"), (0.5, "warning"), (0.51, "problem"), (1, "problem")]
)
def test_values_in_another_unit_are_cut_and_said(tmp_path, share, level):
    """Before, "all 1,330 rows beyond 10 std, cut" stood among the remarks of a line that was ok."""
    rows = round(share * ROWS)
    found = entries(tmp_path, height=lambda row: (1500 if row < rows else 150) + row % 41)
    assert found["height"].remark == f"{rows} beyond 10 std, cut"
    assert said(found)[0] == level
    if share == 1:
        assert said(found)[1] == (
            "; height: 200 of 200 values are cut; the middle one is 1520, and the task expects 170 +- 10: "
            "write them in the unit of the others, or all run node.agree with ranges that hold for all"
        )


def test_days_that_are_far_away_are_said_without_their_numbers(tmp_path):
    seen = NumberColumn("seen", "date", 0.0, 1.0)
    found = entries(tmp_path, replace(SCHEMA, columns=(*SCHEMA.columns, seen)), seen=lambda row: "2026-01-31")
    assert found["seen"].lost.startswith("200 of 200 values lie far from the task's: look for another order")


def test_values_outside_of_a_public_range_are_cut_too(tmp_path):
    ranged = replace(SCHEMA.columns[0], low=200.0, high=250.0)
    found = entries(tmp_path, replace(SCHEMA, columns=(ranged, *SCHEMA.columns[1:])))
    assert "200 of 200 values are cut" in found["height"].lost


@pytest.mark.parametrize(("share", "level"), [(0.1, "ok"), (0.3, "warning"), (1, "problem")])
def test_words_that_are_none_of_the_task_s_are_said(tmp_path, share, level):
    rows = round(share * ROWS)
    found = entries(tmp_path, sex=lambda row: ("male", "female")[row % 2] if row < rows else "mw"[row % 2])
    assert said(found)[0] == level
    if share == 1:
        assert said(found)[1] == (
            "; sex: 200 of 200 values are none of the task's 'm', 'w', such as 'male': write them as the "
            "others do, or have them added to the column's values by all"
        )


@pytest.mark.parametrize(("share", "level"), [(0.04, "ok"), (0.3, "warning"), (0.9, "problem")])
def test_numbers_that_are_words_are_said(tmp_path, share, level):
    rows = round(share * ROWS)
    schema = replace(SCHEMA, dialect=Dialect(words="missing"))
    found = entries(tmp_path, schema, weight=lambda row: "heavy" if row < rows else 55 + row % 41)
    assert found["weight"].remark == f"{rows} missing, filled with the mean; of these {rows} words"
    assert said(found)[0] == level
    assert level == "ok" or f"weight: {rows} cells are words, which count as no value" in said(found)[1]


def test_swapped_columns_are_named(tmp_path):
    found = entries(
        tmp_path, height=USUAL["weight"], weight=USUAL["height"], sex=USUAL["ward"], ward=USUAL["sex"]
    )
    level, told = said(found)
    why = "each holds what the task expects in the other; swap them back"
    assert level == "problem"
    assert told == (
        f"; height: looks swapped with 'weight': {why}; weight: looks swapped with 'height': {why}; "
        f"sex: looks swapped with 'ward': {why}; and 1 more column"
    )
    assert found["height"].remark.startswith("looks swapped with 'weight'")


def test_only_columns_that_fit_each_other_are_swapped():
    number, word, yes = SCHEMA.columns[0], SCHEMA.columns[2], BooleanColumn("b", "boolean")
    columns = (*SCHEMA.columns, yes)
    usual = (170.0, 75.0, {"m": 5}, {"east": 5}, None)
    assert swapped(columns, usual) == {}
    assert swapped(columns, (75.0, 75.0, {"east": 5}, {"east": 5}, None)) == {}, "one alone"
    assert swapped(columns, (1000.0, 2000.0, {"x": 5}, {}, None)) == {}, "elsewhere"
    assert swapped((number, word), ({"m": 1}, 170.0)) == {}, "of two kinds"
    assert np.isclose(number.mean, 170)
