"""One audit: a mechanism, sound or with a planted fault, on the worst inputs that its claim covers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mechanisms.audits.audit import Array, Method, Pair, Release

EPSILON, DELTA = 4.0, 1e-5
MANY, FEW = 100_000, 2_000
REPEATS, FEW_REPEATS = 20, 3


@dataclass(frozen=True, slots=True)
class Case:
    """An audit of epsilon `claim` at `delta`: `repeats` times, `trials` runs on each input of the pair."""

    mechanism: str
    fault: str
    """The planted fault; "" for the unchanged mechanism."""
    release: Release
    pair: Pair
    claim: float = EPSILON
    delta: float = DELTA
    method: Method = Method.GAUSSIAN
    score: Callable[[Array], Array] | None = None
    threshold: float = 0.5
    trials: int = MANY
    repeats: int = REPEATS
    least_found: float = 0.3
    """The least share of the claim that the audit of a sound mechanism finds; 0: there is nothing to find."""


def few(case: Case) -> Case:
    """Return the case with few runs and repeats: for large faults, when every run is a separate call."""
    return replace(case, trials=FEW, repeats=FEW_REPEATS)
