"""The first rows of a table, as they are written."""

import gzip

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.desk.first_rows import MOST_COLUMNS, FirstRows, first_rows
from node.system.errors import ConfigError

WARD = FirstRows(("age", "k"), (("61", "a"), ("", "b, c")))


def test_text_keeps_its_cells_whatever_separates_them(tmp_path):
    for name, text in (
        ("a.csv", 'age,k\n61,a\n,"b, c"\n7,d\n'),
        ("b.csv", "age;k\r\n61;a\r\n;b, c\r\n7;d\r\n"),
        ("c.tsv", "age\tk\n61\ta\n\n\tb, c\n7\td"),
    ):
        (tmp_path / name).write_bytes(text.encode("utf-16" if name == "c.tsv" else "utf-8"))
        assert first_rows(tmp_path / name, 2) == WARD
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b'age,k\n61,a\n,"b, c"\n'))
    assert first_rows(tmp_path / "d.csv.gz", 2) == WARD
    (tmp_path / "e.csv").write_bytes("k,ü\nä,ß\n".encode("cp1252"))
    assert first_rows(tmp_path / "e.csv", 2) == FirstRows(("k", "ü"), (("ä", "ß"),))


def test_workbooks_and_parquet_are_read_no_further_than_asked(tmp_path):
    book = openpyxl.Workbook()
    for row in (("age", "k"), (61, "a"), (None, "b, c"), (7, "d")):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert first_rows(tmp_path / "a.xlsx", 2) == WARD
    pq.write_table(pa.table({"age": [61, None, 7], "k": ["a", "b, c", "d"]}), tmp_path / "a.parquet")
    assert first_rows(tmp_path / "a.parquet", 2) == WARD


def test_wide_tables_and_long_cells_are_cut_and_short_rows_filled(tmp_path):
    names = [f"c{place}" for place in range(MOST_COLUMNS + 3)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + "x" * 100 + "\n")
    found = first_rows(tmp_path / "a.csv", 5)
    assert (len(found.columns), found.left_out) == (MOST_COLUMNS, 3)
    assert found.rows[0][:2] == ("x" * 57 + "...", "")


def test_what_has_no_rows_of_cells_has_none(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), y=np.arange(3))
    assert first_rows(tmp_path, 5) == first_rows(tmp_path / "a.npz", 5) == FirstRows((), ())
    (tmp_path / "empty.csv").write_text("")
    assert first_rows(tmp_path / "empty.csv", 5) == FirstRows((), ())


@pytest.mark.parametrize("name", ["a.csv.gz", "a.xlsx", "a.parquet", "gone.csv", "a.sav"])
def test_what_cannot_be_read_is_one_line(tmp_path, name):
    if name != "gone.csv":
        (tmp_path / name).write_bytes(b"\x00garbage\xff")
    with pytest.raises(ConfigError, match="data file"):
        first_rows(tmp_path / name, 5)
