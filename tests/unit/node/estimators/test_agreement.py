"""What members give alike is part of what an agreement compares, so that a difference is named."""

import numpy as np
import pytest

from node.estimators.agreement import prepare_survey
from node.estimators.proposal import Wishes
from node.jobs.column_survey import ColumnSurvey, OwnColumn
from node.options import parse_arguments
from node.task.parameters import describe_difference

WISHES = {"delta": None, "expected_rows": None, "members": 3, "keys": {}}
ONE = Wishes(model="additive", epsilon=None, seed=0, **WISHES)


def parameters(wishes: Wishes, names: list[str]) -> str:
    columns = [OwnColumn("number", False, np.zeros(3)) for _ in names]
    options = parse_arguments(["--peers=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"])
    options = type(options)(**{**vars(options), "task": wishes.draft()})
    return prepare_survey(options, ColumnSurvey(3, columns, []), 3, names, wishes).plan.parameters


@pytest.mark.parametrize(
    ("wishes", "names", "told"),
    [
        (Wishes(model="linear", epsilon=None, seed=0, **WISHES), ["a", "b"], "model"),
        (Wishes(model="additive", epsilon=None, seed=1, **WISHES), ["a", "b"], "seed"),
        (ONE, ["a", "c"], "columns"),
    ],
)
def test_a_difference_is_named(wishes, names, told):
    assert told in describe_difference(parameters(ONE, ["a", "b"]), parameters(wishes, names))
    assert parameters(ONE, ["a", "b"]) == parameters(ONE, ["a", "b"])
