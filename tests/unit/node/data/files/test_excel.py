"""Workbooks: what their cells become, and what is refused before it is unpacked."""

import datetime
import zipfile

import openpyxl
import pytest

from node.data.files import excel
from node.data.files.csv_and_parquet import Limits, read_frame
from node.data.reading import read_with_schema
from node.init.asked import Asked
from node.init.look import look
from node.task.dialect import Dialect
from node.task.scaling import by_rows
from tests.own_data import told


def book(path, *rows, sheets=()):
    made = openpyxl.Workbook()
    made.active.title = "Labor"
    for row in rows:
        made.active.append(row)
    for name, content in sheets:
        other = made.create_sheet(name)
        for row in content:
            other.append(row)
    made.save(path)
    return path


def plain(frame):
    return {name: cells.to_pylist() for name, cells in frame.columns.items()}


def test_cells_of_every_kind(tmp_path):
    moment = datetime.datetime(2023, 7, 25, 10, 30)  # noqa: DTZ001 - Excel has no time zones
    path = book(
        tmp_path / "r.xlsx",
        ["number", "text", "truth", "day", "moment", "clock", "whole"],
        [5.3, "Gö", True, moment.date(), moment, datetime.time(10, 15), 7.0],
        [],
        ["k.A.", None, False, "25.07.2023", None, None, 8],
    )
    assert plain(read_frame(path, None)) == {
        "number": ["53e-1", "k.A."],
        "text": ["Gö", None],
        "truth": ["true", "false"],
        "day": ["2023-07-25", "25.07.2023"],
        "moment": ["2023-07-25T10:30:00", None],
        "clock": ["10:15:00", None],
        "whole": ["7", "8"],
    }
    assert list(read_frame(path, ["whole", "text"]).columns) == ["whole", "text"]


def test_numbers_and_text_with_decimal_commas_in_one_column(tmp_path):
    rows = [[(5.3, "6,1", "k.A.", 7)[row % 4], ("ja", "nein")[row % 2]] for row in range(40)]
    path = book(tmp_path / "r.xlsx", ["lab", "y"], *rows)
    found = look(path, "y", "auto", (), by_rows)
    assert found.schema.written == Dialect("comma", missing=("k.A.",))
    x = read_with_schema(path, found.schema).x
    column = found.schema.columns[0]
    scaled = [(value - column.mean) / column.std for value in (5.3, 6.1, column.mean, 7.0)]
    assert x[:4, 0].tolist() == pytest.approx(scaled, abs=1e-5)


def test_a_sheet_by_its_name(tmp_path):
    content = [["a", "y"], *([row % 7, ("ja", "nein")[row % 2]] for row in range(30))]
    path = book(tmp_path / "r.xlsx", ["nothing here"], sheets=[("Werte", content)])
    found = look(path, None, "auto", (), by_rows, Asked(sheet="Werte"))
    assert found.schema.dialect == Dialect(sheet="Werte")
    assert read_with_schema(path, found.schema).x.shape == (30, 1)
    line = told(look, path, None, "auto", (), by_rows, Asked(sheet="Werk"))
    assert line.endswith("has no sheet 'Werk'; it has 'Labor, Werte'")


def test_many_rows_come_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("node.data.files.csv_and_parquet._BATCH_ROWS", 64)
    path = book(tmp_path / "r.xlsx", ["a", "b"], *([row, f"w{row % 3}"] for row in range(500)))
    frame = read_frame(path, None)
    assert frame.columns["a"].to_pylist() == [str(row) for row in range(500)]
    assert frame.columns["b"].to_pylist()[-1] == "w1"
    assert "has more than 99 rows" in told(read_frame, path, None, Limits(99, 1 << 30))


def test_a_cell_beyond_the_header(tmp_path):
    path = book(tmp_path / "r.xlsx", ["a", "b"], [1, 2], [3, 4, 5])
    assert told(read_frame, path, None).endswith(
        "cannot be read: a row has the cell '5' to the right of the last column's name"
    )


def packed(path, size, name):
    """Makes an archive whose part `name` unpacks to `size` bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b" " * size)
    return path


def test_what_a_workbook_would_unpack_to_is_checked_first(tmp_path, monkeypatch):
    bomb = packed(tmp_path / "b.xlsx", 20 << 20, "xl/worksheets/sheet1.xml")
    assert bomb.stat().st_size < 1 << 16
    assert told(read_frame, bomb, None, Limits(10**6, 10 << 20)).endswith(
        f"it has {20 << 20} bytes of sheets, unpacked; allowed: at most {10 << 20}"
    )
    monkeypatch.setattr(excel, "MOST_HELD_BYTES", 1 << 20)
    texts = packed(tmp_path / "t.xlsx", 2 << 20, "xl/sharedStrings.xml")
    assert told(read_frame, texts, None).endswith(
        f"it has {2 << 20} bytes of texts and styles, unpacked; allowed: at most {1 << 20}"
    )


def test_what_is_no_workbook(tmp_path):
    path = tmp_path / "r.xlsx"
    packed(path, 10, "readme.txt")
    for content in (b"", b"no workbook", b"PK\x03\x04" + b"x" * 40, path.read_bytes()):
        path.write_bytes(content)
        assert "cannot be read: it is no workbook of Excel" in told(read_frame, path, None)


def with_sheet(path, change):
    """Changes the bytes of a workbook's sheet."""
    name = "xl/worksheets/sheet1.xml"
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in {**parts, name: change(parts[name])}.items():
            archive.writestr(part, content)
    return path


def test_a_damaged_sheet_and_one_whose_entities_would_unfold(tmp_path):
    """The "billion laughs" in a sheet end in one line."""
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "ha"}">' for n in range(10)).encode()
    path = book(tmp_path / "r.xlsx", ["a", "b"], ["x", 2], ["y", 4])
    with_sheet(path, lambda sheet: b"<!DOCTYPE x [%s]>" % laughs + sheet.replace(b"<v>2</v>", b"<v>&l9;</v>"))
    assert "cannot be read: " in told(read_frame, path, None)
    path = book(tmp_path / "r.xlsx", ["a", "b"], *([row, row] for row in range(50)))
    with_sheet(path, lambda sheet: sheet[: len(sheet) // 2])
    assert "cannot be read: a sheet of it is damaged" in told(read_frame, path, None)
