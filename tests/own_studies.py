"""A small study for tests: federated averaging on scikit-learn's own data, a second per cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from node.task.sections import ModelSection, TrainSection
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
from scenarios.federated.cell import FederatedCell
from scenarios.frame.spec import Chart, Claim, Table, Verdict
from scenarios.study.cells import Cell, Outcome
from scenarios.study.sweep import Quick, Study, Sweep

TRAIN = TrainSection(
    rounds=8, epochs=1, batch_size=16, optimizer="sgd", learning_rate=0.1, momentum=0.5, grad_clip=5.0
)
SHRINKING = "tests.own_mechanisms:Shrinking"
NOISY = {
    "clients_per_round": 3,
    "epsilon": 0.5,
    "constant": 1.0,
    "clip": 0.5,
    "proximal": 0.1,
    "grad_clip": 5.0,
    "sizes_joined": True,  # with 8 rounds and 3 of 5 clients the server's noise fires too: 8 > 3 sqrt 5
}
RPFL = {
    "clients_per_round": 3,
    "widths": [30, 8, 2],
    "epsilon": 1.0,
    "caps": [0.5, 2.0],
    "delta": 1e-5,
    "row_norm": 1.0,
    "theorem": {"lipschitz": 1.0, "steps": 10, "convexity": 0.01, "constant": 1.0},
    "gamma": 0.05,
    "weight": 0.1,
}

PLAIN = FederatedCell(
    arm="plain",
    seed=0,
    rows=RowChoice("breast-cancer"),
    clients=Clients("iid", 5),
    model=ModelSection("node.models:MLP", {"sizes": [30, 8, 2]}),
    train=TRAIN,
    mechanism=MechanismChoice("fedavg", {"clients_per_round": 3}),
    block=2,
)
NOISED = replace(PLAIN, arm="noised", mechanism=MechanismChoice("nbafl-federatedscope", NOISY))

REMEMBERING = replace(
    PLAIN,
    arm="remembering",
    mechanism=MechanismChoice("tests.own_mechanisms:Remembering", {"clients_per_round": 3}),
)


def own(path: str, parameters: Mapping[str, Any]) -> FederatedCell:
    """Makes the arm of a user's own mechanism."""
    return replace(PLAIN, arm="own", mechanism=MechanismChoice(path, parameters))


def noise_costs(sweep: Sweep) -> Verdict | None:
    """The only claim."""
    if not sweep.has("plain", "noised"):
        return None
    plain, noised = sweep.mean("plain"), sweep.mean("noised")
    return Verdict(plain >= noised, {"plain": plain, "noised": noised})


def charts(sweep: Sweep) -> tuple[Chart, ...]:
    """Makes one chart, with a bar for each arm."""
    bars = {"type": "bar", "x": list(sweep.outcomes), "y": [sweep.mean(arm) for arm in sweep.outcomes]}
    return (Chart("figures", "Accuracy", "After the last round.", (bars,), {}),)


def tables(sweep: Sweep) -> tuple[Table, ...]:
    """Makes one table, with a row for each arm."""
    rows = tuple((arm, f"{sweep.mean(arm):.4f}") for arm in sweep.outcomes)
    return (Table("Arms", ("arm", "accuracy"), rows),)


STUDY = Study(
    name="small",
    source="a test",
    summary="noise costs accuracy",
    stands_in=(("hospitals", "five parts of one table"),),
    data_sets=("breast-cancer",),
    arms=(PLAIN, NOISED),
    seeds=3,
    quick=Quick(seeds=2, rounds=2, arms=("plain",)),
    own=own,
    claims=(Claim("Noise costs accuracy.", noise_costs),),
    headline=lambda sweep: f"{sweep.mean('plain'):.3f} without noise.",
    charts=charts,
    tables=tables,
)


class Told:
    """A display that records what it is shown."""

    def __init__(self) -> None:
        self.rounds: dict[tuple[str, int], list[tuple[int, float]]] = {}
        self.ended: list[tuple[str, int]] = []

    def round_ended(self, cell: Cell, round: int, figure: float) -> None:
        """See SweepDisplay."""
        self.rounds.setdefault((cell.arm, cell.seed), []).append((round, figure))

    def cell_ended(self, cell: Cell, outcome: Outcome) -> None:
        """See SweepDisplay."""
        self.ended.append((cell.arm, cell.seed))
