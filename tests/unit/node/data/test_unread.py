"""The columns of a file that a task does not use, of every kind of table."""

import gzip

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.data.unread import unread_columns
from tests.own_data import COLUMNS, HEADER, TABLE, schema

NAMES = ("id", "straße", *(column["name"] for column in COLUMNS), "outcome")
LINE = ";".join(NAMES) + "\n" + ";".join("1" * len(NAMES)) + "\n"


def as_text(path):
    path.write_text(LINE)


def as_old_text(path):
    path.write_bytes(LINE.encode("cp1252"))


def packed(path):
    path.write_bytes(gzip.compress(LINE.encode()))


def as_parquet(path):
    pq.write_table(pa.table({name: ["1"] for name in NAMES}), path)


def as_workbook(path):
    book = openpyxl.Workbook()
    book.active.append(list(NAMES))
    book.save(path)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.csv", as_text),
        ("b.csv", as_old_text),
        ("c.csv.gz", packed),
        ("d.parquet", as_parquet),
        ("e.xlsx", as_workbook),
    ],
)
def test_a_header_has_names_that_the_schema_does_not_use(tmp_path, name, write):
    write(tmp_path / name)
    written = schema({**TABLE, "dialect": {"encoding": "cp1252"}})
    assert unread_columns(tmp_path / name, written) == ("id", "straße")


def test_what_is_no_table_and_what_cannot_be_read_has_none(tmp_path):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "broken.parquet").write_bytes(b"no parquet")
    for name in ("empty.csv", "broken.parquet", "gone.csv", "x.npz", "folder"):
        assert unread_columns(tmp_path / name, schema(TABLE)) == ()
    (tmp_path / "used.csv").write_text(HEADER.removeprefix("id,") + "\n")
    assert unread_columns(tmp_path / "used.csv", schema(TABLE)) == ()


def test_the_column_that_says_whose_a_row_is_is_used(tmp_path):
    (tmp_path / "rows.csv").write_text("who,age,ward,smoker,seen,note,outcome\n")
    assert unread_columns(tmp_path / "rows.csv", schema(TABLE), "who") == ("note",)
    assert unread_columns(tmp_path / "rows.csv", schema(TABLE)) == ("who", "note")
