"""`python -m node.init --statistics`: a task for statistics alone, whose section follows from the columns."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence

from node.init.guess import LEAST_ROWS
from node.init.look import Look
from node.init.options import InitOptions
from node.init.survival import DURATION, EVENT, NO_DURATION
from node.init.task_file import MARK, data_lines
from node.init.write import save
from node.system.errors import ConfigError
from node.system.toml_text import toml
from node.task.data_schema import (
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    Column,
    TableSchema,
    Target,
    VectorColumn,
)
from node.task.load import read_task

_MOST_GROUPS = 6
_FEW = 3  # columns of a formula


def write_statistics(options: InitOptions, found: Look) -> list[str]:
    """Writes the task file; returns the lines to print. ConfigError: no file."""
    schema = found.schema
    if not isinstance(schema, TableSchema):
        raise ConfigError(f"--statistics is refused: {options.data} has no columns; allowed: a table")
    text = "\n".join(_lines(options.name, found, schema)) + "\n"
    read_task(tomllib.loads(text))
    save(options.out, text)
    marked = sum(MARK in line for line in text.splitlines()) - 1
    return [
        *found.report.lines(),
        "",
        f"{options.out} is written: statistics alone, {marked} lines tell something about your data",
        f"next: python -m node.check {options.out} --data {options.data}",
    ]


def _lines(name: str, found: Look, schema: TableSchema) -> Iterator[str]:
    yield "# A task for python -m node.stats, written by python -m node.init, the same at every member:"
    yield "#   python -m node.stats FILE.toml --data OWN_DATA --peers HOST:PORT,HOST:PORT,HOST:PORT"
    yield "# python -m node.check reports what would fail."
    yield "#"
    yield "# BEFORE YOU SHARE IT: lines with the mark"
    yield f"#   {MARK}"
    yield "# reveal something about the data that it was made from, and no noise covers them. They contain:"
    yield "# - which columns there are, ranges of numbers and dates, outward to one digit"
    yield f"# - names of categories that {LEAST_ROWS} rows or more have"
    yield "# Replace what must stay secret by public values (a published code list, ranges from a textbook)."
    yield ""
    yield "[task]"
    yield f"name = {toml(name)}"
    yield ""
    yield "[privacy]"
    yield 'mechanism = "none"        # exact totals are opened; "dp-sgd": table one alone, with noise'
    yield ""
    asked = [column for column in schema.columns if not isinstance(column, VectorColumn)]
    yield from _section([*asked, schema.target])
    yield from data_lines(found)


def _section(columns: Sequence[Column | Target]) -> Iterator[str]:
    """Yields what can be asked of these columns; all but the groups as comments."""
    levels = {item.name or "": _levels(item) for item in columns}
    groups = [name for name, count in levels.items() if 2 <= count <= _MOST_GROUPS]
    groups.sort(key=lambda name: EVENT.search(name) is not None)  # an event makes groups last
    binary = [name for name, count in levels.items() if count == 2]
    numbers = [name for name, count in levels.items() if not count]
    yield "# Take away the # of what you want. docs/statistics.md has the same in R."
    yield "[statistics]"
    if groups:
        yield f"by = {toml(groups[0])}    # the groups of table one; allowed: {', '.join(groups)}"
    if len(groups) > 1:
        yield f"# tables = {toml([groups[:2]])}"
    event = next((name for name in binary if EVENT.search(name)), next(reversed(binary), None))
    if event is not None:
        terms = [name for name in (*numbers[:_FEW], *groups) if name != event][: _FEW + 1]
        formula = f"{_quoted(event)} ~ {' + '.join(map(_quoted, terms))}"
        yield f'# models = [{{ formula = {toml(formula)}, family = "binomial" }}]'
    time = next((name for name in numbers if DURATION.search(name) and not NO_DURATION.search(name)), None)
    if event is not None and time is not None:
        by = f", by = {toml(groups[0])}" if groups[0] != event else ""
        yield f"# survival = [{{ time = {toml(time)}, event = {toml(event)}{by}, grid = 1 }}]"
        yield "#   grid: the step of the times, in their unit"
    yield "# per_site = true         # a column for each member in table one, which all must want"
    yield ""


def _levels(item: Column | Target) -> int:
    """Returns how many levels a column has; 0: numbers."""
    match item:
        case BooleanColumn():
            return 2
        case CategoryColumn() | ClassTarget():
            return len(item.values)
    return 0


def _quoted(name: str) -> str:
    """Returns a column as a formula has it."""
    return name if name.replace("_", "").replace(".", "").isalnum() else f"`{name}`"
