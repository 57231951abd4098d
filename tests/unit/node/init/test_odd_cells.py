"""Columns of numbers with cells that are none: limits, units, rare words. They become numbers, by choice."""

import numpy as np
import pytest

from node.data.reading import read_with_schema
from node.init.asked import NOTHING_ASKED, Asked
from node.init.look import look
from node.system.errors import ConfigError
from node.task.data_schema import NumberColumn
from node.task.scaling import by_rows
from tests.own_data import told


def lab(tmp_path, odd, rows=60, name="ward.csv"):
    """Writes a lab's rows: column `a` has `odd(row)` in place of its number, where that is a word."""
    lines = ["a;age;outcome"]
    lines += [
        f"{odd(row) or f'{row % 23},5'};{40 + row % 31};{('well', 'ill')[row % 3 == 0]}"
        for row in range(rows)
    ]
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


def looked(path, asked=NOTHING_ASKED):
    return look(path, "outcome", "auto", (), by_rows, asked)


def column(found):
    return next((column for column in found.schema.columns if column.name == "a"), None)


def values(path, schema):
    """Returns the numbers of column a as a node reads them, NaN for no value."""
    own = column(type("Found", (), {"schema": schema}))
    x = read_with_schema(path, schema).x
    missing = x[:, 1] > 0 if own.missing else np.zeros(len(x), bool)
    return np.where(missing, np.nan, x[:, 0] * own.std + own.mean)


def limits(row):
    return {3: "<0,6", 7: "> 20", 11: "\u22640,4", 13: "~5,0"}.get(row % 20)


@pytest.mark.parametrize(
    ("below", "expected", "said"),
    [
        (None, (0.3, 20.0, 0.2, 5.0), "a limit such as <0.6 is half of it, and one such as >200 is 200"),
        ("half", (0.3, 20.0, 0.2, 5.0), "a limit such as <0.6 is half of it"),
        ("value", (0.6, 20.0, 0.4, 5.0), "a limit such as <0.6 is 0.6; --below half, missing or none says"),
        ("missing", (np.nan, np.nan, np.nan, 5.0), "a limit such as <0.6 is no value; --below half, value"),
    ],
)
def test_limits_are_numbers_by_choice(tmp_path, below, expected, said):
    """Before, a column of which 21 of 3,619 cells had a limit was left out, and was the best there was."""
    path = lab(tmp_path, limits)
    found = looked(path, Asked(below=below))
    assert found.schema.dialect.below == (below or "half")
    (remark,) = (line for line in found.report.remarks if line.startswith("column 'a'"))
    assert remark.startswith(f"column 'a': 12 cells such as '<0,6'; {said}")
    assert values(path, found.schema)[[3, 7, 11, 13, 4]] == pytest.approx(
        [*expected, 4.5], nan_ok=True, abs=1e-5
    )


def test_limits_are_left_out_as_before_if_somebody_says_so_and_refused_by_a_task_of_before(tmp_path):
    path = lab(tmp_path, limits)
    without = looked(path, Asked(below="none"))
    assert column(without) is None
    assert without.schema.dialect.below is None
    plain = looked(lab(tmp_path, lambda row: None, name="plain.csv")).schema
    line = told(lambda: read_with_schema(path, plain))
    assert "row 4, column 'a': '<0,6' is not a number" in line
    assert "to learn from limits make the task with --below half" in line


def test_a_unit_is_left_off_and_another_one_refused(tmp_path):
    path = lab(tmp_path, lambda row: f"{row % 23},5 mg/l" if row % 4 else "<0,6 mg/l")
    found = looked(path)
    own = column(found)
    assert isinstance(own, NumberColumn)
    assert (own.unit, found.schema.dialect.decimal) == ("mg/l", "comma")
    assert "column 'a': numbers with the unit 'mg/l', which is left off" in found.report.remarks
    assert values(path, found.schema)[:3] == pytest.approx([0.3, 1.5, 2.5], abs=1e-5)
    without = lab(tmp_path, lambda row: None, name="without.csv")
    assert values(without, found.schema)[:2] == pytest.approx([0.5, 1.5], abs=1e-5)
    other = lab(tmp_path, lambda row: f"{row},5 g/l", name="other.csv")
    line = told(lambda: read_with_schema(other, found.schema))
    assert "'0,5 g/l' is not a number" in line
    assert "alone or with 'mg/l'; another unit would be another number" in line


@pytest.mark.parametrize(
    "odd",
    [
        lambda row: f"{row % 23},5 {('mg/l', 'g/l')[row % 2]}",  # two units
        lambda row: "h\u00e4molytisch" if row % 5 == 0 else None,  # every fifth cell is a word
        lambda row: "0.1.2" if row == 3 else None,  # a digit that is no number
    ],
)
def test_what_may_be_something_else_is_still_left_out(tmp_path, odd):
    found = looked(lab(tmp_path, odd))
    assert column(found) is None or column(found).kind == "category"
    assert not any(line.startswith("column 'a'") for line in found.report.remarks)


def test_rare_words_are_no_value_and_are_not_written_into_the_task(tmp_path):
    path = lab(tmp_path, lambda row: "h\u00e4molytisch" if row % 30 == 1 else None)
    found = looked(path)
    assert (found.schema.dialect.words, found.schema.dialect.missing) == ("missing", ())
    assert column(found).missing
    (remark,) = (line for line in found.report.remarks if line.startswith("column 'a'"))
    assert remark == (
        "column 'a': 2 cells such as 'h\u00e4molytisch' have no digit and count as no value; "
        "--words none says otherwise"
    )
    read = values(path, found.schema)
    assert np.flatnonzero(np.isnan(read)).tolist() == [1, 31]
    other = lab(tmp_path, lambda row: "verworfen" if row == 5 else None, name="other.csv")
    assert np.flatnonzero(np.isnan(values(other, found.schema))).tolist() == [5]
    assert column(looked(path, Asked(words="none"))) is None


def test_few_codes_and_groups_of_ages_stay_categories(tmp_path):
    codes = looked(lab(tmp_path, lambda row: ("1", "2", "3", "4", "A")[row % 5]))
    assert column(codes).values == ("1", "2", "3", "4", "A")
    for made, groups in (
        (("<18", "18-65", ">65"), ("18-65", "<18", ">65")),
        (("<18", ">65"), ("<18", ">65")),
    ):
        path = lab(tmp_path, lambda row, made=made: made[row % len(made)])
        ages = looked(path, Asked(below="half", words="missing"))
        assert column(ages).values == groups
    doses = looked(lab(tmp_path, lambda row: ("5 mg", "10 mg", "20 mg")[row % 3]))
    assert column(doses).values == ("10 mg", "20 mg", "5 mg")


def test_a_target_has_neither_limits_nor_words(tmp_path):
    path = lab(tmp_path, limits)
    with pytest.raises(ConfigError, match="the target 'a', row 4: '<0,6' is not a number"):
        look(path, "a", "number", (), by_rows, Asked(below="half"))
