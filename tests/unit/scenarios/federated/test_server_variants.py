"""The servers that remember, in the round loop: they learn, repeat bit by bit, and do what they say."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenarios.clients.choices import Clients, MechanismChoice
from scenarios.clients.work import ClientWork, client_work
from scenarios.engines.room import load
from scenarios.federated.cell import FederatedCell
from scenarios.federated.rounds import train_block
from tests.own_studies import PLAIN
from tests.unit.scenarios.rooms import replayed

HERE = Path("none")
SOME = {"clients_per_round": 3}
ADAPTIVE = {"sampling_probability": 0.6, "noise_multiplier": 0.0, "delta": 1e-5, "start_clip": 1.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "fedavgm": SOME,
    "fedadam": {**SOME, "learning_rate": 0.1},
    "fedyogi": {**SOME, "learning_rate": 0.1},
    "fedprox": {**SOME, "proximal": 0.1},
    "scaffold": SOME,
    "dp-fedavg-adaptive": ADAPTIVE,
}


def cell(name: str, parameters: dict[str, Any], **train: Any) -> FederatedCell:
    """Five clients with rows of mostly one class each."""
    clients, mechanism = Clients("dirichlet", 5, {"alpha": 0.3}), MechanismChoice(name, parameters)
    return replace(PLAIN, arm=name, clients=clients, mechanism=mechanism).changed({"train": train})


def work_of(one: FederatedCell) -> ClientWork:
    return client_work(one, load("breast-cancer", HERE, 0))


@pytest.mark.parametrize(("name", "parameters"), VARIANTS.items(), ids=VARIANTS)
def test_it_learns_and_gives_the_same_bits_on_one_thread_and_on_two(name, parameters):
    one, two = (replayed(cell(name, parameters), threads) for threads in (1, 2))
    assert (one.figures, one.facts) == (two.figures, two.facts)
    assert one.final > 0.85
    if name == "dp-fedavg-adaptive":
        assert 0 < float(one.facts["last clip radius"] or 0) != 1.0
    if name == "scaffold":
        assert float(one.facts["norm of the server's control"] or 0) > 0


def test_a_proximal_term_keeps_clients_near_their_start() -> None:
    """The more, the larger mu; without it they are where federated averaging has them."""
    away = []
    for proximal in (0.0, 1.0, 5.0):
        work = work_of(cell("fedprox", {**SOME, "proximal": proximal}, epochs=5))
        sent = train_block(work, 1, work.start, np.arange(5), {})
        away.append(float(np.mean([np.linalg.norm(own.vector - work.start) for own in sent])))
    work = work_of(cell("fedavg", SOME, epochs=5))
    plain = train_block(work, 1, work.start, np.arange(5), {})
    assert away[0] == float(np.mean([np.linalg.norm(own.vector - work.start) for own in plain]))
    assert away[0] > 1.1 * away[1] > 1.1 * 1.1 * away[2]


def test_a_client_s_control_is_the_mean_of_its_gradients() -> None:
    """Option II, in the first round: without momentum, decay or a clip c_i = (x - y) / (K eta)."""
    one = cell("scaffold", SOME, momentum=0.0, epochs=3, batch_size=16).changed({"train": {"grad_clip": 1e9}})
    work = work_of(one)
    given = np.concatenate([work.start, work.mechanism.told(work.mechanism.start())])
    assert work.width == len(given) == 2 * len(work.start)
    for client, sent in enumerate(train_block(work, 1, given, np.arange(5), {})):
        rows = len(work.parts[client])
        steps = 3 * -(-rows // 16) - 3 * (rows > 1 and rows % 16 == 1)
        update, change = np.split(sent.vector, 2)
        assert change == pytest.approx(-update / (steps * one.train.learning_rate), rel=1e-4, abs=1e-6)
        assert np.array_equal(sent.kept, change)
