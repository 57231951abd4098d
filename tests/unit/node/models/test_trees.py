"""Trees as a file has them, read by numpy alone, beside what the models answer."""

import re

import numpy as np
import pytest
import torch

from node.models import Additive, Trees

COLUMNS = [["number", 2], ["category", 20]]


def with_trees(made, ensemble, rng):
    """Gives a model six trees of two levels with questions and leaves at random."""
    made.body.edges.copy_(torch.tensor([[-0.5, 0.5]]))
    nodes = ensemble.nodes[:, :6]
    nodes[..., 1] = torch.from_numpy(rng.normal(size=nodes.shape[:3]))
    nodes[..., :3, 0] = torch.from_numpy(rng.choice(3, nodes[..., :3, 0].shape, p=[0.1, 0.5, 0.4]))
    nodes[..., :3, 2:] = torch.from_numpy(rng.integers(0, 1 << 16, nodes[..., :3, 2:].shape))
    return made


def by_the_file(nodes, cells):
    """What a file's nodes (outputs, trees, nodes, numbers) add to a row with these cells, by its rules."""
    added = np.zeros(len(nodes))
    for output, trees in enumerate(nodes):
        for tree in trees:
            at = 0
            while tree[at][0]:
                cell = cells[int(tree[at][0]) - 1]
                goes_left = int(tree[at][2 + cell // 16]) >> cell % 16 & 1
                at = 2 * at + (1 if goes_left else 2)
            added[output] += tree[at][1]
    return added


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("cls", [Trees, Additive])
def test_a_file_is_read_by_its_rules_alone(cls, outputs):
    rng = np.random.default_rng(41)
    made = cls(COLUMNS, outputs, cells=3, trees=8, depth=2)
    ensemble = made.trees if cls is Trees else made.interactions
    with_trees(made, ensemble, rng)
    word = rng.integers(0, 21, 50)
    x = np.concatenate([rng.normal(size=(50, 1)), rng.random((50, 1)) < 0.2, np.eye(21, 20)[word]], 1)
    rows = torch.from_numpy(x.astype(np.float32))
    cells = np.stack([np.where(x[:, 1] > 0, 3, (x[:, :1] >= [-0.5, 0.5]).sum(1)), word], 1)
    expected = np.stack([by_the_file(ensemble.nodes.numpy(), row) for row in cells])
    assert len(np.unique(expected)) > 3
    assert made(rows).detach().numpy() == pytest.approx(expected, abs=1e-6)
    if cls is Additive:
        assert made.added_together(rows).numpy() == pytest.approx(expected, abs=1e-6)
        assert not cls(COLUMNS, outputs).added_together(rows).any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outputs": 0}, "outputs must be a whole number above 0, not 0"),
        ({"trees": 0}, "trees must be a whole number from 1 to 10000, not 0"),
        ({"trees": True}, "trees must be a whole number from 1 to 10000, not True"),
        ({"depth": 9}, "depth must be a whole number from 1 to 8, not 9"),
        ({"rate": 0}, "rate must be a number above 0 and at most 1, not 0"),
        (
            {"trees": 9000, "depth": 8},
            "9000 trees of depth 8 with 1 outputs have 27594000 numbers; allowed: 8388608",
        ),
    ],
)
def test_wrong_arguments_are_refused(change, words):
    with pytest.raises(ValueError, match="^" + re.escape(words)):
        Trees(**{"columns": COLUMNS, "outputs": 1} | change)


def test_trees_after_curves_are_whole_numbers():
    with pytest.raises(ValueError, match=r"^trees must be a whole number from 1 to 10000, not -1"):
        Additive(COLUMNS, 1, trees=-1)
