"""Which loss the targets of an owner ask for."""

import numpy as np
import pytest

from node.init.loss_choice import loss_for_classes, loss_for_numbers, loss_for_rows
from node.task.schema import ClassTarget, NumberTarget

CLASSES, NUMBERS = ClassTarget("classes", ("no", "yes")), NumberTarget("number", 0.0, 1.0)


def test_a_rare_class_and_none():
    found = loss_for_rows(CLASSES, np.array([0] * 88 + [1] * 12))
    assert (found.name, found.args) == ("balanced-softmax", {"prior": [0.88, 0.12]})
    assert found.why.startswith("'no' has 88% of the rows")
    assert loss_for_rows(CLASSES, np.array([0] * 80 + [1] * 20)) is None
    assert loss_for_rows(CLASSES, np.array([0] * 50 + [1] * 50)) is None


def test_a_class_without_rows_here_counts_as_one_row():
    assert loss_for_rows(CLASSES, np.zeros(99, np.int64)).args == {"prior": [0.99, 0.01]}


def test_many_classes():
    names = tuple("abcd")
    assert loss_for_classes(names, np.array([25, 25, 25, 25])) is None
    assert loss_for_classes(names, np.array([900, 50, 30, 20])).args == {"prior": [0.9, 0.05, 0.03, 0.02]}


@pytest.mark.parametrize(("farthest", "name"), [(5.9, None), (6.0, None), (6.1, "huber"), (1e9, "huber")])
def test_heavy_tails(farthest, name):
    found = loss_for_numbers(farthest)
    assert (None if found is None else found.name) == name
    rows = loss_for_rows(NUMBERS, np.array([0.0, -farthest], np.float32))
    assert (None if rows is None else rows.name) == name
