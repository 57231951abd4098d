import datetime
import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.data.files.csv_and_parquet import Limits, read_frame
from node.data.files.csv_head import separator_of
from node.data.remedies import without_columns
from tests.own_data import told


@pytest.fixture
def parquet(tmp_path):
    def write(**columns):
        path = tmp_path / "rows.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    return write


def plain(frame):
    return {name: cells.to_pylist() for name, cells in frame.columns.items()}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.tsv.gz", "rows.txt"])
def test_a_text_table_with_any_separator_packed_or_not(write, separator, name):
    text = '\ufeff a ;b;y\n1;x, y;0\n\n2;"q\nr";1\n3;;1\n'.replace(";", separator)
    if separator == ",":
        text = text.replace("x, y", '"x, y"')
    data = text.encode()
    path = write(gzip.compress(data) if name.endswith(".gz") else data, name)
    frame = read_frame(path, None)
    assert frame.rows == 3
    assert plain(frame) == {"a": ["1", "2", "3"], "b": ["x, y", "q\nr", ""], "y": ["0", "1", "1"]}
    assert all(pa.types.is_dictionary(cells.type) for cells in frame.columns.values())


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b;c\n1,2;3\n", ","),
        ("a;b;c\n1,5;2,5;3\n1,5;2,5;3\n", ";"),
        ('"a,b";c\n"1,2,3";2\n', ";"),
        ("a|b\n1|2", "|"),
        ("age (y, m, d);ward\n1;2\n3;4\n", ";"),
        ("one column\n1\n", ","),
        ("", ","),
    ],
)
def test_the_separator_is_the_one_that_makes_even_rows(text, separator):
    assert separator_of(text) == separator


def test_only_the_columns_that_are_wanted_are_read_and_no_row_of_white_space(write, parquet):
    path = write("a,b,y\n1,2,0\n  \n\n3,4,1\n")
    assert plain(read_frame(path, ["y", "a"])) == {"y": ["0", "1"], "a": ["1", "3"]}
    assert list(read_frame(parquet(a=[1, 2], b=[[1], [2]], y=[0, 1]), ["y", "a"]).columns) == ["y", "a"]
    for wanted in (["c"], ["c", "d"]):
        assert told(read_frame, path, ["a", *wanted]).endswith(without_columns(wanted, ["a", "b", "y"]))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", " is empty; allowed: a header line, then rows of numbers"),
        ("a,b\n", " has 0 rows; at least 2 are needed, to train and to validate"),
        ("1,2\n3,4\n", " has no header: its first line is '1,2'; put the names there"),
        ("a,a\n1,2\n3,4\n", " has two columns named 'a'; each needs a name of its own"),
        (
            "a\n1\n2\n",
            " has one column, 'a'; allowed: features and a target, commas, semicolons, tabs, bars ",
        ),
        ("a,b\n1,2\n1,2,3\n", " cannot be read: CSV parse error: Row #3: Expected 2 columns, got 3: 1,2,3"),
        (b"a,b\n\xff,2\n", " cannot be read: it is not UTF-8 text ('utf-8' codec can't decode byte 0xff"),
        (b"a,b\n" + b"1,2\n" * 300_000 + b"\xff,2\n", " cannot be read: it is not UTF-8 text"),
    ],
)
def test_a_bad_text_table(write, content, line):
    assert line in told(read_frame, write(content, "r.csv"), None)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (
            b'a,b\n1,2\n1,"' + b"x" * (30 << 20),
            "a row of more than 8388608 bytes, or a quotation mark without its",
        ),
        (b"a" * (1 << 21), "its first line is longer than 1048576 bytes"),
    ],
)
def test_a_row_without_an_end_is_refused_before_it_is_in_memory(write, content, line):
    assert line in told(read_frame, write(gzip.compress(content), "long.csv.gz"), None)


def test_a_file_that_is_not_there_or_was_cut_off(tmp_path, write):
    assert told(read_frame, tmp_path / "no.csv", None).endswith("cannot be read: No such file or directory")
    cut = write(gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)[:-20], "cut.csv.gz")
    assert "cannot be read: Compressed file ended before" in told(read_frame, cut, None)
    assert "cannot be read: Not a gzipped file" in told(read_frame, write("a,b\n", "no.csv.gz"), None)


def test_rows_and_bytes_are_counted_while_a_file_is_read(write):
    bomb = write(gzip.compress(b"a,b\n" + b"1,2\n" * 3_000_000), "bomb.csv.gz")
    assert bomb.stat().st_size < 50_000
    for limits, most in (
        (Limits(1_000_000, 1 << 30), "1000000 rows"),
        (Limits(10**9, 1 << 20), "1048576 bytes"),
    ):
        line = f" has more than {most}; allowed: at most that many; take a part of it"
        assert told(read_frame, bomb, None, limits).endswith(line)


def test_parquet_of_every_kind_of_value(parquet):
    moment = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC)
    frame = read_frame(
        parquet(
            number=[1.5, None],
            whole=pa.array([1, 2], pa.int8()),
            text=["a", None],
            coded=pa.array(["a", "b"]).dictionary_encode(),
            truth=[True, False],
            day=[datetime.date(2026, 1, 2)] * 2,
            moment=[moment] * 2,
            listed=[[1], [2]],
            named=[["a"], ["b"]],
        ),
        None,
    )
    assert (frame.rows, frame.unusable) == (2, {"named": "list<element: string>"})
    assert frame.vectors["listed"].to_pylist() == [[1], [2]]
    assert plain(frame)["text"] == ["a", None]
    assert set(frame.columns) == {"number", "whole", "text", "coded", "truth", "day", "moment"}


def test_a_parquet_file_is_measured_by_its_head(parquet):
    """What the head forbids is not read."""
    path = parquet(a=[1.0, 2.0] * 500, y=[0, 1] * 500)
    assert "has more than 100 bytes" in told(read_frame, path, None, Limits(10**6, 100))
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)  # no page can be read any more
    path.write_bytes(content)
    assert "cannot be read" in told(read_frame, path, None)
    assert "has more than 999 rows" in told(read_frame, path, None, Limits(999, 1 << 30))


def test_text_in_parquet_does_not_unfold(parquet):
    path = parquet(a=["x" * 100_000] * 500, y=[0, 1] * 250)
    frame = read_frame(path, None, Limits(10**6, 1 << 20))
    assert frame.columns["a"].nbytes < 1 << 18


def test_a_bad_parquet_file(write, parquet):
    bad = told(read_frame, write("x" * 99, "r.parquet"), None)
    assert "cannot be read: Parquet magic bytes not found" in bad
    assert "has 1 rows" in told(read_frame, parquet(a=[1], y=[2]), None)
