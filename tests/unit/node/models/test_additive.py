"""The additive model: where a row's cells are, what they add up to, and its file read by numpy alone."""

import re

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from node.models import Additive
from node.training.frozen_body import FrozenBody

COLUMNS = [["number", 2], ["boolean", 1], ["number", 1], ["category", 3]]
EDGES = [[-1.0, 0.5], [0.0]]


def model(outputs=1, **options):
    made = Additive(COLUMNS, outputs, cells=3, edges=EDGES, **options)
    torch.nn.init.normal_(made.head.weight, generator=torch.Generator().manual_seed(1))
    return made


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ([-1.1, 0, 1, -0.1, 1, 0, 0], [0, 4 + 1, 7, 10]),
        ([-1.0, 0, -1, 0.0, 0, 0, 1], [1, 4 + 0, 8, 12]),
        ([9.0, 0, 0, 9.0, 0, 0, 0], [2, 4 + 2, 8, 13]),
        ([0.0, 1, 0, 0.0, 0, 1, 0], [3, 4 + 2, 8, 11]),
    ],
)
def test_a_row_is_in_one_cell_of_each_column(row, cells):
    made = model()
    rows = torch.tensor([row])
    assert made.body.places(rows).tolist() == [cells]
    features = made.body(rows)[0]
    assert features.nonzero().flatten().tolist() == [*cells, made.body.size]
    assert float(features.norm()) == pytest.approx(1)
    assert torch.allclose(made(rows)[0], made.base + made.contributions(rows)[0].sum(0))


def random_rows():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(50, 7)).astype(np.float32)
    x[:, 1], x[:, 2], x[:, 4:] = (
        rng.random(50) < 0.2,
        rng.integers(-1, 2, 50),
        np.eye(4, 3)[rng.integers(0, 4, 50)],
    )
    return x


def test_its_file_says_all_without_this_package(tmp_path):
    """The recipe in the module's text, by numpy."""
    made, x = model(outputs=2), random_rows()
    save_file({name: value.numpy() for name, value in made.state_dict().items()}, tmp_path / "m.safetensors")
    tensors = load_file(tmp_path / "m.safetensors")
    w, edges = tensors["head.weight"], list(tensors["body.edges"])
    score, start, feature = w[:, [-1]] * np.ones(len(x)), 0, 0
    for kind, width in COLUMNS:
        part = x[:, feature : feature + width]
        if kind == "number":
            cell, size = (part[:, :1] >= edges.pop(0)).sum(1), 3 + width - 1
            cell = np.where(part[:, 1] == 1, 3, cell) if width == 2 else cell
        elif kind == "boolean":
            cell, size = np.where(part[:, 0] > 0, 1, np.where(part[:, 0] < 0, 0, 2)), 3
        else:
            cell, size = np.where(part.any(1), part.argmax(1), width), width + 1
        score = score + w[:, start + cell]
        start, feature = start + size, feature + width
    assert made(torch.from_numpy(x)).detach().numpy() == pytest.approx(score.T / np.sqrt(5), abs=1e-6)


def test_its_cells_are_a_frozen_body():
    made, x = model(), torch.from_numpy(random_rows())
    expected = made(x)
    body = FrozenBody(made, "body", x)
    assert torch.equal(made(body.features(x, None)), expected)


def test_classes_against_the_rest_share_their_probabilities():
    x = torch.from_numpy(random_rows())
    single = torch.sigmoid(model(outputs=3)(x))
    shares = torch.softmax(model(outputs=3, one_against_rest=True)(x), 1)
    assert torch.allclose(shares, single / single.sum(1, keepdim=True), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outputs": 0}, "outputs must be a whole number above 0, not 0"),
        ({"cells": 1}, "cells must be a whole number from 2 to 1000, not 1"),
        ({"columns": []}, "columns must have a column"),
        ({"columns": [["number", 3]]}, "columns has ['number', 3]; allowed: ['number', 1 or 2]"),
        ({"columns": [["word", 1]]}, "columns has ['word', 1]"),
        ({"columns": [["number"]]}, "columns has ['number']"),
        ({"edges": [[1.0]]}, "edges has 1 lists; allowed: 2"),
        ({"edges": [[1.0, 1.0], []]}, "edges must be lists of at most 2 rising numbers, not [1.0, 1.0]"),
        ({"edges": [[1.0, 2.0, 3.0], []]}, "edges must be lists of at most 2 rising numbers"),
    ],
)
def test_wrong_arguments_are_refused(change, words):
    with pytest.raises(ValueError, match="^" + re.escape(words)):
        Additive(**{"columns": COLUMNS, "outputs": 1, "cells": 3} | change)


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"rows have the shape \(6,\); allowed: \(7,\)"):
        model()(torch.zeros(1, 6))
