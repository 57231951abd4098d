"""What a task asks to be counted fits the node's targets, or is refused."""

import pytest
import torch

from node.data.dataset import Dataset
from node.runtime.contributions.learning import make_tally
from node.training.figures.tallies import Confusion, Errors, Recalls, Scores
from tests.own_data import told


def dataset(classes: int | None) -> Dataset:
    none = torch.zeros(0)
    return Dataset(none, none, none, none, "validation", classes, "a line", ("a", "b"), 2.0)


def test_the_task_and_the_targets_choose_the_tally():
    assert make_tally("confusion", dataset(32), False) == Confusion(32, ("a", "b"))
    assert make_tally("scores", dataset(2), False) == Scores(("a", "b"))
    assert make_tally("sums", dataset(1000), False) == Recalls(1000)
    assert make_tally("sums", dataset(None), True) == Errors(2.0)


@pytest.mark.parametrize(
    ("kind", "classes", "line"),
    [
        ("confusion", 33, "the targets are of 33 classes; allowed: at most 32 classes, or 'sums'"),
        ("confusion", None, "the targets are numbers; allowed: at most 32 classes, or 'sums'"),
        ("scores", 3, "the targets are of 3 classes; allowed: 2 classes, or 'sums'"),
        ("sums", None, "sums of numbers need the target's scale, and the task has no data.schema; write the"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(kind, classes, line):
    refusal = f"aggregation.swarm_metric = {kind!r} is refused: {line}"
    assert told(make_tally, kind, dataset(classes), False).startswith(refusal)
