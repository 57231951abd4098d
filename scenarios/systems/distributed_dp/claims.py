"""Scenario `distributed-dp`: private steps whose noise peers share, against a trusted server and each alone.

The statements are those that were made before the system was built (`reference`), with simulated figures and
goals. A figure below a stated one counts as equal within a margin; a goal is for the mean and is met or not,
and a miss says how many standard errors it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.about import about, all_of, along, as_claims, pairs_of
from scenarios.study.arms import Where
from scenarios.study.comparison import CLOSE, difference, level, rise
from scenarios.study.estimates import estimate
from scenarios.study.makers import Numbers, identity
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.swarms.dealt import HONEST, STEP_BYTES, STEP_S, Dealt, with_honest
from scenarios.swarms.progress import percent
from scenarios.systems.distributed_dp import reference
from scenarios.systems.distributed_dp.arms import (
    ADULT,
    ALONE,
    ARMS,
    CENTRAL,
    DATA_SETS,
    DIGITS,
    FEWER,
    MNIST,
    MNIST_FEATURES,
    POOLED,
    SETTINGS,
    SHARED,
    USUAL,
    USUALLY_RUN,
    Setting,
    own,
)
from scenarios.systems.distributed_dp.charts import charts, tables

ROUNDING = 1 + 1e-6
"""The tolerated factor for the rounding of an accountant."""
TABLE_ROUNDING = 0.05
"""The relative error of the stated table, whose figures have two digits."""
ON_MNIST: Where = {"setting": (MNIST.name, MNIST_FEATURES.name)}


# -- epsilon -----------------------------------------------------------------------------------------------


@about(lambda sweep: [arm for arm in sweep.outcomes if math.isfinite(sweep.number(arm, "stated"))])
def states_the_truth(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """No arm spends more than it states."""
    shares = [sweep.number(arm, "epsilon") / sweep.number(arm, "stated") for arm in arms]
    numbers: Numbers = {"arms": len(arms), "largest spent / stated": max(shares), "least": min(shares)}
    return Verdict(all(share <= ROUNDING for share in shares), numbers)


@about(all_of({**ON_MNIST, **USUAL}))
def fewer_honest_cost_epsilon(sweep: Sweep, arms: Sequence[str]) -> Verdict | None:
    """Epsilon by the real number of honest members is as stated, for steps of as many rows as there."""
    numbers: Numbers = {}
    largest = 0.0
    for arm in arms:
        epsilon, cell = sweep.factor(arm, "epsilon"), sweep.cells[arm]
        rows_a_step = cell.task.train.expected_batch if isinstance(cell, Dealt) else None
        if sweep.number(arm, HONEST) != 6 or rows_a_step != reference.BY_HONEST_BATCH:
            continue
        spent = sweep.number(arm, "epsilon") / epsilon  # steps in reserve are not spent
        for members, said in reference.BY_HONEST.get(epsilon, {}).items():
            found = sweep.number(arm, with_honest(members - 1))
            if math.isfinite(found):
                numbers[f"epsilon {epsilon:g}, {members} of 10 honest"] = found
                largest = max(largest, found / said - 1, 1 - found / (said * spent))
    told: Numbers = {"largest error": largest, "allowed": TABLE_ROUNDING}
    return Verdict(largest <= TABLE_ROUNDING, {**numbers, **told}) if numbers else None


# -- accuracy ----------------------------------------------------------------------------------------------


def reaches_stated(where: Where) -> Claim[Sweep]:
    """Every selected arm is as accurate as stated, or above, within a margin."""

    @about(lambda sweep: reference.stated(sweep, reference.SIMULATED, where))
    def judge(sweep: Sweep, said: Mapping[str, float]) -> Verdict:
        numbers, above = Numbers(), []
        for arm, at in said.items():
            one = level(sweep, arm)
            above.append((one.mean - at) / one.margin)
            numbers |= {arm: one.mean, f"{arm} margin": one.margin, f"{arm} stated": at}
        least = min(above)
        return Verdict(least >= -CLOSE, {**numbers, "least above what is stated, in margins": least})

    return judge


@about(lambda sweep: reference.stated(sweep, reference.GOALS))
def reaches_goals(sweep: Sweep, goals: Mapping[str, float]) -> Verdict:
    """Every goal for accuracy that this run can judge is met by the mean."""
    numbers: Numbers = {}
    for arm, goal in goals.items():
        mean, error = sweep.mean(arm), max(sweep.standard_error(arm), 1e-9)
        missed: Numbers = {} if mean >= goal else {f"{arm} misses by SE": (goal - mean) / error}
        numbers |= {arm: mean, f"{arm} SE": error, f"{arm} goal": goal, **missed}
    return Verdict(all(sweep.mean(arm) >= goal for arm, goal in goals.items()), numbers)


@about({**ADULT.where, **POOLED}, pairs_of({**ADULT.where, **USUAL}, {**ADULT.where, **CENTRAL}))
def adult_reaches_its_goal(sweep: Sweep, pooled: str, pairs: Sequence[tuple[str, str]]) -> Verdict | None:
    """AUC on Adult is close to that of all rows without privacy, or to a trusted server's."""
    numbers, met = Numbers(), []
    for arm, central in pairs:
        epsilon = sweep.factor(arm, "epsilon")
        if epsilon in reference.AUC_BELOW_POOLED:
            most = reference.AUC_BELOW_POOLED[epsilon]
            below, below_central = (sweep.mean(one) - sweep.mean(arm) for one in (pooled, central))
            met.append(below <= most or below_central <= reference.AUC_BELOW_CENTRAL)
            numbers |= {
                f"epsilon {epsilon:g}, below pooled": below,
                f"epsilon {epsilon:g}, allowed": most,
                f"epsilon {epsilon:g}, below central": below_central,
                f"epsilon {epsilon:g}, margin": difference(sweep, arm, pooled).margin,
            }
    numbers["below central allowed"] = reference.AUC_BELOW_CENTRAL
    return Verdict(all(met), numbers) if met else None


# -- comparisons -------------------------------------------------------------------------------------------


@about(pairs_of(USUAL, ALONE))
def shared_beats_alone(sweep: Sweep, pairs: Sequence[tuple[str, str]]) -> Verdict:
    """Shared noise gains on each node noising for itself, everywhere, by more than chance."""
    numbers, gains = Numbers(), []
    for shared, alone in pairs:
        gains.append(rise(sweep, alone, shared))
        numbers[f"{shared}, points gained"] = 100 * (sweep.mean(shared) - sweep.mean(alone))
        numbers[f"{shared}, in margins"] = gains[-1]
    return Verdict(min(gains) > CLOSE, numbers)


def costs_what_is_stated(more: Where, less: Where) -> Claim[Sweep]:
    """From arms of more trust to those of less the loss is at most as stated, within a margin."""

    @about(pairs_of(more, less))
    def judge(sweep: Sweep, pairs: Sequence[tuple[str, str]]) -> Verdict | None:
        said, numbers, excesses = reference.stated(sweep, reference.SIMULATED), Numbers(), []
        for one, other in (pair for pair in pairs if all(arm in said for arm in pair)):
            loss, allowed = difference(sweep, other, one), said[one] - said[other]
            excesses.append(estimate(sweep.values(one) - sweep.values(other) - allowed).margins)
            numbers |= {
                f"{other}, points lost": 100 * loss.mean,
                f"{other}, margin": 100 * loss.margin,
                f"{other}, stated": 100 * allowed,
            }
        if not excesses:
            return None
        worst = max(excesses)
        return Verdict(worst <= CLOSE, {**numbers, "largest excess in margins": worst})

    return judge


@about(
    along("epsilon", {**MNIST.where, **ALONE}),
    pairs_of({**MNIST.where, **USUAL}, {**MNIST_FEATURES.where, **USUAL}),
)
def features_gain_more(
    sweep: Sweep, alone_by_epsilon: Mapping[str, float], pairs: Sequence[tuple[str, str]]
) -> Verdict | None:
    """On MNIST scattering gains `FEATURES_GAIN`, and more than shared noise does on the perceptron."""
    numbers, holds = Numbers(), []
    alone_at = {at: arm for arm, at in alone_by_epsilon.items()}
    for plain, features in pairs:
        epsilon = sweep.factor(plain, "epsilon")
        if epsilon in (1, 3) and epsilon in alone_at:
            alone = alone_at[epsilon]
            gain, noise = difference(sweep, plain, features), difference(sweep, alone, plain)
            more = estimate(sweep.values(features) - 2 * sweep.values(plain) + sweep.values(alone))
            holds.append(gain.high >= reference.FEATURES_GAIN and more.above)
            numbers |= {
                f"epsilon {epsilon:g}, points by features": 100 * gain.mean,
                f"epsilon {epsilon:g}, margin": 100 * gain.margin,
                f"epsilon {epsilon:g}, points by shared noise": 100 * noise.mean,
            }
    return Verdict(all(holds), numbers) if holds else None


# -- cost --------------------------------------------------------------------------------------------------


def size_of(setting: Setting) -> int:
    """The parameters of a perceptron of a setting."""
    widths = setting.model["args"]["sizes"]
    return sum((first + 1) * second for first, second in pairwise(widths))


def _with_real_steps(sweep: Sweep) -> list[str]:
    """The arms with shared noise that real nodes ran."""
    shared = sweep.select({**MNIST.where, **SHARED})
    return [arm for arm in shared if math.isfinite(sweep.number(arm, STEP_S))]


@about(_with_real_steps)
def steps_are_cheap(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """A step of ten real peers takes at most the stated seconds and bytes; only where real nodes ran."""
    most = reference.BYTES_A_WORD * size_of(MNIST) + reference.BYTES_MORE
    seconds, sent = (max(sweep.mean(arm, fact) for arm in arms) for fact in (STEP_S, STEP_BYTES))
    numbers: Numbers = {"s a step": seconds, "at most s": reference.STEP_S_AT_MOST}
    numbers |= {"bytes a peer and step": sent, "at most bytes": most}
    return Verdict(seconds <= reference.STEP_S_AT_MOST and sent <= most, numbers)


CLAIMS = as_claims(
    {
        "No arm spends more epsilon than it states": identity(states_the_truth),
        "With fewer honest members than assumed, epsilon grows as stated (7 of 10)": identity(
            fewer_honest_cost_epsilon
        ),
        "A trusted server's private steps are as accurate as stated (within a margin)": reaches_stated(
            CENTRAL
        ),
        "Steps with shared noise are as accurate as stated (within a margin)": reaches_stated(SHARED),
        "Shared noise costs no more accuracy than stated against a trusted server (within a "
        "margin)": costs_what_is_stated(CENTRAL, USUAL),
        "Noise for 5 honest of 10 instead of 7 costs no more than stated (within a "
        "margin)": costs_what_is_stated(USUAL, FEWER),
        "Shared noise beats each node's own noise, at every epsilon (by more than a "
        "margin)": shared_beats_alone,
        f"On MNIST scattering gains {100 * reference.FEATURES_GAIN:g} points, and more than shared noise "
        "does (by more than a margin)": features_gain_more,
        "Shared noise reaches the accuracy that was asked for": reaches_goals,
        "On Adult its AUC is as close as asked for to no privacy, or to a trusted "
        "server": adult_reaches_its_goal,
        f"A step of ten real peers takes {reference.STEP_S_AT_MOST:g} s and {reference.BYTES_A_WORD} d + "
        "40 kB at most": steps_are_cheap,
    }
)


def headline(sweep: Sweep) -> str:
    """Accuracy at epsilon 3 from the most trust to none, for the best known setting that was run."""
    for setting in (MNIST, DIGITS, *SETTINGS):
        # Not for whole data sets, which have another promise.
        kinds = [(words, kind) for words, kind in setting.kinds.items() if kind != DATA_SETS]
        told = [
            f"{percent(sweep.mean(arm))} with {words.removeprefix('dp-sgd: ')}"
            for words, kind in kinds
            if (arm := sweep.first({**setting.where, **kind, "epsilon": 3})) is not None
        ]
        if len(told) > 1:
            return f"{setting.title}, epsilon 3: {', '.join(told)}."
    return f"{len(sweep.outcomes)} arms, {len(sweep.seeds)} seeds each."


STANDS_IN = {
    "a simulation in numpy, central with scaled noise": "the nodes' own trainers, words and steps, summed "
    "modulo 2^32",
    "a perceptron with tanh, images standardised": "node.models:MLP with ReLU, standardised alike",
    "step sizes chosen on test rows": "the product's table of defaults, by rows and epsilon",
    "scattering by its own filters": "node.models:Scattering, features computed once and kept",
    "a server's DP-SGD": "the same steps on all rows by one member, which adds the noise of one server by "
    "itself",
    "local training with chosen settings": "one epoch a round, 20 rounds, rates from that search",
    "parts": "equal and random, which favours nodes that train alone; what shared noise learns does not "
    "depend on who has which rows",
    "ldp": "noise on updates for whole data sets at the same stated epsilon: another, larger promise",
}

STUDY = Study(
    **SCENARIOS["distributed-dp"].listed,
    stands_in=STANDS_IN,
    data_sets=("digits",),
    arms=ARMS,
    seeds=3,
    quick=Quick(seeds=2, rounds=None, arms=("digits-*",)),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts,
    tables=tables,
    usual=USUALLY_RUN,
)
DISTRIBUTED_DP = scenario_of(STUDY)
