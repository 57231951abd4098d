"""Models made wider by declared classes, and narrower without columns; what cannot be changed is refused."""

from dataclasses import replace

import pytest

from node.agree.width import check_narrowing, fitted, with_classes
from node.task.load import read_task
from node.task.sections import ADDITIVE
from tests.own_data import TABLE, task, told

LINEAR = {"class": "node.models:Linear", "args": {"inputs": 7, "outputs": 2}}
OWN = {"class": "torch.nn:Linear", "args": {"in_features": 7, "out_features": 2}}
NUMBER = {"name": "outcome", "kind": "number", "mean": 0.0, "std": 1.0}
OF_AB = {"kind": "classes", "values": ["a", "b"]}
ARRAY = {"kind": "array", "target": OF_AB, "shape": [1, 8, 8], "mean": [0.0], "std": [1.0]}
CONV = {"class": "node.models:ConvNet", "args": {"shape": [1, 8, 8], "outputs": 2}}


def made(table=TABLE, model=LINEAR, **sections):
    return read_task({"task": {"name": "t"}, "model": model, "data": {"schema": table}, **sections})


def declared(*names, model=LINEAR, table=TABLE, **sections):
    return made(table, model, agreement={"classes": list(names)}, **sections)


@pytest.mark.parametrize(
    ("model", "table", "args"),
    [
        (LINEAR, TABLE, {"inputs": 7, "outputs": 4}),
        ({"class": "node.models:MLP", "args": {"sizes": [7, 9, 2]}}, TABLE, {"sizes": [7, 9, 4]}),
        (CONV, ARRAY, {"shape": [1, 8, 8], "outputs": 4}),
    ],
)
def test_declared_classes_come_last_and_the_model_gets_their_outputs(model, table, args):
    found = with_classes(declared("moved", "lost", model=model, table=table))
    assert found.model.args == args
    assert found.data.schema.target.values == (*table["target"]["values"], "moved", "lost")


def test_an_additive_model_follows_the_schema():
    own = declared("moved", model={"class": ADDITIVE, "args": {"cells": 8}})
    found = with_classes(own)
    assert own.train.loss == "bce"
    assert (found.train.loss, found.model.args["outputs"], found.model.args["cells"]) == ("auto", 3, 8)
    narrow = replace(found.data.schema, columns=found.data.schema.columns[1:])
    assert fitted(found, found.data.schema, narrow)["columns"] == found.model.args["columns"][1:]


PLAIN = {"table": {**TABLE, "target": NUMBER}, "model": {**LINEAR, "args": {"inputs": 7, "outputs": 1}}}
PRIOR = {"train": {"loss": "balanced-softmax", "loss_args": {"prior": [0.5, 0.5]}}}


@pytest.mark.parametrize(
    ("name", "sections", "line"),
    [
        ("ill", {}, ": 'ill' is a class of the task already; allowed: others"),
        ("x", PLAIN, ": the target is a number; leave it out"),
        ("x", {"model": OWN}, ": the number of outputs of model.class = 'torch.nn:Linear' "),
        ("x", PRIOR, " beside train.loss_args, which has a number for each class;"),
    ],
)
def test_classes_that_cannot_be_added(name, sections, line):
    refused = told(with_classes, declared(name, **sections))
    assert refused.startswith(f"agreement.classes = ['{name}'] is refused{line}")


def test_columns_can_be_left_out_of_models_whose_width_is_known():
    leaving = {"agreement": {"leave_out_missing": True}}
    check_narrowing(made(**leaving))
    check_narrowing(made(model=OWN))
    assert told(check_narrowing, made(model=OWN, **leaving)) == (
        "agreement.leave_out_missing = true is refused: the width of model.class = 'torch.nn:Linear' is not "
        "known; allowed: node.models:Additive, or node.models:Linear, node.models:MLP with 7 inputs; else "
        "run node.init again with --leave-out"
    )
    assert told(check_narrowing, made(ARRAY, CONV, **leaving)) == (
        "agreement.leave_out_missing = true is refused: the task's data have no columns; leave it out"
    )
    assert with_classes(made()) == made()


@pytest.mark.parametrize("classes", [["a", "a"], [""], "a", [7]])
def test_a_list_of_classes_that_is_none(classes):
    about = {"task": {"name": "t"}, "model": LINEAR, "agreement": {"classes": classes}}
    assert told(read_task, about).startswith("agreement.classes = ")
    assert task(TABLE).agreement.classes == ()
