"""`python -m node.init --statistics`: a task for statistics alone, whose section follows from the columns."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence

from node.init.asked import NONE, AskedStatistics
from node.init.guess import LEAST_ROWS
from node.init.look import Look
from node.init.options import InitOptions
from node.init.survival import DURATION, EVENT, NO_DURATION
from node.init.task_file import MARK, data_lines
from node.init.write import save
from node.jobs.statistics.survival import MOST_TIMES
from node.system.errors import ConfigError
from node.system.toml_text import toml
from node.task.data_schema import (
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    Column,
    NumberColumn,
    NumberTarget,
    TableSchema,
    Target,
    VectorColumn,
)
from node.task.load import read_task
from node.task.statistics import Family

_MOST_GROUPS = 6
_FEW = 3  # columns of a formula


def statistics_text(options: InitOptions, found: Look) -> str:
    """Returns the text of the task file. Raises ConfigError if the data are no table."""
    if not isinstance(found.schema, TableSchema):
        raise ConfigError(f"--statistics is refused: {options.data} has no columns; allowed: a table")
    text = "\n".join(_lines(options, found, found.schema)) + "\n"
    read_task(tomllib.loads(text))
    return text


def write_statistics(options: InitOptions, found: Look) -> list[str]:
    """Writes the task file; returns the lines to print. ConfigError: no file."""
    text = statistics_text(options, found)
    save(options.out, text)
    marked = sum(MARK in line for line in text.splitlines()) - 1
    return [
        *found.report.lines(),
        "",
        f"{options.out} is written: statistics alone, {marked} lines tell something about your data",
        f"next: python -m node.check {options.out} --data {options.data}",
    ]


def _lines(options: InitOptions, found: Look, schema: TableSchema) -> Iterator[str]:
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
    yield f"name = {toml(options.name)}"
    yield ""
    yield "[privacy]"
    yield 'mechanism = "none"        # exact totals are opened; "dp-sgd": table one alone, with noise'
    yield ""
    asked = [column for column in schema.columns if not isinstance(column, VectorColumn)]
    yield from _section([*asked, schema.target], options.asked_statistics)
    yield from data_lines(found)


def _section(columns: Sequence[Column | Target], asked: AskedStatistics) -> Iterator[str]:
    """Yields what is asked of these columns, and as comments what else can be."""
    levels = {item.name or "": _levels(item) for item in columns}
    groups = [name for name, count in levels.items() if 2 <= count <= _MOST_GROUPS]
    groups.sort(key=lambda name: EVENT.search(name) is not None)  # an event makes groups last
    by = asked.by or next(iter(groups), NONE)
    yield "# Take away the # of what you want. docs/statistics.md has the same in R."
    yield "[statistics]"
    if by != NONE:
        allowed = f"; allowed: {', '.join(groups)}" if groups else ""
        yield f"by = {toml(by)}    # the groups of table one{allowed}"
    if len(groups) > 1:
        yield f"# tables = {toml([groups[:2]])}"
    event, time = asked.event or _event(levels), asked.time or _time(levels)
    numbers = [name for name, count in levels.items() if not count and name != time]
    terms = [name for name in (*numbers[:_FEW], *groups) if name != event][: _FEW + 1]
    if asked.formula:
        yield "models = ["
        for formula in asked.formula:
            family = asked.family or _family(formula, levels)
            yield f"  {{ formula = {toml(formula)}, family = {toml(family)} }},"
        yield "]"
    elif event is not None and terms:
        formula = f"{_quoted(event)} ~ {' + '.join(map(_quoted, terms))}"
        yield f'# models = [{{ formula = {toml(formula)}, family = "binomial" }}]'
    if event is not None and time is not None:
        of_groups = f", by = {toml(by)}" if by not in (event, NONE) else ""
        grid = _grid(next((item for item in columns if item.name == time), None))
        comment, cox = ("", "") if asked.time else ("# ", f", cox = {toml(terms)}" if terms else "")
        what = f"time = {toml(time)}, event = {toml(event)}{of_groups}, grid = {grid}{cox}"
        yield f"{comment}survival = [{{ {what} }}]"
        yield "#   grid: the step of the times, in their unit"
    yield "# per_site = true         # a column for each member in table one, which all must want"
    yield ""


def _event(levels: Mapping[str, int]) -> str | None:
    """Returns the column that best looks like an event, of two levels; None if there is none of two."""
    binary = [name for name, count in levels.items() if count == 2]
    return next((name for name in binary if EVENT.search(name)), next(reversed(binary), None))


def _time(levels: Mapping[str, int]) -> str | None:
    """Returns the first column of numbers with a name like a duration; None if there is none."""
    numbers = (name for name, count in levels.items() if not count)
    return next((name for name in numbers if DURATION.search(name) and not NO_DURATION.search(name)), None)


def _family(formula: str, levels: Mapping[str, int]) -> Family:
    """Returns the family that suits a formula's response."""
    response = formula.partition("~")[0].strip().strip("`")
    return "gaussian" if levels.get(response) == 0 else "binomial"


def _grid(time: Column | Target | None) -> int:
    """Returns the least of 1, 2, 5, 10, ... for which a column's times are not too many."""
    high = time.high if isinstance(time, NumberColumn | NumberTarget) and time.high is not None else 0.0
    return next(
        step * 10**power for power in range(40) for step in (1, 2, 5) if high < MOST_TIMES * step * 10**power
    )


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
