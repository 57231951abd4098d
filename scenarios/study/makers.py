"""Makers of claims: each returns a claim about arms that are selected by their factors.

    falls, rises      along a line of arms, as one factor grows
    best_inside       the best level of a factor is neither its first nor its last
    at_least          every selected arm reaches a bound
    apart, within     two selections, pair by pair of arms that agree in all other factors

Differences are paired by seed and count if they exceed their margin (scenarios.study.comparison). A claim
holds if it holds for every line or pair that was run. It is not judged if none was run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from scenarios.frame.spec import Claim, Verdict
from scenarios.study.arms import Factors, Level, Line, Where, level_text, lines, pairs, selected
from scenarios.study.comparison import difference, level
from scenarios.study.sweep import FINAL, Sweep

EVERYTHING: Where = {}
Numbers = dict[str, float | int | str | None]


# -- along a factor ----------------------------------------------------------------------------------------


def falls(over: str, where: Where = EVERYTHING, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """As `over` grows, no arm is clearly above the one before it, and the last is clearly below the first."""
    said = f"{_subject(fact)} falls as {over} grows"
    return Claim(name or said + _among(where), _along(over, where, fact, -1.0))


def rises(over: str, where: Where = EVERYTHING, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """As `over` grows, no arm is clearly below the one before it, and the last is clearly above the first."""
    said = f"{_subject(fact)} rises as {over} grows"
    return Claim(name or said + _among(where), _along(over, where, fact, 1.0))


def _along(over: str, where: Where, fact: str, sign: float) -> Callable[[Sweep], Verdict | None]:
    towards, against = ("rise", "fall") if sign > 0 else ("fall", "rise")

    def judge(sweep: Sweep) -> Verdict | None:
        found, holds, numbers = sweep.lines(over, where), [], Numbers()
        for line in found:
            steps = [sign * difference(sweep, *pair, fact).margins for pair in pairwise(line.arms)]
            whole = sign * difference(sweep, line.arms[0], line.arms[-1], fact).margins
            holds.append(min(steps) >= -1 and whole > 1)
            numbers |= _levels(sweep, line, over, fact)
            numbers[_of(line, f"largest {against} in margins", found)] = -min(steps)
            numbers[_of(line, f"{towards} from first to last in margins", found)] = whole
        return Verdict(all(holds), numbers) if found else None

    return judge


def best_inside(over: str, where: Where = EVERYTHING, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """Of at least three levels of `over`, the best is clearly above the first and above the last."""

    def judge(sweep: Sweep) -> Verdict | None:
        found = tuple(line for line in sweep.lines(over, where) if len(line.arms) >= 3)
        holds, numbers = [], Numbers()
        for line in found:
            first, *inner, last = line.arms
            best = max(inner, key=lambda arm: sweep.mean(arm, fact))
            above = min(difference(sweep, end, best, fact).margins for end in (first, last))
            holds.append(above > 1)
            numbers |= _levels(sweep, line, over, fact)
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
        if not found:
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
        found = pairs(sweep.factors, higher, lower)
        gaps = {pair: difference(sweep, pair[1], pair[0], fact) for pair in found}
        if not gaps:
            return None
        least = min(gaps, key=lambda pair: gaps[pair].margins)
        return Verdict(gaps[least].above, _closest(sweep, least, fact, gaps[least].margins, len(gaps)))

    said = f"{_subject(fact)} is higher with {_told(higher)} than with {_told(lower)}"
    return Claim(name or said, judge)


def _closest(sweep: Sweep, pair: tuple[str, str], fact: str, margins: float, count: int) -> Numbers:
    figures: Numbers = {arm: sweep.mean(arm, fact) for arm in pair}
    return {**figures, "least difference in margins": margins, "pairs": count}


def within(by: float, one: Where, other: Where, fact: str = FINAL, name: str = "") -> Claim[Sweep]:
    """Each arm of `one` equals each arm of `other` that agrees with it in all other factors, up to `by`.

    This is a test of equivalence: the whole confidence interval of the difference lies within -by to by. Few
    seeds alone therefore make no two arms equal.
    """

    def judge(sweep: Sweep) -> Verdict | None:
        found = {pair: difference(sweep, *pair, fact) for pair in pairs(sweep.factors, one, other)}
        if not found:
            return None
        widest = max(found, key=lambda pair: max(-found[pair].low, found[pair].high))
        gap = found[widest]
        figures: Numbers = {arm: sweep.mean(arm, fact) for arm in widest}
        ends: Numbers = {"difference from": gap.low, "to": gap.high, "pairs": len(found), "allowed": by}
        return Verdict(-by <= gap.low and gap.high <= by, {**figures, **ends})

    said = f"{_subject(fact)} differs by at most {by:g} between {_told(one)} and {_told(other)}"
    return Claim(name or said, judge)


# -- words -------------------------------------------------------------------------------------------------


def _subject(fact: str) -> str:
    return "The figure" if fact == FINAL else fact[:1].upper() + fact[1:]


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
    """The name of a number of a line; with several lines it names the line."""
    return f"{line.words}: {name}" if len(all_lines) > 1 and line.words else name


def _levels(sweep: Sweep, line: Line, over: str, fact: str) -> Numbers:
    """The means at the ends of a line."""
    prefix = f"{line.words}: " if line.words else ""
    ends: Mapping[Level, str] = {line.levels[0]: line.arms[0], line.levels[-1]: line.arms[-1]}
    return {f"{prefix}{over} {level_text(at)}": sweep.mean(arm, fact) for at, arm in ends.items()}


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
