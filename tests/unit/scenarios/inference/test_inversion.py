"""Gradient inversion: a bare update gives its row away; a sum of three, or a noised one, does not."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from node.models import MLP
from node.training.trainer import read_vector, shapes, split_vector, write_vector
from scenarios.inference.inversion import first_layer_input, guessed, matching_rows, similarity

RATE = 0.1


def made() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MLP([64, 64, 10])


def rows() -> tuple[np.ndarray, np.ndarray]:
    bunch = load_digits()
    return (bunch.data / 16).astype(np.float32), bunch.target


def stepped(model: nn.Module, x: np.ndarray, y: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the model before and after one step on one row."""
    start = read_vector(model, "*")
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    optimizer.zero_grad()
    functional.cross_entropy(model(torch.from_numpy(x[None])), torch.tensor([int(y)])).backward()
    optimizer.step()
    weights = read_vector(model, "*")
    write_vector(model, start, "*")
    return start, weights


def gradients(numbers: list[int]) -> tuple[nn.Module, np.ndarray, list[np.ndarray]]:
    model, (x, y) = made(), rows()
    pairs = [stepped(model, x[number], y[number]) for number in numbers]
    return model, pairs[0][0], [(start - weights) / np.float32(RATE) for start, weights in pairs]


def parts_of(model: nn.Module, gradient: np.ndarray) -> dict[str, np.ndarray]:
    return split_vector(gradient, shapes(model, "*"))


def read(model: nn.Module, gradient: np.ndarray) -> np.ndarray:
    parts = parts_of(model, gradient)
    return first_layer_input(parts["layers.0.weight"], parts["layers.0.bias"])


@pytest.mark.parametrize("number", [0, 7, 42])
def test_a_bare_update_holds_the_row(number: int) -> None:
    model, _, (gradient,) = gradients([number])
    assert np.abs(read(model, gradient) - rows()[0][number]).max() < 0.01


def test_a_row_is_found_by_its_gradients_direction() -> None:
    model, start, found = gradients([0, 7, 42])
    x, y = rows()

    def searched(gradient: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(0)
        return matching_rows(model, start, gradient, [y[0]], functional.cross_entropy, (64,), 300, 0.0, rng)[
            0
        ]

    assert similarity(searched(found[0]), x[0]) > 0.95
    noise = np.random.default_rng(1).normal(0, 1.0, len(start)).astype(np.float32)
    assert similarity(searched(found[0] + noise), x[0]) < 0.6


def test_rows_of_a_sum_are_found_together_where_the_labels_are_known() -> None:
    numbers = [0, 7, 42, 60, 63]
    model, start, found = gradients(numbers)
    x, y = rows()
    total, rng = np.sum(found, axis=0, dtype=np.float32), np.random.default_rng(0)
    together = matching_rows(model, start, total, y[numbers], functional.cross_entropy, (64,), 300, 0.0, rng)
    assert together.shape == (5, 64)
    assert all(similarity(one, x[number]) > 0.95 for one, number in zip(together, numbers, strict=True))


def test_images_are_smoothed() -> None:
    model, start, (gradient,) = gradients([0])
    x, y = rows()
    flat = nn.Sequential(nn.Flatten(), model)
    rng = np.random.default_rng(0)
    (found,) = matching_rows(
        flat, start, gradient, [y[0]], functional.cross_entropy, (1, 8, 8), 200, 0.01, rng
    )
    assert found.shape == (1, 8, 8)
    assert 0 <= found.min() <= found.max() <= 1
    assert similarity(found, x[0].reshape(1, 8, 8)) > 0.9


def test_a_guess_is_the_best_of_so_many_draws_or_the_mean_and_a_step_of_nothing_tells_nothing():
    x, y = rows()
    others = x[1:][y[1:] == y[0]][:40]
    found = np.array([similarity(other, x[0]) for other in others])
    drawn = np.random.default_rng(0).choice(found, (20_000, 30)).max(axis=1).mean()
    assert guessed(x[0], others, 30) == pytest.approx(drawn, abs=2e-3)
    mean = similarity(others.mean(axis=0), x[0])
    assert guessed(x[0], others, 1) == mean > found.mean()
    assert guessed(x[0], others[:1], 1) == pytest.approx(found[0])
    with pytest.raises(ValueError, match="candidates = 0"):
        guessed(x[0], others, 0)
    zeros = np.zeros((3, 4), np.float32)
    assert first_layer_input(zeros, zeros[:, 0]).tolist() == [0, 0, 0, 0]
    assert similarity(zeros, zeros) == 0.0
