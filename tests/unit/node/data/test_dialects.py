"""Numbers, missing values and files as a schema's dialect says: what is read, and what is refused how."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.check import __main__ as check
from node.data.files.csv_and_parquet import read_frame
from node.data.reading import read_rows_to_predict, read_with_schema
from node.data.text.cells import number, number_reader
from node.init.task_file import plain
from node.system.toml_text import toml
from node.task.dialect import PLAIN, Dialect, described
from node.task.parameters import canonical_parameters
from tests.own_data import TABLE, schema, task, told
from tests.unit.node.cases import cases, toml_file

GERMAN = Dialect("comma", "point", "day-first", ("-", "k.A.", "9999"))
COLUMNS = [
    {"name": "lab", "kind": "number", "mean": 0.0, "std": 1000.0, "missing": True},
    {"name": "seen", "kind": "date", "mean": 0.0, "std": 10.0},
    {"name": "ward", "kind": "category", "values": ["Ost", "West"]},
]
TARGET = {"name": "y", "kind": "classes", "values": ["ja", "nein"]}


def table(dialect=GERMAN, columns=COLUMNS, target=TARGET):
    said = {"dialect": plain(dialect)} if dialect is not None else {}
    return schema({"kind": "table", "target": target, "columns": columns, **said})


def write(path, *rows, header="lab;seen;ward;y", encoding="utf-8"):
    path.write_text("\n".join([header, *rows]) + "\n", encoding=encoding)
    return path


@cases("""
    marks => value => cells
    comma point => 1234.5 => 1.234,5
    comma point => 1234.0 => 1.234 | 1234
    comma point => -1500.0 => -1,5E3
    comma point => 0.5 => ,5
    comma point => 5.3 => 53e-1
    comma point => None => 1.23 | 0.123 | 1,234.5 | 12.34,5 | 1,5_0 | inf | 1e31
    comma => None => 1.234
    comma space => 1234.5 => 1\u00a0234,5
    point apostrophe => 1234.5 => 1\u2019234.5
    point comma => 1234.5 => 1,234.5
""")
def test_numbers(marks, value, cells):
    read = number_reader(Dialect(*marks.split()))
    assert {str(read(cell)) for cell in cells.split(" | ")} == {value}
    assert read("") is None
    assert number_reader(PLAIN) is number_reader(Dialect(dates="day-first", missing=("-",))) is number


def test_words_and_numbers_for_no_value(tmp_path):
    path = write(
        tmp_path / "r.csv",
        "5,3;25.07.2023;Ost;ja",
        "K.A.;-;k.a.;nein",
        "9999;1.8.2023;West;ja",
        "9999,0;;Ost;ja",
        "9.999;;Ost;nein",
        "9998;;Ost;nein",
        "9.999;1.8.2023;West;-",
    )
    found = read_with_schema(path, table())
    assert found.x.shape == (6, 6)  # the last row has no target
    assert found.x[:, 1].tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    assert float(found.x[5, 0]) == pytest.approx(9.998)
    assert found.x[1, 2:].tolist() == [0.0, 0.0, 0.0, 0.0]


def test_a_value_that_a_column_lists_is_one(tmp_path):
    columns = [*COLUMNS[:2], {"name": "ward", "kind": "category", "values": ["+", "-"]}]
    path = write(tmp_path / "r.csv", "-;-;-;ja", "1;;+;nein")
    found = read_with_schema(path, table(columns=columns))
    assert found.x[0].tolist() == [0, 1, 0, 0, 1, 0]


@cases("""
    row => line
    5.3;2023-07-25;Ost;ja => 'lab': '5.3' is not a number (decimals have a comma, thousands may have points;
        at most 1e30) as the task says; this file has decimals with a point: say so with --cells decimal=point
        (python -m node.check says what else), or write them as others do; mend it, or
    5,3;7/25/2023;Ost;ja => '7/25/2023' is not a date such as 2026-01-31 or 31.01.2026, the day be
    n.b.;;Ost;ja => if it means no value, --cells missing=... says so
    5,3;;G\u00f6;ja => say --cells encoding=cp1252 (or another)
""")
def test_a_file_that_contradicts_the_schema_is_told_so(tmp_path, row, line):
    path = write(tmp_path / "p.csv", row, row.replace("ja", "nein"), encoding="cp1252")
    assert line in told(read_with_schema, path, table())
    commas = write(tmp_path / "c.csv", "5,3;2023-07-25;Ost;ja", "5,3;2023-07-25;Ost;nein")
    assert "this file has decimals with a comma" in told(read_with_schema, commas, table(None))


def test_parquet_stores_numbers_without_marks(tmp_path):
    columns = {"seen": ["25.07.2023"] * 3, "ward": ["Ost"] * 3, "y": ["ja", "nein", "ja"]}
    path = tmp_path / "r.parquet"
    for kind in (pa.float64(), pa.decimal128(8, 2)):
        pq.write_table(pa.table({**columns, "lab": pa.array([5.3, 9999.0, None]).cast(kind)}), path)
        found = read_with_schema(path, table())
        assert found.x[:, 0].tolist() == pytest.approx([0.0053, 0.0, 0.0])
        assert found.x[:, 1].tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_encoding_of_each_file_is_found(tmp_path, encoding, packed):
    path = write(tmp_path / "r.csv", 'ü5;"a\nö";Ost;ja', "€;x;West;nein", encoding=encoding)
    if packed:
        (tmp_path / "r.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
        path = tmp_path / "r.csv.gz"
    frame = read_frame(path, None, dialect=Dialect(encoding="cp1252"))
    assert {name: cells.to_pylist() for name, cells in frame.columns.items()} == {
        "lab": ["ü5", "€"],
        "seen": ["a\nö", "x"],
        "ward": ["Ost", "West"],
        "y": ["ja", "nein"],
    }
    assert frame.encoding == encoding


def test_text_that_turns_out_not_to_be_unicode_late_is_read_again(tmp_path):
    path = write(tmp_path / "r.csv", *["1;2;Ost;ja"] * 200_000, "1;2;Gö;nein", encoding="cp1252")
    frame = read_frame(path, None, dialect=Dialect(encoding="cp1252"))
    assert (frame.rows, frame.encoding) == (200_001, "cp1252")
    assert "Gö" in frame.columns["ward"].to_pylist()


def test_the_separator_that_excel_states_and_the_one_that_is_asked_for(tmp_path):
    stated = write(tmp_path / "s.csv", "a|b;c", "1|2;3", "4|5;6", header="sep=|")
    assert read_frame(stated, None).columns["a"].to_pylist() == ["1", "4"]
    assert list(read_frame(stated, None, dialect=Dialect(separator="semicolon")).columns) == ["a|b", "c"]


def test_a_numeric_target_in_the_dialect(tmp_path):
    target = {"name": "y", "kind": "number", "mean": 0.0, "std": 1.0}
    path = write(tmp_path / "r.csv", "1;;Ost;1,5", "1;;Ost;9999", "1;;Ost;2,5")
    assert read_with_schema(path, table(target=target)).y.tolist() == [1.5, 2.5]
    assert read_rows_to_predict(path, table(target=target)).y is None
    own = {**target, "decimal": "point"}
    points = write(tmp_path / "p.csv", "1,5;;Ost;1.5", "1;;Ost;2.5")
    assert read_with_schema(points, table(target=own)).y.tolist() == [1.5, 2.5]


def test_a_dialect_is_part_of_what_peers_compare():
    """Without one the canonical text is that of before, so folders and swarms of before go on."""
    written = canonical_parameters(task(TABLE), (), None)
    for name in ("dialect", "decimal", "dates", "thousands"):
        assert name not in written
    texts = {
        canonical_parameters(task({**TABLE, "dialect": {"decimal": mark}}), (), None)
        for mark in ("comma", "point")
    }
    assert len(texts) == 2


def test_a_dialect_survives_its_file_and_is_told_in_words():
    marks = 'decimal = "comma", thousands = "point", dates = "day-first", missing = ["-", "k.A.", "9999"]'
    assert toml(plain(GERMAN)) == f"{{ {marks} }}"
    assert table().dialect == GERMAN
    assert described(GERMAN) == (
        "decimals with a comma; thousands with a point; dates day first; no value: '-', 'k.A.', '9999'"
    )
    assert described(PLAIN) == ""


@cases("""
    said => line
    {"decimal": ","} => data.schema.dialect.decimal = ',' is refused; allowed: 'point' or 'comma'
    {"thousands": "point"} => data.schema.dialect.thousands = 'point' is refused beside decimal = 'point';
        allowed: another
    {"encoding": "utf-7"} => data.schema.dialect.encoding = 'utf-7' is refused; allowed: 'cp1250' or
    {"missing": ["a", "a"]} => data.schema.dialect.missing = ['a', 'a'] is refused; allowed: 0 to 100
    {"comma": true} => 'data.schema.dialect.comma' is not a known key
""")
def test_a_bad_dialect(said, line):
    assert told(schema, {**TABLE, "dialect": json.loads(said)}).startswith(line)


def test_a_check_warns_of_a_category_that_looks_like_numbers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    values = [*(f"{row},5" for row in range(36)), *"0123"]
    columns = [{"name": "crp", "kind": "category", "values": values}]
    about = {
        "task": {"name": "t"},
        "model": {"class": "node.models:Linear", "args": {"inputs": 41, "outputs": 2}},
        "data": {"schema": {"kind": "table", "target": TARGET, "columns": columns}},
    }
    (tmp_path / "task.toml").write_text(toml_file(about))
    looks = "crp: looks like numbers such as '0,5', but the task's schema calls it a category"
    for cell, warned in (
        (lambda row: f"{row},5", True),
        (lambda row: row % 4, False),  # four codes may be a category
        (lambda row: f"{row % 4},5", True),  # codes have no decimal commas
    ):
        rows = (f"{cell(row)};{'ja' if row % 2 else 'nein'}" for row in range(40))
        write(tmp_path / "r.csv", *rows, header="crp;y")
        assert check.main(["task.toml", "--data", "r.csv"]) == 0
        said = capsys.readouterr().out
        assert (looks in said, "warning  data: " in said) == (warned, warned)
