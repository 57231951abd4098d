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
    CDP,
    CLEAN,
    DEFENCES,
    DELTA,
    FEDAVG,
    FLIP,
    FLIP_SCALED,
    FORGED,
    FORGED_SHARE,
    GM,
    GM_RPFL,
    LDP,
    LOAN_IID,
    MEMBER_METHODS,
    NORM,
    POISONS,
    PRIVACY,
    REDRAWN,
    SHARES,
    TM,
    WEAK_DP,
    WEIGHTS,
    arm,
    rpfl,
)

MOST = SHARES[-1]
RPFLS = tuple(rpfl(weight) for weight in WEIGHTS)
TIMES_FEDAVG, TIMES_BENCHMARK = 3.39, 2.75
"""The factors by which accuracy improves on FedAvg's, and at most on a benchmark's, by the document."""
TIMES_ATTACK = 0.71
"""The least factor on the accuracy of a benchmark's membership inference, by the document."""
BENCHMARKS = (FEDAVG, NORM, WEAK_DP, GM, TM, LDP, CDP)
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
    compared = [defence for defence in DEFENCES if defence not in (RPFLS[0], REDRAWN, GM_RPFL)]
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
    return _times(sweep, _pairs(POISONS, SHARES, (FEDAVG,)), TIMES_FEDAVG)


def times_fedavg_scaled(sweep: Sweep) -> Verdict | None:
    """The same beyond the threat model, with attackers that scale their updates."""
    scaled = (BACKDOOR_SCALED, FLIP_SCALED)
    return _times(sweep, _pairs(scaled, (FORGED_SHARE,), (FEDAVG,)), TIMES_FEDAVG)


def times_benchmark(sweep: Sweep) -> Verdict | None:
    """Within the threat model RPFL's accuracy is `TIMES_BENCHMARK` times that of a benchmark in some arm."""
    return _times(sweep, _pairs(POISONS, SHARES, BENCHMARKS), TIMES_BENCHMARK)


def times_benchmark_forged(sweep: Sweep) -> Verdict | None:
    """The same beyond the threat model, with forged updates."""
    return _times(sweep, _pairs(FORGED, (FORGED_SHARE,), BENCHMARKS), TIMES_BENCHMARK)


def _pairs(
    attacks: Iterable[str], shares: Sequence[float], benchmarks: Sequence[str]
) -> list[tuple[str, str]]:
    """Each benchmark's arm with each RPFL's under the same attack."""
    return [
        (attacked(attack, benchmark, share), attacked(attack, defence, share))
        for attack in attacks
        for share in shares
        for benchmark in benchmarks
        for defence in (*RPFLS, REDRAWN)
    ]


def _times(sweep: Sweep, pairs: Sequence[tuple[str, str]], stated: float) -> Verdict | None:
    there = [pair for pair in pairs if sweep.has(*pair)]
    if not there:
        return None
    base, own = max(there, key=lambda pair: sweep.mean(pair[1]) / sweep.mean(pair[0]))
    most = sweep.mean(own) / sweep.mean(base)
    return Verdict(most >= stated, {"arm": own, "beside": base, "times": most, "the document": stated})


def redrawn_is_alike(sweep: Sweep) -> Verdict | None:
    """With noise drawn in each round backdoor success and accuracy are as with noise drawn once."""
    facts = [(attacked(BACKDOOR, one), SUCCESS) for one in (RPFLS[0], REDRAWN)]
    facts += [
        (name, FINAL)
        for one in (RPFLS[0], REDRAWN)
        for name in (arm(ADULT, CLEAN, 0.0, one), attacked(BACKDOOR, one), attacked(FLIP, one))
    ]
    if not sweep.has(*(name for name, _ in facts)):
        return None
    found = {f"{name}, {fact}": sweep.mean(name, fact) for name, fact in facts}
    values = list(found.values())
    pairs = [(values[0], values[1]), *zip(values[2:5], values[5:], strict=True)]
    most = max(100 * abs(one - other) for one, other in pairs)
    return Verdict(most <= ALIKE_POINTS, {"points apart": most, "allowed": ALIKE_POINTS, **found})


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


def times_attack(sweep: Sweep) -> Verdict | None:
    """RPFL's membership inference is at most `TIMES_ATTACK` times as accurate as a benchmark's.

    The document says "decreased up to 0.71 times". A decrease by 0.71 would be far below guessing, so this
    reads it as a decrease to 0.71 times. Of Table I itself RPFL's 48 % are 0.59 times the 82 % of averaging.
    """
    own = [name for one in (*RPFLS, REDRAWN) if sweep.has(name := f"{PRIVACY}-{one}")]
    base = [
        name
        for method in MEMBER_METHODS
        if not method.startswith("rpfl") and sweep.has(name := f"{PRIVACY}-{method}")
    ]
    if not own or not base:
        return None
    attack = MEMBERSHIPS[0]
    least, most = (
        choose((sweep.mean(name, attack), name) for name in arms)
        for choose, arms in ((min, own), (max, base))
    )
    numbers: Numbers = {"arm": least[1], "beside": most[1], "times": least[0] / most[0]}
    numbers |= {"times, for guessing": 0.5 / most[0], "the document": TIMES_ATTACK}
    return Verdict(least[0] / most[0] <= TIMES_ATTACK, numbers)


def majority_rate(sweep: Sweep) -> Verdict | None:
    """On all loans, plain averaging is about as accurate as the prediction that every loan is paid."""
    name = arm(LOAN_IID, CLEAN, 0.0, FEDAVG)
    if not sweep.has(name):
        return None
    accuracy, rate = sweep.mean(name), sweep.mean(name, MAJORITY)
    numbers: Numbers = {"accuracy": accuracy, "majority rate": rate, BALANCED: sweep.mean(name, BALANCED)}
    return Verdict(abs(accuracy - rate) <= NEAR_MAJORITY, {**numbers, "AUC": sweep.mean(name, "AUC")})
