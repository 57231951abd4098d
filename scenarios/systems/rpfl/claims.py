"""The claims of scenario `rpfl`: the document's statements, and how a replay judges them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from mechanisms.audits.membership import advantage_at_most
from scenarios.federated.measures import BACKDOOR as SUCCESS
from scenarios.federated.measures import BALANCED, MAJORITY
from scenarios.frame.spec import Verdict
from scenarios.study.comparison import CLOSE, rise
from scenarios.study.sweep import FINAL, Sweep
from scenarios.systems.rpfl.arms import (
    ADULT,
    BACKDOOR,
    BACKDOOR_SCALED,
    CLEAN,
    DEFENCES,
    DELTA,
    FEDAVG,
    FLIP,
    FLIP_SCALED,
    FORGED_SHARE,
    GM,
    GM_RPFL,
    LOAN_IID,
    MEMBER_METHODS,
    NORM,
    PRIVACY,
    SHARES,
    TM,
    WEIGHTS,
    arm,
    rpfl,
)

MOST = SHARES[-1]
RPFLS = tuple(rpfl(weight) for weight in WEIGHTS)
TIMES_FEDAVG = 3.39
"""The factor by which accuracy improves according to the document."""
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

Numbers = dict[str, float | int | str | None]
MEMBERSHIPS = ("membership accuracy", "calibrated membership accuracy")


def attacked(attack: str, defence: str, share: float = MOST) -> str:
    """The name of an arm on Adult."""
    return arm(ADULT, attack, share, defence)


def _values(sweep: Sweep, arms: Iterable[str], fact: str = FINAL) -> Numbers:
    return {name: sweep.mean(name, fact) for name in arms}


# -- backdoors within the threat model ---------------------------------------------------------------------


def falls_with_weight(sweep: Sweep) -> Verdict | None:
    """Backdoor success falls as RPFL's weight rises, and is below that of FedAvg at every weight."""
    arms = [attacked(BACKDOOR, defence) for defence in (FEDAVG, *RPFLS)]
    if not sweep.has(*arms):
        return None
    found = [sweep.mean(name, SUCCESS) for name in arms]
    return Verdict(all(one > other for one, other in pairwise(found)), _values(sweep, arms, SUCCESS))


def aggregators_are_below(sweep: Sweep) -> Verdict | None:
    """Backdoors succeed less with geometric median or trimmed mean than with FedAvg or RPFL of any weight."""
    better, worse = [attacked(BACKDOOR, one) for one in (GM, TM)], [attacked(BACKDOOR, FEDAVG)]
    worse += [attacked(BACKDOOR, defence) for defence in RPFLS]
    if not sweep.has(*better, *worse):
        return None
    holds = max(sweep.mean(name, SUCCESS) for name in better) < min(
        sweep.mean(name, SUCCESS) for name in worse
    )
    return Verdict(holds, _values(sweep, (*better, *worse), SUCCESS))


def rpfl_is_best(sweep: Sweep) -> Verdict | None:
    """Of all defences whose model learns, RPFL with a weight has the least backdoor success."""
    compared = [defence for defence in DEFENCES if defence not in (RPFLS[0], GM_RPFL)]
    clean = {defence: arm(ADULT, CLEAN, 0.0, defence) for defence in compared}
    if not sweep.has(*clean.values(), *(attacked(BACKDOOR, defence) for defence in compared)):
        return None
    learning = [defence for defence, name in clean.items() if sweep.mean(name, BALANCED) > LEARNED]
    arms = [attacked(BACKDOOR, defence) for defence in learning]
    best = min(arms, key=lambda name: sweep.mean(name, SUCCESS))
    holds = best in [attacked(BACKDOOR, defence) for defence in RPFLS[1:]]
    return Verdict(holds, {"least": best, **_values(sweep, arms, SUCCESS)})


def together_is_better(sweep: Sweep) -> Verdict | None:
    """Backdoors succeed less with the geometric median of RPFL's updates than with either alone."""
    both, gm, alone = (attacked(BACKDOOR, defence) for defence in (GM_RPFL, GM, RPFLS[1]))
    if not sweep.has(both, gm, alone):
        return None
    found = {name: sweep.mean(name, SUCCESS) for name in (both, gm, alone)}
    return Verdict(found[both] < min(found[gm], found[alone]), {**found})


def costs_accuracy(sweep: Sweep) -> Verdict | None:
    """Without attackers, accuracy falls as the weight rises."""
    arms = [arm(ADULT, CLEAN, 0.0, defence) for defence in RPFLS]
    if not sweep.has(*arms):
        return None
    falls = all(rise(sweep, other, one) > CLOSE for one, other in pairwise(arms))
    return Verdict(falls, _values(sweep, arms))


# -- accuracy ----------------------------------------------------------------------------------------------


def times_fedavg(sweep: Sweep) -> Verdict | None:
    """Within the threat model RPFL's accuracy is at least `TIMES_FEDAVG` times FedAvg's in some arm."""
    pairs = [
        (attacked(attack, FEDAVG, share), attacked(attack, defence, share))
        for attack in (BACKDOOR, FLIP)
        for share in SHARES
        for defence in RPFLS
    ]
    return _times(sweep, pairs)


def times_fedavg_scaled(sweep: Sweep) -> Verdict | None:
    """The same beyond the threat model, with attackers that scale their updates."""
    pairs = [
        (attacked(attack, FEDAVG, FORGED_SHARE), attacked(attack, defence, FORGED_SHARE))
        for attack in (BACKDOOR_SCALED, FLIP_SCALED)
        for defence in RPFLS
    ]
    return _times(sweep, pairs)


def _times(sweep: Sweep, pairs: Sequence[tuple[str, str]]) -> Verdict | None:
    there = [pair for pair in pairs if sweep.has(*pair)]
    if not there:
        return None
    ratios = {own: sweep.mean(own) / sweep.mean(base) for base, own in there}
    most = max(ratios, key=lambda name: ratios[name])
    numbers: Numbers = {"arm": most, "times FedAvg": ratios[most], "the document": TIMES_FEDAVG}
    return Verdict(ratios[most] >= TIMES_FEDAVG, numbers)


def stays_high(sweep: Sweep) -> Verdict | None:
    """RPFL with a share of 0.4 attackers is nearly as accurate as FedAvg without attackers."""
    base = arm(ADULT, CLEAN, 0.0, FEDAVG)
    arms = [attacked(attack, RPFLS[1]) for attack in (BACKDOOR, FLIP)]
    if not sweep.has(base, *arms):
        return None
    lost = max(100 * (sweep.mean(base) - sweep.mean(name)) for name in arms)
    numbers = {"most points lost": lost, "allowed": HIGH_POINTS, **_values(sweep, (base, *arms))}
    return Verdict(lost <= HIGH_POINTS, numbers)


def scaling_needs_an_aggregator(sweep: Sweep) -> Verdict | None:
    """A backdoor in scaled updates succeeds with FedAvg and RPFL, but not with robust aggregators."""
    open_, closed = (
        [attacked(BACKDOOR_SCALED, defence, FORGED_SHARE) for defence in defences]
        for defences in ((FEDAVG, *RPFLS), (NORM, GM, TM))
    )
    if not sweep.has(*open_, *closed):
        return None
    least, most = (
        choose(sweep.mean(name, SUCCESS) for name in arms) for choose, arms in ((min, open_), (max, closed))
    )
    return Verdict(most < NO_DEFENCE <= least, _values(sweep, (*open_, *closed), SUCCESS))


# -- privacy -----------------------------------------------------------------------------------------------


def theorem_falls_short(sweep: Sweep) -> Verdict | None:
    """The true epsilon of Theorem 1's noise for a record is larger than the stated one."""
    name = arm(ADULT, CLEAN, 0.0, RPFLS[0])
    if not sweep.has(name):
        return None
    true, stated = sweep.number(name, "epsilon"), sweep.number(name, "stated")
    numbers: Numbers = {"true epsilon": true, "stated": stated, "delta": DELTA}
    return Verdict(true > stated, {**numbers, "noise std": sweep.number(name, "least noise std on rows")})


def membership_is_chance(sweep: Sweep) -> Verdict | None:
    """If epsilon is at most 1 for a record or more, the accuracy of both attacks is near one half."""
    arms = [
        name
        for method in MEMBER_METHODS
        if sweep.has(name := f"{PRIVACY}-{method}")
        and sweep.number(name, "epsilon") <= RECORD_EPSILON * 1.001
    ]
    if not arms or not sweep.has(f"{PRIVACY}-{FEDAVG}"):
        return None
    found = {f"{name}, {fact}": sweep.mean(name, fact) for name in arms for fact in MEMBERSHIPS}
    most = max(abs(value - 0.5) for value in found.values())
    ceiling = 0.5 + advantage_at_most(RECORD_EPSILON, DELTA) / 2
    numbers: Numbers = {"largest distance from chance": most, "no attack can exceed": ceiling}
    return Verdict(most <= NEAR_CHANCE, {**numbers, **found})


def averaging_leaks(sweep: Sweep) -> Verdict | None:
    """Without noise, membership inference is better than chance."""
    name = f"{PRIVACY}-{FEDAVG}"
    if not sweep.has(name):
        return None
    fact = MEMBERSHIPS[0]
    mean, error = sweep.mean(name, fact), sweep.standard_error(name, fact)
    return Verdict(mean - CLOSE * error > 0.5, {"attack accuracy": mean, "SE": error, "the document": 0.82})


def order_of_the_table(sweep: Sweep) -> Verdict | None:
    """The order of Table I: RPFL reveals less than averaging and learns more than local noise."""
    average, local, rpfl_arm = (f"{PRIVACY}-{method}" for method in (FEDAVG, "ldp1", RPFLS[1]))
    if not sweep.has(average, local, rpfl_arm):
        return None
    attack = MEMBERSHIPS[0]
    less = rise(sweep, rpfl_arm, average, attack) > CLOSE
    more = rise(sweep, local, rpfl_arm) > CLOSE
    numbers = {f"{name}, attack": sweep.mean(name, attack) for name in (average, local, rpfl_arm)}
    return Verdict(less and more, {**numbers, **_values(sweep, (average, local, rpfl_arm))})


def majority_rate(sweep: Sweep) -> Verdict | None:
    """On all loans, plain averaging is about as accurate as the prediction that every loan is paid."""
    name = arm(LOAN_IID, CLEAN, 0.0, FEDAVG)
    if not sweep.has(name):
        return None
    accuracy, rate = sweep.mean(name), sweep.mean(name, MAJORITY)
    numbers: Numbers = {"accuracy": accuracy, "majority rate": rate, BALANCED: sweep.mean(name, BALANCED)}
    return Verdict(abs(accuracy - rate) <= NEAR_MAJORITY, {**numbers, "AUC": sweep.mean(name, "AUC")})
