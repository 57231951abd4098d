"""Whether a node's own file is written as the task says, and the --cells that reads it if it is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from node.check.finding import Finding
from node.data.files.csv_and_parquet import read_frame
from node.data.files.formats import TABLES, kind_of
from node.init.dialect import Unlike, unlike
from node.system.errors import ConfigError, shown
from node.task.data_schema import TableSchema
from node.task.dialect import AS_THE_TASK, OTHER_MARK, Cells, Decimal, cells_text
from node.task.sections import DataSection

_CELLS = "cells"


def own_cells(path: Path, section: DataSection, fits: bool) -> Iterator[Finding]:
    """Yields what `path` gives away about its cells, where the task, or --cells, says otherwise.

    `fits`: whether all cells can be read as they are said to be written. Then only what would be read as
    another value is told, and nothing of what the owner has said himself.
    """
    schema = section.own_schema
    if not isinstance(schema, TableSchema):
        return
    try:
        if kind_of(path) not in TABLES:
            return
        names = [part.name or "" for part in schema.numbers]
        found = unlike(read_frame(path, names, dialect=schema.written), schema)
    except ConfigError:  # the data finding says it
        return
    said = section.cells or AS_THE_TASK
    if fits:  # leaves what is in doubt although all cells can be read
        if said.decimal is not None:
            found = replace(found, cells=AS_THE_TASK, odd={}, marks="")
        if found.cells.decimal is None:
            found = replace(found, cells=AS_THE_TASK)
        if said.dates is not None:
            found = replace(found, days="")
    for text in _told(found, said, schema, fits):
        yield Finding("warning" if fits else "problem", _CELLS, text)


def _told(found: Unlike, said: Cells, schema: TableSchema, fits: bool) -> Iterator[str]:
    if found.cells != AS_THE_TASK:
        yield (
            f"this file is not written as {'--cells' if said != AS_THE_TASK else 'the task'} says: give "
            f"--cells {_with(said, found.cells)} to node.check, node.agree and node, which is for this file "
            "alone, or write the file as the others do"
        )
    for name, how in found.odd.items():
        yield f"column {shown(name)} has {how}, unlike the others of this file: write them alike"
    if found.marks:
        yield _of_marks(found.marks, said, schema, fits)
    if found.days:
        yield _of_days(found.days, said, schema, fits)


def _of_marks(word: str, said: Cells, schema: TableSchema, fits: bool) -> str:
    mark: Decimal = "comma" if "," in word else "point"
    other, kept = OTHER_MARK[mark], schema.written.decimal
    fractions = _with(said, Cells(decimal=mark, thousands=other))
    thousands = _with(said, Cells(decimal=other, thousands=mark))
    doubt = f"nothing in this file says whether the {mark} in {shown(word)} is for decimals or for thousands"
    if not fits:
        return f"{doubt}: --cells {fractions} says decimals, --cells {thousands} says thousands"
    read, wrong = ("decimals", thousands) if kept == mark else ("thousands", fractions)
    return f"{doubt}; it is for {read}, {_confirmed(wrong, _with(said, Cells(decimal=kept)))}"


def _of_days(word: str, said: Cells, schema: TableSchema, fits: bool) -> str:
    day, month = (_with(said, Cells(dates=order)) for order in ("day-first", "month-first"))
    doubt = f"nothing in this file says which part of {shown(word)} is the day"
    if not fits:
        return f"{doubt}: --cells {day} says the first one, --cells {month} the second"
    if schema.written.dates == "day-first":
        return f"{doubt}; it is the first one, {_confirmed(month, day)}"
    return f"{doubt}; it is the second one, {_confirmed(day, month)}"


def _confirmed(wrong: str, right: str) -> str:
    return f"as the task says: if that is wrong, say --cells {wrong}; if it is right, --cells {right} says so"


def _with(said: Cells, more: Cells) -> str:
    return cells_text(replace(said, **more.given))
