"""One audit: a mechanism, sound or with a planted fault, on the worst neighbours that its claim covers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from mechanisms.audits.audit import Array, Method, Pair, Release
from mechanisms.mechanism import Guarantee

EPSILON, DELTA = 4.0, 1e-5
MANY, FEW = 100_000, 2_000


class Standing(StrEnum):
    """What is known of a claimed epsilon; docs/glossary.md has the words."""

    REFUTED = "refuted"
    """A lower bound is above it, at the stated confidence."""
    NOT_REFUTED = "not refuted"
    """A theorem proves it, and no lower bound is above it."""
    OPEN = "open"
    """It is only stated: nobody proved it, and this audit does not refute it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An epsilon at `delta` for a `unit` (with neighbours and norm), and what is `released`.

    `by`: the theorem that proves it; "" if it is stated without a proof that holds here.
    """

    epsilon: float
    delta: float
    unit: str
    released: str
    by: str

    def standing(self, least: float) -> Standing:
        """What is known of the claim once `least` is known as a lower bound on epsilon."""
        if least > self.epsilon:
            return Standing.REFUTED
        return Standing.NOT_REFUTED if self.by else Standing.OPEN


def proved(guarantee: Guarantee | None, released: str, by: str) -> Claim:
    """The claim of a mechanism's own `guarantee`, for all that it covers. ValueError if it has none."""
    if guarantee is None:
        raise ValueError("guarantee = None is not allowed: an audited mechanism claims an epsilon")
    return Claim(guarantee.epsilon, guarantee.delta, guarantee.unit.words, released, by)


def stated(guarantee: Guarantee, released: str) -> Claim:
    """The epsilon that a mechanism was asked for, which its guarantee does not prove."""
    return Claim(guarantee.stated, guarantee.delta, guarantee.unit.words, released, "")


@dataclass(frozen=True, slots=True)
class Case:
    """An audit of a claim by `trials` runs on each input of the pair (the docstring of its maker has it).

    A score maps releases (n, k) to (n,), larger for what looks like x1; None: the pair's projection, the
    most powerful test of isotropic Gaussian noise, for which it is a sufficient statistic.
    """

    mechanism: str
    fault: str
    """The planted fault; "" for the unchanged mechanism."""
    release: Release
    pair: Pair
    claim: Claim
    subject: object = None
    """The mechanism that makes the claim; None for the Gaussian mechanism alone."""
    covers: tuple[str, ...] = ()
    """The names of mechanisms.registry that it stands for, with the option: `aldp:quantile`."""
    method: Method = Method.GAUSSIAN
    score: Callable[[Array], Array] | None = None
    trials: int = MANY
    quick_trials: int = FEW
    least_found: float = 0.3
    """The least share of a proved claim that the audit finds; 0: there is nothing to find."""
    wanted: Standing | None = Standing.NOT_REFUTED
    """The standing that must come out; None: whatever comes out is shown."""
