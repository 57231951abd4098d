"""Makers of claims: each returns a claim about arms that are selected by their factors.

    falls, rises      along a line of arms, as one factor grows
    never_falls       along such a line, without a clear rise at the end
    best_inside       the best level of a factor is neither its first nor its last
    at_least          every selected arm reaches a bound
    apart, no_worse, alike, within
                      two selections, pair by pair of arms that agree in all other factors
    every             several claims as one
    identity          a claim that follows from formulas, whatever is trained

Differences are paired by seed and count if they exceed their margin (scenarios.study.comparison). A claim
holds if it holds for every line or pair that was run. It is not judged if none was run, or if an arm has no
such fact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from scenarios.frame.spec import Claim, Verdict
from scenarios.study.arms import Factors, Line, Where, capital, in_words, level_text, lines, pairs, selected
from scenarios.study.comparison import CLOSE, difference, level, rise
from scenarios.study.sweep import FINAL, Sweep

EVERYTHING: Where = {}
Numbers = dict[str, float | int | str | None]


def identity(claim: Claim[Sweep]) -> Claim[Sweep]:
    """The claim as an identity: no training could make it fail."""
    return replace(claim, kind="identity")


def every(name: str, *claims: Claim[Sweep]) -> Claim[Sweep]:
    """All of these claims as one; it is not judged if one of them is not."""

    def judge(sweep: Sweep) -> Verdict | None:
        found = [claim.judge(sweep) for claim in claims]
        verdicts = [verdict for verdict in found if verdict is not None]
        if len(verdicts) < len(claims):
            return None
        numbers = Numbers()
        for place, verdict in enumerate(verdicts, 1):
            told = verdict.numbers.items()
            numbers |= {
                key if numbers.get(key, value) == value else f"{key}, part {place}": value
                for key, value in told
            }
        return Verdict(all(verdict.holds for verdict in verdicts), numbers)

    return Claim(name, judge)


# -- along a factor ----------------------------------------------------------------------------------------


def falls(over: str, where: Where = EVERYTHING, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """As `over` grows, no arm is clearly above the one before it, and the last is clearly below the first."""
    said = f"{_subject(fact)} falls as {over} grows"
    return Claim(name or said + _among(where), _along(over, where, fact, -1.0))


def rises(over: str, where: Where = EVERYTHING, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """As `over` grows, no arm is clearly below the one before it, and the last is clearly above the first."""
    said = f"{_subject(fact)} rises as {over} grows"
    return Claim(name or said + _among(where), _along(over, where, fact, 1.0))


def never_falls(over: str, where: Where = EVERYTHING, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """As `over` grows, no arm is clearly below the one before it."""
    said = f"{_subject(fact)} never falls as {over} grows"
    return Claim(name or said + _among(where), _along(over, where, fact, 1.0, rises=False))


def _along(
    over: str, where: Where, fact: str, sign: float, rises: bool = True
) -> Callable[[Sweep], Verdict | None]:
    towards, against = ("rise", "fall") if sign > 0 else ("fall", "rise")

    def judge(sweep: Sweep) -> Verdict | None:
        found = sweep.lines(over, where)
        if not found or not all_have(sweep, fact, (arm for line in found for arm in line.arms)):
            return None
        back, ahead, numbers = [], [], Numbers()
        for line in found:
            back.append(max(-sign * difference(sweep, *pair, fact).margins for pair in pairwise(line.arms)))
            ahead.append(sign * difference(sweep, line.arms[0], line.arms[-1], fact).margins)
            numbers |= _levels(sweep, line, over, fact, found)
            numbers[_of(line, f"largest {against} in margins", found)] = back[-1]
            numbers[_of(line, f"{towards} from first to last in margins", found)] = ahead[-1]
        worst: Numbers = {f"largest {against} in margins": max(back)}
        worst[f"least {towards} from first to last in margins"] = min(ahead)
        holds = max(back) <= CLOSE and (min(ahead) > CLOSE or not rises)
        return Verdict(holds, worst | numbers if len(found) > 1 else numbers)

    return judge


def best_inside(over: str, where: Where = EVERYTHING, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """Of at least three levels of `over`, the best is clearly above the first and above the last."""

    def judge(sweep: Sweep) -> Verdict | None:
        found = tuple(line for line in sweep.lines(over, where) if len(line.arms) >= 3)
        holds, numbers = [], Numbers()
        if not all_have(sweep, fact, (arm for line in found for arm in line.arms)):
            return None
        for line in found:
            first, *inner, last = line.arms
            best = max(inner, key=lambda arm: sweep.mean(arm, fact))
            above = min(difference(sweep, end, best, fact).margins for end in (first, last))
            holds.append(above > 1)
            numbers |= _levels(sweep, line, over, fact, found)
            numbers[_of(line, "best inside", found)] = level_text(line.levels[line.arms.index(best)])
            numbers[_of(line, "above the ends in margins", found)] = above
        return Verdict(all(holds), numbers) if found else None

    said = f"{_subject(fact)} is best between the least and the greatest {over}"
    return Claim(name or said + _among(where), judge)


# -- against a bound ---------------------------------------------------------------------------------------


def at_least(bound: float, where: Where = EVERYTHING, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """The mean over the seeds of every selected arm is at least `bound`."""

    def judge(sweep: Sweep) -> Verdict | None:
        found = {arm: level(sweep, arm, fact) for arm in sweep.select(where)}
        if not found or not all_have(sweep, fact, found):
            return None
        least = min(found, key=lambda arm: found[arm].mean)
        numbers: Numbers = {"least": found[least].mean, "margin": found[least].margin, "in": least}
        return Verdict(found[least].mean >= bound, {**numbers, "arms": len(found), "bound": bound})

    said = f"{_subject(fact)} is at least {bound:g}"
    return Claim(name or said + _among(where), judge)


# -- between selections ------------------------------------------------------------------------------------


def apart(higher: Where, lower: Where, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """Each arm of `higher` is clearly above each arm of `lower` that agrees with it in all other factors."""

    def judge(sweep: Sweep) -> Verdict | None:
        gains = _gains(sweep, higher, lower, fact)
        return Verdict(min(gains.values()) > CLOSE, _compared(sweep, gains, fact)) if gains else None

    said = f"{_subject(fact)} is higher with {_told(higher)} than with {_told(lower)}"
    return Claim(name or said, judge)


def no_worse(one: Where, other: Where, fact: str = FINAL, name: str = "", shown: str = "") -> Claim[Sweep]:
    """No arm of `one` is clearly below an arm of `other` that agrees with it in all other factors.

    shown: a fact of both arms that the numbers show as well.
    """

    def judge(sweep: Sweep) -> Verdict | None:
        gains = _gains(sweep, one, other, fact)
        if not gains:
            return None
        numbers = _compared(sweep, gains, fact)
        if shown:
            numbers |= {f"{arm}, {shown}": sweep.mean(arm, shown) for pair in gains for arm in pair}
        return Verdict(min(gains.values()) >= -CLOSE, numbers)

    said = f"{_subject(fact)} is no lower with {_told(one)} than with {_told(other)}"
    return Claim(name or said, judge)


def alike(one: Where, other: Where, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """No arm of `one` differs clearly from an arm of `other` that agrees with it in all other factors."""

    def judge(sweep: Sweep) -> Verdict | None:
        gains = _gains(sweep, one, other, fact)
        most = max(map(abs, gains.values()), default=0.0)
        numbers: Numbers = {"largest difference in margins": most, "pairs": len(gains)}
        numbers |= figures_of(sweep, [arm for pair in gains for arm in pair], fact)
        return Verdict(most <= CLOSE, numbers) if gains else None

    said = f"{_subject(fact)} is alike with {_told(one)} and {_told(other)}"
    return Claim(name or said, judge)


def _gains(sweep: Sweep, one: Where, other: Where, fact: str) -> dict[tuple[str, str], float]:
    """How far each arm of `one` is above each arm of `other` that it is compared with, in margins.

    Empty without such arms, or if one of them has no such fact.
    """
    found = sweep.pairs(one, other)
    if not all_have(sweep, fact, (arm for pair in found for arm in pair)):
        return {}
    return {pair: rise(sweep, pair[1], pair[0], fact) for pair in found}


def all_have(sweep: Sweep, fact: str, arms: Iterable[str]) -> bool:
    """Whether the fact is a number in all of these arms, for every seed."""
    return not any(math.isnan(sweep.mean(arm, fact)) for arm in arms)


def _compared(sweep: Sweep, gains: Mapping[tuple[str, str], float], fact: str) -> Numbers:
    """The least gain with the figures of its two arms, then every gain."""
    least = min(gains, key=lambda pair: gains[pair])
    figures = figures_of(sweep, least, fact)
    several: Numbers = {f"{one} over {other} in margins": gain for (one, other), gain in gains.items()}
    told: Numbers = {"least difference in margins": gains[least], "pairs": len(gains)}
    return {**told, **figures, **(several if len(gains) > 1 else {})}


def within(by: float, one: Where, other: Where, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """Each arm of `one` equals each arm of `other` that agrees with it in all other factors, up to `by`.

    This is a test of equivalence: the whole confidence interval of the difference lies within -by to by. Few
    seeds alone therefore make no two arms equal.
    """

    def judge(sweep: Sweep) -> Verdict | None:
        found = {pair: difference(sweep, *pair, fact) for pair in sweep.pairs(one, other)}
        if not found or not all_have(sweep, fact, (arm for pair in found for arm in pair)):
            return None
        widest = max(found, key=lambda pair: max(-found[pair].low, found[pair].high))
        gap = found[widest]
        figures = figures_of(sweep, widest, fact)
        ends: Numbers = {"difference from": gap.low, "to": gap.high, "pairs": len(found), "allowed": by}
        return Verdict(-by <= gap.low and gap.high <= by, {**figures, **ends})

    said = f"{_subject(fact)} differs by at most {by:g} between {_told(one)} and {_told(other)}"
    return Claim(name or said, judge)


def figures_of(sweep: Sweep, arms: Iterable[str], fact: str) -> Numbers:
    """The mean of every arm by its name; with the name of a fact."""
    return {arm if fact == FINAL else f"{arm}, {fact}": sweep.mean(arm, fact) for arm in arms}


# -- words -------------------------------------------------------------------------------------------------


def _subject(fact: str) -> str:
    return "The figure" if fact == FINAL else capital(fact)


def _told(where: Where) -> str:
    """A selection in words."""
    if not where:
        return "all arms"
    return ", ".join(f"{name} {_values(wanted)}" for name, wanted in where.items())


def _values(wanted: object) -> str:
    if isinstance(wanted, str | int | float):
        return level_text(wanted)
    return " or ".join(level_text(one) for one in wanted) if isinstance(wanted, list | tuple) else str(wanted)


def _among(where: Where) -> str:
    return f" ({_told(where)})" if where else ""


def _of(line: Line, name: str, all_lines: tuple[Line, ...]) -> str:
    """The name of a number of a line: with several lines it says what tells this one from the others."""
    own = {
        factor: at
        for factor, at in line.others.items()
        if any(other.others.get(factor) != at for other in all_lines)
    }
    return f"{in_words(own)}: {name}" if own else name


def _levels(sweep: Sweep, line: Line, over: str, fact: str, all_lines: tuple[Line, ...]) -> Numbers:
    """The means along a line."""
    return {
        _of(line, f"{over} {level_text(at)}", all_lines): sweep.mean(arm, fact)
        for at, arm in zip(line.levels, line.arms, strict=True)
    }


# -- what a claim needs ------------------------------------------------------------------------------------


def lacking_line(factors: Mapping[str, Factors], over: str, where: Where, least: int) -> str:
    """Why no line over `over` with `least` levels is among these arms; "" if there is one."""
    if not any(over in own for own in factors.values()):
        known = dict.fromkeys(name for own in factors.values() for name in own)
        return f"no arm has the factor {over!r}; allowed: {', '.join(known) or 'none, as no arm has any'}"
    if not any(len(line.arms) >= least for line in lines(factors, over, where)):
        return f"no arms {_told(where)} differ in {over!r} alone with {least} levels or more"
    return ""


def lacking_arms(factors: Mapping[str, Factors], where: Where) -> str:
    """Why no arm is meant by `where`; "" if one is."""
    return "" if selected(factors, where) else f"no arm has {_told(where)}"


def lacking_pairs(factors: Mapping[str, Factors], one: Where, other: Where) -> str:
    """Why no two arms can be compared; "" if two can."""
    alone = lacking_arms(factors, one) or lacking_arms(factors, other)
    if alone or pairs(factors, one, other):
        return alone
    return f"no arm with {_told(one)} agrees with one with {_told(other)} in all other factors"
