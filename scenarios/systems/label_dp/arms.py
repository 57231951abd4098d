"""The arms of scenario `label-dp`: flips drawn once or anew, noisy signs, and no protection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scenarios.study.arms import Arm, Where
from scenarios.vertical.cell import VerticalCell, VerticalTrain
from scenarios.vertical.choices import LABEL_DP, EmbeddingChoice, LabelChoice
from scenarios.vertical.wide_deep import Descent, FtrlSettings, Sizes

EPSILONS = (0.0, 0.5, 1.0, 3.0, 5.0)
"""The stated epsilons, for one draw of one label."""
SIGN_EPSILONS = (0.0, 1.0, 5.0)
"""The epsilons of noisy signs: twice the cost of one sign, which is the cost of one release of two."""

NONE: Where = {"mechanism": "none"}
ONCE: Where = {"mechanism": "label-dp", "flips": "once"}
"""Flips drawn once."""
AFRESH: Where = {"mechanism": "label-dp", "flips": "afresh"}
"""Flips drawn anew in every epoch, as in the original."""
FLIPPED: Where = {"mechanism": "label-dp", "flips": ("once", "afresh")}
SIGNS: Where = {"mechanism": "signs"}
"""Signs of the follower's outputs, without noise."""
NOISY_SIGNS: Where = {"mechanism": "noisy-signs"}

PLAIN = VerticalCell(
    arm="none",
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


def _arm(name: str, factors: Where, **protection: Any) -> Arm:
    return Arm(replace(PLAIN, arm=name, **protection), factors)  # type: ignore[arg-type]


def _flipped(word: str, epsilon: float, flips: Where) -> Arm:
    labels = LabelChoice(LABEL_DP, {"epsilon": epsilon}, flips == AFRESH)
    return _arm(f"{word}-{epsilon:g}", {**flips, "epsilon": epsilon}, labels=labels)


ARMS: tuple[Arm, ...] = (
    _arm("none", NONE),
    *(_flipped("once", epsilon, ONCE) for epsilon in EPSILONS),
    *(_flipped("redrawn", epsilon, AFRESH) for epsilon in EPSILONS),
    _arm("signs", SIGNS, outputs=EmbeddingChoice(None)),
    *(
        _arm(f"signs-{epsilon:g}", {**NOISY_SIGNS, "epsilon": epsilon}, outputs=EmbeddingChoice(epsilon))
        for epsilon in SIGN_EPSILONS
    ),
)


def own(path: str, parameters: Mapping[str, Any]) -> VerticalCell:
    """An arm with the usual training and a user's own label mechanism, drawn once."""
    return replace(PLAIN, arm="own", labels=LabelChoice(path, parameters))


# -- properties of flips -----------------------------------------------------------------------------------


def keeping(epsilon: float) -> float:
    """The probability that a label is kept: e^eps / (1 + e^eps)."""
    return 1 / (1 + math.exp(-epsilon))


def entropy_of_flips(epsilon: float) -> float:
    """The entropy of one flip, in nats: a lower bound of the expected loss on labels flipped anew."""
    kept = keeping(epsilon)
    return -kept * math.log(kept) - (1 - kept) * math.log(1 - kept)
