"""A dialect is each peer's own: --cells says how a node's file is written, node.check finds out how."""

import numpy as np
import pytest

from node.agree.survey import survey
from node.agree.task_file import agreed_text
from node.check import __main__ as check
from node.check.own_cells import own_cells
from node.data.dataset import load_dataset
from node.data.sources import read_source
from node.init.task_file import plain
from node.options import parse_arguments
from node.predict.rows import read_rows
from node.task.dialect import Dialect, cells_table, cells_text
from node.task.load import read_task, with_cells
from node.task.parameters import canonical_parameters
from node.training.model_file import task_table
from protocol.wire.messages import Base
from tests.own_data import told
from tests.unit.node.cases import cases, toml_file

SWISS = Dialect("point", "apostrophe", "day-first", ("k.A.",))
COLUMNS = [
    {"name": "lab", "kind": "number", "mean": 5000.0, "std": 3000.0, "missing": True},
    {"name": "dose", "kind": "number", "mean": 5.0, "std": 3.0, "decimal": "comma"},
    {"name": "seen", "kind": "date", "mean": 19000.0, "std": 100.0},
]
TARGET = {"name": "stay", "kind": "number", "mean": 5000.0, "std": 3000.0}
HEADER = ("lab", "dose", "seen", "stay")
ROWS = [(137.25 * row, 0.5 * row, (1 + row % 28, 1 + row % 12), 211.5 * row) for row in range(1, 41)]
AMERICAN = "decimal=point,thousands=comma,dates=month-first,missing=-"


def table(dialect=SWISS):
    data = {"schema": {"kind": "table", "target": TARGET, "columns": COLUMNS, "dialect": plain(dialect)}}
    model = {"class": "node.models:Linear", "args": {"inputs": 4, "outputs": 1}}
    return {"task": {"name": "t"}, "model": model, "data": data}


def task(cells=None, dialect=SWISS):
    whole = table(dialect)
    more = {} if cells is None else {"cells": cells_table(cells, "--cells")}
    return read_task({**whole, "data": {**whole["data"], **more}})


def swiss(path, rows=ROWS):
    def cells(lab, dose, seen, stay):
        number = lambda value: f"{value:,.2f}".replace(",", "'")  # noqa: E731
        lab = "k.A." if lab == ROWS[3][0] else number(lab)
        return (lab, str(dose).replace(".", ","), f"{seen[0]}.{seen[1]}.2023", number(stay))

    lines = ("\t".join(cells(*row)) for row in rows)
    path.write_text("\n".join(["\t".join(HEADER), *lines]) + "\n")
    return path


def american(path, rows=ROWS, mark="/"):
    def cells(lab, dose, seen, stay):
        lab = "-" if lab == ROWS[3][0] else f"{lab:,.2f}"
        return (lab, str(dose), f"{seen[1]}{mark}{seen[0]}{mark}2023", f"{stay:,.2f}")

    lines = ("\t".join(cells(*row)) for row in rows)
    path.write_text("\n".join(["\t".join(HEADER), *lines]) + "\n")
    return path


def test_the_same_rows_in_two_dialects_give_the_same_arrays(tmp_path):
    here, there = swiss(tmp_path / "swiss.tsv"), american(tmp_path / "american.tsv")
    own, other = read_source(here, task()), read_source(there, task(AMERICAN))
    assert np.array_equal(own.x, other.x)
    assert np.array_equal(own.y, other.y)
    assert own.x[:, 1].sum() == 1
    assert "of this, --cells says decimal=point,thousands=comma,dates=month-first,missing=-" in "".join(
        other.report.lines()
    )
    assert "is not a number" in told(read_source, there, task())
    reader = [read_rows(path, one, None, (4,)) for path, one in ((here, task()), (there, task(AMERICAN)))]
    assert np.array_equal(reader[0].x, reader[1].x)
    predicting = with_cells(task(), cells_table(AMERICAN, "--cells"), "--cells")
    assert np.array_equal(read_rows(there, predicting, None, (4,)).y, own.y)


def test_sums_for_an_agreement_read_the_file_so_too(tmp_path):
    columns = [{**column, "low": 0.0, "high": 1e5} for column in COLUMNS]
    target = {**TARGET, "low": 0.0, "high": 1e5}
    whole = table()
    schema = {**whole["data"]["schema"], "columns": columns, "target": target}
    one = read_task({**whole, "data": {"schema": schema}})
    other = with_cells(one, cells_table(AMERICAN, "--cells"), "--cells")
    paths = swiss(tmp_path / "swiss.tsv"), american(tmp_path / "american.tsv")
    sums = [
        survey(path, t.data.own_schema, 2**-10, 1000) for path, t in zip(paths, (one, other), strict=True)
    ]
    assert sums[0].tolist() == sums[1].tolist()


def test_the_split_does_not_depend_on_how_cells_are_read(tmp_path):
    path = tmp_path / "ints.csv"
    lines = (f"{row},{row},2023-01-0{1 + row % 9},{row}" for row in range(60))
    path.write_text("\n".join([",".join(HEADER), *lines]) + "\n")
    draws = [read_source(path, task(cells)).draws.tolist() for cells in (None, AMERICAN, "thousands=none")]
    assert draws[0] == draws[1] == draws[2]
    held = [load_dataset(task(cells), path, None).test_x.tolist() for cells in (None, AMERICAN)]
    assert held[0] == held[1]


def test_nobody_else_is_told(tmp_path):
    own, other = task(AMERICAN), task()
    assert canonical_parameters(own, [], None) == canonical_parameters(other, [], None)
    assert task_table(own) == task_table(other)
    base = Base(1, bytes(32), 3, bytes(32))
    found = [type("Agreed", (), {"task": one})() for one in (own, other)]
    texts = [
        agreed_text(one, each, base, tmp_path / "a.toml")
        for one, each in zip((own, other), found, strict=True)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("written", ["decimal=comma,thousands=none", "missing=-,missing=k. A.,sheet=Blatt 2"])
def test_what_is_said_is_typed_again(written):
    cells = with_cells(task(), cells_table(written, "--cells"), "--cells").data.cells
    assert cells_text(cells).strip("'") == written


@cases("""
    cells => line
    decimal => --cells 'decimal' is refused; allowed: KEY=VALUE,... with keys decimal, thousands, dates
    decimal=comma,decimal=point => --cells 'decimal=comma,decimal=point' is refused; allowed: KEY=VALUE,...
    decimal=dot => --cells: data.cells.decimal = 'dot' is refused; allowed: 'point' or 'comma'
    below=half => --cells: 'data.cells.below' is not a known key; allowed: decimal, thousands, dates
    thousands=point => --cells: data.cells = {'thousands': 'point'} is refused: the point would be for
""")
def test_what_cannot_be_meant_is_refused(cells, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text(toml_file(table()))
    argv = ["--peers", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "--task", "t.toml", "--cells", cells]
    assert told(parse_arguments, argv).startswith(line)


def test_a_task_without_a_dialect_has_none_to_replace():
    plain_task = {"task": {"name": "t"}, "model": table()["model"], "data": {"cells": {"decimal": "comma"}}}
    assert "has no effect: the task has no data.schema of a table" in told(read_task, plain_task)


def found(path, cells=None, dialect=SWISS, fits=False):
    """Returns what a check says about how cells are written: (level, text) of each finding."""
    section = task(cells, dialect).data
    return [(finding.level, finding.text) for finding in own_cells(path, section, fits)]


def test_a_check_names_what_to_type_and_then_nothing_is_left(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text(toml_file(table()))
    path = american(tmp_path / "american.tsv")
    assert check.main(["t.toml", "--data", str(path)]) == 2
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("problem  cells: "))
    assert "this file is not written as the task says: give --cells " in line
    said = line.partition("give --cells ")[2].partition(" to node.check, node.agree and node")[0]
    assert said == "decimal=point,thousands=comma,dates=month-first,missing=k.A.,missing=-"
    assert np.array_equal(read_source(path, task(said)).x, read_source(path, task(AMERICAN)).x)
    assert found(path, said, fits=True) == []
    here = swiss(tmp_path / "swiss.tsv")
    assert found(here, fits=True) == []
    assert "this file is not written as --cells says: give --cells decimal=" in found(here, AMERICAN)[0][1]


def lines(path, *cells, seen="2023-01-31"):
    path.write_text("\n".join(["\t".join(HEADER), *(f"{cell}\t{cell}\t{seen}\t1" for cell in cells)]) + "\n")
    return path


UNGROUPED = Dialect("point", None, None)


@pytest.mark.parametrize(
    ("cells", "fits", "level", "words"),
    [
        (
            ("1.234", "2.345", "3.456", "950"),
            True,
            "warning",
            "give --cells decimal=comma,thousands=point to",
        ),
        (
            ("1.234", "2.345"),
            True,
            "warning",
            (
                "whether the point in '1.234' is for decimals or for thousands; it is for decimals, as the "
                "task says: if that is wrong, say --cells decimal=comma,thousands=point; if it is right, "
                "--cells decimal=point says so"
            ),
        ),
        (
            ("1,234", "2,345"),
            False,
            "problem",
            (
                "is for decimals or for thousands: --cells decimal=comma,thousands=point says decimals, "
                "--cells decimal=point,thousands=comma says thousands"
            ),
        ),
        (("1'234", "5'345"), False, "problem", "give --cells thousands=apostrophe to"),
    ],
)
def test_a_file_that_can_be_read_in_two_ways_is_told_so(tmp_path, monkeypatch, cells, fits, level, words):
    monkeypatch.setitem(COLUMNS[1], "decimal", "point")
    path = lines(tmp_path / "r.tsv", *cells)
    [(found_level, text)] = found(path, None, UNGROUPED, fits)
    assert found_level == level
    assert words in text
    assert not fits or found(path, "decimal=point", UNGROUPED, fits) == []


def test_dates_that_can_be_read_in_two_ways(tmp_path):
    path = lines(tmp_path / "r.tsv", "1", "2", "3", seen="3/4/2023")
    [(level, text)] = found(path, fits=True)
    assert level == "warning"
    assert "which part of '3/4/2023' is the day; it is the first one, as the task says: if that" in text
    [(_, text)] = found(path, "dates=month-first", fits=False)
    assert "is the day: --cells dates=day-first says the first one, --cells dates=month-first the" in text
    assert found(path, "dates=month-first", fits=True) == []


def test_the_names_of_months_and_a_task_whose_mark_for_thousands_is_the_decimal_one_here(tmp_path):
    path = lines(tmp_path / "r.tsv", "1,5", "2,25", "3,75", seen="25. Dezember 2023")
    [(_, text)] = found(path, None, Dialect("point", "comma"))
    assert "give --cells decimal=comma,thousands=none,months=german to" in text


def test_one_column_unlike_the_others_is_named(tmp_path):
    path = swiss(tmp_path / "swiss.tsv")
    path.write_text(path.read_text().replace("lab\tdose", "dose\tlab"))
    [(_, whole), (level, text)] = found(path)
    assert "give --cells decimal=point to" in whole
    assert level == "problem"
    assert text == "column 'lab' has decimals with a comma, unlike the others of this file: write them alike"


def test_what_is_no_table_has_no_cells(tmp_path):
    assert found(tmp_path) == found(tmp_path / "gone.csv") == []
