"""An additive model's curves and a row's parts, in the owner's words and units."""

import pytest
import torch

from node.models import Additive
from node.task.data_schema import BooleanColumn, CategoryColumn, ClassTarget, NumberColumn, TableSchema
from node.training.figures.curves import Part, curves, explain

SCHEMA = TableSchema(
    "table",
    ClassTarget("classes", ("no", "yes"), "died"),
    (
        NumberColumn("age", "number", 50.0, 20.0, missing=True),
        NumberColumn("day", "date", 20_000.0, 10.0),
        NumberColumn("hour", "time", 12.0, 4.0),
        BooleanColumn("smokes", "boolean"),
        CategoryColumn("ward", "category", ("A", "B")),
        NumberColumn("weight", "number", 80.0, 15.0),
    ),
)
VALUES = [
    *(-1.0, 0.0, 1.0, 2.0),
    *(0.1, 0.2, 0.3),
    *(0.0, 0.01, 0.0),
    *(-3.0, 3.0, 0.0),
    *(0.5, -0.5, 0.25, 0.0),
    *(0, 0, 0),
]


def model(counted, trees=0):
    columns = [["number", 2], ["number", 1], ["number", 1], ["boolean", 1], ["category", 3], ["number", 1]]
    made = Additive(columns, 1, cells=3, edges=[[-1.5, 1.25], [0.5], [-0.5, 1.125], []], trees=trees)
    made.set_curves(torch.tensor([VALUES]), torch.tensor([0.25]))
    if counted:
        made.rows += torch.tensor(
            [10.0, 20, 30, 0, 30, 30, 0, 20, 20, 20, 30, 30, 0, 10, 20, 0, 30, 60, 0, 0]
        )
        made.errors += 0.5
    return made


def test_curves_are_in_the_owners_units_and_the_most_important_come_first():
    found = curves(model(counted=True), SCHEMA)
    assert [curve.column for curve in found] == ["smokes", "age", "ward", "day", "hour", "weight"]
    words = {curve.column: [cell.label for cell in curve.cells] for curve in found}
    assert words == {
        "age": ["below 20", "20 to 75", "from 75"],
        "day": ["below 2024-10-09", "from 2024-10-09"],
        "hour": ["below 10:00", "10:00 to 16:30", "from 16:30"],
        "smokes": ["no", "yes"],
        "ward": ["A", "B", "missing"],
        "weight": ["any value"],
    }
    smokes, age = found[:2]
    assert (smokes.kind, smokes.importance) == ("boolean", 3.0)
    assert (age.cells[1].low, age.cells[1].high, age.cells[1].rows) == (20.0, 75.0, 20)
    assert age.cells[0].band == pytest.approx((-1 - 0.98, -1 + 0.98), rel=1e-4)


def test_without_counts_all_cells_are_shown_and_there_is_no_band():
    found = {curve.column: curve for curve in curves(model(counted=False), SCHEMA)}
    assert [cell.label for cell in found["ward"].cells] == ["A", "B", "other", "missing"]
    assert [cell.label for cell in found["age"].cells] == ["below 20", "20 to 75", "from 75", "missing"]
    assert [cell.label for cell in found["weight"].cells] == ["any value"]
    assert {cell.band for curve in found.values() for cell in curve.cells} == {None}


def test_a_row_is_taken_apart():
    row = torch.tensor([0.0, 1.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0, 0.0])
    made = model(counted=True)
    parts = explain(made, SCHEMA, row)
    assert parts[0] == Part("smokes", "no", pytest.approx(-3))
    assert [(part.column, part.cell) for part in parts[1:4]] == [
        ("age", "missing"),
        ("ward", "B"),
        ("day", "below 2024-10-09"),
    ]
    assert sum(part.added for part in parts) + 0.25 == pytest.approx(float(made(row.unsqueeze(0)).detach()))


def test_what_trees_add_is_one_part():
    made, row = model(counted=True, trees=1), torch.zeros(9)
    made.interactions.nodes[0, 0, 0, 1] = 9.0
    assert explain(made, SCHEMA, row)[0] == Part("interactions", "trees", 9.0)
