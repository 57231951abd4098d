"""SCAFFOLD: two rounds by hand, no drift on heterogeneous quadratics, and what travels."""

import numpy as np
import pytest
import torch

from mechanisms.servers.scaffold import Scaffold
from mechanisms.servers.server import FedAvg, Federation, Step, Trained, Upload
from tests.unit.mechanisms.servers.quadratics import HETEROGENEOUS, Quadratics
from tests.unit.mechanisms.settings import vector, words

SMALL = Quadratics(np.array([1.0, 2.0]), np.array([[1.0], [-2.0]]), steps=2, rate=0.25)


def by_hand(case: Quadratics, chosen: list[list[int]], eta_g: float) -> tuple[float, float, list[float]]:
    """Algorithm 1 with option II in plain Python, for one parameter: x, c and every c_i."""
    x, c, own = 0.0, 0.0, [0.0] * len(case.slopes)
    for sample in chosen:
        moves, changes = [], []
        for i in sample:
            y = x
            for _ in range(case.steps):
                gradient = float(case.slopes[i]) * (y - float(case.targets[i, 0]))
                y = y - case.rate * (gradient + c - own[i])
            new = own[i] - c + (x - y) / (case.steps * case.rate)
            moves.append(y - x)
            changes.append(new - own[i])
            own[i] = new
        x += eta_g * sum(moves) / len(sample)
        c += len(sample) / len(own) * sum(changes) / len(sample)
    return x, c, own


@pytest.mark.parametrize("eta_g", [1.0, 0.5])
def test_rounds_are_those_of_the_printed_algorithm(eta_g: float) -> None:
    for rounds in (1, 2, 5):
        model, control = SMALL.run(Scaffold(SMALL.federation(), 2, eta_g), rounds)
        x, c, _ = by_hand(SMALL, [[0, 1]] * rounds, eta_g)
        assert float(model[0]) == pytest.approx(x, abs=1e-6)
        assert float(control[0]) == pytest.approx(c, abs=1e-5)


def test_only_the_sampled_part_of_all_clients_moves_the_server_s_control() -> None:
    """One of two clients a round: c moves by half of the change."""
    server, rng = Scaffold(SMALL.federation(), 1), np.random.default_rng(3)
    chosen = [server.sample(2, rng).tolist() for _ in range(6)]
    model, control = SMALL.run(server, 6, seed=3)
    x, c, own = by_hand(SMALL, chosen, 1.0)
    assert {client for one in chosen for client in one} == {0, 1}
    assert float(model[0]) == pytest.approx(x, abs=1e-6)
    assert float(control[0]) == pytest.approx(c, abs=1e-5)
    assert c == pytest.approx(sum(own) / 2), "the mean of all clients' controls"


@pytest.mark.parametrize("clients", [4, 2])
def test_it_reaches_the_optimum_where_averaging_drifts(clients: int) -> None:
    """With different slopes and ten steps a round the fixed point of averaging is another place."""
    case = HETEROGENEOUS
    server = Scaffold(case.federation(), clients)
    drifted, _ = case.run(FedAvg(case.federation(), 4), 200)
    found, control = case.run(server, 400)
    assert np.linalg.norm(drifted - case.best) > 0.5
    assert np.linalg.norm(found - case.best) < 1e-3
    assert control == pytest.approx([0, 0], abs=1e-3), "the mean of the clients' gradients"
    assert server.state_figures(control) == {"norm of the server's control": float(np.linalg.norm(control))}


def test_twice_the_model_travels_both_ways_and_it_says_so() -> None:
    server = Scaffold(Federation((5, 5), 3, (2, 1)), 2)
    ended = Trained(1, vector(1, 2, 3), vector(0, 0, 0), 5, 4, 0.5, vector(1, 0, 0), vector(0, 1, 0))
    sent = server.send(ended, words())
    assert sent.vector.tolist() == [1, 2, 3, -1.5, -1, -1.5]
    assert sent.kept.tolist() == [-1.5, 0, -1.5]
    assert sent.vector.dtype == sent.kept.dtype == np.float32
    assert len(server.told(server.start())) == server.client_memory == 3
    assert "twice as long as the model" in server.protects
    assert server.figures["vectors sent per model"] == 2
    assert (server.name, server.guarantee) == ("scaffold", None)


def test_the_correction_is_each_client_s_own() -> None:
    server = Scaffold(Federation((5, 5), 3, (2,)), 2)
    kept = np.array([[1, 0], [0, 3]], np.float32)
    step = Step(np.array([0, 1]), 0.5, vector(2, 2), kept)
    weights = torch.zeros(2, 2)
    moved = server.after_batch(weights, torch.zeros(2), step)
    assert moved.tolist() == [[-0.5, -1.0], [-1.0, 0.5]]
    assert weights.tolist() == [[0, 0], [0, 0]], "the argument is not changed"


def test_nobody_s_round_changes_nothing() -> None:
    server = Scaffold(Federation((5, 5), 3, (2,)), 2)
    model, state = vector(1, 2), np.ones(2)
    new, after = server.combine(model, state, [], words())
    assert new is model
    assert after is state
    server.combine(model, state, [Upload(0, 5, vector(1, 1, 1, 1))], words())
    assert (model.tolist(), state.tolist()) == ([1, 2], [1, 1])
