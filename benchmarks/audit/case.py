"""One audit: a mechanism, sound or with a planted fault, on the worst neighbours that its claim covers."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mechanisms.audits.audit import Array, Method, Pair, Release
from mechanisms.mechanism import Guarantee
from mechanisms.noise.randomness import SeededWords, Words

EPSILON, DELTA = 4.0, 1e-5
MANY, FEW = 100_000, 2_000


class Standing(StrEnum):
    """What is known of a claimed epsilon (docs/glossary.md)."""

    REFUTED = "refuted"
    """At the stated confidence, a lower bound is above it."""
    NOT_REFUTED = "not refuted"
    """A theorem proves it, and no lower bound is above it."""
    OPEN = "open"
    """Nobody proved it, and no lower bound is above it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An epsilon at `delta` for a `unit`, which names neighbours and norm, and what is `released`.

    `by`: the theorem that proves it; "" if no proof holds here.
    """

    epsilon: float
    delta: float
    unit: str
    released: str
    by: str

    def standing(self, least: float) -> Standing:
        """Return what is known of the claim if `least` is a lower bound on epsilon."""
        if least > self.epsilon:
            return Standing.REFUTED
        return Standing.NOT_REFUTED if self.by else Standing.OPEN


def proved_claim(guarantee: Guarantee | None, released: str, by: str) -> Claim:
    """Return the claim of a mechanism's own `guarantee`. Raises ValueError if that is None."""
    if guarantee is None:
        raise ValueError("guarantee = None is not allowed: an audited mechanism claims an epsilon")
    return Claim(guarantee.epsilon, guarantee.delta, guarantee.unit.words, released, by)


def stated_claim(guarantee: Guarantee, released: str) -> Claim:
    """Return the claim of the epsilon that a mechanism was asked for, which its guarantee does not prove."""
    return Claim(guarantee.stated, guarantee.delta, guarantee.unit.words, released, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An audit of a claim by `trials` runs on each input of the pair, of which the maker's docstring tells.

    `score`: from releases (n, k) to (n,), larger for what looks like x1. None: the projection on the pair,
    which is a sufficient statistic and the most powerful test for isotropic Gaussian noise.
    """

    mechanism: str
    fault: str = ""
    """The planted fault; "" for the unchanged mechanism."""
    release: Release
    pair: Pair
    claim: Claim
    subject: object = None
    """The mechanism that makes the claim; None for noise alone."""
    covers: tuple[str, ...] = ()
    """The names of mechanisms.registry for which it stands, with their option, as in `aldp:quantile`."""
    method: Method = Method.GAUSSIAN
    score: Callable[[Array], Array] | None = None
    trials: int = MANY
    quick_trials: int = FEW
    least_found: float = 0.3
    """How much of a proved claim the audit must find at least, as a share; 0: there is nothing to find."""
    wanted: Standing | None = Standing.NOT_REFUTED
    """The standing that must come out; None: any may."""


def seeded_words(*names: object) -> Words:
    """Return random words whose seed follows from the names."""
    return SeededWords(np.random.default_rng(zlib.crc32(repr(names).encode())))
