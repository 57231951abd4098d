"""Clients trained in blocks: as one after another by autograd and torch.optim, for any block size."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from benchmarks.clients.sequential import train_one_by_one
from node.data.dataset import Dataset
from node.models import MLP
from node.system.errors import ConfigError
from node.task.sections import TrainSection
from node.training.gradient_steps import PlainSteps
from node.training.trainer import Trainer, read_vector
from scenarios.clients import training as clients
from scenarios.clients.gradients import Gradients, Product, Whole
from scenarios.clients.training import LocalTraining, best_block, train_clients, training_of

FEATURES, CLASSES, ROWS = 12, 3, 60
SIZES = (1, 5, 11, 17, 31, 20, 40, 2, 6)
SEEDS = tuple(range(len(SIZES)))
PLAIN = LocalTraining(epochs=2, batch_size=5, learning_rate=0.1)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    torch.set_num_threads(request.param)
    yield request.param
    assert torch.get_num_threads() == request.param


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def data(dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Makes x, y, and the rows of clients of all sizes."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((ROWS, FEATURES)).astype(dtype), rng.integers(0, CLASSES, ROWS)
    return x, y, [rng.choice(ROWS, size, replace=False) for size in SIZES]


def given(model: nn.Module | None = None, dtype: type = np.float64, **changes: object) -> dict[str, Any]:
    """What `train_clients` is given, with these changes."""
    x, y, rows = data(dtype)
    model = model or seeded(MODELS["mlp"])
    usual = {"rows_of_clients": rows, "x": x, "y": y, "loss": functional.cross_entropy, "training": PLAIN}
    usual |= {"seeds": SEEDS, "after_batch": None, "block": 4}
    return {"model": model, "start": start_of(model, dtype), **usual, **changes}


def start_of(model: nn.Module, dtype: type = np.float64) -> np.ndarray:
    return read_vector(model, "*").astype(dtype)


class Shared(nn.Module):
    """A linear layer that is called twice, a frozen one, one that is never called, and a separate bias."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Linear(FEATURES, FEATURES)
        self.frozen = nn.Linear(FEATURES, CLASSES).requires_grad_(requires_grad=False)
        self.never = nn.Linear(2, 2)
        self.own = nn.Parameter(torch.ones(CLASSES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(torch.tanh(self.twice(self.twice(x)))) + self.own


class Twice(nn.Module):
    """Only linear layers, one of which is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


def tied() -> nn.Module:
    """Only linear layers, two of which share one weight."""
    first, second = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), nn.Linear(FEATURES, CLASSES))


def half_frozen(part: str) -> nn.Module:
    """Only linear layers, the first of which keeps its bias, or all its parameters."""
    first = nn.Linear(FEATURES, FEATURES)
    (first.bias if part == "bias" else first).requires_grad_(requires_grad=False)
    return nn.Sequential(first, nn.Tanh(), nn.Linear(FEATURES, CLASSES))


def convolutional() -> nn.Module:
    layers = (nn.Unflatten(1, (1, 3, 4)), nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(24, CLASSES, bias=False))


MODELS = {
    "mlp": lambda: MLP([FEATURES, 7, CLASSES]),
    "no bias": lambda: nn.Sequential(nn.Linear(FEATURES, 5, bias=False), nn.Tanh(), nn.Linear(5, CLASSES)),
    "positions": lambda: nn.Sequential(
        nn.Unflatten(1, (4, 3)), nn.Linear(3, 6), nn.ReLU(), nn.Flatten(), nn.Linear(24, CLASSES)
    ),
    "cnn": convolutional,
    "shared": Shared,
    "twice": Twice,
    "tied": tied,
    "frozen bias": lambda: half_frozen("bias"),
    "frozen layer": lambda: half_frozen("layer"),
    "one layer": lambda: nn.Linear(FEATURES, CLASSES),
}
TRAININGS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "momentum and decay": {"momentum": 0.5, "weight_decay": 0.1},
    "decay": {"weight_decay": 0.1},
    "proximal": {"proximal_mu": 0.3},
    "clipped": {"grad_clip": 0.3},
    "all": {"momentum": 0.9, "weight_decay": 0.01, "proximal_mu": 0.3, "grad_clip": 0.2},
}


def pulled(weights: torch.Tensor, start: torch.Tensor, places: np.ndarray) -> torch.Tensor:
    """A hook with an effect that depends on the client's number."""
    away, radius = weights - start, torch.from_numpy(0.1 + 0.05 * places)[:, None].to(weights.dtype)
    return start + away * (radius / away.norm(dim=1, keepdim=True)).clamp(max=1)


def both(**changes: object) -> tuple:
    together = given(**changes)
    alone = {name: value for name, value in together.items() if name != "block"}
    return train_clients(**together), train_one_by_one(*alone.values())


def assert_same(pair: tuple, tolerance: float = 1e-9) -> None:
    (weights, losses), (expected, expected_losses) = pair
    np.testing.assert_allclose(weights, expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(losses, expected_losses, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("training", "block", "hook"),
    [*((name, 4, pulled) for name in TRAININGS), ("plain", 1, None), ("all", 1, None), ("all", 100, None)],
)
def test_blocks_equal_one_after_another_in_float64(training: str, block: int, hook: object) -> None:
    training = LocalTraining(2, 5, 0.1, **TRAININGS[training])
    assert_same(both(training=training, block=block, after_batch=hook))


@pytest.mark.parametrize(
    ("name", "training"), [*((name, "all") for name in MODELS), ("positions", "plain"), ("cnn", "plain")]
)
def test_every_kind_of_model_equals_one_after_another(name: str, training: str) -> None:
    assert_same(both(model=seeded(MODELS[name]), training=LocalTraining(2, 5, 0.1, **TRAININGS[training])))


def test_a_loss_of_ones_own_and_batches_of_one() -> None:
    def squares(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs[:, 0] - targets).square().mean()

    for loss in (squares, lambda o, t: functional.cross_entropy(o, t, label_smoothing=0.1)):
        assert_same(both(loss=loss))
    assert_same(both(training=LocalTraining(1, 1, 0.05)))


@pytest.mark.parametrize("proximal", [0.0, 0.7])
def test_it_trains_as_a_node_does(proximal: float) -> None:
    x, y, rows = data(np.float32)
    model, seed, round_number = seeded(MODELS["mlp"]), 7, 3
    start = start_of(model, np.float32)
    section = TrainSection(
        epochs=2, batch_size=5, learning_rate=0.1, momentum=0.9, grad_clip=0.5, proximal=proximal
    )
    training = training_of(section)
    assert training == LocalTraining(2, 5, 0.1, momentum=0.9, grad_clip=0.5, proximal_mu=proximal)
    seeds = [[seed, round_number]] * len(rows)
    weights, losses = train_clients(
        model, start, rows, x, y, functional.cross_entropy, training, seeds, None, 4
    )
    for own, trained, loss in zip(rows, weights, losses, strict=True):
        part = Dataset(*(torch.from_numpy(values) for values in (x[own], y[own], x, y)), "test", CLASSES, "")
        node = Trainer(seeded(MODELS["mlp"]), section, part, seed, PlainSteps)
        result = node.train(start, round_number, threading.Event())
        np.testing.assert_allclose(trained, result.vector, rtol=0, atol=1e-5)
        assert loss == pytest.approx(result.loss, abs=1e-5)


@settings(max_examples=25, deadline=None)
@given_any(
    st.lists(st.integers(1, 23), min_size=1, max_size=7),
    st.integers(1, 8),
    st.integers(1, 9),
    st.integers(0, 2**32),
)
def test_any_sizes_any_batch_any_block(sizes: list[int], batch: int, block: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, ROWS, size) for size in sizes]
    seeds = [[seed, i] for i in range(len(sizes))]
    assert_same(both(rows_of_clients=rows, seeds=seeds, training=LocalTraining(2, batch, 0.1), block=block))


def test_same_seed_same_figures_in_the_order_of_ones_own_seed_and_none_hurt_by_one_that_diverges():
    first, again = (train_clients(**given(dtype=np.float32))[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other, _ = train_clients(**given(dtype=np.float32, seeds=[*SEEDS[:4], 99, *SEEDS[5:]]))
    assert list(np.flatnonzero(np.abs(first - other).max(1) > 0)) == [4]
    assert first.dtype == np.float32
    x, y, rows = data()
    more = {"x": np.concatenate([x, np.full((1, FEATURES), np.inf)]), "y": np.append(y, 0), "block": 9}
    more["training"] = LocalTraining(2, 5, 0.1, grad_clip=1.0)
    sound, _ = train_clients(**given(**more))
    broken, losses = train_clients(
        **given(rows_of_clients=[*rows[:3], np.array([3, ROWS]), *rows[4:]], **more)
    )
    assert np.isnan(broken[3]).any()
    assert np.isnan(losses[3])
    np.testing.assert_allclose(np.delete(broken, 3, 0), np.delete(sound, 3, 0), rtol=0, atol=1e-9)


def test_nothing_that_is_given_changes_and_no_generator_is_drawn_from() -> None:
    x, y, rows = data()
    model = seeded(MODELS["cnn"]).eval()
    start, state = start_of(model), torch.get_rng_state()
    copies = [values.copy() for values in (x, y, start, *rows)]
    for values in (x, y, start, *rows):
        values.flags.writeable = False
    train_clients(model, start, rows, x, y, functional.cross_entropy, PLAIN, SEEDS, pulled, 4)
    for values, copy in zip((x, y, start, *rows), copies, strict=True):
        np.testing.assert_array_equal(values, copy)
    assert not model.training
    np.testing.assert_array_equal(read_vector(model, "*"), start.astype(np.float32))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_hook_sees_the_clients_still_at_work_and_its_fault_comes_through() -> None:
    seen = []

    def watch(weights: torch.Tensor, start: torch.Tensor, places: np.ndarray) -> torch.Tensor:
        assert len(places) == len(weights)
        seen.append(tuple(weights.shape))
        assert start.shape == (weights.shape[1],)
        return weights

    train_clients(**given(after_batch=watch, block=1))
    assert len(seen) == sum(2 * len(clients._starts(size, PLAIN)) for size in SIZES)

    def fail(weights: torch.Tensor, start: torch.Tensor, places: np.ndarray) -> torch.Tensor:
        raise ArithmeticError("no")

    with pytest.raises(ArithmeticError, match="no"):
        train_clients(**given(after_batch=fail))


def test_threads_to_come_have_as_many_threads_and_the_best_block_is_one_for_each(threads):
    found = []
    assert_same(both())
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert found == [threads]
    x, y, _ = data()
    model = seeded(MODELS["mlp"])
    blocks = (model, start_of(model), x, y, functional.cross_entropy, PLAIN)
    assert best_block(*blocks, 24) in {1, 2, 4, 8, 16}
    assert best_block(*blocks, threads) == 1


class Centred(nn.Module):
    """Takes a mean over its batch without being a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x - x.mean(0))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4)), "layer '1' .BatchNorm1d."),
        (lambda: nn.Sequential(nn.Linear(FEATURES, 4), nn.Dropout(0.5)), "layer '1' .Dropout. draws"),
        (Centred, "model .Centred. answers to a row as the rest of its batch"),
    ],
)
def test_models_that_mix_rows_or_draw_are_refused(make: Callable[[], nn.Module], said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        train_clients(**given(model=make()))
    assert "\n" not in str(refused.value)
    assert "allowed:" in str(refused.value)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"start": np.zeros(4)}, ValueError, r"start has shape \(4,\); allowed: \(115,\)"),
        ({"start": np.zeros(115, int)}, TypeError, "start holds int64; allowed: float32"),
        ({"x": np.zeros((ROWS, FEATURES), np.float32)}, TypeError, "x holds float32; allowed: float64"),
        ({"y": np.zeros(3, int)}, ValueError, "x has 60 rows and y has 3"),
        ({"seeds": (1, 2)}, ValueError, "seeds has 2 values for 9 clients"),
        ({"rows_of_clients": [[0]] * 8 + [[]]}, ValueError, r"rows_of_clients\[8\] is empty"),
        ({"rows_of_clients": [[0]] * 8 + [[60]]}, ValueError, r"rows_of_clients\[8\] holds 60 to 60; .* 59"),
        ({"rows_of_clients": [[-1]] * 9}, ValueError, r"rows_of_clients\[0\] holds -1"),
        ({"block": 0}, ValueError, "block = 0 is not allowed"),
        ({"block": 2.0}, TypeError, "block = 2.0 is not allowed"),
    ],
)
def test_bad_arguments_are_named(change: dict, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        train_clients(**given(**change))


BAD_TRAININGS = [
    ("epochs", 0),
    ("batch_size", 0),
    ("learning_rate", 0),
    ("momentum", 1.0),
    ("momentum", -0.1),
]
BAD_TRAININGS += [("weight_decay", -1), ("proximal_mu", float("nan")), ("grad_clip", 0)]


@pytest.mark.parametrize(("name", "value"), BAD_TRAININGS)
def test_bad_trainings_are_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} = .* is not allowed"):
        LocalTraining(**{"epochs": 1, "batch_size": 1, "learning_rate": 1.0, name: value})


def test_a_products_squares_are_right_both_ways_and_linear_models_take_that_route():
    generator = torch.Generator().manual_seed(0)
    for rows in (2, 40):
        left, right = (torch.randn(3, rows, n, generator=generator, dtype=torch.float64) for n in (6, 5))
        part = Product(slice(0, 30), left, right)
        whole = Whole(slice(0, 30), torch.bmm(left.transpose(1, 2), right).flatten(1))
        torch.testing.assert_close(part.squares(), whole.squares())
    row = torch.zeros(1, FEATURES)
    weights, batch, y = torch.zeros(2, 115), torch.zeros(2, 4, FEATURES), torch.zeros(2, 4, dtype=torch.int64)
    parts, _ = Gradients(seeded(MODELS["mlp"]), functional.cross_entropy, row)(weights, batch, y, None)
    assert [type(part) for part in parts] == [Product, Whole, Product, Whole]
    parts, _ = Gradients(seeded(Shared), functional.cross_entropy, row)(torch.zeros(2, 165), batch, y, None)
    assert {type(part) for part in parts} == {Whole}


@pytest.mark.parametrize(("members", "most", "count"), [(100, 32, 4), (9, 100, 2), (1, 4, 1), (3, 1, 3)])
def test_blocks_are_even_and_enough_for_two_threads(members: int, most: int, count: int) -> None:
    blocks = clients._blocks(np.arange(members), most, 2)
    assert len(blocks) == count
    sizes = [len(block) for block in blocks]
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    np.testing.assert_array_equal(np.concatenate(blocks), np.arange(members))


def test_clients_that_share_a_process_have_no_time_of_their_own():
    with pytest.raises(ConfigError, match=r"train\.seconds = 5 is refused .*; set train\.epochs"):
        training_of(TrainSection(seconds=5.0))
