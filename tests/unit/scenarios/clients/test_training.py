"""Clients trained in blocks: as one after another by autograd and torch.optim, for any block size."""

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from benchmarks.clients.sequential import train_one_by_one
from mechanisms.noise.randomness import SystemWords
from node.data.dataset import Dataset
from node.models import MLP
from node.task.sections import TrainSection
from node.training.trainer import Trainer, read_vector
from scenarios.clients import training as clients
from scenarios.clients.gradients import Gradients, Product, Whole
from scenarios.clients.training import LocalTraining, best_block, train_clients, training_of

FEATURES, CLASSES, ROWS = 12, 3, 60
SIZES = (1, 5, 11, 17, 31, 20, 40, 2, 6)
SEEDS = tuple(range(len(SIZES)))
PLAIN = LocalTraining(epochs=2, batch_size=5, learning_rate=0.1)


@pytest.fixture(params=[1, 2], autouse=True, scope="module")
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    assert torch.get_num_threads() == request.param
    torch.set_num_threads(before)


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def data(dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Makes x, y, and the rows of clients of all sizes."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((ROWS, FEATURES)).astype(dtype), rng.integers(0, CLASSES, ROWS)
    return x, y, [rng.choice(ROWS, size, replace=False) for size in SIZES]


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


def both(name: str, training: LocalTraining, block: int, hook: object = None, loss: object = None) -> tuple:
    model = seeded(MODELS[name])
    x, y, rows = data()
    given = (model, start_of(model), rows, x, y, loss or functional.cross_entropy, training, SEEDS, hook)
    return train_clients(*given, block), train_one_by_one(*given)


def assert_same(pair: tuple, tolerance: float = 1e-9) -> None:
    (weights, losses), (expected, expected_losses) = pair
    np.testing.assert_allclose(weights, expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(losses, expected_losses, rtol=0, atol=tolerance)


@pytest.mark.parametrize("hook", [None, pulled], ids=["no hook", "hook"])
@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("block", [1, 4, 100])
def test_blocks_equal_one_after_another_in_float64(training: str, block: int, hook: object) -> None:
    assert_same(both("mlp", LocalTraining(2, 5, 0.1, **TRAININGS[training]), block, hook))


@pytest.mark.parametrize("training", ["plain", "all"])
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_equals_one_after_another(name: str, training: str) -> None:
    assert_same(both(name, LocalTraining(2, 5, 0.1, **TRAININGS[training]), 4))


def test_a_loss_of_ones_own_and_batches_of_one() -> None:
    def squares(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs[:, 0] - targets).square().mean()

    for loss in (squares, lambda o, t: functional.cross_entropy(o, t, label_smoothing=0.1)):
        assert_same(both("mlp", PLAIN, 4, None, loss))
    assert_same(both("mlp", LocalTraining(1, 1, 0.05), 4))


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
        node = Trainer(seeded(MODELS["mlp"]), section, part, seed, None, SystemWords())
        result = node.train(start, round_number, threading.Event())
        np.testing.assert_allclose(trained, result.vector, rtol=0, atol=1e-5)
        assert loss == pytest.approx(result.loss, abs=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 23), min_size=1, max_size=7),
    st.integers(1, 8),
    st.integers(1, 9),
    st.integers(0, 2**32),
)
def test_any_sizes_any_batch_any_block(sizes: list[int], batch: int, block: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, _ = data()
    rows = [rng.integers(0, ROWS, size) for size in sizes]
    model = seeded(MODELS["mlp"])
    seeds = [[seed, i] for i in range(len(sizes))]
    given = (
        model,
        start_of(model),
        rows,
        x,
        y,
        functional.cross_entropy,
        LocalTraining(2, batch, 0.1),
        seeds,
    )
    assert_same((train_clients(*given, None, block), train_one_by_one(*given, None)))


def test_same_seed_same_figures_and_the_order_follows_from_ones_own_seed() -> None:
    x, y, rows = data(np.float32)
    model = seeded(MODELS["mlp"])
    given = (model, start_of(model, np.float32), rows, x, y, functional.cross_entropy, PLAIN)
    first, again = (train_clients(*given, SEEDS, None, 4)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = train_clients(*given, [*SEEDS[:4], 99, *SEEDS[5:]], None, 4)[0]
    changed = np.abs(first - other).max(1) > 0
    assert list(np.flatnonzero(changed)) == [4]
    assert first.dtype == np.float32


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


def test_a_client_that_diverges_hurts_no_other() -> None:
    x, y, rows = data()
    x = np.concatenate([x, np.full((1, FEATURES), np.inf)])
    y = np.append(y, 0)
    model = seeded(MODELS["mlp"])
    given = (x, y, functional.cross_entropy, LocalTraining(2, 5, 0.1, grad_clip=1.0), SEEDS, None, 9)
    sound, _ = train_clients(model, start_of(model), rows, *given)
    broken, losses = train_clients(
        model, start_of(model), [*rows[:3], np.array([3, ROWS]), *rows[4:]], *given
    )
    assert np.isnan(broken[3]).any()
    assert np.isnan(losses[3])
    np.testing.assert_allclose(np.delete(broken, 3, 0), np.delete(sound, 3, 0), rtol=0, atol=1e-9)


def test_the_hook_sees_the_clients_still_at_work_and_its_fault_comes_through() -> None:
    x, y, rows = data()
    model, seen = seeded(MODELS["mlp"]), []

    def watch(weights: torch.Tensor, start: torch.Tensor, places: np.ndarray) -> torch.Tensor:
        assert len(places) == len(weights)
        seen.append(tuple(weights.shape))
        assert start.shape == (weights.shape[1],)
        return weights

    given = (model, start_of(model), rows, x, y, functional.cross_entropy, PLAIN, SEEDS)
    train_clients(*given, watch, 1)
    steps = [2 * len(clients._starts(size, PLAIN)) for size in SIZES]
    assert len(seen) == sum(steps)

    def fail(weights: torch.Tensor, start: torch.Tensor, places: np.ndarray) -> torch.Tensor:
        raise ArithmeticError("no")

    with pytest.raises(ArithmeticError, match="no"):
        train_clients(*given, fail, 4)


def test_threads_to_come_have_as_many_torch_threads_as_before(threads: int) -> None:
    x, y, rows = data()
    model, found = seeded(MODELS["mlp"]), []
    train_clients(model, start_of(model), rows, x, y, functional.cross_entropy, PLAIN, SEEDS, None, 4)
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert found == [threads]


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
    x, y, rows = data()
    model = make()
    with pytest.raises(ValueError, match=said) as refused:
        train_clients(model, start_of(model), rows, x, y, functional.cross_entropy, PLAIN, SEEDS, None, 4)
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
    model = seeded(MODELS["mlp"])
    x, y, rows = data()
    given = {
        "model": model,
        "start": start_of(model),
        "rows_of_clients": rows,
        "x": x,
        "y": y,
        "loss": functional.cross_entropy,
        "training": PLAIN,
        "seeds": SEEDS,
        "after_batch": None,
        "block": 4,
    }
    with pytest.raises(error, match=said):
        train_clients(**{**given, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"learning_rate": 0},
        {"momentum": 1.0},
        {"momentum": -0.1},
        {"weight_decay": -1},
        {"proximal_mu": float("nan")},
        {"grad_clip": 0},
    ],
)
def test_bad_trainings_are_named(change: dict) -> None:
    (name,) = change
    with pytest.raises(ValueError, match=f"{name} = .* is not allowed"):
        LocalTraining(**{"epochs": 1, "batch_size": 1, "learning_rate": 1.0, **change})


def test_a_products_squares_are_right_both_ways() -> None:
    generator = torch.Generator().manual_seed(0)
    for rows in (2, 40):
        left, right = (torch.randn(3, rows, n, generator=generator, dtype=torch.float64) for n in (6, 5))
        part = Product(slice(0, 30), left, right)
        whole = Whole(slice(0, 30), torch.bmm(left.transpose(1, 2), right).flatten(1))
        torch.testing.assert_close(part.squares(), whole.squares())


def test_linear_models_take_the_stacked_route() -> None:
    row = torch.zeros(1, FEATURES)
    weights, batch, y = torch.zeros(2, 115), torch.zeros(2, 4, FEATURES), torch.zeros(2, 4, dtype=torch.int64)
    parts, _ = Gradients(seeded(MODELS["mlp"]), functional.cross_entropy, row)(weights, batch, y, None)
    assert [type(part) for part in parts] == [Product, Whole, Product, Whole]
    parts, _ = Gradients(seeded(Shared), functional.cross_entropy, row)(torch.zeros(2, 165), batch, y, None)
    assert {type(part) for part in parts} == {Whole}


def test_the_best_block_is_a_power_of_two_that_every_thread_can_have(threads: int) -> None:
    x, y, _ = data()
    model = seeded(MODELS["mlp"])
    given = (model, start_of(model), x, y, functional.cross_entropy, PLAIN)
    assert best_block(*given, 24) in {1, 2, 4, 8, 16}
    assert best_block(*given, threads) == 1


@pytest.mark.parametrize(("members", "most", "count"), [(100, 32, 4), (9, 100, 2), (1, 4, 1), (3, 1, 3)])
def test_blocks_are_even_and_enough_for_two_threads(members: int, most: int, count: int) -> None:
    blocks = clients._blocks(np.arange(members), most, 2)
    assert len(blocks) == count
    sizes = [len(block) for block in blocks]
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    np.testing.assert_array_equal(np.concatenate(blocks), np.arange(members))
