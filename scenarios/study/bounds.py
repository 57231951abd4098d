"""Makers of claims about how high or how far apart arms are, in the unit of the figure.

    above, below   every selected arm is on this side of a bound
    ahead          two selections, pair by pair of arms that agree in all other factors: one is so far above

The whole confidence interval counts, so few seeds alone make no such claim hold. As with those of
scenarios.study.makers it holds if it does for every arm or pair that was run, and is not judged if none was,
or if an arm has no such fact.
"""

from __future__ import annotations

from scenarios.frame.spec import Claim, Verdict
from scenarios.study.arms import Where
from scenarios.study.comparison import difference, level
from scenarios.study.makers import Numbers, all_have, figures_of
from scenarios.study.sweep import FINAL, Sweep


def above(bound: float, where: Where, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """The whole interval of every selected arm is at or above `bound`."""

    def judge(sweep: Sweep) -> Verdict | None:
        arms = sweep.select(where)
        if not arms or not all_have(sweep, fact, arms):
            return None
        low = min(level(sweep, arm, fact).low for arm in arms)
        told: Numbers = {_of("least, less its margin", fact): low, "at least": bound}
        return Verdict(low >= bound, {**figures_of(sweep, arms, fact), **told})

    return Claim(name or f"{fact} is above {bound:g}", judge)


def below(bound: float, where: Where, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """The whole interval of every selected arm is below `bound`."""

    def judge(sweep: Sweep) -> Verdict | None:
        arms = sweep.select(where)
        if not arms or not all_have(sweep, fact, arms):
            return None
        high = max(level(sweep, arm, fact).high for arm in arms)
        told: Numbers = {_of("most, with its margin", fact): high, "below": bound}
        return Verdict(high < bound, {**figures_of(sweep, arms, fact), **told})

    return Claim(name or f"{fact} is below {bound:g}", judge)


def ahead(by: float, one: Where, other: Where, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """Each arm of `one` is at least `by` above each arm of `other` that agrees with it in all other factors.

    A negative `by` is what an arm of `one` may be below the other at most.
    """

    def judge(sweep: Sweep) -> Verdict | None:
        found = {pair: difference(sweep, pair[1], pair[0], fact) for pair in sweep.pairs(one, other)}
        if not found or not all_have(sweep, fact, (arm for pair in found for arm in pair)):
            return None
        least = min(found.values(), key=lambda gap: gap.low)
        arms = tuple(dict.fromkeys(arm for pair in found for arm in pair))
        told: Numbers = {"least difference": least.mean, "margin": least.margin, "at least": by}
        return Verdict(least.low >= by, {**told, **figures_of(sweep, arms, fact)})

    return Claim(name or f"{fact} is ahead by {by:g}", judge)


def _of(name: str, fact: str) -> str:
    return name if fact == FINAL else f"{name}, {fact}"
