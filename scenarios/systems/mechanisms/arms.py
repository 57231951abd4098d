"""The arms of scenario `mechanisms`: every mechanism at every stated epsilon, and those that state none.

Ten parties have scikit-learn's digits, a perceptron 64-64-10, and the same training. The factors of an arm
are its `mechanism` and the `epsilon` that it states, over the whole run; a new mechanism is a new line in
`LINES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mechanisms.servers.nbafl import constant_of
from mechanisms.servers.server import Federation
from node.system.errors import ConfigError
from node.task.import_path import import_class
from node.task.load import load_task
from node.task.sections import ModelSection
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
from scenarios.federated.cell import FederatedCell
from scenarios.study.arms import Arm, Where
from scenarios.study.cells import Cell
from scenarios.study.sweep import Sweep
from scenarios.swarms.cells import SwarmCell, changed_task, first_mechanism

PARTIES = 10
STATED = (1, 3, 10, 30, 100, 300, 1000)
"""The requested epsilons, over the whole run."""
DELTA = 1e-5
CLIP = 1.0
"""The clipping radius of updates and of row gradients in all exact mechanisms."""
ROW_NORM = 5.0
"""The bound of a row's L2 norm; no row of the digits exceeds it."""
GRAD_CLIP = 1.0
"""The L2 clip of a batch gradient for noisy rows; it serves stability, not privacy."""
WEIGHTS_CLIP = 10.0
"""NbAFL's C, the bound of the L2 norm of a client's weights."""
ELEMENT_CLIP = 0.5
"""FederatedScope's w_clip, the bound of each weight."""
WIDTHS = (64, 64, 10)
ROUNDING = 1 + 1e-6
"""The tolerated factor for the rounding of an accountant that searches."""
MAJORITY = 183 / 1797
"""The share of the most frequent digit, which is the accuracy of guessing."""

_TASK = load_task("digits", ())


# -- cells -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Federated(FederatedCell):
    """A federated cell in which every client takes part in each round, as every peer of a swarm does."""

    def among(self, peers: int) -> Federated:
        """See Cell.among."""
        parameters = dict(self.mechanism.parameters)
        if "clients_per_round" in parameters:
            parameters["clients_per_round"] = peers
        clients = replace(self.clients, count=peers)
        return replace(self, clients=clients, mechanism=replace(self.mechanism, parameters=parameters))


def _peers(arm: str, privacy: Mapping[str, object]) -> SwarmCell:
    return SwarmCell(arm, changed_task(_TASK, {"privacy": {"clipping_radius": CLIP, **privacy}}), PARTIES)


def _server(arm: str, path: str, parameters: Mapping[str, Any]) -> Federated:
    """A cell with a server; its rows are divided by the rule of a swarm, but by other draws."""
    return Federated(
        arm=arm,
        seed=0,
        rows=RowChoice("digits"),
        clients=Clients("dirichlet", PARTIES, {"alpha": 0.5, "min_rows": 8}),
        model=ModelSection("node.models:MLP", {"sizes": list(WIDTHS)}),
        train=_TASK.train,
        mechanism=MechanismChoice(path, parameters),
    )


def _node(**privacy: object) -> Callable[[str, float], Cell]:
    return lambda arm, epsilon: _peers(arm, {**privacy, "epsilon": epsilon, "delta": DELTA})


def _central(path: str, **parameters: object) -> Callable[[str, float], Federated]:
    """A maker of cells with a server's mechanism and all clients in each round."""
    everyone = {"clients_per_round": PARTIES, **parameters}
    return lambda arm, epsilon: _server(arm, path, {**everyone, "epsilon": float(epsilon)})


def _steady(cell: Federated) -> Federated:
    """The cell with clipped gradients: with noisy rows training would diverge otherwise."""
    return replace(cell, train=replace(cell.train, grad_clip=GRAD_CLIP))


def _row_noise(arm: str, epsilon: float) -> Cell:
    return _steady(_central("row-noise", delta=DELTA, row_norm=ROW_NORM)(arm, epsilon))


def _dp_fedavg(arm: str, epsilon: float) -> Cell:
    """DP-FedAvg with every user in each round and equal weights, so only z depends on the epsilon."""
    plain = {"sampling_probability": 1.0, "clip": CLIP, "per_layer": False, "estimator": "fixed"}
    own = {"epsilon": float(epsilon), "weight_cap": 1.0, "delta": DELTA}
    return _server(arm, "dp-fedavg-within", {**plain, **own})


def _rpfl(arm: str, epsilon: float) -> Cell:
    """RPFL with Theorem 1's noise, equal for all clients, and no regulariser, as in the printed line 19."""
    theorem = {"lipschitz": 1.0, "steps": 10, "convexity": 0.01, "constant": 1.0}
    rest = {"theorem": theorem, "row_norm": ROW_NORM, "delta": DELTA, "gamma": 0.05, "weight": 0.0}
    dealt = {"epsilon": float(epsilon), "caps": [float(epsilon)], "widths": list(WIDTHS)}
    return _steady(_server(arm, "rpfl", {"clients_per_round": PARTIES, **dealt, **rest}))


# -- arms --------------------------------------------------------------------------------------------------


EXACT = ("ldp", "aldp", "dp-fedavg", "dp-sgd", "row-noise", "label-dp")
"""The mechanisms whose stated epsilon is meant to be proved."""

_LOOSE: Mapping[str, object] = {"proximal": 0.0, "grad_clip": None}
_RAW = {"mechanism": "aldp", "window_source": "raw", "public_radius": True}
LINES: Mapping[str, Callable[[str, float], Cell]] = {
    "ldp": _node(mechanism="ldp"),
    "aldp": _node(mechanism="aldp"),
    "aldp-raw": _node(**_RAW),
    "aldp-linear": _node(**_RAW, calibration="linear-classic"),
    "dp-fedavg": _dp_fedavg,
    "nbafl": _central("nbafl", delta=DELTA, clip=WEIGHTS_CLIP, exposures=1, **_LOOSE),
    "nbafl-federatedscope": _central(
        "nbafl-federatedscope", constant=constant_of(DELTA), clip=ELEMENT_CLIP, sizes_joined=False, **_LOOSE
    ),
    "dp-sgd": _node(mechanism="dp-sgd"),
    "row-noise": _row_noise,
    "rpfl": _rpfl,
    "label-dp": _central("label-dp", classes=WIDTHS[-1]),
}
"""From each mechanism that states an epsilon to the maker of its cells, of an arm's name and an epsilon."""
FEWER: Mapping[str, Sequence[float]] = {"dp-sgd": STATED[:4], "label-dp": STATED[:4]}
"""The mechanisms that reach the result without noise early, and are not run at every epsilon."""


def _robust(arm: str, aggregator: str, parameters: Mapping[str, object]) -> Federated:
    own = {"clients_per_round": PARTIES, "aggregator": aggregator, "parameters": parameters}
    return _server(arm, "mechanisms.robust_server:Robust", own)


_QUIET = (
    _peers("secure-sum", {"mechanism": "none"}),
    _server("fedavg", "fedavg", {"clients_per_round": PARTIES}),
    _robust("median", "coordinate-median", {}),
    _robust("weak-dp", "weak-dp", {"norm_bound": CLIP, "noise_std": 0.025}),
)
ARMS: tuple[Arm, ...] = (
    *(Arm(cell, {"mechanism": cell.arm}) for cell in _QUIET),
    *(
        Arm(make(f"{name}-{epsilon:g}", epsilon), {"mechanism": name, "epsilon": epsilon})
        for name, make in LINES.items()
        for epsilon in FEWER.get(name, STATED)
    ),
)


def of(mechanism: str, epsilon: float | None = None) -> Where:
    """The arms of a mechanism; with an epsilon the one that states it."""
    return {"mechanism": mechanism} if epsilon is None else {"mechanism": mechanism, "epsilon": epsilon}


# -- a user's own mechanism --------------------------------------------------------------------------------

_WHOLE = Federation((1438 // PARTIES,) * PARTIES, _TASK.train.rounds, (4096, 64, 640, 10))
"""A federation to try whether a user's class accepts one; the real federation has other rows."""


def own(path: str, parameters: Mapping[str, Any]) -> Cell:
    """An arm with a user's mechanism: a server's if it can be made as one, else a node's.

    `path`: a name of `mechanisms.registry`, or an import path. A server's class is called with a
    `mechanisms.servers.server.Federation` and `parameters`, a node's with a
    `mechanisms.mechanism.Setting`; its `parameters` are keys of [privacy]. Raises ConfigError if both fail.
    """
    if ":" in path:
        import_class(path)
    try:
        MechanismChoice(path, parameters).make(_WHOLE)
        return _server("own", path, parameters)
    except ConfigError as error:
        no_server = error
    try:
        cell = _peers("own", {**parameters, "mechanism": path})
        first_mechanism(cell)
    except ConfigError as no_node:
        raise ConfigError(
            f"scenario.mechanism is no server's mechanism ({no_server}) and no node's ({no_node})"
        ) from None
    return cell


# -- arms that were run ------------------------------------------------------------------------------------


def by_stated(sweep: Sweep, mechanism: str) -> dict[str, float]:
    """The arms of a mechanism that were run, each with the epsilon that it states, from the smallest."""
    return sweep.line("epsilon", of(mechanism)).points


def by_proved(sweep: Sweep, mechanism: str) -> dict[str, float]:
    """The arms of a mechanism that were run and have one that is proved, each with that epsilon."""
    spent = {arm: proved_epsilon(sweep, arm) for arm in by_stated(sweep, mechanism)}
    return {arm: epsilon for arm, epsilon in spent.items() if epsilon == epsilon}


def proved_epsilon(sweep: Sweep, arm: str) -> float:
    """The epsilon that covers all that leaves an arm's parties; NaN if there is none.

    A radius of raw norms leaves with the noise level: the epsilon of such an arm holds only given the radius.
    """
    return math.nan if shows_radius(sweep, arm) else sweep.number(arm, "epsilon")


def shows_radius(sweep: Sweep, arm: str) -> bool:
    """Whether the noise of an arm's offers shows the norms of its parties' updates."""
    cell = sweep.cells[arm]
    return isinstance(cell, SwarmCell) and cell.task.privacy.shows_radius


def keeps(sweep: Sweep, arm: str) -> bool:
    """Whether an arm spends no more than it states, up to rounding; False if it has no proved epsilon."""
    return proved_epsilon(sweep, arm) <= _stated(sweep, arm) * ROUNDING


def keeps_given_radius(sweep: Sweep, arm: str) -> bool:
    """Whether an arm's noise, with its radius taken as public, costs no more than is stated."""
    return sweep.number(arm, "epsilon") <= _stated(sweep, arm) * ROUNDING


def _stated(sweep: Sweep, arm: str) -> float:
    """The epsilon that was asked for; of a user's mechanism the one that it states, NaN if there is none."""
    asked = sweep.factor(arm, "epsilon")
    return sweep.number(arm, "stated") if math.isnan(asked) else asked
