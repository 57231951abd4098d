"""The arms of scenario `nbafl`: a table's nine cells in two ways, a noised download, and MNIST."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mechanisms.servers.nbafl import TABLE_CONSTANTS, TABLE_EPSILONS, delta_of
from node.task.sections import ModelSection, TrainSection
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
from scenarios.federated.cell import FederatedCell
from scenarios.study.arms import Arm, Factors

DATA_SETS = WRITERS, DIGITS = "femnist-digits", "mnist"

RATIO = "c / epsilon"
CELLS = tuple(
    sorted(
        ((epsilon, constant) for epsilon in TABLE_EPSILONS for constant in TABLE_CONSTANTS),
        key=lambda cell: (cell[1] / cell[0], cell[0]),
    )
)
"""The pairs (epsilon, c), from little noise to much."""

WAYS: Mapping[str, str] = {"federatedscope": "FederatedScope", "paper": "the paper"}
"""Whose arms the table's cells are; each has the factors epsilon, constant and `RATIO`."""


def writers(way: str) -> Factors:
    """Arms on the writers of FEMNIST: of one of both ways, its test, its clip alone, or without noise."""
    return {"data": WRITERS, "way": way}


def mnist(way: str) -> Factors:
    """Arms on MNIST, by the paper or without noise."""
    return {"data": DIGITS, "way": way}


_NOT_NOISED = 1e9
"""An epsilon at which the noise is below the float32 precision of the weights."""
_TABLE_CLIENTS, _TABLE_CHOSEN = 120, 24
_PAPER_CLIP = 3.0
"""C. The paper advises the median L2 norm of uploads without noise or clip, which is 3.1."""

MNIST_EPSILONS = (5.0, 10.0, 20.0, 50.0, 100.0)
MNIST_EPSILON, MNIST_CLIENTS, MNIST_ROUNDS = 20.0, 50, 25
"""The usual values, in the arms that vary another parameter."""
MNIST_FEWER = (10, 25)
MNIST_OTHER_ROUNDS = (5, 10, 40)
_MNIST_ROWS, _MNIST_DELTA = 200, 0.01
_MNIST_CLIP = 10.0
"""C, chosen as above."""


# -- cells -------------------------------------------------------------------------------------------------


def _on_writers(arm: str, mechanism: MechanismChoice) -> FederatedCell:
    """An arm on FEMNIST digits: 120 clients, each with about 40 rows of one of the file's 12, and 60 rounds.

    FederatedScope's upload noise is proportional to rounds over rows per client: 60 / 40 here, 300 / 200
    there.
    """
    return FederatedCell(
        arm=arm,
        seed=0,
        rows=RowChoice(WRITERS),
        clients=Clients("pieces", _TABLE_CLIENTS),
        model=ModelSection("scenarios.models:SmallCNN", {"outputs": 10}),
        train=TrainSection(
            rounds=60, epochs=1, batch_size=10, learning_rate=0.015, momentum=0.0, grad_clip=5.0
        ),
        mechanism=mechanism,
    )


def _federatedscope(epsilon: float, constant: float, **others: object) -> MechanismChoice:
    usual = {"clients_per_round": _TABLE_CHOSEN, "proximal": 0.01, "sizes_joined": False}
    fixed = {"epsilon": epsilon, "constant": constant, "clip": 0.1, "grad_clip": None}
    return MechanismChoice("nbafl-federatedscope", {**fixed, **usual, **others})


def _paper(
    epsilon: float, delta: float, clip: float, clients_per_round: int, proximal: float
) -> MechanismChoice:
    """The paper's mechanism with one exposure per upload, L = 1, as proved for a client seen in one round."""
    varied = {"epsilon": epsilon, "delta": delta, "clip": clip, "clients_per_round": clients_per_round}
    return MechanismChoice("nbafl", {**varied, "exposures": 1, "proximal": proximal, "grad_clip": None})


def _table_arm(way: str, epsilon: float, constant: float) -> Arm:
    """A cell of the table in one of both ways; c stands for the delta that it has by the classic formula."""
    theirs = way == "federatedscope"
    clipped = (_PAPER_CLIP, _TABLE_CHOSEN, 0.01)
    mechanism = (
        _federatedscope(epsilon, constant) if theirs else _paper(epsilon, delta_of(constant), *clipped)
    )
    budget = {"epsilon": epsilon, "constant": constant, RATIO: constant / epsilon}
    cell = _on_writers(f"{way}-eps{epsilon:g}-c{constant:g}", mechanism)
    return Arm(cell, {**writers(way), **budget})


def _test_arm(name: str, sizes_joined: bool) -> Arm:
    """FederatedScope's own test of NbAFL: the server noises the download if it knows all sizes."""
    mechanism = _federatedscope(50.0, 2.0, clients_per_round=5, proximal=0.1, sizes_joined=sizes_joined)
    cell = replace(_on_writers(name, mechanism), clients=Clients("pieces", 10))
    train = replace(cell.train, rounds=20, learning_rate=0.001, grad_clip=None)
    return Arm(replace(cell, train=train), {**writers("federatedscope's test"), "sizes joined": sizes_joined})


def _mnist_arm(epsilon: float | None = None, clients: int = MNIST_CLIENTS, rounds: int = MNIST_ROUNDS) -> Arm:
    """The paper's setting on MNIST: all clients in every round, its model and learning rate.

    At that rate, with batches of 10 and momentum, it learns within 25 rounds of one local epoch.
    """
    mechanism, factors = MechanismChoice("fedavg", {"clients_per_round": clients}), mnist("no noise")
    if epsilon is not None:
        mechanism = _paper(epsilon, _MNIST_DELTA, _MNIST_CLIP, clients, proximal=0.0)
        factors = {**mnist("paper"), "epsilon": epsilon}
    parts = (
        "mnist",
        *([f"{clients}clients"] if clients != MNIST_CLIENTS else []),
        "no-noise" if epsilon is None else f"eps{epsilon:g}",
        *([f"{rounds}rounds"] if rounds != MNIST_ROUNDS else []),
    )
    cell = FederatedCell(
        arm="-".join(parts),
        seed=0,
        rows=RowChoice(DIGITS, clients * _MNIST_ROWS),
        clients=Clients("iid", clients),
        model=ModelSection("node.models:MLP", {"sizes": [784, 256, 10]}),
        train=TrainSection(rounds=rounds, epochs=1, batch_size=10, learning_rate=0.002, momentum=0.9),
        mechanism=mechanism,
    )
    return Arm(cell, {**factors, "clients": clients, "rounds": rounds})


def own(path: str, parameters: Mapping[str, Any]) -> FederatedCell:
    """An arm with a user's own mechanism, otherwise equal to the one without noise."""
    return _on_writers("own", MechanismChoice(path, parameters))


def _on_writers_arm(name: str, factors: Factors, mechanism: MechanismChoice) -> Arm:
    return Arm(_on_writers(name, mechanism), factors)


ARMS: tuple[Arm, ...] = (
    _on_writers_arm(
        "no-noise", writers("no noise"), MechanismChoice("fedavg", {"clients_per_round": _TABLE_CHOSEN})
    ),
    _on_writers_arm("federatedscope-clip-only", writers("clip only"), _federatedscope(_NOT_NOISED, 1.0)),
    *(_table_arm(way, *cell) for way in WAYS for cell in CELLS),
    _test_arm("federatedscope-test", sizes_joined=True),
    _test_arm("federatedscope-test-sizes-unknown", sizes_joined=False),
    _mnist_arm(),
    *(_mnist_arm(epsilon) for epsilon in MNIST_EPSILONS),
    *(_mnist_arm(epsilon, clients) for clients in MNIST_FEWER for epsilon in (None, MNIST_EPSILON)),
    *(_mnist_arm(MNIST_EPSILON, rounds=number) for number in MNIST_OTHER_ROUNDS),
)
