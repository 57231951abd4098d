"""Shadow models: their training data, and their losses."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from node.models import MLP
from node.system.errors import UserError
from node.training.trainer import read_vector, write_vector
from scenarios.clients.training import LocalTraining, train_clients
from scenarios.federated.shadow_models import random_halves, row_losses, shadow_losses

TRAINING = LocalTraining(epochs=3, batch_size=4, learning_rate=0.1)


def made() -> MLP:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MLP([5, 8, 3])


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 5)).astype(np.float32), rng.integers(0, 3, count)


def test_losses_are_those_of_the_parameters_given_and_not_rounded_to_zero():
    model, (x, y) = made(), rows(5000)
    before = read_vector(model, "*")
    vector = before + np.float32(0.1)
    found = row_losses(model, vector, x, y)
    assert np.array_equal(read_vector(model, "*"), before)
    write_vector(model, vector, "*")
    with torch.no_grad():
        mean = functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y))
    assert found.shape == (5000,)
    assert found.mean() == pytest.approx(mean.item(), rel=1e-5)
    assert found[4999] == pytest.approx(row_losses(model, vector, x[4999:], y[4999:])[0])
    assert found.dtype == np.float64
    model = MLP([1, 2])
    vector = np.array([0, 60, 0, 0], np.float32)
    (found,) = row_losses(model, vector, np.ones((1, 1), np.float32), np.array([1]))
    assert 0 < found < 1e-25


def test_each_shadow_is_trained_on_its_own_rows_or_diverges_in_one_line():
    model, (x, y), (evaluated_x, evaluated_y) = made(), rows(20), rows(7, seed=1)
    start, parts, seeds = read_vector(model, "*"), [np.arange(10), np.arange(8, 20)], [5, 6]
    found = shadow_losses(model, start, parts, x, y, TRAINING, seeds, evaluated_x, evaluated_y)
    assert found.shape == (2, 7)
    for losses, part, seed in zip(found, parts, seeds, strict=True):
        trained, _ = train_clients(
            *(model, start, [part], x, y, functional.cross_entropy, TRAINING, [seed], None, 1)
        )
        np.testing.assert_allclose(losses, row_losses(model, trained[0], evaluated_x, evaluated_y), rtol=1e-4)
    model, (x, y) = made(), rows(20)
    wild = LocalTraining(epochs=20, batch_size=4, learning_rate=1e30)
    with pytest.raises(UserError, match=r"shadow model diverged; lower train\.learning_rate = 1e\+30"):
        shadow_losses(model, read_vector(model, "*"), [np.arange(20)], x, y, wild, [0], x, y)


def test_halves_are_drawn_anew_for_each_shadow() -> None:
    own = np.arange(100, 121)
    halves = random_halves(own, 3, np.random.default_rng(0))
    assert [len(np.unique(half)) for half in halves] == [10, 10, 10]
    assert all(np.isin(half, own).all() for half in halves)
    assert not np.array_equal(np.sort(halves[0]), np.sort(halves[1]))
    with pytest.raises(ValueError, match="1 rows are not allowed"):
        random_halves(own[:1], 3, np.random.default_rng(0))
