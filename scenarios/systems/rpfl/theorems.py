"""The claims of scenario `rpfl` about the document's theorems, and about the curve that motivates it."""

from __future__ import annotations

import math

from mechanisms.servers.rpfl import theorem_excess
from mechanisms.servers.rpfl_server import FIRST_STEP
from scenarios.federated.measures import BACKDOOR as SUCCESS
from scenarios.federated.measures import BALANCED, EXCESS
from scenarios.frame.spec import Claim, Verdict
from scenarios.study.arms import Where
from scenarios.study.comparison import CLOSE, level, rise
from scenarios.study.estimates import estimate
from scenarios.study.makers import Numbers
from scenarios.study.sweep import Sweep
from scenarios.systems.rpfl.arms import (
    ADULT,
    AT_REST,
    AVERAGE,
    BACKDOOR,
    CONVEXITY,
    DELTA,
    DRAWN_ONCE,
    FLIP,
    LDP,
    LITERAL,
    MOST,
    ON_ADULT,
    REDRAWN,
    ROW_NORM,
    STATED,
    UTILITY,
)

SMOOTHNESS = (ROW_NORM**2 + 1) / 4 + CONVEXITY
"""L: p (1 - p) is at most 1/4, times the squared norm of a row with its 1 for the bias, plus the decay's."""
GRADIENT_BOUND = math.sqrt(ROW_NORM**2 + 1)
"""B: |p - y| is at most 1. Noise on rows and weight decay would raise it, and the bound with it."""

LEAST_STD, LARGEST_STD = "least noise std on rows", "largest noise std on rows"
AS_PRINTED: Where = {"defence": REDRAWN}
CONVEX: Where = {"setting": UTILITY}


# -- privacy -----------------------------------------------------------------------------------------------


def proved_is_more(sweep: Sweep) -> Verdict | None:
    """The epsilon of publishing the noised rows, an upper bound for the models, is above the stated one."""
    arm = sweep.first({**AT_REST, **LITERAL})
    if arm is None:
        return None
    proved, stated = sweep.number(arm, "epsilon"), sweep.number(arm, "stated")
    numbers: Numbers = {"proved, by publishing the noised rows": proved, "stated": stated, "delta": DELTA}
    return Verdict(proved > stated, {**numbers, "noise std": sweep.number(arm, LEAST_STD)})


def first_step_keeps_theorem_1(sweep: Sweep) -> Verdict | None:
    """The exact epsilon of a model after one step from zero is at most what Theorem 1 states for T = 1."""
    arm = sweep.first({**AT_REST, **LITERAL})
    if arm is None or math.isnan(exact := sweep.number(arm, FIRST_STEP)):
        return None
    stated = sweep.number(arm, "stated")
    return Verdict(exact <= stated, {"exact": exact, "stated": stated, "delta": DELTA})


def rounds_cost_their_root(sweep: Sweep) -> Verdict | None:
    """K draws of noise cost at most sqrt(K) times one, for the noised rows: the form of Theorem 2."""
    arms = sweep.firsts({**AT_REST, **LITERAL}, {**AT_REST, **AS_PRINTED})
    if not arms:
        return None
    _, redrawn = arms
    one, all_rounds = (sweep.number(arm, "epsilon") for arm in arms)
    rounds = len(sweep.curve(redrawn))
    numbers: Numbers = {
        "proved, noise drawn once": one,
        "proved, noise redrawn": all_rounds,
        "times": all_rounds / one,
        "sqrt(K)": math.sqrt(rounds),
        "stated, c0 = 1": sweep.number(redrawn, "stated"),
    }
    return Verdict(all_rounds <= math.sqrt(rounds) * one, numbers)


# -- utility -----------------------------------------------------------------------------------------------


def below_theorem_3(sweep: Sweep) -> Verdict | None:
    """After each number of rounds the excess loss is below Theorem 3's bound."""
    arms = sweep.select({**CONVEX, "defence": (DRAWN_ONCE, REDRAWN)})
    if not arms:
        return None
    bounds = {arm: _bound(sweep, arm) for arm in arms}
    numbers: Numbers = {"least bound": min(bounds.values()), "the loss of theta = 0": math.log(2)}
    found = {arm: sweep.mean(arm, EXCESS) for arm in arms}
    holds = all(level(sweep, arm, EXCESS).high <= bounds[arm] for arm in arms)
    return Verdict(holds, {**numbers, **found})


def _bound(sweep: Sweep, arm: str) -> float:
    features, _ = ON_ADULT.widths
    rounds, std = int(sweep.factor(arm, "rounds")), sweep.number(arm, LARGEST_STD)
    return theorem_excess(SMOOTHNESS, GRADIENT_BOUND, CONVEXITY, rounds, features, std)


def excess_vanishes(sweep: Sweep) -> Verdict | None:
    """From the first to the last number of rounds RPFL's excess loss falls at least as K grows."""
    found = [sweep.line("rounds", {**CONVEX, **one}) for one in (AVERAGE, LITERAL, AS_PRINTED)]
    if any(len(line.arms) < 2 for line in found):
        return None
    numbers, above = Numbers(), []
    for line in found:
        (first, few), *_, (last, many) = line.points.items()
        name, left = line.others["defence"], sweep.mean(last, EXCESS) / sweep.mean(first, EXCESS)
        numbers |= {"as 1 / K": few / many, f"share left, {name}": left}
        if name != AVERAGE["defence"]:
            beyond = many * _bound(sweep, last) / sweep.mean(last, EXCESS)
            numbers[f"rounds after which it would exceed the bound, {name}"] = beyond
            more = sweep.values(last, EXCESS) - few / many * sweep.values(first, EXCESS)
            above.append(estimate(more))
    return Verdict(all(one.high <= 0 for one in above), numbers)


# -- the motivation ----------------------------------------------------------------------------------------


def noise_raises_then_lowers(sweep: Sweep) -> Verdict | None:
    """Under an attack, accuracy at some noise between none and the most is above both ends."""
    found = {attack: _by_noise(sweep, attack) for attack in (BACKDOOR, FLIP)}
    if any(len(arms) < 3 for arms in found.values()):
        return None
    holds, numbers = False, Numbers()
    for attack, names in found.items():
        best = max(names, key=sweep.mean)
        holds |= min(rise(sweep, end, best) for end in (names[0], names[-1])) > CLOSE
        numbers[f"most accurate, {attack}"] = best
        for name in (names[0], best, names[-1]):
            numbers[name] = sweep.mean(name)
            numbers[f"{name}, balanced"] = sweep.mean(name, BALANCED)
    door = {f"{name}, {SUCCESS}": sweep.mean(name, SUCCESS) for name in found[BACKDOOR]}
    return Verdict(holds, {**numbers, **door})


def _by_noise(sweep: Sweep, attack: str) -> list[str]:
    """From no noise on rows to the most, the arms with this attack; [] without both ends."""
    where: Where = {"setting": ADULT, "attack": attack, "share": MOST}
    quiet, noised = sweep.first({**where, **AVERAGE}), sweep.line("epsilon", {**where, "defence": LDP})
    if quiet is None or STATED not in noised.levels:
        return []
    return [quiet, *noised.arms[::-1]]


CLAIMS: tuple[Claim[Sweep], ...] = (
    Claim(
        "What is proved of Theorem 1's noise (c = 1), by publishing the noised rows, is more than it states.",
        *(proved_is_more, "identity"),
    ),
    Claim(
        "Theorem 1 (c = 1) holds of a logistic regression after one step (the document).",
        *(first_step_keeps_theorem_1, "identity"),
    ),
    Claim(
        "Theorem 2's form: publishing rows noised K times costs at most sqrt(K) times one (the document).",
        *(rounds_cost_their_root, "identity"),
    ),
    Claim("Theorem 3 bounds RPFL's excess loss (the document).", below_theorem_3),
    Claim("RPFL's excess loss falls as 1 / K, as Theorem 3's bound does (the document).", excess_vanishes),
    Claim(
        "More noise on rows first raises and then lowers robustness (the document's motivation).",
        noise_raises_then_lowers,
    ),
)
