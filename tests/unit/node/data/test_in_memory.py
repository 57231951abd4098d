"""Rows in memory: what is accepted, and the errors for the rest."""

import numpy as np
import pytest
import torch

from node.data.dataset import load_dataset
from node.data.in_memory import rows_of
from node.task.load import load_task
from tests.own_data import told

X = np.arange(12, dtype=np.float64).reshape(6, 2)
Y = np.array([0, 1, 2, 0, 1, 2])


class Images(torch.utils.data.Dataset):
    """A typical torch data set: six items, each a tensor and a number."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((1, 2, 2), float(index)), index % 2


TENSORS = torch.tensor(X), torch.tensor(Y)


@pytest.mark.parametrize(
    "data", [(X, Y), (X.tolist(), Y.tolist()), TENSORS, torch.utils.data.TensorDataset(*TENSORS)]
)
def test_a_pair_of_whatever_numpy_makes_arrays_of_is_taken_and_a_data_set_of_torch_too(data):
    rows = rows_of(data)
    np.testing.assert_array_equal(rows.x, X)
    np.testing.assert_array_equal(rows.y, Y)
    assert (rows.x.dtype, rows.y.dtype) == (np.float32, np.float64)
    images = rows_of(Images())
    assert (images.x[4].tolist(), images.y.tolist()) == ([[[4.0, 4.0], [4.0, 4.0]]], [0, 1] * 3)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ((X, Y[:5]), "data: x is (6, 2) and y is (5,); allowed: shapes (n, ...) and (n,)"),
        ((X[:, 0], Y), "data: x is (6,) and y is (6,); allowed: shapes (n, ...) and (n,)"),
        ((X[:1], Y[:1]), "data has 1 rows; at least 2 are needed, to train and to validate"),
        ((X.astype(str), Y), "data: x holds <U32, not numbers; allowed: a pair (x, y) of arrays"),
        (([[1.0, 2.0], [3.0]], [0, 1]), "data: x is no array (setting an array element with a sequence"),
        ((np.full((2, 2), np.inf), [0, 1]), "data: x[0, 0] = inf is not a finite number of at most 1e30"),
        ((X, np.array([0, 1, np.nan, 0, 1, 2])), "data: y[2] = nan is not a finite number of at most 1e30"),
        (7, "data = 7 cannot be read (object of type 'int' has no len()); allowed: a pair (x, y)"),
        ([1, 2, 3], "data = [1, 2, 3] cannot be read (cannot unpack non-iterable int object); allowed:"),
        ((torch.tensor(X, requires_grad=True), Y), "data: x is no array (Can't call numpy() on Tensor"),
    ],
)
def test_what_is_no_rows_is_refused_in_one_line(data, text):
    assert told(rows_of, data).startswith(text)


def test_rows_in_memory_are_understood_as_a_file_of_them_is(tmp_path):
    task = load_task("digits", [])
    np.savez(tmp_path / "rows.npz", x=X, y=Y)
    given, read = (load_dataset(task, data, None) for data in (rows_of((X, Y)), tmp_path / "rows.npz"))
    assert given.description == read.description.replace("rows.npz", "rows in memory")
    assert given.classes == read.classes == 3
    for name in ("train_x", "train_y", "test_x", "test_y"):
        assert torch.equal(getattr(given, name), getattr(read, name))
    refusal = told(load_dataset, task, rows_of((X, Y - 1)), None)
    assert refusal.startswith("data: target 'y' holds the label -1; allowed: 0 to K-1")


def test_rows_in_memory_are_divided_as_a_task_s_own_are():
    task = load_task("digits", [])
    rows = rows_of((np.arange(200.0).reshape(100, 2), np.arange(100) % 2))
    parts = [load_dataset(task, rows, (number, 3)) for number in range(3)]
    assert sum(len(part.train_x) for part in parts) == 80
    assert len({value for part in parts for value in part.train_x[:, 0].tolist()}) == 80
    assert all(torch.equal(part.test_x, parts[0].test_x) for part in parts)
    assert parts[0].accuracy_name == "test"
