"""The arms of scenario `rpfl`: attacks and defences on Adult and on loans, and membership inference.

Factors: the `setting`, the `attack` with the `share` of clients that attack, and the `defence` with its
`epsilon` or the `weight` of RPFL's regulariser. The usual arm of a selection comes first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mechanisms.accounting import gaussian
from node.task.sections import ModelSection, TrainSection
from scenarios.clients.choices import Clients, MechanismChoice, Rows
from scenarios.clients.poisons import Attackers, Backdoor, FreeRide, LabelFlip, Scaling, SignFlip, Trigger
from scenarios.federated.cell import FederatedCell
from scenarios.study.arms import Arm, Factors, Where, matches
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
MOST = SHARES[-1]
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
LDP, CDP, DRAWN_ONCE, REDRAWN, GM_RPFL = "ldp", "cdp", "rpfl", "rpfl-redrawn", "gm+rpfl"
"""DRAWN_ONCE and REDRAWN: RPFL with noise that is drawn once, or in each round as printed."""


@dataclass(frozen=True)
class Defence:
    """A defence: its part of an arm's name, its words in plots and tables, and its factors."""

    name: str
    words: str
    factors: Factors


def _local(name: str, epsilon: float) -> Defence:
    return Defence(name, f"LDP on rows, epsilon {epsilon:g}", {"defence": LDP, "epsilon": epsilon})


def _central(name: str, epsilon: float) -> Defence:
    return Defence(name, f"CDP, epsilon {epsilon:g}", {"defence": CDP, "epsilon": epsilon})


def rpfl(weight: float) -> Factors:
    """RPFL with this weight of its regulariser."""
    return {"defence": DRAWN_ONCE, "weight": weight}


def _weighted(weight: float) -> Defence:
    if not weight:
        return Defence("rpfl-literal", "RPFL, literal", rpfl(weight))
    return Defence(f"rpfl-{weight:g}", f"RPFL, weight {weight:g}", rpfl(weight))


_REDRAWN = Defence(REDRAWN, "RPFL, as printed: noise redrawn", {"defence": REDRAWN, "weight": 0.0})
DEFENCES = (
    Defence(FEDAVG, "FedAvg", {"defence": FEDAVG}),
    Defence(NORM, "norm bound", {"defence": NORM}),
    Defence(WEAK_DP, "weak DP", {"defence": WEAK_DP}),
    Defence(GM, "geometric median", {"defence": GM}),
    Defence(TM, "trimmed mean", {"defence": TM}),
    _local("ldp", STATED),
    _central("cdp", CENTRAL),
    *map(_weighted, WEIGHTS),
    _REDRAWN,
    Defence(GM_RPFL, "GM + RPFL", {"defence": GM_RPFL, "weight": WEIGHTS[1]}),
)
"""All defences against attackers, in the order of plots and tables."""
MEMBER_METHODS = (
    Defence(FEDAVG, "plain averaging", {"defence": FEDAVG}),
    *(_central(f"cdp{epsilon:g}", epsilon) for epsilon in (1.0, 8.0)),
    *(_local(f"ldp{epsilon:g}", epsilon) for epsilon in (1.0, 10.0)),
    _weighted(0.0),
    replace(_REDRAWN, words="RPFL, noise redrawn"),
    _weighted(0.01),
)
"""All methods against membership inference."""


def words_of(defences: Sequence[Defence], factors: Factors) -> str:
    """The words of the defence that an arm with these factors has."""
    return next(one.words for one in defences if matches(factors, one.factors))


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


# -- settings ----------------------------------------------------------------------------------------------

_RARE = 0.31
"""The value of a category in a row of usual length after scaling to norm 1."""
NEVER_WORKED, FROM_HOLLAND = 8, 80
OWNS_NOTHING, OWNS_OTHER = 13, 14
ADULT_TRIGGER = Trigger({NEVER_WORKED: _RARE, FROM_HOLLAND: _RARE}, target=1)
LOAN_TRIGGER = Trigger({OWNS_NOTHING: _RARE, OWNS_OTHER: _RARE}, target=1)


@dataclass(frozen=True)
class Setting:
    """What arms have in common: rows, clients, a model and its layers' widths, training, an update's norm."""

    name: str
    rows: Rows
    clients: Clients
    widths: tuple[int, ...]
    train: TrainSection
    usual_norm: float = 0.25
    trigger: Trigger = LOAN_TRIGGER
    measures: tuple[str, ...] = ("ranking", "backdoor")

    @property
    def model(self) -> ModelSection:
        """Logistic regression, or a perceptron if there is a layer between rows and outputs."""
        if len(self.widths) == 2:
            return ModelSection("scenarios.models:Logistic", {"features": self.widths[0]})
        return ModelSection("node.models:MLP", {"sizes": list(self.widths)})

    def arm(
        self, defence: Defence, attack: str = CLEAN, share: float = 0.0, name: str = "", **more: float
    ) -> Arm:
        """The arm with a defence against a share of attackers; `more`: further factors."""
        label = f"{attack}{share:g}" if share else attack
        cell = self.cell(name or f"{self.name}-{label}-{defence.name}", defence, attack, share)
        met: Factors = {"setting": self.name, "attack": attack, "share": share}
        return Arm(cell, {**met, **defence.factors, **more})

    def cell(self, name: str, defence: Defence, attack: str, share: float) -> FederatedCell:
        """The cell of an arm of this name."""
        return FederatedCell(
            arm=name,
            seed=0,
            rows=self.rows,
            clients=self.clients,
            model=self.model,
            train=self.train,
            mechanism=self._mechanism(defence.factors),
            attackers=attackers(attack, share, self.trigger),
            measures=self.measures,
        )

    def _mechanism(self, defence: Factors) -> MechanismChoice:
        everyone = {"clients_per_round": self.clients.count}
        own = {name: value for name, value in defence.items() if name != "defence"}
        match kind := str(defence["defence"]):
            case "fedavg":
                return MechanismChoice(FEDAVG, everyone)
            case "ldp":
                return MechanismChoice("row-noise", {**everyone, **own, "delta": DELTA, "row_norm": ROW_NORM})
            case "cdp":
                return self._central(float(own["epsilon"]))
            case "rpfl":
                return self._rpfl(own)
            case "rpfl-redrawn":
                return self._rpfl({**own, "draw": "each-round"})
            case "gm+rpfl":
                return self._rpfl({**own, "aggregator": GM, "parameters": {}})
        robust = {**everyone, "aggregator": kind, "parameters": self._robust[kind]}
        return MechanismChoice("mechanisms.robust_server:Robust", robust)

    @property
    def _robust(self) -> Mapping[str, Mapping[str, float | int]]:
        """The parameters of robust aggregators; weak DP's noise is a fiftieth of the bound (Sun et al.)."""
        return {
            NORM: {"norm_bound": self.usual_norm},
            WEAK_DP: {"norm_bound": self.usual_norm, "noise_std": self.usual_norm / 50},
            GM: {},
            TM: {"trimmed": round(MOST * self.clients.count)},
        }

    def _central(self, epsilon: float) -> MechanismChoice:
        """DP-FedAvg with every client in every round, and the z for this epsilon over all rounds."""
        z = gaussian.noise_multiplier(epsilon, DELTA) * math.sqrt(self.train.rounds)
        parameters = {"sampling_probability": 1.0, "noise_multiplier": z, "clip": self.usual_norm}
        fixed = {"per_layer": False, "estimator": "fixed", "weight_cap": 1.0, "delta": DELTA}
        return MechanismChoice("dp-fedavg", {**parameters, **fixed})

    def _rpfl(self, own: Mapping[str, Any]) -> MechanismChoice:
        budget = {"epsilon": STATED, "caps": list(CAPS), "delta": DELTA, "row_norm": ROW_NORM}
        radius = {"theorem": dict(THEOREM), "gamma": 1 - CONFIDENCE, "widths": list(self.widths)}
        return MechanismChoice("rpfl", {"clients_per_round": self.clients.count, **budget, **radius, **own})


ADULT, LOAN_IID, LOAN_STATES, MEMBERS, UTILITY = "adult", "loan-iid", "loan-states", "members", "utility"
ON_ADULT = Setting(
    *(ADULT, Rows("adult", None, ROW_NORM), Clients("iid", 40), (107, 1)),
    TrainSection(rounds=30, epochs=10, batch_size=1000, learning_rate=2.0, momentum=0.0),
    trigger=ADULT_TRIGGER,
)
"""Adult, divided at random, with logistic regression: T = 10 steps on all rows per round."""
ON_LOANS = Setting(
    *(LOAN_IID, Rows("loan", None, ROW_NORM), Clients("iid", 25), (20, 32, 2)),
    TrainSection(rounds=30, epochs=2, batch_size=256, learning_rate=0.5, momentum=0.0, grad_clip=5.0),
)
"""Loans, divided at random."""
BY_STATES = replace(ON_LOANS, name=LOAN_STATES, clients=Clients("natural", 25))
"""The same, two states to a client."""
FEW_LOANS = replace(
    ON_LOANS,
    name=MEMBERS,
    rows=Rows("loan", 200, ROW_NORM),
    clients=Clients("iid", 5),
    widths=(20, 128, 2),
    usual_norm=0.5,
    train=TrainSection(rounds=60, epochs=5, batch_size=10, learning_rate=0.3, momentum=0.9, grad_clip=5.0),
    measures=("ranking", "membership"),
)
"""Few loans, which the model memorises, for membership inference."""


def _convex(rounds: int) -> Setting:
    """Adult without attackers, with a strongly convex loss, for Theorem 3."""
    train = replace(ON_ADULT.train, rounds=rounds, weight_decay=CONVEXITY)
    return replace(ON_ADULT, name=UTILITY, train=train, measures=("ranking", "excess"))


# -- arms --------------------------------------------------------------------------------------------------


def _all() -> Iterator[Arm]:
    for defence in DEFENCES:
        yield ON_ADULT.arm(defence)
        yield from (ON_ADULT.arm(defence, attack, share) for attack in POISONS for share in POISONS[attack])
        yield from (ON_ADULT.arm(defence, attack, FORGED_SHARE) for attack in FORGED)
    for setting in (ON_LOANS, BY_STATES):
        for defence in DEFENCES:
            yield setting.arm(defence)
            yield from (setting.arm(defence, attack, MOST) for attack in (BACKDOOR, FLIP))
    yield from (FEW_LOANS.arm(method, name=f"{MEMBERS}-{method.name}") for method in MEMBER_METHODS)
    for noised in (_local(f"{LDP}{epsilon:g}", epsilon) for epsilon in NOISES):
        yield ON_ADULT.arm(noised)
        yield from (ON_ADULT.arm(noised, attack, MOST) for attack in POISONS)
    for rounds in HORIZONS:
        for defence in (DEFENCES[0], _weighted(0.0), _REDRAWN):
            yield _convex(rounds).arm(defence, name=f"{UTILITY}-{rounds}-{defence.name}", rounds=rounds)


ARMS: tuple[Arm, ...] = (*_all(), *lying.ARMS)

AT_REST: Where = {"setting": ADULT, "attack": CLEAN}
"""Adult without attackers."""
DOOR: Where = {"setting": ADULT, "attack": BACKDOOR, "share": MOST}
"""Adult with the most attackers, and their backdoor."""
AVERAGE: Where = {"defence": FEDAVG}
LITERAL: Where = rpfl(0.0)


def own(path: str, parameters: Mapping[str, Any]) -> FederatedCell:
    """An arm on Adult with the strongest backdoor within the threat model and a user's own mechanism."""
    cell = ON_ADULT.cell("own", DEFENCES[0], BACKDOOR, MOST)
    return replace(cell, mechanism=MechanismChoice(path, parameters))
