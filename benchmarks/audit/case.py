"""One audit: a mechanism, sound or with a planted fault, on the worst inputs that its claim allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mechanisms.audits.audit import Array, Method, Pair, Release

EPSILON, DELTA = 4.0, 1e-5
MANY, FEW = 100_000, 2_000
REPEATS, FEW_REPEATS = 20, 3


@dataclass(frozen=True, slots=True)
class Case:
    """`trials` runs on each input of the pair, `repeats` times over, against `claim` at `delta`."""

    mechanism: str
    fault: str
    """What was planted; "" for the mechanism as it is."""
    release: Release
    pair: Pair
    claim: float = EPSILON
    delta: float = DELTA
    method: Method = Method.GAUSSIAN
    score: Callable[[Array], Array] | None = None
    threshold: float = 0.5
    trials: int = MANY
    repeats: int = REPEATS


def few(case: Case) -> Case:
    """Few runs and repeats, for large faults where each run is a call of its own."""
    return replace(case, trials=FEW, repeats=FEW_REPEATS)
