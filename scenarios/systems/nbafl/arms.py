"""The arms of scenario `nbafl`: a table's nine cells in two ways, a noised download, and MNIST."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mechanisms.servers.nbafl import TABLE_CONSTANTS, TABLE_EPSILONS, delta_of, epsilon_of_clipped_steps
from node.task.sections import ModelSection, TrainSection
from scenarios.clients.choices import Clients, MechanismChoice, Rows
from scenarios.federated.cell import FederatedCell
from scenarios.study.sweep import Sweep

WRITERS, DIGITS = "femnist-digits", "mnist"

CELLS = tuple(
    sorted(
        ((epsilon, constant) for epsilon in TABLE_EPSILONS for constant in TABLE_CONSTANTS),
        key=lambda cell: (cell[1] / cell[0], cell[0]),
    )
)
"""The pairs (epsilon, c), from little noise to much."""

NO_NOISE, CLIP_ONLY = "no-noise", "federatedscope-clip-only"
TEST, TEST_SILENT = "federatedscope-test", "federatedscope-test-sizes-unknown"
KINDS: Mapping[str, str] = {"federatedscope": "FederatedScope", "paper": "the paper"}

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


# -- names -------------------------------------------------------------------------------------------------


def table_arm(kind: str, epsilon: float, constant: float) -> str:
    """The name of the arm for a cell of the table; `kind` is one of `KINDS`."""
    return f"{kind}-eps{epsilon:g}-c{constant:g}"


def by_ratio(sweep: Sweep, kind: str) -> dict[str, float]:
    """The cells of a kind that were run, each with its c / epsilon, from little noise to much."""
    arms = {table_arm(kind, *cell): cell[1] / cell[0] for cell in CELLS}
    return {arm: ratio for arm, ratio in arms.items() if sweep.has(arm)}


def mnist_arm(epsilon: float | None, clients: int = MNIST_CLIENTS, rounds: int = MNIST_ROUNDS) -> str:
    """The name of the arm on MNIST at this epsilon; None: without noise."""
    protection = "no-noise" if epsilon is None else f"eps{epsilon:g}"
    varied = f"-{clients}clients" if clients != MNIST_CLIENTS else ""
    return f"mnist{varied}-{protection}" + (f"-{rounds}rounds" if rounds != MNIST_ROUNDS else "")


def stated_in(sweep: Sweep, arm: str) -> float:
    """The epsilon that an arm's mechanism is given, whatever it achieves."""
    return float(_run(sweep, arm).mechanism.parameters["epsilon"])


def proved_by_steps(sweep: Sweep, arm: str) -> float | None:
    """The epsilon that the clipped gradients of a cell of FederatedScope's table prove; None without any.

    Of its clients the largest counts: it takes most steps, and has the least noise.
    """
    cell, parameters = _run(sweep, arm), _run(sweep, arm).mechanism.parameters
    train = cell.train
    if train.grad_clip is None or train.momentum or train.weight_decay:
        return None
    epsilon, constant = float(parameters["epsilon"]), float(parameters["constant"])
    noise_std = sweep.number(arm, "least upload noise std")
    rows = round(parameters["clip"] * cell.rounds * constant / (noise_std * epsilon))
    steps = train.epochs * math.ceil(rows / train.batch_size)
    movement = train.learning_rate * train.grad_clip
    return epsilon_of_clipped_steps(movement, steps, noise_std, cell.rounds, delta_of(constant))


def by_epsilon(sweep: Sweep) -> dict[str, float]:
    """MNIST's arms with all clients that were run, each with its epsilon."""
    return _there(sweep, {mnist_arm(epsilon): epsilon for epsilon in MNIST_EPSILONS})


def by_clients(sweep: Sweep, epsilon: float | None) -> dict[str, float]:
    """MNIST's arms at this epsilon that were run, each with its number of clients."""
    arms = (mnist_arm(epsilon, clients) for clients in (*MNIST_FEWER, MNIST_CLIENTS))
    return _apart({arm: float(_run(sweep, arm).clients.count) for arm in arms if sweep.has(arm)})


def by_rounds(sweep: Sweep) -> dict[str, float]:
    """MNIST's arms at `MNIST_EPSILON` that were run, each with its rounds."""
    arms = (mnist_arm(MNIST_EPSILON, rounds=number) for number in sorted((*MNIST_OTHER_ROUNDS, MNIST_ROUNDS)))
    return _apart({arm: float(_run(sweep, arm).rounds) for arm in arms if sweep.has(arm)})


def _there(sweep: Sweep, arms: Mapping[str, float]) -> dict[str, float]:
    return {arm: value for arm, value in arms.items() if sweep.has(arm)}


def _run(sweep: Sweep, arm: str) -> FederatedCell:
    """The cell of an arm as it was run; the command line may have changed its clients and rounds."""
    return next(cell for cell in sweep.arms if cell.arm == arm and isinstance(cell, FederatedCell))


def _apart(arms: dict[str, float]) -> dict[str, float]:
    """Return `arms`, or none if the command line has made two of them equal."""
    return arms if len(set(arms.values())) == len(arms) else {}


# -- cells -------------------------------------------------------------------------------------------------


def _on_writers(arm: str, mechanism: MechanismChoice) -> FederatedCell:
    """An arm on FEMNIST digits: 120 clients, each with about 40 rows of one of the file's 12, and 60 rounds.

    FederatedScope's upload noise is proportional to rounds over rows per client: 60 / 40 here, 300 / 200
    there.
    """
    return FederatedCell(
        arm=arm,
        seed=0,
        rows=Rows(WRITERS),
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


def _table_cells() -> dict[str, MechanismChoice]:
    """The nine cells in both ways; c stands for the delta that it has by the classic formula."""
    theirs = {
        table_arm("federatedscope", epsilon, constant): _federatedscope(epsilon, constant)
        for epsilon, constant in CELLS
    }
    papers = {
        table_arm("paper", epsilon, constant): _paper(
            epsilon, delta_of(constant), _PAPER_CLIP, _TABLE_CHOSEN, proximal=0.01
        )
        for epsilon, constant in CELLS
    }
    return {**theirs, **papers}


def _test_cell(arm: str, sizes_joined: bool) -> FederatedCell:
    """FederatedScope's own test of NbAFL: the server noises the download if it knows all sizes."""
    mechanism = _federatedscope(50.0, 2.0, clients_per_round=5, proximal=0.1, sizes_joined=sizes_joined)
    cell = replace(_on_writers(arm, mechanism), clients=Clients("pieces", 10))
    return replace(cell, train=replace(cell.train, rounds=20, learning_rate=0.001, grad_clip=None))


def _on_mnist(
    epsilon: float | None, clients: int = MNIST_CLIENTS, rounds: int = MNIST_ROUNDS
) -> FederatedCell:
    """The paper's setting on MNIST: all clients in every round, its model and learning rate.

    At that rate, with batches of 10 and momentum, it learns within 25 rounds of one local epoch.
    """
    mechanism = MechanismChoice("fedavg", {"clients_per_round": clients})
    if epsilon is not None:
        mechanism = _paper(epsilon, _MNIST_DELTA, _MNIST_CLIP, clients, proximal=0.0)
    return FederatedCell(
        arm=mnist_arm(epsilon, clients, rounds),
        seed=0,
        rows=Rows(DIGITS, clients * _MNIST_ROWS),
        clients=Clients("iid", clients),
        model=ModelSection("node.models:MLP", {"sizes": [784, 256, 10]}),
        train=TrainSection(rounds=rounds, epochs=1, batch_size=10, learning_rate=0.002, momentum=0.9),
        mechanism=mechanism,
    )


def _mnist_cells() -> tuple[FederatedCell, ...]:
    return (
        _on_mnist(None),
        *(_on_mnist(epsilon) for epsilon in MNIST_EPSILONS),
        *(_on_mnist(epsilon, clients) for clients in MNIST_FEWER for epsilon in (None, MNIST_EPSILON)),
        *(_on_mnist(MNIST_EPSILON, rounds=rounds) for rounds in MNIST_OTHER_ROUNDS),
    )


def own(path: str, parameters: Mapping[str, Any]) -> FederatedCell:
    """An arm with a user's own mechanism, otherwise equal to the one without noise."""
    return _on_writers("own", MechanismChoice(path, parameters))


ARMS = (
    _on_writers(NO_NOISE, MechanismChoice("fedavg", {"clients_per_round": _TABLE_CHOSEN})),
    _on_writers(CLIP_ONLY, _federatedscope(_NOT_NOISED, 1.0)),
    *(_on_writers(arm, mechanism) for arm, mechanism in _table_cells().items()),
    _test_cell(TEST, sizes_joined=True),
    _test_cell(TEST_SILENT, sizes_joined=False),
    *_mnist_cells(),
)
