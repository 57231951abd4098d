"""The arms of scenario `rpfl`: attacks and defences on Adult and on loans, and membership inference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mechanisms.accounting import gaussian
from node.task.sections import ModelSection, TrainSection
from scenarios.clients.choices import Clients, MechanismChoice, Rows
from scenarios.clients.poisons import Attackers, Backdoor, FreeRide, LabelFlip, Scaling, SignFlip, Trigger
from scenarios.federated.cell import FederatedCell
from scenarios.study.cells import Cell
from scenarios.study.sweep import Sweep
from scenarios.systems.rpfl import lying

DELTA, ROW_NORM, CONFIDENCE = 1e-5, 1.0, 0.95
STATED = 1.0
"""The epsilon per client: the mean of RPFL's budgets, and the bound of local noise on rows."""
CAPS = (0.5, 1.0, 2.0)
"""b_i: the budgets that clients allow, in turn."""
THEOREM = {"lipschitz": 1.0, "steps": 10, "convexity": 0.01, "constant": 1.0}
CENTRAL = 8.0
"""The epsilon of central noise, for a client's whole data, at which the swarm can learn."""
SHARES = (0.1, 0.2, 0.3, 0.4)
"""The shares of clients that attack."""
WEIGHTS = (0.0, 0.01, 0.03)
"""The weights of RPFL's regulariser; 0 is the algorithm as printed, except that noise is drawn once."""
NOISES = (3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0)
"""The epsilons of noise on rows, from little noise to much, for the document's curve of robustness."""
HORIZONS = (15, 30, 60)
"""The rounds of Theorem 3's arms."""
CONVEXITY = THEOREM["convexity"]
"""The weight decay of Theorem 3's arms: the loss is so strongly convex."""


# -- defences ----------------------------------------------------------------------------------------------

FEDAVG, NORM, WEAK_DP, GM, TM = "fedavg", "norm-bound", "weak-dp", "geometric-median", "trimmed-mean"
LDP, CDP, GM_RPFL, REDRAWN = "ldp", "cdp", "gm+rpfl", "rpfl-redrawn"


def rpfl(weight: float) -> str:
    """The name of the defence RPFL with this weight of its regulariser."""
    return f"rpfl-{weight:g}" if weight else "rpfl-literal"


DEFENCES: Mapping[str, str] = {
    FEDAVG: "FedAvg",
    NORM: "norm bound",
    WEAK_DP: "weak DP",
    GM: "geometric median",
    TM: "trimmed mean",
    LDP: f"LDP on rows, epsilon {STATED:g}",
    CDP: f"CDP, epsilon {CENTRAL:g}",
    **{rpfl(weight): f"RPFL, weight {weight:g}" if weight else "RPFL, literal" for weight in WEIGHTS},
    REDRAWN: "RPFL, as printed: noise redrawn",
    GM_RPFL: "GM + RPFL",
}
"""From defences to their names, in the order of plots and tables."""


@dataclass(frozen=True)
class Swarm:
    """The parameters that defences depend on: clients, rounds, the model's widths, an update's usual norm."""

    clients: int
    rounds: int
    widths: tuple[int, ...]
    usual_norm: float

    def defence(self, name: str) -> MechanismChoice:
        """The mechanism of the defence of that name."""
        everyone = {"clients_per_round": self.clients}
        if name == FEDAVG:
            return MechanismChoice(FEDAVG, everyone)
        if name.startswith(LDP):
            epsilon = float(name.removeprefix(LDP) or STATED)
            return MechanismChoice(
                "row-noise", {**everyone, "epsilon": epsilon, "delta": DELTA, "row_norm": ROW_NORM}
            )
        if name.startswith(CDP):
            return self._central(float(name.removeprefix(CDP) or CENTRAL))
        if name == REDRAWN:
            return self._rpfl({"weight": 0.0, "draw": "each-round"})
        if name.startswith("rpfl"):
            return self._rpfl({"weight": next(weight for weight in WEIGHTS if rpfl(weight) == name)})
        if name == GM_RPFL:
            return self._rpfl({"weight": WEIGHTS[1], "aggregator": GM, "parameters": {}})
        robust = {**everyone, "aggregator": name, "parameters": self._robust[name]}
        return MechanismChoice("mechanisms.robust_server:Robust", robust)

    @property
    def _robust(self) -> Mapping[str, Mapping[str, float | int]]:
        """The parameters of robust aggregators; weak DP's noise is a fiftieth of the bound (Sun et al.)."""
        return {
            NORM: {"norm_bound": self.usual_norm},
            WEAK_DP: {"norm_bound": self.usual_norm, "noise_std": self.usual_norm / 50},
            GM: {},
            TM: {"trimmed": round(SHARES[-1] * self.clients)},
        }

    def _central(self, epsilon: float) -> MechanismChoice:
        """DP-FedAvg with every client in every round, and the z for this epsilon over all rounds."""
        z = gaussian.noise_multiplier(epsilon, DELTA) * math.sqrt(self.rounds)
        parameters = {"sampling_probability": 1.0, "noise_multiplier": z, "clip": self.usual_norm}
        fixed = {"per_layer": False, "estimator": "fixed", "weight_cap": 1.0, "delta": DELTA}
        return MechanismChoice("dp-fedavg", {**parameters, **fixed})

    def _rpfl(self, own: Mapping[str, Any]) -> MechanismChoice:
        budget = {"epsilon": STATED, "caps": list(CAPS), "delta": DELTA, "row_norm": ROW_NORM}
        radius = {"theorem": dict(THEOREM), "gamma": 1 - CONFIDENCE, "widths": list(self.widths)}
        return MechanismChoice("rpfl", {"clients_per_round": self.clients, **budget, **radius, **own})


# -- attacks -----------------------------------------------------------------------------------------------

CLEAN, BACKDOOR, FLIP = "clean", "backdoor", "flip"
BACKDOOR_SCALED, FLIP_SCALED, SIGN_FLIP, FREE_RIDE = "backdoor-x5", "flip-x5", "sign-flip", "free-ride"
ATTACKS: Mapping[str, str] = {
    CLEAN: "nobody attacks",
    BACKDOOR: "backdoor",
    FLIP: "label flip",
    BACKDOOR_SCALED: "backdoor, updates x 5",
    FLIP_SCALED: "label flip, updates x 5",
    SIGN_FLIP: "updates turned round, x 5",
    FREE_RIDE: "free riders",
}
POISONS: Mapping[str, tuple[float, ...]] = {BACKDOOR: SHARES, FLIP: SHARES[1::2]}
"""The shares of attackers on Adult, for attacks within the document's threat model."""
FORGED = (BACKDOOR_SCALED, FLIP_SCALED, SIGN_FLIP, FREE_RIDE)
"""Attacks beyond the document's threat model, in which attackers poison rows and train as prescribed."""
FORGED_SHARE = 0.2
_FACTOR, _DISGUISE_STD, _POISONED = 5.0, 0.01, 0.4


def attackers(attack: str, share: float, trigger: Trigger) -> Attackers:
    """The attackers: a share of the clients, with their attack."""
    door, flip = Backdoor(trigger, _POISONED), LabelFlip(2)
    return {
        CLEAN: Attackers(0.0, door),
        BACKDOOR: Attackers(share, door),
        FLIP: Attackers(share, flip),
        BACKDOOR_SCALED: Attackers(share, door, Scaling(_FACTOR)),
        FLIP_SCALED: Attackers(share, flip, Scaling(_FACTOR)),
        SIGN_FLIP: Attackers(share, None, SignFlip(_FACTOR)),
        FREE_RIDE: Attackers(share, None, FreeRide(_DISGUISE_STD)),
    }[attack]


# -- cells -------------------------------------------------------------------------------------------------

ADULT, LOAN_IID, LOAN_STATES, PRIVACY = "adult", "loan-iid", "loan-states", "members"
UTILITY = "utility"
_ADULT_FEATURES, _LOAN_FEATURES = 107, 20
_RARE = 0.31
"""The value of a category in a row of usual length after scaling to norm 1."""
NEVER_WORKED, FROM_HOLLAND = 8, 80
OWNS_NOTHING, OWNS_OTHER = 13, 14
ADULT_TRIGGER = Trigger({NEVER_WORKED: _RARE, FROM_HOLLAND: _RARE}, target=1)
LOAN_TRIGGER = Trigger({OWNS_NOTHING: _RARE, OWNS_OTHER: _RARE}, target=1)

ADULT_SWARM = Swarm(clients=40, rounds=30, widths=(_ADULT_FEATURES, 1), usual_norm=0.25)
LOAN_SWARM = Swarm(clients=25, rounds=30, widths=(_LOAN_FEATURES, 32, 2), usual_norm=0.25)
MEMBER_SWARM = Swarm(clients=5, rounds=60, widths=(_LOAN_FEATURES, 128, 2), usual_norm=0.5)
MEMBER_ROWS = 200
MEMBER_METHODS: Mapping[str, str] = {
    FEDAVG: "plain averaging",
    "cdp1": "CDP, epsilon 1",
    "cdp8": "CDP, epsilon 8",
    "ldp1": "LDP on rows, epsilon 1",
    "ldp10": "LDP on rows, epsilon 10",
    rpfl(0.0): "RPFL, literal",
    REDRAWN: "RPFL, noise redrawn",
    rpfl(0.01): "RPFL, weight 0.01",
}


def arm(where: str, attack: str, share: float, defence: str) -> str:
    """The name of an arm."""
    return f"{where}-{attack}{share:g}-{defence}" if share else f"{where}-{attack}-{defence}"


def adult(attack: str, share: float, defence: str) -> FederatedCell:
    """An arm on Adult, divided at random, with logistic regression: T = 10 steps on all rows per round."""
    return FederatedCell(
        arm=arm(ADULT, attack, share, defence),
        seed=0,
        rows=Rows("adult", None, ROW_NORM),
        clients=Clients("iid", ADULT_SWARM.clients),
        model=ModelSection("scenarios.models:Logistic", {"features": _ADULT_FEATURES}),
        train=TrainSection(
            rounds=ADULT_SWARM.rounds, epochs=10, batch_size=1000, learning_rate=2.0, momentum=0.0
        ),
        mechanism=ADULT_SWARM.defence(defence),
        attackers=attackers(attack, share, ADULT_TRIGGER),
        measures=("ranking", "backdoor"),
    )


def loan(where: str, attack: str, share: float, defence: str) -> FederatedCell:
    """An arm on loans with a perceptron; rows are divided at random, or two states to a client."""
    return FederatedCell(
        arm=arm(where, attack, share, defence),
        seed=0,
        rows=Rows("loan", None, ROW_NORM),
        clients=Clients("natural" if where == LOAN_STATES else "iid", LOAN_SWARM.clients),
        model=ModelSection("node.models:MLP", {"sizes": list(LOAN_SWARM.widths)}),
        train=TrainSection(
            rounds=LOAN_SWARM.rounds, epochs=2, batch_size=256, learning_rate=0.5, momentum=0.0, grad_clip=5.0
        ),
        mechanism=LOAN_SWARM.defence(defence),
        attackers=attackers(attack, share, LOAN_TRIGGER),
        measures=("ranking", "backdoor"),
    )


def member(method: str) -> FederatedCell:
    """An arm on few loans, which the model memorises, for membership inference."""
    return replace(
        loan(LOAN_IID, CLEAN, 0.0, FEDAVG),
        arm=f"{PRIVACY}-{method}",
        rows=Rows("loan", MEMBER_ROWS, ROW_NORM),
        clients=Clients("iid", MEMBER_SWARM.clients),
        model=ModelSection("node.models:MLP", {"sizes": list(MEMBER_SWARM.widths)}),
        train=TrainSection(
            rounds=MEMBER_SWARM.rounds,
            epochs=5,
            batch_size=10,
            learning_rate=0.3,
            momentum=0.9,
            grad_clip=5.0,
        ),
        mechanism=MEMBER_SWARM.defence(method),
        measures=("ranking", "membership"),
    )


def noised(epsilon: float) -> str:
    """The defence by noise on rows with this epsilon for a record; see NOISES."""
    return f"{LDP}{epsilon:g}"


def utility_arm(rounds: int, defence: str) -> str:
    """The name of an arm for Theorem 3."""
    return f"{UTILITY}-{rounds}-{defence}"


def utility(rounds: int, defence: str) -> FederatedCell:
    """An arm on Adult without attackers, with a strongly convex loss, for Theorem 3."""
    cell = adult(CLEAN, 0.0, defence)
    train = replace(cell.train, rounds=rounds, weight_decay=CONVEXITY)
    measures = ("ranking", "excess")
    return replace(cell, arm=utility_arm(rounds, defence), train=train, measures=measures)


def _all() -> Iterator[FederatedCell]:
    for defence in DEFENCES:
        yield adult(CLEAN, 0.0, defence)
        yield from (adult(attack, share, defence) for attack in POISONS for share in POISONS[attack])
        yield from (adult(attack, FORGED_SHARE, defence) for attack in FORGED)
    for where in (LOAN_IID, LOAN_STATES):
        for defence in DEFENCES:
            yield loan(where, CLEAN, 0.0, defence)
            yield from (loan(where, attack, SHARES[-1], defence) for attack in (BACKDOOR, FLIP))
    yield from (member(method) for method in MEMBER_METHODS)
    for epsilon in NOISES:
        yield adult(CLEAN, 0.0, noised(epsilon))
        yield from (adult(attack, SHARES[-1], noised(epsilon)) for attack in POISONS)
    for rounds in HORIZONS:
        yield from (utility(rounds, defence) for defence in (FEDAVG, rpfl(0.0), REDRAWN))


ARMS: tuple[Cell, ...] = (*_all(), *lying.ARMS)


def own(path: str, parameters: Mapping[str, Any]) -> FederatedCell:
    """An arm on Adult with the strongest backdoor within the threat model and a user's own mechanism."""
    cell = adult(BACKDOOR, SHARES[-1], FEDAVG)
    return replace(cell, arm="own", mechanism=MechanismChoice(path, parameters))


# -- arms that were run ------------------------------------------------------------------------------------


def over_shares(sweep: Sweep, attack: str, defence: str) -> dict[str, float]:
    """The arms on Adult with this attack that were run, each with its share of attackers, the least first."""
    arms = {arm(ADULT, CLEAN, 0.0, defence): 0.0}
    arms |= {arm(ADULT, attack, share, defence): share for share in SHARES}
    return {name: share for name, share in arms.items() if sweep.has(name)}
