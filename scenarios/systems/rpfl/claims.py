"""The claims of scenario `rpfl`: the document's statements, and how a replay judges them."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from mechanisms.audits.membership import advantage_at_most
from scenarios.federated.measures import BACKDOOR as SUCCESS
from scenarios.federated.measures import BALANCED, MAJORITY
from scenarios.frame.spec import Claim, Verdict
from scenarios.study.arms import Where
from scenarios.study.bounds import above, ahead, below
from scenarios.study.comparison import CLOSE, rise
from scenarios.study.estimates import Estimate, estimate
from scenarios.study.makers import Numbers, apart, every, within
from scenarios.study.sweep import FINAL, Sweep
from scenarios.systems.rpfl import lying, theorems
from scenarios.systems.rpfl.arms import (
    ADULT,
    AT_REST,
    AVERAGE,
    BACKDOOR,
    BACKDOOR_SCALED,
    CDP,
    CLEAN,
    DEFENCES,
    DELTA,
    DOOR,
    DRAWN_ONCE,
    FEDAVG,
    FLIP,
    FLIP_SCALED,
    FORGED,
    GM,
    GM_RPFL,
    LDP,
    LITERAL,
    LOAN_IID,
    MEMBERS,
    MOST,
    NORM,
    POISONS,
    REDRAWN,
    TM,
    WEAK_DP,
    WEIGHTS,
    rpfl,
)

TIMES_FEDAVG, TIMES_BENCHMARK = 3.39, 2.75
"""The factors by which accuracy improves on FedAvg's, and at most on a benchmark's, by the document."""
TIMES_ATTACK = 0.71
"""The least factor on the accuracy of a benchmark's membership inference, by the document."""
BENCHMARKS = (FEDAVG, NORM, WEAK_DP, GM, TM, LDP, CDP)
RPFLS = (DRAWN_ONCE, REDRAWN)
ALIKE_POINTS = 2.0
"""Two defences do alike if they differ by at most this many points."""
HIGH_POINTS = 5.0
"""Accuracy counts as relatively high within this many points of that without an attack."""
LEARNED = 0.55
"""The balanced accuracy without attackers above which a model has learned; always saying no gives .5."""
NO_DEFENCE = 0.9
"""The success of a backdoor from which on a defence has failed."""
NEAR_CHANCE = 0.05
"""The distance from one half within which an attack's accuracy counts as chance."""
RECORD_EPSILON = 1.0
NEAR_MAJORITY = 0.01
MEMBERSHIPS = ("membership accuracy", "calibrated membership accuracy")
ATTACK = MEMBERSHIPS[0]

ALIKE: Where = {"setting": ADULT, "attack": (CLEAN, BACKDOOR, FLIP), "share": (0.0, MOST)}
SCALED: Where = {"setting": ADULT, "attack": BACKDOOR_SCALED}
FEW: Where = {"setting": MEMBERS}


def descends(name: str, chain: Collection[Where], fact: str = FINAL) -> Claim[Sweep]:
    """Each of these arms is clearly above the next one."""

    def judge(sweep: Sweep) -> Verdict | None:
        arms = sweep.firsts(*chain)
        if not arms:
            return None
        least = min(rise(sweep, low, high, fact) for high, low in pairwise(arms))
        figures: Numbers = {arm: sweep.mean(arm, fact) for arm in arms}
        return Verdict(least > CLOSE, {"least fall in margins": least, **figures})

    return Claim(name, judge)


def rpfl_is_best(sweep: Sweep) -> Verdict | None:
    """Of all defences whose model learns, RPFL with a weight has the least backdoor success."""
    factors = [one.factors for one in DEFENCES]
    compared = [own for own in factors if own["defence"] not in (REDRAWN, GM_RPFL) and own != LITERAL]
    clean = sweep.firsts(*({**AT_REST, **own} for own in compared))
    attacked = sweep.firsts(*({**DOOR, **own} for own in compared))
    if not clean or not attacked:
        return None
    learned = [arm for rest, arm in zip(clean, attacked, strict=True) if sweep.mean(rest, BALANCED) > LEARNED]
    best = min(learned, key=lambda arm: sweep.mean(arm, SUCCESS), default="")
    weighted = sweep.select({**DOOR, "defence": DRAWN_ONCE})
    rivals = [arm for arm in learned if arm not in (*weighted, best)]
    if not rivals:
        return None
    below_by = min(rise(sweep, best, arm, SUCCESS) for arm in rivals)
    told: Numbers = {"least": best, "below the others by margins": below_by}
    figures: Numbers = {arm: sweep.mean(arm, SUCCESS) for arm in learned}
    return Verdict(best in weighted and below_by > CLOSE, {**told, **figures})


def times(
    name: str, stated: float, attacks: Collection[str], benchmarks: str | tuple[str, ...]
) -> Claim[Sweep]:
    """Under one of these attacks RPFL's accuracy is at least `stated` times that of a benchmark."""
    where: Where = {"setting": ADULT, "attack": tuple(attacks)}

    def judge(sweep: Sweep) -> Verdict | None:
        pairs = sweep.pairs({**where, "defence": benchmarks}, {**where, "defence": RPFLS})
        if not pairs:
            return None
        base, own = max(pairs, key=lambda pair: sweep.mean(pair[1]) / sweep.mean(pair[0]))
        most = sweep.mean(own) / sweep.mean(base)
        more = estimate(sweep.values(own) - stated * sweep.values(base))
        told: Numbers = {"arm": own, "beside": base, "times": most, "the document": stated}
        return Verdict(more.low >= 0, {**told, "above that, in margins": more.margins})

    return Claim(name, judge)


# -- privacy -----------------------------------------------------------------------------------------------


def membership_is_chance(sweep: Sweep) -> Verdict | None:
    """If epsilon is at most 1 for a record or more, the accuracy of both attacks is near one half."""
    arms = [arm for arm in sweep.select(FEW) if sweep.number(arm, "epsilon") <= RECORD_EPSILON * 1.001]
    if not arms or not sweep.first({**FEW, **AVERAGE}):
        return None
    found: Numbers = {f"{arm}, {fact}": sweep.mean(arm, fact) for arm in arms for fact in MEMBERSHIPS}
    most = max(_apart(estimate(sweep.values(arm, fact) - 0.5)) for arm in arms for fact in MEMBERSHIPS)
    ceiling = 0.5 + advantage_at_most(RECORD_EPSILON, DELTA) / 2
    numbers: Numbers = {"largest distance from chance with its margin": most, "no attack can exceed": ceiling}
    return Verdict(most <= NEAR_CHANCE, {**numbers, **found})


def _apart(found: Estimate) -> float:
    """The largest distance from zero within an interval."""
    return abs(found.mean) + found.margin


def times_attack(sweep: Sweep) -> Verdict | None:
    """RPFL's membership inference is at most `TIMES_ATTACK` times as accurate as a benchmark's.

    The document says "decreased up to 0.71 times". A decrease by 0.71 would be far below guessing, so this
    reads it as a decrease to 0.71 times. Of Table I itself RPFL's 48 % are 0.59 times the 82 % of averaging.
    """
    own, base = (sweep.select({**FEW, "defence": names}) for names in (RPFLS, BENCHMARKS))
    if not own or not base:
        return None
    least = min(own, key=lambda arm: sweep.mean(arm, ATTACK))
    most = max(base, key=lambda arm: sweep.mean(arm, ATTACK))
    rate = sweep.mean(most, ATTACK)
    numbers: Numbers = {"arm": least, "beside": most, "times": sweep.mean(least, ATTACK) / rate}
    numbers |= {"times, for guessing": 0.5 / rate, "the document": TIMES_ATTACK}
    more = estimate(sweep.values(least, ATTACK) - TIMES_ATTACK * sweep.values(most, ATTACK))
    return Verdict(more.high <= 0, {**numbers, "above that, in margins": more.margins})


def majority_rate(sweep: Sweep) -> Verdict | None:
    """On all loans, plain averaging is about as accurate as the prediction that every loan is paid."""
    arm = sweep.first({"setting": LOAN_IID, "attack": CLEAN, **AVERAGE})
    if arm is None:
        return None
    numbers: Numbers = {"accuracy": sweep.mean(arm)}
    numbers |= {fact: sweep.mean(arm, fact) for fact in (MAJORITY, BALANCED, "AUC")}
    apart = _apart(estimate(sweep.values(arm) - sweep.values(arm, MAJORITY)))
    numbers |= {"apart, with margin": apart, "allowed": NEAR_MAJORITY}
    return Verdict(apart <= NEAR_MAJORITY, numbers)


# -- all ---------------------------------------------------------------------------------------------------

CLAIMS: tuple[Claim[Sweep], ...] = (
    descends(
        f"With {MOST:.0%} attackers RPFL's backdoor success falls with its weight, and is below FedAvg's.",
        [{**DOOR, **AVERAGE}, *({**DOOR, **rpfl(weight)} for weight in WEIGHTS)],
        SUCCESS,
    ),
    apart(
        *({**DOOR, "defence": (FEDAVG, DRAWN_ONCE)}, {**DOOR, "defence": (GM, TM)}, SUCCESS),
        name="Geometric median and trimmed mean let fewer backdoors in than FedAvg, and than RPFL at any "
        "weight.",
    ),
    Claim(
        "RPFL performs best of all defences that learn anything (the document, on backdoors).", rpfl_is_best
    ),
    apart(
        *({**DOOR, "defence": (GM, DRAWN_ONCE)}, {**DOOR, "defence": GM_RPFL}, SUCCESS),
        name="GM + RPFL lets fewer backdoors in than either alone.",
    ),
    descends(
        "RPFL's weight costs accuracy when nobody attacks.",
        [{**AT_REST, **rpfl(weight)} for weight in WEIGHTS],
    ),
    times(
        f"RPFL is {TIMES_FEDAVG} times as accurate as FedAvg under poisoned data (the document).",
        *(TIMES_FEDAVG, POISONS, FEDAVG),
    ),
    times(
        f"RPFL is {TIMES_FEDAVG} times as accurate as FedAvg under scaled updates (beyond its threat model).",
        *(TIMES_FEDAVG, (BACKDOOR_SCALED, FLIP_SCALED), FEDAVG),
    ),
    times(
        f"RPFL is {TIMES_BENCHMARK} times as accurate as a benchmark under poisoned data (the document).",
        *(TIMES_BENCHMARK, POISONS, BENCHMARKS),
    ),
    times(
        f"RPFL is {TIMES_BENCHMARK} times as accurate as a benchmark under forged updates (beyond its threat "
        "model).",
        *(TIMES_BENCHMARK, FORGED, BENCHMARKS),
    ),
    every(
        f"Noise redrawn in each round, as printed, does as noise drawn once: within {ALIKE_POINTS:g} points.",
        within(ALIKE_POINTS / 100, {**DOOR, **LITERAL}, {**DOOR, "defence": REDRAWN}, SUCCESS),
        within(ALIKE_POINTS / 100, {**ALIKE, **LITERAL}, {**ALIKE, "defence": REDRAWN}),
    ),
    ahead(
        -HIGH_POINTS / 100,
        {"setting": ADULT, "attack": (BACKDOOR, FLIP), "share": MOST, **rpfl(WEIGHTS[1])},
        {**AT_REST, **AVERAGE},
        name=f"RPFL's accuracy stays relatively high at {MOST:.0%} attackers: within {HIGH_POINTS:g} points.",
    ),
    every(
        "Scaled backdoors get through FedAvg and RPFL, and not through norm bound, GM and TM.",
        above(NO_DEFENCE, {**SCALED, "defence": (FEDAVG, DRAWN_ONCE)}, SUCCESS),
        below(NO_DEFENCE, {**SCALED, "defence": (NORM, GM, TM)}, SUCCESS),
    ),
    above(
        *(0.5, {**FEW, **AVERAGE}, ATTACK),
        name="Averaging without noise lets members be told from others.",
    ),
    Claim(
        f"Membership inference is near chance where epsilon for a record is at most {RECORD_EPSILON:g}.",
        membership_is_chance,
    ),
    every(
        "Table I: RPFL gives less away than averaging and learns more than LDP.",
        apart({**FEW, **AVERAGE}, {**FEW, **rpfl(WEIGHTS[1])}, ATTACK),
        apart({**FEW, **rpfl(WEIGHTS[1])}, {**FEW, "defence": LDP, "epsilon": 1.0}),
    ),
    Claim(
        f"RPFL's membership inference is {TIMES_ATTACK} times as accurate as a benchmark's (the document).",
        times_attack,
    ),
    Claim("Table I's 86 % is the majority rate of the loans.", majority_rate),
    *theorems.CLAIMS,
    *lying.CLAIMS,
)
