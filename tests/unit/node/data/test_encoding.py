import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.data import encoding
from node.data.encoding import encode
from node.data.files.csv_and_parquet import read_frame
from node.data.remedies import other_class, without_columns
from node.data.report import Entry
from node.data.text.columns import number, truth, words_of
from node.data.text.dates import days
from node.task.dialect import PLAIN
from tests.own_data import COLUMNS, HEADER, TABLE, frame, schema, told
from tests.unit.node.cases import cases

NAMES = ["outcome", *(column["name"] for column in COLUMNS)]
ROWS = [
    "1, 60 ,east,yes,1970-01-02,ill",
    "2,30,west,NO,1970-01-01T12:00,well",
    "3,?,north,T,1969-12-31,ill",
    "4,200,,,NA,well",
]


def encoded(tmp_path, rows):
    return encode(schema(TABLE), frame(tmp_path, "\n".join([HEADER, *rows]) + "\n", NAMES))


def test_every_kind_of_column_and_its_missing_values(tmp_path):
    found = encoded(tmp_path, ROWS)
    assert found.x.tolist() == [
        # age, no age, east, west, other, smoker, seen
        [1, 0, 1, 0, 0, 1, 1],
        [-2, 0, 0, 1, 0, -1, 0.5],
        [0, 1, 0, 0, 1, 1, -1],
        [10, 0, 0, 0, 0, 0, 0],
    ]
    assert (found.x.dtype, found.y.dtype, found.y.tolist()) == (np.float32, np.int64, [0, 1, 0, 1])
    assert found.report.entries == (
        Entry("outcome", "target, classes", "'ill' 2, 'well' 2"),
        Entry("age", "number", "1 missing, filled with the mean and marked; 1 beyond 10 std, cut"),
        Entry("ward", "category of 2 values", "1 of other values such as 'north'; 1 missing, all features 0"),
        Entry("smoker", "boolean", "1 missing, taken as neither"),
        Entry("seen", "date", "1 missing, filled with the mean"),
    )
    assert found.report.remarks == ()


def test_rows_without_a_target_are_left_out_and_counted(tmp_path):
    found = encoded(tmp_path, [*ROWS, "5,50,east,no,1970-01-01,", "6,50,east,no,1970-01-01,NULL"])
    assert len(found.x) == len(found.y) == 4
    assert found.report.remarks == ("2 rows left out: no value in 'outcome'",)
    assert told(encoded, tmp_path, ["1,1,,,,ill", "2,2,,,,"]).endswith(
        " has 1 rows with a value in 'outcome'; at least 2 are needed"
    )


def test_a_column_without_any_value_is_told(tmp_path):
    found = encoded(tmp_path, ["1,,,,,ill", "2,,,,,well"])
    assert [entry.remark for entry in found.report.entries[1:]] == [
        "NO VALUE in any row, filled with the mean",
        "NO VALUE in any row",
        "NO VALUE in any row, taken as neither",
        "NO VALUE in any row, filled with the mean",
    ]
    assert found.x[:, 2:].any() == np.False_


@cases("""
    row => line
    5,sixty,east,no,1970-01-01,ill => 'age': 'sixty' is not a number (decimals have a point; at most 1e30);
        mend it, or leave it empty
    5,1e40,east,no,1970-01-01,ill => 'age': '1e40' is not a number
    5,inf,east,no,1970-01-01,ill => 'age': 'inf' is not a number
    5,6,east,maybe,1970-01-01,ill => 'smoker': 'maybe' is not yes or no (true, t, y, 1, ja or false, f, n, 0,
        nein); mend it, or leave it empty
    5,6,east,no,1.2.1970,ill => 'seen': '1.2.1970' is not a date such as 2026-01-31; mend it, or leave it
        empty
    5,6,east,no,1970-01-01,dead => 'outcome': 'dead' is no class of the task; allowed: 'ill, well'; mend it,
        or
""")
def test_a_value_that_does_not_fit_is_named(tmp_path, row, line):
    message = told(encoded, tmp_path, [*ROWS, row])
    assert message.startswith(f"data file {str(tmp_path / 'rows.csv')!r}"[:40])
    assert f", row 5, column {line}" in message


def test_numbers_to_regress_on(tmp_path):
    table = {**TABLE, "target": {"kind": "number", "name": "age", "mean": 10.0, "std": 5.0}}
    table["columns"] = COLUMNS[1:3]
    text = "\n".join([HEADER, *ROWS]) + "\n"
    found = encode(schema(table), frame(tmp_path, text))
    assert (found.y.dtype, found.y.tolist()) == (np.float32, [10.0, 4.0, 38.0])
    assert found.report.remarks == ("1 row left out: no value in 'age'",)
    bad = text.replace("200", "old")
    assert told(lambda: encode(schema(table), frame(tmp_path, bad))).endswith(
        ", row 4, column 'age': 'old' is not a number (decimals have a point; at most 1e30); mend it, or "
        "leave the row out; if it means no value, --cells missing=... says so of your file"
    )


def test_what_does_not_fit_into_memory_is_refused_before_it_is_encoded(tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "MOST_ENCODED_BYTES", 100)
    assert told(encoded, tmp_path, ROWS).endswith(
        "has 4 rows of 7 features, 1.04e-07 GiB encoded; allowed: at most 0 GiB, and what memory is free; "
        "take fewer or smaller rows"
    )


def test_a_parquet_file_is_encoded_as_the_csv_of_the_same_rows(tmp_path):
    path = tmp_path / "rows.parquet"
    days = [(1970, 1, 2), (1970, 1, 1, 12), (1969, 12, 31)]
    columns = {
        "age": [60.0, 30.0, None, 200.0],
        "ward": pa.array(["east", "west", "north", None]).dictionary_encode(),
        "smoker": [True, False, True, None],
        "seen": [*(datetime.datetime(*day, tzinfo=datetime.UTC) for day in days), None],
        "outcome": ["ill", "well", "ill", "well"],
    }
    pq.write_table(pa.table(columns), path)
    found, wanted = encode(schema(TABLE), read_frame(path, NAMES)), encoded(tmp_path, ROWS)
    assert found.x.tobytes() == wanted.x.tobytes()
    assert found.y.tobytes() == wanted.y.tobytes()
    pq.write_table(pa.table({**columns, "age": [[1], [2], [3], [4]]}), path)
    assert told(lambda: encode(schema(TABLE), read_frame(path, NAMES))).endswith(
        ", column 'age': list<element: int64> is no kind of value for a feature"
    )


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["1", " 1", "a ", None, "?"], ["1", "1", "a", None, None]),
        ([1, 2, None], ["1", "2", None]),
        ([1.0, 2.5, float("nan")], ["1", "2.5", None]),
        ([True, None, False], ["true", None, "false"]),
        ([datetime.date(2026, 1, 2), None], ["2026-01-02", None]),
    ],
)
def test_cells_as_words(cells, words):
    found = words_of(pa.chunked_array([cells]), PLAIN)
    assert [found.words[code] if code >= 0 else None for code in found.codes] == words
    chunked = words_of(pa.chunked_array([cells[:1], cells[1:]]).dictionary_encode(), PLAIN)
    assert [chunked.words[code] if code >= 0 else None for code in chunked.codes] == words


@cases("""
    read => value => words
    number => -1500.0 => -1.5e3
    number => None => 1_000 | 1e31 | one
    truth => 1.0 => YES
    truth => 0.0 => f
    truth => None => 2
    days => 0.0 => 1970-01-01T06:00:00+06:00
    days => 2.0 => 1970-01-03
    days => None => 19700103 | 1970-13-01
""")
def test_words_that_mean_something(read, value, words):
    reader = {"number": number, "truth": truth, "days": days}[read]
    assert {str(reader(word)) for word in words.split(" | ")} == {value}


def test_two_ways_to_write_an_accent_are_one_category_and_whole_labels_may_have_a_point(tmp_path):
    table = {"kind": "table", "columns": [{"name": "a", "kind": "category", "values": ["caf\u00e9"]}]}
    table["target"] = {"kind": "classes", "name": "y", "values": ["e\u0301t\u00e9", "1"]}
    text = "a,y\ncaf\u00e9,\u00e9te\u0301\ncafe\u0301,1.0\ncafe\u0301,1\n"
    found = encode(schema(table), frame(tmp_path, text))
    assert (found.x.tolist(), found.y.tolist()) == ([[1, 0]] * 3, [0, 1, 1])


def test_a_missing_column_can_be_renamed_added_or_left_out_by_all():
    assert without_columns(["age"], ["id", "ward"]) == (
        " has no column 'age', which the task's schema asks for; it has 'id, ward'; rename a column, or add "
        "it (empty cells are missing values), or learn without it: all run node.agree with "
        "--leave-out-missing, or node.init with --leave-out 'age' makes a new file for all"
    )
    several = without_columns(["age", "sex"], ["id"])
    assert several.startswith(" has no columns 'age, sex', which the task's schema asks for; it has 'id'; ")
    assert "or add them (" in several
    assert "with --leave-out for each makes" in several
    assert len(without_columns([f"c{number}" for number in range(999)], ["id"] * 999)) < 400


def test_an_unknown_class_can_be_mended_left_out_or_learned_by_all():
    assert other_class(("ill", "well")) == (
        "is no class of the task; allowed: 'ill, well'; mend it, or leave its rows out, or learn it: all run "
        "node.agree with --also-class and its name, or whoever wrote the task adds it to "
        "data.schema.target.values, gives the model one more output in model.args, and sends all the file"
    )
