"""Server optimisers: rounds by hand, closed forms, torch's Adam, and what is not allowed."""

import math

import numpy as np
import pytest

from mechanisms.servers.server import FedAvg, Federation
from mechanisms.servers.server_optimizers import OptimizingServer, fedadam, fedavgm, fedyogi
from tests.unit.mechanisms.settings import uploads_of, vector, words

FEDERATION = Federation((30, 10), 5, (2, 1))
ROUNDS = [
    [vector(1.0, 0.0, -2.0), vector(3.0, 4.0, 0.0)],
    [vector(2.0, 1.0, -1.0), vector(0.5, -3.0, 0.5)],
    [vector(0.0, 1.5, 1.0), vector(1.0, 1.0, 1.0)],
]
"""What the two clients upload in three rounds."""


def models(server: OptimizingServer) -> list[np.ndarray]:
    """The model after each of the rounds, from 0."""
    model, state, found = vector(0, 0, 0), server.start(), []
    for sent in ROUNDS:
        model, state = server.combine(model, state, uploads_of(sent, (30, 10)), words())
        assert model.dtype == np.float32
        found.append(model)
    return found


def expected(kind: str, eta: float, beta1: float, beta2: float, tau: float) -> list[list[float]]:
    """The same in plain Python, coordinate by coordinate, as the papers print it."""
    found = [[0.0] * 3 for _ in ROUNDS]
    for at in range(3):
        x, m, v = 0.0, 0.0, tau**2
        for number, (one, other) in enumerate(ROUNDS):
            update = (30 * float(one[at]) + 10 * float(other[at])) / 40 - x
            if kind == "fedavgm":
                m = beta1 * m + update
                x = x + eta * m
            else:
                m = beta1 * m + (1 - beta1) * update
                square = update * update
                if kind == "fedadam":
                    v = beta2 * v + (1 - beta2) * square
                else:
                    v = v - (1 - beta2) * square * ((v > square) - (v < square))
                x = x + eta * m / (math.sqrt(v) + tau)
            found[number][at] = x
    return found


@pytest.mark.parametrize("make", [fedadam, fedyogi])
@pytest.mark.parametrize("rule", [(0.9, 0.99, 1e-3), (0.0, 0.5, 2.0), (0.5, 0.0, 0.1)])
def test_adaptive_steps_are_those_of_the_printed_algorithm(make, rule: tuple[float, float, float]) -> None:
    found = models(make(FEDERATION, 2, 0.3, *rule))
    for model, wanted in zip(found, expected(make.__name__, 0.3, *rule), strict=True):
        assert model == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_momentum_is_that_of_the_printed_algorithm_and_without_it_it_is_federated_averaging() -> None:
    for model, wanted in zip(
        models(fedavgm(FEDERATION, 2, 0.7, 0.9)), expected("fedavgm", 0.7, 0.9, 0, 0), strict=True
    ):
        assert model == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    plain = FedAvg(FEDERATION, 2)
    for model, sent in zip(models(fedavgm(FEDERATION, 2, 1.0, 0.0)), ROUNDS, strict=True):
        mean, _ = plain.combine(model, None, uploads_of(sent, (30, 10)), words())
        assert model == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("make", [fedavgm, fedadam, fedyogi])
def test_hooks_change_none_of_their_arguments_and_no_upload_changes_nothing(make) -> None:
    server = make(FEDERATION, 2)
    state, model, uploads = server.start(), vector(0, 0, 0), uploads_of(ROUNDS[0], (30, 10))
    first, again = (server.combine(model, state, uploads, words())[0] for _ in range(2))
    assert np.array_equal(first, again)
    assert model.tolist() == [0, 0, 0]
    assert server.guarantee is None
    assert "without noise" in server.protects
    new, after = server.combine(model, state, [], words())
    assert new is model
    assert after is state
