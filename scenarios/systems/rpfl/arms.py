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
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
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


@dataclass(frozen=True)
class Defence:
    """A defence: its part of an arm's name, its words in plots and tables, and its factors."""

    name: str
    words: str
    factors: Factors


def _local(name: str, epsilon: float) -> Defence:
    return Defence(name, f"LDP on rows, epsilon {epsilon:g}", {"defence": "ldp", "epsilon": epsilon})


def _central(name: str, epsilon: float) -> Defence:
    return Defence(name, f"CDP, epsilon {epsilon:g}", {"defence": "cdp", "epsilon": epsilon})


def rpfl(weight: float) -> Factors:
    """RPFL with this weight of its regulariser, and noise that is drawn once."""
    return {"defence": "rpfl", "weight": weight}


def _weighted(weight: float) -> Defence:
    if not weight:
        return Defence("rpfl-literal", "RPFL, literal", rpfl(weight))
    return Defence(f"rpfl-{weight:g}", f"RPFL, weight {weight:g}", rpfl(weight))


def _plain(name: str, words: str) -> Defence:
    return Defence(name, words, {"defence": name})


_REDRAWN = Defence(
    "rpfl-redrawn", "RPFL, as printed: noise redrawn", {"defence": "rpfl-redrawn", "weight": 0.0}
)
DEFENCES = (
    _plain("fedavg", "FedAvg"),
    _plain("norm-bound", "norm bound"),
    _plain("weak-dp", "weak DP"),
    _plain("geometric-median", "geometric median"),
    _plain("trimmed-mean", "trimmed mean"),
    _local("ldp", STATED),
    _central("cdp", CENTRAL),
    *map(_weighted, WEIGHTS),
    _REDRAWN,
    Defence("gm+rpfl", "GM + RPFL", {"defence": "gm+rpfl", "weight": WEIGHTS[1]}),
)
"""All defences against attackers, in the order of plots and tables."""
MEMBER_METHODS = (
    _plain("fedavg", "plain averaging"),
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

ATTACKS: Mapping[str, str] = {
    "clean": "nobody attacks",
    "backdoor": "backdoor",
    "flip": "label flip",
    "backdoor-x5": "backdoor, updates x 5",
    "flip-x5": "label flip, updates x 5",
    "sign-flip": "updates turned round, x 5",
    "free-ride": "free riders",
}
"""The levels of the factor `attack`, in words."""
POISONS: Mapping[str, tuple[float, ...]] = {"backdoor": SHARES, "flip": SHARES[1::2]}
"""The shares of attackers on Adult, for attacks within the document's threat model."""
FORGED = ("backdoor-x5", "flip-x5", "sign-flip", "free-ride")
"""Attacks beyond the document's threat model, in which attackers poison rows and train as prescribed."""
FORGED_SHARE = 0.2
_FACTOR, _DISGUISE_STD, _POISONED = 5.0, 0.01, 0.4


def attackers(attack: str, share: float, trigger: Trigger) -> Attackers:
    """The attackers: a share of the clients, with their attack."""
    door, flip = Backdoor(trigger, _POISONED), LabelFlip(2)
    return {
        "clean": Attackers(0.0, door),
        "backdoor": Attackers(share, door),
        "flip": Attackers(share, flip),
        "backdoor-x5": Attackers(share, door, Scaling(_FACTOR)),
        "flip-x5": Attackers(share, flip, Scaling(_FACTOR)),
        "sign-flip": Attackers(share, None, SignFlip(_FACTOR)),
        "free-ride": Attackers(share, None, FreeRide(_DISGUISE_STD)),
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
    rows: RowChoice
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
        self, defence: Defence, attack: str = "clean", share: float = 0.0, name: str = "", **more: float
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
                return MechanismChoice("fedavg", everyone)
            case "ldp":
                return MechanismChoice("row-noise", {**everyone, **own, "delta": DELTA, "row_norm": ROW_NORM})
            case "cdp":
                return self._central(float(own["epsilon"]))
            case "rpfl":
                return self._rpfl(own)
            case "rpfl-redrawn":
                return self._rpfl({**own, "draw": "each-round"})
            case "gm+rpfl":
                return self._rpfl({**own, "aggregator": "geometric-median", "parameters": {}})
        robust = {**everyone, "aggregator": kind, "parameters": self._robust[kind]}
        return MechanismChoice("mechanisms.robust_server:Robust", robust)

    @property
    def _robust(self) -> Mapping[str, Mapping[str, float | int]]:
        """The parameters of robust aggregators; weak DP's noise is a fiftieth of the bound (Sun et al.)."""
        return {
            "norm-bound": {"norm_bound": self.usual_norm},
            "weak-dp": {"norm_bound": self.usual_norm, "noise_std": self.usual_norm / 50},
            "geometric-median": {},
            "trimmed-mean": {"trimmed": round(MOST * self.clients.count)},
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


ON_ADULT = Setting(
    *("adult", RowChoice("adult", None, ROW_NORM), Clients("iid", 40), (107, 1)),
    TrainSection(rounds=30, epochs=10, batch_size=1000, learning_rate=2.0, momentum=0.0),
    trigger=ADULT_TRIGGER,
)
"""Adult, divided at random, with logistic regression: T = 10 steps on all rows per round."""
ON_LOANS = Setting(
    *("loan-iid", RowChoice("loan", None, ROW_NORM), Clients("iid", 25), (20, 32, 2)),
    TrainSection(rounds=30, epochs=2, batch_size=256, learning_rate=0.5, momentum=0.0, grad_clip=5.0),
)
"""Loans, divided at random."""
BY_STATES = replace(ON_LOANS, name="loan-states", clients=Clients("natural", 25))
"""The same, two states to a client."""
FEW_LOANS = replace(
    ON_LOANS,
    name="members",
    rows=RowChoice("loan", 200, ROW_NORM),
    clients=Clients("iid", 5),
    widths=(20, 128, 2),
    usual_norm=0.5,
    train=TrainSection(rounds=60, epochs=5, batch_size=10, learning_rate=0.3, momentum=0.9, grad_clip=5.0),
    measures=("ranking", "membership"),
)
"""Few loans, which the model memorises, for membership inference."""


# -- arms --------------------------------------------------------------------------------------------------


def _all() -> Iterator[Arm]:
    for defence in DEFENCES:
        yield ON_ADULT.arm(defence)
        yield from (ON_ADULT.arm(defence, attack, share) for attack in POISONS for share in POISONS[attack])
        yield from (ON_ADULT.arm(defence, attack, FORGED_SHARE) for attack in FORGED)
    for setting in (ON_LOANS, BY_STATES):
        for defence in DEFENCES:
            yield setting.arm(defence)
            yield from (setting.arm(defence, attack, MOST) for attack in POISONS)
    yield from (FEW_LOANS.arm(method, name=f"members-{method.name}") for method in MEMBER_METHODS)
    for noised in (_local(f"ldp{epsilon:g}", epsilon) for epsilon in NOISES):
        yield ON_ADULT.arm(noised)
        yield from (ON_ADULT.arm(noised, attack, MOST) for attack in POISONS)
    for rounds in HORIZONS:  # with a strongly convex loss, for Theorem 3
        train = replace(ON_ADULT.train, rounds=rounds, weight_decay=CONVEXITY)
        convex = replace(ON_ADULT, name="utility", train=train, measures=("ranking", "excess"))
        for defence in (DEFENCES[0], _weighted(0.0), _REDRAWN):
            yield convex.arm(defence, name=f"utility-{rounds}-{defence.name}", rounds=rounds)


ARMS: tuple[Arm, ...] = (*_all(), *lying.ARMS)

AT_REST: Where = {"setting": "adult", "attack": "clean"}
"""Adult without attackers."""
DOOR: Where = {"setting": "adult", "attack": "backdoor", "share": MOST}
"""Adult with the most attackers, and their backdoor."""
FEW: Where = {"setting": "members"}
AVERAGE: Where = {"defence": "fedavg"}
LITERAL: Where = rpfl(0.0)


def met(attack: str, *defences: str) -> Where:
    """One of these defences on Adult against the most attackers of a kind."""
    return {"setting": "adult", "attack": attack, "share": MOST, "defence": defences}


def own(path: str, parameters: Mapping[str, Any]) -> FederatedCell:
    """An arm on Adult with the strongest backdoor within the threat model and a user's own mechanism."""
    cell = ON_ADULT.cell("own", DEFENCES[0], "backdoor", MOST)
    return replace(cell, mechanism=MechanismChoice(path, parameters))
