"""The arms of scenario `dp-fedavg`: noise and users, clips, estimators, and the book's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from node.task.sections import ModelSection, TrainSection
from scenarios.clients.choices import Clients, MechanismChoice, Rows
from scenarios.federated.cell import FederatedCell
from scenarios.study.sweep import Sweep

DATA_SET = "mnist"
ROWS_OF_A_USER = 60
SAMPLED = 0.1
"""q: each user takes part in a round with this probability, independently."""
DELTA = 1e-5

NOISE = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The z of the arms with `USUAL.users`."""
NOISE_OF_ALL = (0.0, 1.0, 4.0)
"""The z of the arms with other numbers of users, or other clips."""
USERS = (100, 300, 1000)
CLIPS = (0.05, 0.15, 0.5, 1.5, 5.0)
"""The clip: S in the paper, C in the book."""

BOOK, BOOK_WITHOUT_NOISE, TEN_USERS = "book", "book-no-noise", "ten-users-private"
TEN = 10
"""The number of clients in the book."""
TEN_USERS_NOISE = 1.5
"""The z at which 100 rounds cost less than epsilon 8 if each of ten users takes part with probability 0.2."""


@dataclass(frozen=True)
class Setting:
    """The parameters that the arms of the algorithm vary."""

    users: int
    noise_multiplier: float
    clip: float
    per_layer: bool
    estimator: str

    def cell(self, arm: str) -> FederatedCell:
        """The cell of this setting, with the name `arm`."""
        return FederatedCell(
            arm=arm,
            seed=0,
            rows=Rows(DATA_SET, self.users * ROWS_OF_A_USER),
            clients=Clients("iid", self.users),
            model=ModelSection("node.models:MLP", {"sizes": [784, 32, 10]}),
            train=TrainSection(rounds=40, epochs=1, batch_size=10, learning_rate=0.2, momentum=0.0),
            mechanism=MechanismChoice(
                "dp-fedavg",
                {
                    "sampling_probability": SAMPLED,
                    "noise_multiplier": self.noise_multiplier,
                    "clip": self.clip,
                    "per_layer": self.per_layer,
                    "estimator": self.estimator,
                    "weight_cap": float(ROWS_OF_A_USER),
                    "delta": DELTA,
                },
            ),
        )


USUAL = Setting(users=300, noise_multiplier=1.0, clip=0.5, per_layer=False, estimator="fixed")


# -- names -------------------------------------------------------------------------------------------------


def noise_arm(users: int, noise_multiplier: float) -> str:
    """The name of the arm with `users` users and this z, with the usual clip."""
    return f"users{users}-z{noise_multiplier:g}"


def clip_arm(clip: float, noise_multiplier: float) -> str:
    """The name of the arm with this clip and this z, with the usual number of users."""
    if clip == USUAL.clip:
        return noise_arm(USUAL.users, noise_multiplier)
    return f"clip{clip:g}-z{noise_multiplier:g}"


def estimator_arm(estimator: str, per_layer: bool) -> str:
    """The name of the arm with estimator "fixed" (f_f) or "clipped" (f_c), and a flat or a per-layer clip."""
    if (estimator, per_layer) == (USUAL.estimator, USUAL.per_layer):
        return noise_arm(USUAL.users, USUAL.noise_multiplier)
    return f"{estimator}-{'layers' if per_layer else 'flat'}"


ESTIMATOR_ARMS: Mapping[str, str] = {
    estimator_arm("fixed", False): "f_f, flat clip",
    estimator_arm("fixed", True): "f_f, a clip a layer",
    estimator_arm("clipped", False): "f_c, flat clip",
    estimator_arm("clipped", True): "f_c, a clip a layer",
}
BOOK_ARMS: Mapping[str, str] = {
    BOOK: "the book's settings",
    BOOK_WITHOUT_NOISE: "the same without noise",
    TEN_USERS: f"the paper's algorithm, z = {TEN_USERS_NOISE:g}",
}


# -- cells -------------------------------------------------------------------------------------------------


def _noise_cells() -> dict[str, FederatedCell]:
    varied = {users: NOISE if users == USUAL.users else NOISE_OF_ALL for users in USERS}
    return {
        noise_arm(users, z): replace(USUAL, users=users, noise_multiplier=z).cell(noise_arm(users, z))
        for users, each in varied.items()
        for z in each
    }


def _clip_cells() -> dict[str, FederatedCell]:
    return {
        clip_arm(clip, z): replace(USUAL, clip=clip, noise_multiplier=z).cell(clip_arm(clip, z))
        for z in NOISE_OF_ALL
        for clip in CLIPS
    }


def _estimator_cells() -> dict[str, FederatedCell]:
    return {
        arm: replace(USUAL, estimator=estimator, per_layer=per_layer).cell(arm)
        for estimator in ("fixed", "clipped")
        for per_layer in (False, True)
        for arm in [estimator_arm(estimator, per_layer)]
    }


def _book_cells() -> dict[str, FederatedCell]:
    """The book's printed settings: two of ten clients per round, lambda 0.5, C 1000, sigma 0.001."""
    printed = {"clients_per_round": 2, "scale": 0.5, "clip_radius": 1000.0, "noise_std": 0.001}
    book = replace(
        USUAL.cell(BOOK),
        rows=Rows(DATA_SET, TEN * 500),
        clients=Clients("iid", TEN),
        train=TrainSection(rounds=100, epochs=3, batch_size=32, learning_rate=0.01, momentum=1e-4),
        mechanism=MechanismChoice("dp-fedavg-book", {**printed, "delta": DELTA}),
    )
    private = replace(USUAL, noise_multiplier=TEN_USERS_NOISE, clip=0.1).cell(TEN_USERS).mechanism.parameters
    own: Mapping[str, Any] = {**private, "sampling_probability": 0.2, "weight_cap": 500.0}
    quiet = MechanismChoice("fedavg", {"clients_per_round": 2})
    return {
        BOOK: book,
        BOOK_WITHOUT_NOISE: replace(book, arm=BOOK_WITHOUT_NOISE, mechanism=quiet),
        TEN_USERS: replace(book, arm=TEN_USERS, mechanism=MechanismChoice("dp-fedavg", own)),
    }


ARMS: tuple[FederatedCell, ...] = tuple(
    {**_noise_cells(), **_clip_cells(), **_estimator_cells(), **_book_cells()}.values()
)


def own(path: str, parameters: Mapping[str, Any]) -> FederatedCell:
    """An arm with the usual users and training, and a user's own mechanism."""
    return replace(USUAL.cell("own"), mechanism=MechanismChoice(path, parameters))


# -- arms that were run ----------------------------------------------------------------------------------


def cell_of(sweep: Sweep, arm: str) -> FederatedCell:
    """The cell of an arm as it was run; the command line may have changed rounds, users and training."""
    return next(cell for cell in sweep.arms if cell.arm == arm and isinstance(cell, FederatedCell))


def users_of(sweep: Sweep, arm: str) -> int:
    """The number of users that an arm was run with."""
    return cell_of(sweep, arm).clients.count


def by_noise(sweep: Sweep, users: int) -> dict[str, float]:
    """The arms with `users` users that were run, each with its z, the smallest first."""
    return {noise_arm(users, z): z for z in NOISE if sweep.has(noise_arm(users, z))}


def by_users(sweep: Sweep, noise_multiplier: float) -> dict[str, int]:
    """The arms of this z that were run, each with its number of users; empty if these are equal."""
    arms = [noise_arm(users, noise_multiplier) for users in USERS]
    found = {arm: users_of(sweep, arm) for arm in arms if sweep.has(arm)}
    return found if len(set(found.values())) == len(found) else {}


def by_clip(sweep: Sweep, noise_multiplier: float) -> dict[str, float]:
    """The arms of this z that were run, each with its clip, the smallest first."""
    arms = {clip_arm(clip, noise_multiplier): clip for clip in CLIPS}
    return {arm: clip for arm, clip in arms.items() if sweep.has(arm)}
