"""The made-up trial of tests/vectors/statistics as columns and as three members' rows; jobs run on it."""

import csv
import json
from functools import cache
from pathlib import Path

import numpy as np

from node.jobs.statistics.columns import Category, Number
from node.jobs.statistics.together import Statistics
from node.task.rules import read_section
from node.task.statistics import StatisticsSection
from scenarios.swarms.job_sums import replay_job

FOLDER = Path(__file__).parent / "vectors" / "statistics"
COLUMNS = {
    column.name: column
    for column in (
        Number("age", 0.0, 120.0),
        Number("bmi", 10.0, 60.0),
        Number("visits", 0.0, 50.0),
        Number("days", 0.0, 400.0),
        Category("died", ("0", "1")),
        Category("sex", ("f", "m")),
        Category("arm", ("A", "B", "C")),
        Category("smoker", ("no", "yes")),
    )
}


def read_statistics(table):
    """The section of a task file's table."""
    return read_section(StatisticsSection, "statistics", table)


@cache
def oracles():
    return json.loads((FOLDER / "oracles.json").read_text())


@cache
def table():
    """All rows; NaN where a value is missing."""
    with (FOLDER / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))

    def value(column, row):
        if isinstance(column, Number):
            return float(row[column.name] or "nan")
        return column.levels.index(row[column.name]) if row[column.name] in column.levels else np.nan

    columns = (*COLUMNS.values(), Number("site", 0.0, 2.0))
    return {column.name: np.array([value(column, row) for row in rows], np.float64) for column in columns}


def members(rows=None, of="site"):
    """The rows of each member."""
    rows = table() if rows is None else rows
    return [{name: rows[name][rows[of] == one] for name in COLUMNS} for one in np.unique(rows[of])]


ASKED = """
[statistics]
by = "arm"
tables = [["sex", "died"]]
models = [{ formula = "died ~ age + sex + age:sex + bmi", family = "binomial" }]
survival = [{ time = "days", event = "died", by = "arm", grid = 1, cox = ["age", "sex", "arm"] }]
"""


def trial():
    """The text of a task for the rows."""
    (died,) = (column for column in COLUMNS.values() if column.name == "died")
    lines = []
    for column in COLUMNS.values():
        if isinstance(column, Number):
            kind = f'"number", mean = 1.0, std = 1.0, low = {column.low}, high = {column.high}'
        else:
            kind = f'"category", values = {json.dumps(column.levels)}'
        if column != died:
            lines.append(f'{{ name = "{column.name}", kind = {kind} }}')
    return f"""
task = {{ name = "trial" }}
model = {{ class = "node.models:Linear", args = {{ inputs = 14, outputs = 2 }} }}
privacy = {{ mechanism = "none" }}
[data.schema]
kind = "table"
target = {{ kind = "classes", name = "died", values = ["0", "1"] }}
columns = [{", ".join(lines)}]
{ASKED}"""


def run(parts, tables):
    """Returns the last base of a job of these parts, and how many sums it took."""
    found = replay_job([Statistics(tuple(parts), each) for each in tables])
    return found.base, found.sums
