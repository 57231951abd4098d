"""The claims of scenario `rpfl` about the document's theorems, and about the curve that motivates it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mechanisms.servers.rpfl import theorem_excess
from mechanisms.servers.rpfl_server import FIRST_STEP
from scenarios.federated.measures import BACKDOOR as SUCCESS
from scenarios.federated.measures import BALANCED, EXCESS
from scenarios.frame.spec import Verdict
from scenarios.study.about import Subject, about, all_of, along, as_claims
from scenarios.study.arms import Where
from scenarios.study.comparison import CLOSE, level, rise
from scenarios.study.estimates import estimate
from scenarios.study.makers import Numbers, figures_of, identity
from scenarios.study.sweep import Sweep
from scenarios.systems.rpfl.arms import (
    AT_REST,
    AVERAGE,
    CONVEXITY,
    DELTA,
    LITERAL,
    ON_ADULT,
    ROW_NORM,
    STATED,
    met,
)

SMOOTHNESS = (ROW_NORM**2 + 1) / 4 + CONVEXITY
"""L: p (1 - p) is at most 1/4, times the squared norm of a row with its 1 for the bias, plus the decay's."""
GRADIENT_BOUND = math.sqrt(ROW_NORM**2 + 1)
"""B: |p - y| is at most 1. Noise on rows and weight decay would raise it, and the bound with it."""

LEAST_STD, LARGEST_STD = "least noise std on rows", "largest noise std on rows"
AS_PRINTED: Where = {"defence": "rpfl-redrawn"}
CONVEX: Where = {"setting": "utility"}


# -- privacy -----------------------------------------------------------------------------------------------


@about({**AT_REST, **LITERAL})
def proved_is_more(sweep: Sweep, arm: str) -> Verdict:
    """Publishing the noised rows is an upper bound for the models."""
    proved, said = sweep.number(arm, "epsilon"), sweep.number(arm, "stated")
    numbers: Numbers = {"proved, by publishing the noised rows": proved, "stated": said, "delta": DELTA}
    return Verdict(proved > said, {**numbers, "noise std": sweep.number(arm, LEAST_STD)})


@about({**AT_REST, **LITERAL})
def first_step_keeps_theorem_1(sweep: Sweep, arm: str) -> Verdict | None:
    """The exact epsilon of a model after one step from zero is at most what Theorem 1 states for T = 1."""
    exact, said = sweep.number(arm, FIRST_STEP), sweep.number(arm, "stated")
    if math.isnan(exact):
        return None
    return Verdict(exact <= said, {"exact": exact, "stated": said, "delta": DELTA})


@about({**AT_REST, **LITERAL}, {**AT_REST, **AS_PRINTED})
def rounds_cost_their_root(sweep: Sweep, drawn_once: str, redrawn: str) -> Verdict:
    """K draws of noise cost at most sqrt(K) times one, for the noised rows."""
    one, all_rounds = sweep.number(drawn_once, "epsilon"), sweep.number(redrawn, "epsilon")
    root = math.sqrt(len(sweep.curve(redrawn)))
    numbers: Numbers = {
        "proved, noise drawn once": one,
        "proved, noise redrawn": all_rounds,
        "times": all_rounds / one,
        "sqrt(K)": root,
        "stated, c0 = 1": sweep.number(redrawn, "stated"),
    }
    return Verdict(all_rounds <= root * one, numbers)


# -- utility -----------------------------------------------------------------------------------------------


@about(all_of({**CONVEX, "defence": ("rpfl", "rpfl-redrawn")}))
def below_theorem_3(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """It does after each number of rounds."""
    bounds = {arm: _bound(sweep, arm) for arm in arms}
    numbers: Numbers = {"least bound": min(bounds.values()), "the loss of theta = 0": math.log(2)}
    found = {arm: sweep.mean(arm, EXCESS) for arm in arms}
    return Verdict(all(level(sweep, arm, EXCESS).high <= bounds[arm] for arm in arms), {**numbers, **found})


def _bound(sweep: Sweep, arm: str) -> float:
    features, _ = ON_ADULT.widths
    rounds, std = int(sweep.factor(arm, "rounds")), sweep.number(arm, LARGEST_STD)
    return theorem_excess(SMOOTHNESS, GRADIENT_BOUND, CONVEXITY, rounds, features, std)


@about(*(along("rounds", {**CONVEX, **own}, least=2) for own in (AVERAGE, LITERAL, AS_PRINTED)))
def excess_vanishes(sweep: Sweep, *found: Mapping[str, float]) -> Verdict:
    """From the first to the last number of rounds it falls at least as K grows, for both forms of RPFL."""
    numbers, above = Numbers(), []
    for points in found:
        (first, few), *_, (last, many) = points.items()
        name, left = sweep.factors[first]["defence"], sweep.mean(last, EXCESS) / sweep.mean(first, EXCESS)
        numbers |= {"as 1 / K": few / many, f"share left, {name}": left}
        if name != AVERAGE["defence"]:
            beyond = many * _bound(sweep, last) / sweep.mean(last, EXCESS)
            numbers[f"rounds after which it would exceed the bound, {name}"] = beyond
            more = sweep.values(last, EXCESS) - few / many * sweep.values(first, EXCESS)
            above.append(estimate(more))
    return Verdict(all(one.high <= 0 for one in above), numbers)


# -- the motivation ----------------------------------------------------------------------------------------


def _by_noise(attack: str) -> Subject:
    """From no noise on rows to the most, the arms with this attack; () without both ends or without more."""

    def found(sweep: Sweep) -> tuple[str, ...]:
        quiet, noised = sweep.first(met(attack, "fedavg")), sweep.line("epsilon", met(attack, "ldp"))
        if quiet is None or STATED not in noised.levels or len(noised.arms) < 2:
            return ()
        return (quiet, *noised.arms[::-1])

    return found


@about(*map(_by_noise, ("backdoor", "flip")))
def noise_raises_then_lowers(sweep: Sweep, *found: Sequence[str]) -> Verdict:
    """Under an attack, accuracy at some noise between none and the most is above both ends."""
    holds, numbers = False, Numbers()
    for arms in found:
        best, ends = max(arms, key=sweep.mean), (arms[0], arms[-1])
        holds |= min(rise(sweep, end, best) for end in ends) > CLOSE
        numbers[f"most accurate, {sweep.factors[best]['attack']}"] = best
        for arm in (ends[0], best, ends[1]):
            numbers |= {arm: sweep.mean(arm), f"{arm}, balanced": sweep.mean(arm, BALANCED)}
    return Verdict(holds, {**numbers, **figures_of(sweep, found[0], SUCCESS)})


CLAIMS = as_claims(
    {
        "What is proved of Theorem 1's noise (c = 1), by publishing the noised rows, is more than it "
        "states.": identity(proved_is_more),
        "Theorem 1 (c = 1) holds of a logistic regression after one step (the document).": identity(
            first_step_keeps_theorem_1
        ),
        "Theorem 2's form: publishing rows noised K times costs at most sqrt(K) times one (the "
        "document).": identity(rounds_cost_their_root),
        "Theorem 3 bounds RPFL's excess loss (the document).": below_theorem_3,
        "RPFL's excess loss falls as 1 / K, as Theorem 3's bound does (the document).": excess_vanishes,
        "More noise on rows first raises and then lowers robustness (the document's "
        "motivation).": noise_raises_then_lowers,
    }
)
