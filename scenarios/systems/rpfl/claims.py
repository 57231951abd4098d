"""The claims of scenario `rpfl`: the document's statements, and how a replay judges them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from mechanisms.audits.membership import advantage_at_most
from scenarios.federated.measures import BACKDOOR as SUCCESS
from scenarios.federated.measures import BALANCED, MAJORITY
from scenarios.frame.spec import Claim, Verdict
from scenarios.study.about import about, all_of, as_claims, pairs_of, together
from scenarios.study.arms import Where
from scenarios.study.bounds import above, ahead, below
from scenarios.study.comparison import CLOSE, rise
from scenarios.study.estimates import Estimate, estimate
from scenarios.study.makers import Numbers, apart, within
from scenarios.study.sweep import FINAL, Sweep
from scenarios.systems.rpfl import lying, theorems
from scenarios.systems.rpfl.arms import (
    AT_REST,
    AVERAGE,
    DEFENCES,
    DELTA,
    DOOR,
    FEW,
    FORGED,
    LITERAL,
    MOST,
    POISONS,
    WEIGHTS,
    met,
    rpfl,
)

TIMES_FEDAVG, TIMES_BENCHMARK = 3.39, 2.75
"""The factors by which accuracy improves on FedAvg's, and at most on a benchmark's, by the document."""
TIMES_ATTACK = 0.71
"""The least factor on the accuracy of a benchmark's membership inference, by the document."""
BENCHMARKS = ("fedavg", "norm-bound", "weak-dp", "geometric-median", "trimmed-mean", "ldp", "cdp")
ROBUST = ("geometric-median", "trimmed-mean")
RPFLS = ("rpfl", "rpfl-redrawn")
ALIKE = 0.02
"""Two defences do alike if they differ by at most this."""
HIGH = 0.05
"""Accuracy counts as relatively high within this of that without an attack."""
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

MET: Where = {"setting": "adult", "attack": ("clean", "backdoor", "flip"), "share": (0.0, MOST)}
ATTACKED: Where = {"setting": "adult", "attack": tuple(POISONS), "share": MOST}
SCALED: Where = {"setting": "adult", "attack": "backdoor-x5"}
WEIGHTED: Where = {**FEW, **rpfl(WEIGHTS[1])}
COMPARED = [
    one.factors
    for one in DEFENCES
    if one.factors["defence"] in (*BENCHMARKS, "rpfl") and one.name != "rpfl-literal"
]
"""The defences among which RPFL is to be best: those of the document."""


def descends(chain: Collection[Where], fact: str = FINAL) -> Claim[Sweep]:
    """Each of these arms is clearly above the next one."""

    @about(*chain)
    def judge(sweep: Sweep, *arms: str) -> Verdict:
        least = min(rise(sweep, low, high, fact) for high, low in pairwise(arms))
        figures: Numbers = {arm: sweep.mean(arm, fact) for arm in arms}
        return Verdict(least > CLOSE, {"least fall in margins": least, **figures})

    return judge


def times(least: float, attacks: Collection[str], *benchmarks: str) -> Claim[Sweep]:
    """Under one of these attacks RPFL's accuracy is at least `least` times that of a benchmark."""
    where: Where = {"setting": "adult", "attack": tuple(attacks)}

    @about(pairs_of({**where, "defence": benchmarks}, {**where, "defence": RPFLS}))
    def judge(sweep: Sweep, pairs: Sequence[tuple[str, str]]) -> Verdict:
        base, own = max(pairs, key=lambda pair: sweep.mean(pair[1]) / sweep.mean(pair[0]))
        more = estimate(sweep.values(own) - least * sweep.values(base))
        most = sweep.mean(own) / sweep.mean(base)
        told: Numbers = {"arm": own, "beside": base, "times": most, "the document": least}
        return Verdict(more.low >= 0, {**told, "above that, in margins": more.margins})

    return judge


@about(*({**where, **own} for own in COMPARED for where in (AT_REST, DOOR)))
def rpfl_is_best(sweep: Sweep, *arms: str) -> Verdict | None:
    """Of all defences whose model learns, RPFL with a weight has the least backdoor success."""
    clean, attacked = arms[::2], arms[1::2]
    learned = [arm for rest, arm in zip(clean, attacked, strict=True) if sweep.mean(rest, BALANCED) > LEARNED]
    best = min(learned, key=lambda arm: sweep.mean(arm, SUCCESS), default="")
    weighted = sweep.select({**DOOR, "defence": "rpfl"})
    rivals = [arm for arm in learned if arm not in (*weighted, best)]
    if not rivals:
        return None
    below_by = min(rise(sweep, best, arm, SUCCESS) for arm in rivals)
    told: Numbers = {"least": best, "below the others by margins": below_by}
    figures: Numbers = {arm: sweep.mean(arm, SUCCESS) for arm in learned}
    return Verdict(best in weighted and below_by > CLOSE, {**told, **figures})


# -- privacy -----------------------------------------------------------------------------------------------


def _private(sweep: Sweep) -> list[str]:
    """The arms with an epsilon of at most 1 for a record or more."""
    return [arm for arm in sweep.select(FEW) if sweep.number(arm, "epsilon") <= RECORD_EPSILON * 1.001]


@about(_private, {**FEW, **AVERAGE})
def membership_is_chance(sweep: Sweep, arms: Sequence[str], _: str) -> Verdict:
    """So is the accuracy of both attacks, where there is averaging without noise beside them."""
    found: Numbers = {f"{arm}, {fact}": sweep.mean(arm, fact) for arm in arms for fact in MEMBERSHIPS}
    most = max(_apart(estimate(sweep.values(arm, fact) - 0.5)) for arm in arms for fact in MEMBERSHIPS)
    ceiling = 0.5 + advantage_at_most(RECORD_EPSILON, DELTA) / 2
    numbers: Numbers = {"largest distance from chance with its margin": most, "no attack can exceed": ceiling}
    return Verdict(most <= NEAR_CHANCE, {**numbers, **found})


def _apart(found: Estimate) -> float:
    """The largest distance from zero within an interval."""
    return abs(found.mean) + found.margin


@about(all_of({**FEW, "defence": RPFLS}), all_of({**FEW, "defence": BENCHMARKS}))
def times_attack(sweep: Sweep, own: Sequence[str], base: Sequence[str]) -> Verdict:
    """RPFL's membership inference is at most `TIMES_ATTACK` times as accurate as a benchmark's.

    The document says "decreased up to 0.71 times". A decrease by 0.71 would be far below guessing, so this
    reads it as a decrease to 0.71 times. Of Table I itself RPFL's 48 % are 0.59 times the 82 % of averaging.
    """
    least = min(own, key=lambda arm: sweep.mean(arm, ATTACK))
    most = max(base, key=lambda arm: sweep.mean(arm, ATTACK))
    rate = sweep.mean(most, ATTACK)
    numbers: Numbers = {"arm": least, "beside": most, "times": sweep.mean(least, ATTACK) / rate}
    numbers |= {"times, for guessing": 0.5 / rate, "the document": TIMES_ATTACK}
    more = estimate(sweep.values(least, ATTACK) - TIMES_ATTACK * sweep.values(most, ATTACK))
    return Verdict(more.high <= 0, {**numbers, "above that, in margins": more.margins})


@about({"setting": "loan-iid", "attack": "clean", **AVERAGE})
def majority_rate(sweep: Sweep, arm: str) -> Verdict:
    """On all loans, plain averaging is about as accurate as the prediction that every loan is paid."""
    numbers: Numbers = {"accuracy": sweep.mean(arm)}
    numbers |= {fact: sweep.mean(arm, fact) for fact in (MAJORITY, BALANCED, "AUC")}
    apart = _apart(estimate(sweep.values(arm) - sweep.values(arm, MAJORITY)))
    numbers |= {"apart, with margin": apart, "allowed": NEAR_MAJORITY}
    return Verdict(apart <= NEAR_MAJORITY, numbers)


# -- all ---------------------------------------------------------------------------------------------------

CLAIMS = (
    *as_claims(
        {
            f"With {MOST:.0%} attackers RPFL's backdoor success falls with its weight, and is below "
            "FedAvg's.": descends(
                [{**DOOR, **AVERAGE}, *({**DOOR, **rpfl(weight)} for weight in WEIGHTS)], SUCCESS
            ),
            "Geometric median and trimmed mean let fewer backdoors in than FedAvg, and than RPFL at any "
            "weight.": apart(met("backdoor", "fedavg", "rpfl"), met("backdoor", *ROBUST), SUCCESS),
            "RPFL performs best of all defences that learn anything (the document, on "
            "backdoors).": rpfl_is_best,
            "GM + RPFL lets fewer backdoors in than either alone.": apart(
                met("backdoor", "geometric-median", "rpfl"), met("backdoor", "gm+rpfl"), SUCCESS
            ),
            "RPFL's weight costs accuracy when nobody attacks.": descends(
                [{**AT_REST, **rpfl(weight)} for weight in WEIGHTS]
            ),
            f"RPFL is {TIMES_FEDAVG} times as accurate as FedAvg under poisoned data (the document).": times(
                TIMES_FEDAVG, POISONS, "fedavg"
            ),
            f"RPFL is {TIMES_FEDAVG} times as accurate as FedAvg under scaled updates (beyond its threat "
            "model).": times(TIMES_FEDAVG, ("backdoor-x5", "flip-x5"), "fedavg"),
            f"RPFL is {TIMES_BENCHMARK} times as accurate as a benchmark under poisoned data (the "
            "document).": times(TIMES_BENCHMARK, POISONS, *BENCHMARKS),
            f"RPFL is {TIMES_BENCHMARK} times as accurate as a benchmark under forged updates (beyond its "
            "threat model).": times(TIMES_BENCHMARK, FORGED, *BENCHMARKS),
            "Noise redrawn in each round, as printed, does as noise drawn once: within "
            f"{100 * ALIKE:g} points.": together(
                within(ALIKE, {**DOOR, **LITERAL}, {**DOOR, "defence": "rpfl-redrawn"}, SUCCESS),
                within(ALIKE, {**MET, **LITERAL}, {**MET, "defence": "rpfl-redrawn"}),
            ),
            f"RPFL's accuracy stays relatively high at {MOST:.0%} attackers: within {100 * HIGH:g} "
            "points.": ahead(-HIGH, {**ATTACKED, **rpfl(WEIGHTS[1])}, {**AT_REST, **AVERAGE}),
            "Scaled backdoors get through FedAvg and RPFL, and not through norm bound, GM and TM.": together(
                above(NO_DEFENCE, {**SCALED, "defence": ("fedavg", "rpfl")}, SUCCESS),
                below(NO_DEFENCE, {**SCALED, "defence": ("norm-bound", *ROBUST)}, SUCCESS),
            ),
            "Averaging without noise lets members be told from others.": above(
                0.5, {**FEW, **AVERAGE}, ATTACK
            ),
            "Membership inference is near chance where epsilon for a record is at most "
            f"{RECORD_EPSILON:g}.": membership_is_chance,
            "Table I: RPFL gives less away than averaging and learns more than LDP.": together(
                apart({**FEW, **AVERAGE}, WEIGHTED, ATTACK),
                apart(WEIGHTED, {**FEW, "defence": "ldp", "epsilon": 1.0}),
            ),
            f"RPFL's membership inference is {TIMES_ATTACK} times as accurate as a benchmark's (the "
            "document).": times_attack,
            "Table I's 86 % is the majority rate of the loans.": majority_rate,
        }
    ),
    *theorems.CLAIMS,
    *lying.CLAIMS,
)
