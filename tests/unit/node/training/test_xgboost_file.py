"""Trees as XGBoost's JSON, read by its rules row by row."""

import json
import math

import numpy as np
import pytest
import torch

from node.models.trees import Trees
from node.task.data_schema import (
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    NumberColumn,
    NumberTarget,
    TableSchema,
)
from node.training.xgboost_file import xgboost_model

COLUMNS = (
    NumberColumn("age", "number", 50.0, 20.0, missing=True),
    BooleanColumn("smokes", "boolean"),
    CategoryColumn("ward", "category", ("A", "B")),
)
KINDS = [["number", 2], ["boolean", 1], ["category", 3]]
RNG = np.random.default_rng(29)


@pytest.fixture(autouse=True)
def same_numbers():
    RNG.bit_generator.state = np.random.default_rng(29).bit_generator.state


def schema(is_class):
    target = (
        ClassTarget("classes", ("no", "yes"), "y") if is_class else NumberTarget("number", 10.0, 3.0, "y")
    )
    return TableSchema("table", target, COLUMNS)


def drawn(outputs=1):
    """Six trees with splits and cells at random, and an empty one."""
    made = Trees(KINDS, outputs, cells=4, trees=7, depth=3)
    made.body.edges.copy_(torch.tensor([[-1.0, 0.25, 1.5]]))
    made.base.data += 0.4
    nodes = made.trees.nodes[:, :6]
    nodes[..., 1] = torch.from_numpy(RNG.normal(size=(outputs, 6, 15)).astype(np.float32))
    asked = torch.from_numpy(RNG.integers(-1, 3, (outputs, 6, 7)))
    cuts = torch.from_numpy(RNG.integers(1, 4, (outputs, 6, 7)))
    left = torch.from_numpy(RNG.integers(0, 32, (outputs, 6, 7)))
    first = (1 << cuts) - 1  # of a column of numbers the first cells go left, and maybe missing values
    nodes[:, :, :7, 0] = asked + 1.0
    nodes[:, :, :7, 2] = torch.where(asked == 0, first + (left & 16), left).float()
    return made


def answered(tree, row):
    """XGBoost's own rule: below the condition left, listed categories right, NaN where the split says."""
    at = 0
    while tree["left_children"][at] >= 0:
        value = row[tree["split_indices"][at]]
        if math.isnan(value):
            goes_left = bool(tree["default_left"][at])
        elif tree["split_type"][at]:
            part = tree["categories_nodes"].index(at)
            start = tree["categories_segments"][part]
            goes_left = value not in tree["categories"][start : start + tree["categories_sizes"][part]]
        else:
            goes_left = value < tree["split_conditions"][at]
        at = tree["left_children" if goes_left else "right_children"][at]
    return tree["split_conditions"][at]


@pytest.mark.parametrize("is_class", [True, False])
def test_the_file_answers_as_the_model(is_class):
    model, n = drawn(), 60
    found = json.loads(json.dumps(xgboost_model(model, schema(is_class))))["learner"]
    trees = found["gradient_booster"]["model"]["trees"]
    assert (len(trees), found["feature_types"]) == (6, ["float", "c", "c"])
    age, truth, ward = RNG.uniform(0, 120, n), RNG.integers(-1, 2, n), RNG.integers(0, 4, n)
    missing = RNG.random(n) < 0.2
    encoded = np.stack([np.where(missing, 0, (age - 50) / 20), missing, truth, *np.eye(4, 3)[ward].T], 1)
    plain = np.stack(
        [
            np.where(missing, np.nan, age),
            np.where(truth == 0, np.nan, truth > 0),
            np.where(ward == 3, np.nan, ward),
        ],
        1,
    )
    base = float(found["learner_model_param"]["base_score"].strip("[]"))
    base = math.log(base / (1 - base)) if is_class else base
    answers = np.array([base + sum(answered(tree, row) for tree in trees) for row in plain.tolist()])
    scores = model(torch.from_numpy(encoded.astype(np.float32)))[:, 0].detach().numpy()
    assert answers == pytest.approx(scores if is_class else 10 + 3 * scores, abs=1e-4)


def test_what_no_such_file_can_say_is_refused():
    with pytest.raises(ValueError, match="3 classes against the rest"):
        xgboost_model(drawn(outputs=3), schema(True))
