"""An additive model's curves, in the owner's words and units."""

from dataclasses import replace

import pytest
import torch

from node.models import Additive
from node.task.data_schema import (
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    NumberColumn,
    NumberTarget,
    TableSchema,
)
from node.task.load import read_task
from node.training.figures.column_curves import CurveCell
from node.training.figures.curves import curves

DIED = ClassTarget("classes", ("no", "yes"), "died")
COLUMNS = (
    NumberColumn("age", "number", 50.0, 20.0, missing=True, unit="years"),
    NumberColumn("day", "date", 20_000.0, 10.0),
    NumberColumn("hour", "time", 12.0, 4.0),
    BooleanColumn("smokes", "boolean"),
    CategoryColumn("ward", "category", ("A", "B")),
    NumberColumn("weight", "number", 80.0, 15.0),
)
SHAPES = [["number", 2], ["number", 1], ["number", 1], ["boolean", 1], ["category", 3], ["number", 1]]
VALUES = [
    *(-1.0, 0.0, 1.0, 2.0),
    *(0.1, 0.2, 0.3),
    *(0.0, 0.01, 0.0),
    *(-3.0, 3.0, 0.0),
    *(0.5, -0.5, 0.25, 0.0),
    *(0, 0, 0),
]


def model(counted, trees=0):
    made = Additive(SHAPES, 1, cells=3, edges=[[-1.5, 1.25], [0.5], [-0.5, 1.125], []], trees=trees)
    made.set_curves(torch.tensor([VALUES]), torch.tensor([0.25]))
    if counted:
        made.rows += torch.tensor(
            [10.0, 20, 30, 0, 30, 30, 0, 20, 20, 20, 30, 30, 0, 10, 20, 0, 30, 60, 0, 0]
        )
        made.errors += 0.5
    return made


def task_of(target, loss="auto"):
    schema = TableSchema("table", target, COLUMNS)
    task = read_task({"task": {"name": "ward"}, "model": {"class": "node.models:Additive"}})
    return replace(task, data=replace(task.data, schema=schema), train=replace(task.train, loss=loss))


def by_column(made, task):
    return {curve.column: curve for curve in curves(made, task).columns}


def test_curves_are_in_the_owners_units():
    task = task_of(DIED)
    found = by_column(model(counted=True), task)
    assert {name: [cell.label for cell in curve.cells] for name, curve in found.items()} == {
        "age": ["below 20", "20 to 75", "from 75"],
        "day": ["below 2024-10-09", "from 2024-10-09"],
        "hour": ["below 10:00", "10:00 to 16:30", "from 16:30"],
        "smokes": ["no", "yes"],
        "ward": ["A", "B", "missing"],
        "weight": ["any value"],
    }
    age, smokes = found["age"], found["smokes"]
    assert (smokes.kind, smokes.importance, smokes.values) == ("boolean", (3.0,), ((-3.0, 3.0),))
    assert (age.unit, age.cells[1]) == ("years", CurveCell("20 to 75", 20.0, 75.0, 0.33))
    assert age.bands == ((0.98,) * 3,)
    whole = curves(model(counted=True), task)
    assert (whole.scale, whole.outputs) == ("odds", ("yes",))


def test_without_counts_all_cells_are_shown_around_their_mean_and_there_is_no_band():
    found = by_column(model(counted=False), task_of(DIED))
    assert [cell.label for cell in found["ward"].cells] == ["A", "B", "other", "missing"]
    assert [cell.label for cell in found["age"].cells] == ["below 20", "20 to 75", "from 75", "missing"]
    assert [cell.label for cell in found["smokes"].cells] == ["no", "yes"], "the schema marks no missing ones"
    assert found["age"].values == ((-1.5, -0.5, 0.5, 1.5),)
    assert {curve.bands for curve in found.values()} == {()}
    assert {cell.share for curve in found.values() for cell in curve.cells} == {None}


@pytest.mark.parametrize(("loss", "scale", "most"), [("mse", "number", 15.0), ("poisson", "factor", 3.0)])
def test_numbers_are_in_the_unit_of_the_target_and_counts_are_factors(loss, scale, most):
    made, task = model(counted=True), task_of(NumberTarget("number", 40.0, 5.0, "days"), loss)
    assert (curves(made, task).scale, curves(made, task).outputs) == (scale, ("days",))
    assert by_column(made, task)["smokes"].values == ((-most, most),)


def test_trees_that_add_what_no_curve_has_are_counted():
    made = model(counted=True, trees=3)
    made.interactions.nodes[0, :2, 0, 1] = 9.0
    assert curves(made, task_of(DIED)).trees == 2


def test_each_class_has_its_own_curve():
    made = Additive(SHAPES, 3, cells=3)
    assert curves(made, task_of(DIED)) is None, "nothing is learned yet"
    made.set_curves(torch.arange(60.0).reshape(3, 20), torch.zeros(3))
    found = curves(made, task_of(ClassTarget("classes", ("a", "b", "c"), "died")))
    assert found.outputs == ("a", "b", "c")
    assert len(found.columns[0].values) == len(found.columns[0].importance) == 3
    assert curves(torch.nn.Identity(), task_of(DIED)) is None
