"""Scenario `distributed-dp`: private steps whose noise peers share, against a trusted server and each alone.

The statements are those that were made before the system was built (`reference`), with simulated figures and
goals. A figure below a stated one counts as equal within a margin; a goal is for the mean and is met or not,
and a miss says how many standard errors it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.comparison import CLOSE, difference, level, rise
from scenarios.study.estimates import estimate
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.swarms.dealt import HONEST, STEP_BYTES, STEP_S, Dealt, with_honest
from scenarios.swarms.progress import percent
from scenarios.systems.distributed_dp import charts
from scenarios.systems.distributed_dp.arms import (
    ADULT,
    ALONE,
    ARMS,
    CENTRAL,
    DIGITS,
    EPSILONS,
    MNIST,
    MNIST_FEATURES,
    POOLED,
    SETTINGS,
    USUAL,
    Setting,
    own,
)
from scenarios.systems.distributed_dp.reference import (
    ADULT_KIND,
    AUC_BELOW_CENTRAL,
    AUC_BELOW_POOLED,
    BY_HONEST,
    BY_HONEST_BATCH,
    BYTES_A_WORD,
    BYTES_MORE,
    FEATURES_GAIN,
    GOALS,
    SIMULATED,
    STEP_S_AT_MOST,
)

ROUNDING = 1 + 1e-6
"""The tolerated factor for the rounding of an accountant."""
TABLE_ROUNDING = 0.05
"""The relative error of the stated table, whose figures have two digits."""

Numbers = dict[str, float | int | str | None]
Pairs = list[tuple[str, str]]


# -- epsilon -----------------------------------------------------------------------------------------------


def states_the_truth(sweep: Sweep) -> Verdict | None:
    """No arm spends more than it states."""
    arms = [arm for arm in sweep.outcomes if math.isfinite(sweep.number(arm, "stated"))]
    if not arms:
        return None
    shares = [sweep.number(arm, "epsilon") / sweep.number(arm, "stated") for arm in arms]
    numbers: Numbers = {"arms": len(arms), "largest spent / stated": max(shares), "least": min(shares)}
    return Verdict(all(share <= ROUNDING for share in shares), numbers)


def fewer_honest_cost_epsilon(sweep: Sweep) -> Verdict | None:
    """Epsilon by the real number of honest members is as stated, for steps of as many rows as there."""
    numbers: Numbers = {}
    largest = 0.0
    for setting, epsilon in ((of, epsilon) for of in (MNIST, MNIST_FEATURES) for epsilon in BY_HONEST):
        arm = setting.arm(setting.shared(7), epsilon)
        if not sweep.has(arm) or sweep.number(arm, HONEST) != 6 or _batch(sweep, arm) != BY_HONEST_BATCH:
            continue
        spent = sweep.number(arm, "epsilon") / epsilon  # steps in reserve are not spent
        for members, stated in BY_HONEST[epsilon].items():
            found = sweep.number(arm, with_honest(members - 1))
            if math.isfinite(found):
                numbers[f"epsilon {epsilon}, {members} of 10 honest"] = found
                largest = max(largest, found / stated - 1, 1 - found / (stated * spent))
    if not numbers:
        return None
    most = TABLE_ROUNDING
    return Verdict(largest <= most, {**numbers, "largest error": largest, "allowed": most})


def _batch(sweep: Sweep, arm: str) -> float | None:
    """The rows that a step of an arm has, in the mean; None if it has no steps."""
    return next(
        cell.task.train.expected_batch for cell in sweep.arms if cell.arm == arm and isinstance(cell, Dealt)
    )


# -- accuracy ----------------------------------------------------------------------------------------------


def _stated(sweep: Sweep, kind_of: str | None) -> Iterator[tuple[str, float]]:
    """The arms that were run with what the reference states for them; `kind_of`: None for shared noise."""
    for (setting, kind), by_epsilon in SIMULATED.items():
        shared = kind not in (CENTRAL, ALONE)
        if kind == kind_of or (kind_of is None and shared):
            yield from (
                (arm, by_epsilon[epsilon])
                for epsilon in by_epsilon
                if sweep.has(arm := setting.arm(kind, epsilon))
            )


def _reaches_stated(kind: str | None, sweep: Sweep) -> Verdict | None:
    """Every arm of a kind is as accurate as stated, or above,  within a margin."""
    numbers: Numbers = {}
    worst = math.inf
    for arm, stated in _stated(sweep, kind):
        found = level(sweep, arm)
        numbers |= {arm: found.mean, f"{arm} margin": found.margin, f"{arm} stated": stated}
        worst = min(worst, (found.mean - stated) / found.margin)
    if not numbers:
        return None
    return Verdict(worst >= -CLOSE, {**numbers, "least above what is stated, in margins": worst})


def central_as_stated(sweep: Sweep) -> Verdict | None:
    """A trusted server's private steps."""
    return _reaches_stated(CENTRAL, sweep)


def shared_as_stated(sweep: Sweep) -> Verdict | None:
    """Steps with shared noise."""
    return _reaches_stated(None, sweep)


def reaches_goals(sweep: Sweep) -> Verdict | None:
    """Every goal for accuracy that this run can judge is met by the mean."""
    numbers: Numbers = {}
    met = []
    for (setting, kind), by_epsilon in GOALS.items():
        for epsilon, goal in by_epsilon.items():
            arm = setting.arm(kind, epsilon)
            if sweep.has(arm):
                met.append(sweep.mean(arm) >= goal)
                numbers |= _against(sweep, arm, goal)
    return Verdict(all(met), numbers) if met else None


def _against(sweep: Sweep, arm: str, goal: float) -> Numbers:
    mean, error = sweep.mean(arm), max(sweep.standard_error(arm), 1e-9)
    missed: Numbers = {} if mean >= goal else {f"{arm} misses by SE": (goal - mean) / error}
    return {arm: mean, f"{arm} SE": error, f"{arm} goal": goal, **missed}


def adult_reaches_its_goal(sweep: Sweep) -> Verdict | None:
    """AUC on Adult is close to that of all rows without privacy, or to a trusted server's."""
    pooled, numbers, met = ADULT.arm(POOLED), Numbers(), []
    for epsilon, most in AUC_BELOW_POOLED.items():
        arm, central = ADULT.arm(ADULT_KIND, epsilon), ADULT.arm(CENTRAL, epsilon)
        if sweep.has(arm, central, pooled):
            below = sweep.mean(pooled) - sweep.mean(arm)
            below_central = sweep.mean(central) - sweep.mean(arm)
            met.append(below <= most or below_central <= AUC_BELOW_CENTRAL)
            numbers |= {
                f"epsilon {epsilon}, below pooled": below,
                f"epsilon {epsilon}, allowed": most,
                f"epsilon {epsilon}, below central": below_central,
                f"epsilon {epsilon}, margin": difference(sweep, arm, pooled).margin,
            }
    return Verdict(all(met), {**numbers, "below central allowed": AUC_BELOW_CENTRAL}) if met else None


# -- comparisons -------------------------------------------------------------------------------------------


def _pairs(sweep: Sweep, one: str, other: str | None = None) -> Pairs:
    """Pairs of arms at one setting and epsilon: of kind `one`, and the first shared kind (or `other`)."""
    pairs = [
        (of.arm(one, epsilon), of.arm(other or of.shared(of.honest[0]), epsilon))
        for of in SETTINGS
        for epsilon in EPSILONS
    ]
    return [pair for pair in pairs if sweep.has(*pair)]


def shared_beats_alone(sweep: Sweep) -> Verdict | None:
    """Shared noise gains on each node noising for itself, everywhere, by more than chance."""
    pairs = _pairs(sweep, ALONE)
    if not pairs:
        return None
    numbers: Numbers = {}
    for one, other in pairs:
        numbers[f"{other}, points gained"] = 100 * (sweep.mean(other) - sweep.mean(one))
        numbers[f"{other}, in margins"] = rise(sweep, one, other)
    return Verdict(min(rise(sweep, one, other) for one, other in pairs) > CLOSE, numbers)


def shared_costs_what_is_stated(sweep: Sweep) -> Verdict | None:
    """The loss from a trusted server to shared noise is at most as stated, within a margin."""
    numbers: Numbers = {}
    worst = -math.inf
    for setting in (DIGITS, MNIST, MNIST_FEATURES):
        kind = setting.shared(setting.honest[0])
        for epsilon, stated in SIMULATED[setting, kind].items():
            one, other = setting.arm(CENTRAL, epsilon), setting.arm(kind, epsilon)
            if sweep.has(one, other):
                allowed = SIMULATED[setting, CENTRAL][epsilon] - stated
                numbers |= _lost(sweep, one, other, allowed)
                worst = max(worst, _excess(sweep, one, other, allowed))
    return Verdict(worst <= CLOSE, {**numbers, "largest excess in margins": worst}) if numbers else None


def _lost(sweep: Sweep, one: str, other: str, allowed: float) -> Numbers:
    loss = difference(sweep, other, one)
    numbers: Numbers = {f"{other}, points lost": 100 * loss.mean, f"{other}, margin": 100 * loss.margin}
    return {**numbers, f"{other}, stated": 100 * allowed}


def _excess(sweep: Sweep, one: str, other: str, allowed: float) -> float:
    """What `other` loses against `one` above what is allowed, in margins."""
    return estimate(sweep.values(one) - sweep.values(other) - allowed).margins


def features_gain_more(sweep: Sweep) -> Verdict | None:
    """On MNIST scattering gains `FEATURES_GAIN`, and more than shared noise does on the perceptron."""
    numbers: Numbers = {}
    holds = []
    kind = MNIST.shared(7)
    for epsilon in (1, 3):
        plain, features = MNIST.arm(kind, epsilon), MNIST_FEATURES.arm(kind, epsilon)
        alone = MNIST.arm(ALONE, epsilon)
        if sweep.has(plain, features, alone):
            gain, noise = difference(sweep, plain, features), difference(sweep, alone, plain)
            more = estimate(sweep.values(features) - 2 * sweep.values(plain) + sweep.values(alone))
            holds.append(gain.high >= FEATURES_GAIN and more.above)
            numbers |= {
                f"epsilon {epsilon}, points by features": 100 * gain.mean,
                f"epsilon {epsilon}, margin": 100 * gain.margin,
                f"epsilon {epsilon}, points by shared noise": 100 * noise.mean,
            }
    return Verdict(all(holds), numbers) if holds else None


def fewer_trusted_cost_little(sweep: Sweep) -> Verdict | None:
    """Noise for 5 honest of 10 instead of 7 costs at most what is stated, within a margin."""
    numbers: Numbers = {}
    worst = -math.inf
    for setting in (MNIST, MNIST_FEATURES):
        more, fewer = setting.shared(7), setting.shared(5)
        for epsilon in SIMULATED[setting, fewer]:
            one, other = setting.arm(more, epsilon), setting.arm(fewer, epsilon)
            if sweep.has(one, other):
                allowed = SIMULATED[setting, more][epsilon] - SIMULATED[setting, fewer][epsilon]
                numbers |= _lost(sweep, one, other, allowed)
                worst = max(worst, _excess(sweep, one, other, allowed))
    return Verdict(worst <= CLOSE, {**numbers, "largest excess in margins": worst}) if numbers else None


# -- cost --------------------------------------------------------------------------------------------------


def steps_are_cheap(sweep: Sweep) -> Verdict | None:
    """A step of ten real peers takes at most the stated seconds and bytes; only where real nodes ran."""
    arms = [
        arm
        for arm in (MNIST.arm(MNIST.shared(honest), epsilon) for honest in (7, 5) for epsilon in EPSILONS)
        if sweep.has(arm) and math.isfinite(sweep.number(arm, STEP_S))
    ]
    if not arms:
        return None
    most = BYTES_A_WORD * charts.size_of(MNIST) + BYTES_MORE
    seconds = max(sweep.mean(arm, STEP_S) for arm in arms)
    sent = max(sweep.mean(arm, STEP_BYTES) for arm in arms)
    numbers: Numbers = {"s a step": seconds, "at most s": STEP_S_AT_MOST}
    numbers |= {"bytes a peer and step": sent, "at most bytes": most}
    return Verdict(seconds <= STEP_S_AT_MOST and sent <= most, numbers)


CLAIMS = (
    Claim("No arm spends more epsilon than it states", states_the_truth, "identity"),
    Claim("With fewer honest members than assumed, epsilon grows as stated (7 of 10)",
          fewer_honest_cost_epsilon, "identity"),
    Claim("A trusted server's private steps are as accurate as stated (within a margin)",
          central_as_stated),
    Claim("Steps with shared noise are as accurate as stated (within a margin)", shared_as_stated),
    Claim("Shared noise costs no more accuracy than stated against a trusted server (within a margin)",
          shared_costs_what_is_stated),
    Claim("Noise for 5 honest of 10 instead of 7 costs no more than stated (within a margin)",
          fewer_trusted_cost_little),
    Claim("Shared noise beats each node's own noise, at every epsilon (by more than a margin)",
          shared_beats_alone),
    Claim(f"On MNIST scattering gains {100 * FEATURES_GAIN:g} points, and more than shared noise does "
          "(by more than a margin)",
          features_gain_more),
    Claim("Shared noise reaches the accuracy that was asked for", reaches_goals),
    Claim("On Adult its AUC is as close as asked for to no privacy, or to a trusted server",
          adult_reaches_its_goal),
    Claim(f"A step of ten real peers takes {STEP_S_AT_MOST:g} s and {BYTES_A_WORD} d + 40 kB at most",
          steps_are_cheap),
)  # fmt: skip


def headline(sweep: Sweep) -> str:
    """Accuracy at epsilon 3 from the most trust to none, for the best known setting that was run."""
    for setting in (MNIST, DIGITS, *SETTINGS):
        told = _at_three(sweep, setting)
        if len(told) > 1:
            return f"{setting.title}, epsilon 3: {', '.join(told)}."
    return f"{len(sweep.outcomes)} arms, {len(sweep.seeds)} seeds each."


def _at_three(sweep: Sweep, setting: Setting) -> list[str]:
    words = {CENTRAL: "a trusted server", ALONE: "each node for itself"}
    return [
        f"{percent(sweep.mean(arm))} with {words.get(kind, f'noise shared, {kind} honest'.replace('-', ' '))}"
        for kind in (CENTRAL, *map(setting.shared, setting.honest), ALONE)
        if sweep.has(arm := setting.arm(kind, 3))
    ]


STANDS_IN = (
    (
        "a simulation in numpy, central with scaled noise",
        "the nodes' own trainers, words and steps, summed modulo 2^32",
    ),
    ("a perceptron with tanh, images standardised", "node.models:MLP with ReLU, standardised alike"),
    ("step sizes chosen on test rows", "the product's table of defaults, by rows and epsilon"),
    ("scattering by its own filters", "node.models:Scattering, features computed once and kept"),
    (
        "a server's DP-SGD",
        "the same steps on all rows by one member, which adds the noise of one server by itself",
    ),
    ("local training with chosen settings", "one epoch a round, 20 rounds, rates from that search"),
    (
        "parts",
        (
            "equal and random, which favours nodes that train alone; what shared noise learns does not "
            "depend on who has which rows"
        ),
    ),
    ("ldp", "noise on updates for whole data sets at the same stated epsilon: another, larger promise"),
)

ENTRY = SCENARIOS["distributed-dp"]
STUDY = Study(
    name=ENTRY.name,
    source=ENTRY.source,
    summary=ENTRY.summary,
    stands_in=STANDS_IN,
    data_sets=("digits",),
    arms=ARMS,
    seeds=3,
    quick=Quick(seeds=2, rounds=None, arms=("digits-*",)),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts.charts,
    tables=charts.tables,
    usual=USUAL,
)
DISTRIBUTED_DP = scenario_of(STUDY)
