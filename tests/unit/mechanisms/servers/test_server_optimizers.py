"""Server optimisers: rounds by hand, closed forms, torch's Adam, and what is not allowed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mechanisms.servers.server import FedAvg, Federation
from mechanisms.servers.server_optimizers import OptimizingServer, fedadam, fedavgm, fedyogi
from tests.unit.mechanisms.servers.quadratics import HETEROGENEOUS
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


def test_rounds_by_hand() -> None:
    """Momentum: D = (1.5, 1, -1.5), then (1.625, 0, -0.625) - x; beta 0.5, eta 0.5."""
    first, second, _ = models(fedavgm(FEDERATION, 2, learning_rate=0.5, momentum=0.5))
    assert first == pytest.approx([0.75, 0.5, -0.75])
    # v = 0.5 (1.5, 1, -1.5) + (1.625 - 0.75, 0 - 0.5, -0.625 + 0.75) = (1.625, 0, -0.625)
    assert second == pytest.approx([0.75 + 0.8125, 0.5, -0.75 - 0.3125])


@pytest.mark.parametrize("make", [fedadam, fedyogi])
@pytest.mark.parametrize(("beta1", "beta2", "tau"), [(0.9, 0.99, 1e-3), (0.0, 0.5, 2.0), (0.5, 0.0, 0.1)])
def test_adaptive_steps_are_those_of_the_printed_algorithm(
    make, beta1: float, beta2: float, tau: float
) -> None:
    found = models(make(FEDERATION, 2, 0.3, beta1, beta2, tau))
    for model, wanted in zip(found, expected(make.__name__, 0.3, beta1, beta2, tau), strict=True):
        assert model == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_momentum_is_that_of_the_printed_algorithm() -> None:
    found = models(fedavgm(FEDERATION, 2, 0.7, 0.9))
    for model, wanted in zip(found, expected("fedavgm", 0.7, 0.9, 0, 0), strict=True):
        assert model == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_without_momentum_it_is_federated_averaging() -> None:
    plain = FedAvg(FEDERATION, 2)
    for model, sent in zip(models(fedavgm(FEDERATION, 2, 1.0, 0.0)), ROUNDS, strict=True):
        mean, _ = plain.combine(model, None, uploads_of(sent, (30, 10)), words())
        assert model == pytest.approx(mean, rel=1e-6)


def test_momentum_under_a_constant_update_has_its_closed_form() -> None:
    """v_t = (1 - beta^t) / (1 - beta) D, so x_T = D sum of v_t: the step grows to D / (1 - beta)."""
    server, beta, rounds = fedavgm(FEDERATION, 2, 1.0, 0.8), 0.8, 30
    model, state, update = vector(0, 0, 0), server.start(), vector(0.25, -0.5, 1.0)
    for _ in range(rounds):
        sent = [model + update, model + update]
        model, state = server.combine(model, state, uploads_of(sent, (30, 10)), words())
    total = sum((1 - beta**t) / (1 - beta) for t in range(1, rounds + 1))
    assert model == pytest.approx(total * update, rel=1e-5)
    assert state == pytest.approx((1 - beta**rounds) / (1 - beta) * update, rel=1e-4)


def test_fedadam_takes_the_steps_of_torch_s_adam() -> None:
    """torch corrects the moments for their start: its rate and eps of step t undo that; v begins at tau^2."""
    eta, beta1, beta2, tau = 0.3, 0.9, 0.99, 0.05
    parameter = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer = torch.optim.Adam([parameter], betas=(beta1, beta2))
    start = {"step": torch.tensor(0.0), "exp_avg": torch.zeros(3, dtype=torch.float64)}
    optimizer.state[parameter] = {**start, "exp_avg_sq": torch.full((3,), tau**2, dtype=torch.float64)}
    for number, (model, sent) in enumerate(
        zip(models(fedadam(FEDERATION, 2, eta, beta1, beta2, tau)), ROUNDS, strict=True), start=1
    ):
        mean = (30 * sent[0].astype(np.float64) + 10 * sent[1]) / 40
        parameter.grad = parameter.detach() - torch.from_numpy(mean)  # the update is minus the gradient
        root = math.sqrt(1 - beta2**number)
        optimizer.param_groups[0].update(lr=eta * (1 - beta1**number) / root, eps=tau / root)
        optimizer.step()
        assert model == pytest.approx(parameter.detach().numpy(), rel=1e-4, abs=1e-5)


def test_yogi_forgets_large_updates_more_slowly_than_adam() -> None:
    """After one update of 10 and many of 0.1: v falls by 0.01 (1 - beta2) a round, not by a factor."""
    seconds = []
    for make in (fedadam, fedyogi):
        server = make(Federation((1,), 5, (1,)), 1, 0.001, 0.9, 0.9, 1e-3)
        model, state = vector(0), server.start()
        for update in [10.0] + [0.1] * 40:
            model, state = server.combine(model, state, uploads_of([model + vector(update)], [1]), words())
        seconds.append(float(state.second[0]))
    adam, yogi = seconds
    assert adam == pytest.approx(10 * 0.9**40 + 0.01 * (1 - 0.9**40), rel=1e-2)
    assert yogi == pytest.approx(10 - 40 * 0.1 * 0.01, rel=1e-2)


@pytest.mark.parametrize("make", [fedavgm, fedadam, fedyogi])
def test_a_round_without_uploads_changes_nothing(make) -> None:
    server = make(FEDERATION, 2)
    state, model = server.start(), vector(1, 2, 3)
    new, after = server.combine(model, state, [], words())
    assert new is model
    assert after is state


@pytest.mark.parametrize("make", [fedavgm, fedadam, fedyogi])
def test_hooks_change_none_of_their_arguments(make) -> None:
    server = make(FEDERATION, 2)
    state, model, uploads = server.start(), vector(0, 0, 0), uploads_of(ROUNDS[0], (30, 10))
    first, _ = server.combine(model, state, uploads, words())
    again, _ = server.combine(model, state, uploads, words())
    assert np.array_equal(first, again)
    assert model.tolist() == [0, 0, 0]
    assert server.guarantee is None
    assert "without noise" in server.protects


@pytest.mark.parametrize(
    ("make", "parameters"), [(fedavgm, {"momentum": 0.5}), (fedadam, {}), (fedyogi, {"learning_rate": 0.02})]
)
def test_they_learn(make, parameters: dict[str, float]) -> None:
    """On quadratics with one step a round, where averages of clients do not drift."""
    case = HETEROGENEOUS
    one_step = type(case)(case.slopes, case.targets, 1, 0.1)
    server = make(case.federation(), 4, **parameters)
    model, _ = one_step.run(server, 400)
    assert np.linalg.norm(model - case.best) < 0.1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fedavgm(FEDERATION, 3), "clients_per_round = 3 is not allowed: at most 2"),
        (lambda: fedavgm(FEDERATION, 2, 0.0), r"learning_rate = 0\.0 is not allowed"),
        (
            lambda: fedavgm(FEDERATION, 2, 1.0, 1.0),
            r"momentum = 1\.0 is not allowed: a number from 0 to below 1",
        ),
        (lambda: fedavgm(FEDERATION, 2, 1.0, -0.1), r"momentum = -0\.1 is not allowed"),
        (lambda: fedadam(FEDERATION, 2, -1.0), r"learning_rate = -1\.0 is not allowed"),
        (
            lambda: fedadam(FEDERATION, 2, beta1=1.0),
            r"beta1 = 1\.0 is not allowed: a number from 0 to below 1",
        ),
        (
            lambda: fedyogi(FEDERATION, 2, beta2=1.5),
            r"beta2 = 1\.5 is not allowed: a number from 0 to below 1",
        ),
        (lambda: fedyogi(FEDERATION, 2, tau=0.0), r"tau = 0\.0 is not allowed"),
    ],
)
def test_what_can_not_be(call, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
