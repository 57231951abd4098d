"""The arms of scenario `dp-fedavg`: noise and users, clips, estimators, and the book's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from node.task.sections import ModelSection, TrainSection
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
from scenarios.federated.cell import FederatedCell
from scenarios.study.arms import Arm, Factors

DATA_SET = "mnist"
ROWS_OF_A_USER = 60
SAMPLED = 0.1
"""q: each user takes part in a round with this probability, independently."""
DELTA = 1e-5

NOISE = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The z of the arms with `USUAL.clients`."""
NOISE_OF_ALL = (0.0, 1.0, 4.0)
"""The z of the arms with other numbers of users, or other clips."""
USERS = (100, 300, 1000)
CLIPS = (0.05, 0.15, 0.5, 1.5, 5.0)
"""The clip: S in the paper, C in the book."""
TEN = 10
"""The number of clients in the book."""
TEN_USERS_NOISE = 1.5
"""The z at which 100 rounds cost less than epsilon 8 if each of ten users takes part with probability 0.2."""

Z = "noise_multiplier"
BOOK: Factors = {"setting": "book", "mechanism": "dp-fedavg-book"}
BOOK_WITHOUT_NOISE: Factors = {"setting": "book", "mechanism": "fedavg"}
TEN_USERS: Factors = {"setting": "book", "mechanism": "dp-fedavg"}


@dataclass(frozen=True)
class Setting:
    """The parameters that the arms of the algorithm vary, which are their factors; `clients` are users."""

    clients: int
    noise_multiplier: float
    clip: float
    per_layer: bool
    estimator: str

    def arm(self, name: str) -> Arm:
        """The arm of this setting."""
        return Arm(self.cell(name), {"setting": "paper", "mechanism": "dp-fedavg", **asdict(self)})

    def cell(self, arm: str) -> FederatedCell:
        """The cell of this setting, with the name `arm`."""
        varied = {name: value for name, value in asdict(self).items() if name != "clients"}
        fixed = {"weight_cap": float(ROWS_OF_A_USER), "delta": DELTA}
        return FederatedCell(
            arm=arm,
            seed=0,
            rows=RowChoice(DATA_SET, self.clients * ROWS_OF_A_USER),
            clients=Clients("iid", self.clients),
            model=ModelSection("node.models:MLP", {"sizes": [784, 32, 10]}),
            train=TrainSection(rounds=40, epochs=1, batch_size=10, learning_rate=0.2, momentum=0.0),
            mechanism=MechanismChoice("dp-fedavg", {"sampling_probability": SAMPLED, **varied, **fixed}),
        )


USUAL = Setting(clients=300, noise_multiplier=1.0, clip=0.5, per_layer=False, estimator="fixed")


FLAT: Factors = {"setting": "paper", "estimator": USUAL.estimator, "per_layer": USUAL.per_layer}
USUAL_CLIP: Factors = {**FLAT, "clip": USUAL.clip}
USUAL_NOISE: Factors = {**FLAT, Z: USUAL.noise_multiplier}


def _book_arms() -> list[Arm]:
    """The book's printed settings: two of ten clients per round, lambda 0.5, C 1000, sigma 0.001."""
    printed = {"clients_per_round": 2, "scale": 0.5, "clip_radius": 1000.0, "noise_std": 0.001}
    private = replace(USUAL, noise_multiplier=TEN_USERS_NOISE, clip=0.1).cell("").mechanism.parameters
    own: Mapping[str, Any] = {**private, "sampling_probability": 0.2, "weight_cap": 500.0}
    chosen = {
        "book": (BOOK, MechanismChoice("dp-fedavg-book", {**printed, "delta": DELTA})),
        "book-no-noise": (BOOK_WITHOUT_NOISE, MechanismChoice("fedavg", {"clients_per_round": 2})),
        "ten-users-private": (TEN_USERS, MechanismChoice("dp-fedavg", own)),
    }
    return [
        Arm(
            replace(
                USUAL.cell(name),
                rows=RowChoice(DATA_SET, TEN * 500),
                clients=Clients("iid", TEN),
                train=TrainSection(rounds=100, epochs=3, batch_size=32, learning_rate=0.01, momentum=1e-4),
                mechanism=mechanism,
            ),
            {**factors, "clients": TEN},
        )
        for name, (factors, mechanism) in chosen.items()
    ]


ARMS: tuple[Arm, ...] = (
    *(
        replace(USUAL, clients=users, noise_multiplier=z).arm(f"users{users}-z{z:g}")
        for users in USERS
        for z in (NOISE if users == USUAL.clients else NOISE_OF_ALL)
    ),
    *(
        replace(USUAL, clip=clip, noise_multiplier=z).arm(f"clip{clip:g}-z{z:g}")
        for z in NOISE_OF_ALL
        for clip in CLIPS
        if clip != USUAL.clip  # which has its arm
    ),
    replace(USUAL, per_layer=True).arm("fixed-layers"),
    replace(USUAL, estimator="clipped").arm("clipped-flat"),
    replace(USUAL, estimator="clipped", per_layer=True).arm("clipped-layers"),
    *_book_arms(),
)
"""Estimators: "fixed" (f_f) and "clipped" (f_c), each with a flat or a per-layer clip."""


def own(path: str, parameters: Mapping[str, Any]) -> FederatedCell:
    """An arm with the usual users and training, and a user's own mechanism."""
    return replace(USUAL.cell("own"), mechanism=MechanismChoice(path, parameters))
