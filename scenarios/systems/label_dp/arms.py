"""The arms of scenario `label-dp`: flips drawn once or anew, noisy signs, and no protection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scenarios.study.sweep import Sweep
from scenarios.vertical.cell import VerticalCell, VerticalTrain
from scenarios.vertical.choices import LABEL_DP, EmbeddingChoice, LabelChoice
from scenarios.vertical.wide_deep import Descent, FtrlSettings, Sizes

EPSILONS = (0.0, 0.5, 1.0, 3.0, 5.0)
"""The stated epsilons, for one draw of one label."""
SIGN_EPSILONS = (0.0, 1.0, 5.0)
"""The epsilons of noisy signs: twice the cost of one sign, which is the cost of one release of two."""
CLEAN, SIGNS = "none", "signs"

PLAIN = VerticalCell(
    arm=CLEAN,
    seed=0,
    train=VerticalTrain(rounds=12, batch_size=256, learning_rate=3.5e-4),
    sizes=Sizes(embedding=80, hidden=(64, 32, 16, 8)),
    descent=Descent(
        learning_rate=3.5e-4,
        adam_epsilon=1e-8,
        l2=8e-5,
        ftrl=FtrlSettings(learning_rate=0.05, l1=1e-8, l2=1e-8, accumulator=1.0),
    ),
    labels=None,
    outputs=None,
)


def once_arm(epsilon: float) -> str:
    """The name of the arm with flips drawn once."""
    return f"once-{epsilon:g}"


def redrawn_arm(epsilon: float) -> str:
    """The name of the arm with flips drawn anew in every epoch, as in the original."""
    return f"redrawn-{epsilon:g}"


def signs_arm(epsilon: float) -> str:
    """The name of the arm with noisy signs of the follower's outputs."""
    return f"signs-{epsilon:g}"


def _flipped(arm: str, epsilon: float, redrawn: bool) -> VerticalCell:
    return replace(PLAIN, arm=arm, labels=LabelChoice(LABEL_DP, {"epsilon": epsilon}, redrawn))


ARMS: tuple[VerticalCell, ...] = (
    PLAIN,
    *(_flipped(once_arm(epsilon), epsilon, False) for epsilon in EPSILONS),
    *(_flipped(redrawn_arm(epsilon), epsilon, True) for epsilon in EPSILONS),
    replace(PLAIN, arm=SIGNS, outputs=EmbeddingChoice(None)),
    *(replace(PLAIN, arm=signs_arm(value), outputs=EmbeddingChoice(value)) for value in SIGN_EPSILONS),
)


def own(path: str, parameters: Mapping[str, Any]) -> VerticalCell:
    """An arm with the usual training and a user's own label mechanism, drawn once."""
    return replace(PLAIN, arm="own", labels=LabelChoice(path, parameters))


# -- arms that were run ----------------------------------------------------------------------------------


def once(sweep: Sweep) -> dict[str, float]:
    """The arms with flips drawn once that were run, each with its stated epsilon, the smallest first."""
    return {once_arm(epsilon): epsilon for epsilon in EPSILONS if sweep.has(once_arm(epsilon))}


def redrawn(sweep: Sweep) -> dict[str, float]:
    """The arms with flips drawn anew that were run, each with its stated epsilon, the smallest first."""
    return {redrawn_arm(epsilon): epsilon for epsilon in EPSILONS if sweep.has(redrawn_arm(epsilon))}


def noisy_signs(sweep: Sweep) -> dict[str, float]:
    """The arms with noisy signs that were run, each with its stated epsilon, the smallest first."""
    return {signs_arm(epsilon): epsilon for epsilon in SIGN_EPSILONS if sweep.has(signs_arm(epsilon))}


def epochs_of_arm(sweep: Sweep, arm: str) -> int:
    """The number of epochs that an arm was run for."""
    return sweep.cells[arm].rounds


# -- properties of flips -----------------------------------------------------------------------------------


def keeping(epsilon: float) -> float:
    """The probability that a label is kept: e^eps / (1 + e^eps)."""
    return 1 / (1 + math.exp(-epsilon))


def entropy_of_flips(epsilon: float) -> float:
    """The entropy of one flip, in nats: a lower bound of the expected loss on labels flipped anew."""
    kept = keeping(epsilon)
    return -kept * math.log(kept) - (1 - kept) * math.log(1 - kept)
