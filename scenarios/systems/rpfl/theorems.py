"""The claims of scenario `rpfl` about the document's theorems, and about the curve that motivates it."""

from __future__ import annotations

import math

from mechanisms.servers.rpfl import theorem_excess
from mechanisms.servers.rpfl_server import FIRST_STEP
from scenarios.federated.measures import BACKDOOR as SUCCESS
from scenarios.federated.measures import BALANCED, EXCESS
from scenarios.frame.spec import Claim, Verdict
from scenarios.study.comparison import CLOSE, rise
from scenarios.study.sweep import Sweep
from scenarios.systems.rpfl.arms import (
    ADULT,
    ADULT_SWARM,
    BACKDOOR,
    CLEAN,
    CONVEXITY,
    DELTA,
    FEDAVG,
    FLIP,
    HORIZONS,
    LDP,
    NOISES,
    REDRAWN,
    ROW_NORM,
    SHARES,
    arm,
    noised,
    rpfl,
    utility_arm,
)

SMOOTHNESS = (ROW_NORM**2 + 1) / 4 + CONVEXITY
"""L: p (1 - p) is at most 1/4, times the squared norm of a row with its 1 for the bias, plus the decay's."""
GRADIENT_BOUND = math.sqrt(ROW_NORM**2 + 1)
"""B: |p - y| is at most 1. Noise on rows and weight decay would raise it, and the bound with it."""

ONCE = rpfl(0.0)
LEAST_STD, LARGEST_STD = "least noise std on rows", "largest noise std on rows"
Numbers = dict[str, float | int | str | None]


# -- privacy -----------------------------------------------------------------------------------------------


def proved_is_more(sweep: Sweep) -> Verdict | None:
    """The epsilon of publishing the noised rows, an upper bound for the models, is above the stated one."""
    name = arm(ADULT, CLEAN, 0.0, ONCE)
    if not sweep.has(name):
        return None
    proved, stated = sweep.number(name, "epsilon"), sweep.number(name, "stated")
    numbers: Numbers = {"proved, by publishing the noised rows": proved, "stated": stated, "delta": DELTA}
    return Verdict(proved > stated, {**numbers, "noise std": sweep.number(name, LEAST_STD)})


def first_step_keeps_theorem_1(sweep: Sweep) -> Verdict | None:
    """The exact epsilon of a model after one step from zero is at most what Theorem 1 states for T = 1."""
    name = arm(ADULT, CLEAN, 0.0, ONCE)
    if not sweep.has(name) or math.isnan(exact := sweep.number(name, FIRST_STEP)):
        return None
    stated = sweep.number(name, "stated")
    return Verdict(exact <= stated, {"exact": exact, "stated": stated, "delta": DELTA})


def rounds_cost_their_root(sweep: Sweep) -> Verdict | None:
    """K draws of noise cost at most sqrt(K) times one, for the noised rows: the form of Theorem 2."""
    once, redrawn = (arm(ADULT, CLEAN, 0.0, defence) for defence in (ONCE, REDRAWN))
    if not sweep.has(once, redrawn):
        return None
    one, all_rounds = (sweep.number(name, "epsilon") for name in (once, redrawn))
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
    arms = {
        utility_arm(rounds, defence): rounds
        for rounds in HORIZONS
        for defence in (ONCE, REDRAWN)
        if sweep.has(utility_arm(rounds, defence))
    }
    if not arms:
        return None
    bounds = {name: _bound(sweep, name, rounds) for name, rounds in arms.items()}
    found = {name: sweep.mean(name, EXCESS) for name in arms}
    numbers: Numbers = {"least bound": min(bounds.values()), "the loss of theta = 0": math.log(2)}
    return Verdict(all(found[name] <= bounds[name] for name in arms), {**numbers, **found})


def _bound(sweep: Sweep, name: str, rounds: int) -> float:
    features, _ = ADULT_SWARM.widths
    std = sweep.number(name, LARGEST_STD)
    return theorem_excess(SMOOTHNESS, GRADIENT_BOUND, CONVEXITY, rounds, features, std)


def excess_vanishes(sweep: Sweep) -> Verdict | None:
    """From the first to the last number of rounds RPFL's excess loss falls at least as K grows."""
    first, last = HORIZONS[0], HORIZONS[-1]
    defences = (FEDAVG, ONCE, REDRAWN)
    if not sweep.has(*(utility_arm(rounds, one) for rounds in (first, last) for one in defences)):
        return None
    falls = {
        defence: sweep.mean(utility_arm(last, defence), EXCESS)
        / sweep.mean(utility_arm(first, defence), EXCESS)
        for defence in defences
    }
    beyond = {
        defence: last
        * _bound(sweep, utility_arm(last, defence), last)
        / sweep.mean(utility_arm(last, defence), EXCESS)
        for defence in (ONCE, REDRAWN)
    }
    numbers: Numbers = {f"share left, {defence}": left for defence, left in falls.items()}
    numbers |= {f"rounds after which it would exceed the bound, {name}": k for name, k in beyond.items()}
    return Verdict(max(falls[ONCE], falls[REDRAWN]) <= first / last, {"as 1 / K": first / last, **numbers})


# -- the motivation ----------------------------------------------------------------------------------------


def by_noise(sweep: Sweep, attack: str) -> list[str]:
    """The arms on Adult with this attack, from no noise on rows to the most, that were run."""
    share = SHARES[-1] if attack != CLEAN else 0.0
    names = [arm(ADULT, attack, share, defence) for defence in (FEDAVG, *map(noised, NOISES), LDP)]
    return [name for name in names if sweep.has(name)]


def noise_raises_then_lowers(sweep: Sweep) -> Verdict | None:
    """Under an attack, accuracy at some noise between none and the most is above both ends."""
    found = {attack: by_noise(sweep, attack) for attack in (BACKDOOR, FLIP)}
    if any(len(names) < 3 for names in found.values()):
        return None
    holds, numbers = False, Numbers()
    for attack, names in found.items():
        best = max(names, key=sweep.mean)
        if best not in (names[0], names[-1]):
            holds |= min(rise(sweep, end, best) for end in (names[0], names[-1])) > CLOSE
        numbers[f"most accurate, {attack}"] = best
        for name in (names[0], best, names[-1]):
            numbers[name] = sweep.mean(name)
            numbers[f"{name}, balanced"] = sweep.mean(name, BALANCED)
    door = {f"{name}, {SUCCESS}": sweep.mean(name, SUCCESS) for name in found[BACKDOOR]}
    return Verdict(holds, {**numbers, **door})


CLAIMS: tuple[Claim[Sweep], ...] = (
    Claim(
        "What is proved of Theorem 1's noise (c = 1), by publishing the noised rows, is more than it states.",
        proved_is_more,
    ),
    Claim(
        "Theorem 1 (c = 1) holds of a logistic regression after one step (the document).",
        first_step_keeps_theorem_1,
    ),
    Claim(
        "Theorem 2's form: publishing rows noised K times costs at most sqrt(K) times one (the document).",
        rounds_cost_their_root,
    ),
    Claim("Theorem 3 bounds RPFL's excess loss (the document).", below_theorem_3),
    Claim("RPFL's excess loss falls as 1 / K, as Theorem 3's bound does (the document).", excess_vanishes),
    Claim(
        "More noise on rows first raises and then lowers robustness (the document's motivation).",
        noise_raises_then_lowers,
    ),
)
