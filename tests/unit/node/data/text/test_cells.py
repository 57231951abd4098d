"""One rule defines a number: a cell has the same meaning for every reader and in every format."""

import gzip
import math
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from node.check import __main__ as check
from node.data.sources import read_source
from node.data.text.cells import LARGEST, MISSING_WORDS, all_numbers, is_value, no_numbers, number
from node.init.look import look
from node.predict import rows
from node.system.errors import ConfigError
from node.task.load import read_task
from node.task.scaling import by_rows
from tests.own_data import told
from tests.unit.node.cases import toml_file

STD = 1000.0
FULL_WIDTH = "\uff11"
NUMBERS = {
    **dict.fromkeys(("7", "+7", " 7", "\t7 ", "\u00a07", "007", "7."), 7.0),
    "-7": -7.0,
    ".5": 0.5,
    "-0.25": -0.25,
    "1e3": 1000.0,
    "1E+3": 1000.0,
    "1.5e-1": 0.15,
}
NONE = [
    *(
        "1_000",
        "1_0.5",
        "1e1_0",
        "_1",
        FULL_WIDTH,
        "1\uff12",
        "\u0663",
        "\xb2",
        "\xbd",
        "\u22121",
        "1 000",
        "1'000",
    ),
    *("inf", "-inf", "+Infinity", "INF", "-nan", "NAN", "+NaN", "1e31", "-1e31", "1e400", "0x10", "1e", "e3"),
    *("--1", "1.2.3", ".", "+", "1j", "true", "12%", "seven"),
]
TOLD = {"1 000", "1'000", ".", "NAN", "true", "seven"}
"""A mark for thousands, and words for no value, which node.init finds and says so in the schema."""
ABSENT = sorted(MISSING_WORDS)
TABLE = {
    "kind": "table",
    "target": {"name": "y", "kind": "classes", "values": ["0", "1"]},
    "columns": [
        {"name": "a", "kind": "number", "mean": 0.0, "std": STD, "missing": True},
        {"name": "b", "kind": "number", "mean": 0.0, "std": STD},
    ],
}
SECTIONS = {
    "task": {"name": "t"},
    "model": {"class": "node.models:Linear", "args": {"inputs": 3, "outputs": 2}},
}
WITH = read_task({**SECTIONS, "data": {"schema": TABLE}})
PLAIN_SECTIONS = {**SECTIONS, "model": {**SECTIONS["model"], "args": {"inputs": 2, "outputs": 2}}}
PLAIN = read_task(PLAIN_SECTIONS)
ROWS = 30


def cells(cell):
    """Returns the cells of column a: one is `cell`, the others are all different."""
    return [str(place + 0.5) for place in range(ROWS - 1)] + [cell]


def written(folder, how, cell):
    """Writes a file of columns a, b and y; the last row has `cell` in column a."""
    columns = {"a": cells(cell), "b": ["1.5", "2.5"] * (ROWS // 2), "y": ["0", "1"] * (ROWS // 2)}
    lines = ["a;b;y", *(";".join(row) for row in zip(*columns.values(), strict=True))]
    text = ("\n".join(lines) + "\n").encode()
    path = folder / f"rows.{how}"
    match how:
        case "csv":
            path.write_bytes(text)
        case "csv.gz":
            path.write_bytes(gzip.compress(text))
        case "parquet":
            pq.write_table(pa.table({**columns, "b": [1.5, 2.5] * (ROWS // 2)}), path)
    return path


def own_units(x):
    """Returns the last row's value; NaN if the feature beside it marks it as missing."""
    return math.nan if x[-1, 1] else float(x[-1, 0]) * STD


def guessed(path):
    """Returns node.init's guess: the column's mean reveals the cell's value."""
    columns = {column.name: column for column in look(path, "y", "classes", (), by_rows).schema.columns}
    if "a" not in columns or columns["a"].kind != "number":
        raise ConfigError("a is no column of numbers")
    others = sum(map(float, cells("0")[:-1]))
    return math.nan if columns["a"].missing else columns["a"].mean * ROWS - others


READERS = {
    "trained without a schema": lambda path: float(read_source(path, PLAIN).x[-1, 0]),
    "predicted without a schema": lambda path: float(rows.read_rows(path, PLAIN, 2, (2,)).x[-1, 0]),
    "trained with a schema": lambda path: own_units(read_source(path, WITH).x),
    "predicted with a schema": lambda path: own_units(rows.read_rows(path, WITH, 2, (3,)).x),
    "guessed": guessed,
}
ALLOWS_MISSING = {"trained with a schema", "predicted with a schema", "guessed"}


@pytest.fixture(params=READERS)
def reader(request):
    return request.param


@pytest.fixture(params=["csv", "csv.gz", "parquet"])
def how(request):
    return request.param


def read(reader, path):
    """Returns the number that a reader made of the last row's cell; None if it refused the file."""
    try:
        return READERS[reader](path)
    except ConfigError:
        return None


def test_what_is_a_number_is_one_everywhere(tmp_path, reader, how):
    found = {cell: read(reader, written(tmp_path, how, cell)) for cell in NUMBERS}
    rounding = 10.0 if reader == "guessed" else 1e-3  # a mean has few digits, times the rows
    assert found == pytest.approx(NUMBERS, abs=rounding, rel=0.1 if reader == "guessed" else 1e-6)


def test_what_is_none_is_none_anywhere(tmp_path, reader, how):
    cells = [cell for cell in NONE if reader != "guessed" or cell not in TOLD]
    found = {cell: read(reader, written(tmp_path, how, cell)) for cell in cells}
    assert found == dict.fromkeys(cells)


def test_no_value_is_no_value_with_a_schema_and_refused_without(tmp_path, reader, how):
    for cell in ABSENT:
        found = read(reader, written(tmp_path, how, cell))
        assert (found is not None and math.isnan(found)) is (reader in ALLOWS_MISSING), cell
        assert (found is None) is (reader not in ALLOWS_MISSING), cell


@pytest.mark.parametrize("sections", [{**SECTIONS, "data": {"schema": TABLE}}, PLAIN_SECTIONS])
def test_a_check_says_what_training_would(tmp_path, monkeypatch, capsys, sections):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.toml").write_text(toml_file(sections))
    for cell in ("1e3", FULL_WIDTH, "1_000", "inf"):
        check.main(["task.toml", "--data", str(written(tmp_path, "csv", cell))])
        found = [line for line in capsys.readouterr().out.splitlines() if " data: " in line]
        assert [line.split()[0] for line in found] == ["ok" if cell in NUMBERS else "problem"], cell


def test_the_rule_itself():
    assert {cell: number(cell) for cell in NUMBERS} == NUMBERS
    assert {cell: number(cell) for cell in (*NONE, *ABSENT)} == dict.fromkeys((*NONE, *ABSENT))
    assert (number("1e30"), number("-1e30")) == (LARGEST, -LARGEST)
    header = {cell: is_value(cell) for cell in ("1", "nan", "", "age", "1_0")}
    assert [cell for cell, value in header.items() if value] == ["1", "nan"]


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i8", "u1", "?"])
def test_arrays_have_the_same_rule(kind):
    dtype = np.dtype(kind)
    values = np.array([0, 1], dtype)
    assert no_numbers(values).tolist() == [False, False]
    assert all_numbers(values)
    assert all_numbers(values[:0])
    if dtype.kind == "f":
        strange = np.array([np.nan, np.inf, -np.inf], dtype)
        assert no_numbers(strange).all()
        assert not any(all_numbers(np.array([0, value, 1], dtype)) for value in strange)
    if kind in {"f4", "f8"}:
        large = np.array([1e29, -1e29, 1.1e30, -2e30], dtype)
        assert no_numbers(large).tolist() == [False, False, True, True]
        assert all_numbers(large[:2])
        assert not any(all_numbers(large[place : place + 1]) for place in (2, 3))


@pytest.mark.parametrize("endless", [b"1" * (1 << 20), b'"\n",' * (1 << 18)])
@pytest.mark.parametrize("task", [PLAIN, WITH])
def test_a_packed_row_without_an_end_is_not_unpacked(tmp_path, task, endless):
    """A file of some 100 kB, whose second row is 64 MiB long."""
    path = tmp_path / "rows.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"a,b,y\n1.5,2,0\n1,")
        for _ in range(64):
            file.write(endless)
    tracemalloc.start()
    try:
        assert " cannot be read: " in told(read_source, path, task)
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()
