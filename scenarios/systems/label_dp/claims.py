"""Scenario `label-dp`: what flipped labels cost two parties, and what a leader's gradients tell a follower.

The system is MindSpore Federated's vertical learning with label privacy (Ghazi et al. 2021, randomised
response). It flips the labels of every batch afresh; drawing them once is the alternative here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mechanisms.labels.flips import LabelDP
from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.arms import Where
from scenarios.study.bounds import above
from scenarios.study.comparison import CLOSE, level, rise
from scenarios.study.estimates import Estimate, estimate
from scenarios.study.makers import Numbers, apart, every, never_falls, no_worse
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.systems.label_dp import charts
from scenarios.systems.label_dp.arms import (
    AFRESH,
    ARMS,
    FLIPPED,
    NOISY_SIGNS,
    NONE,
    ONCE,
    SIGNS,
    entropy_of_flips,
    keeping,
    own,
)
from scenarios.vertical.cell import DATA_SET, LOSS, READ, TRUE_LOSS
from scenarios.vertical.choices import ONE_EMBEDDING, ONE_LABEL

CHANCE, NEAR_CHANCE = 0.5, 0.02
LOW, HIGH = 0.5, 0.9
"""Shares of the lead over chance without noise: less than the one is low performance, the other high."""
READ_MARGIN = 0.01
ALL_READ = 0.99
LAST_TRUE_LOSS, FIRST_TRUE_LOSS, LAST_LOSS = f"last {TRUE_LOSS}", f"first {TRUE_LOSS}", f"last {LOSS}"
NO_FLIPS: Where = {"mechanism": tuple(str(one["mechanism"]) for one in (NONE, SIGNS, NOISY_SIGNS))}


# -- accuracy ----------------------------------------------------------------------------------------------


def chance_at_zero(name: str, flips: Where, tolerated: float = 0.0) -> Claim[Sweep]:
    """With epsilon 0 labels are coin flips, and nothing is learned: AUC is .5.

    It is within .02 of it, or within `tolerated` margins, if that is more. Coin flips drawn afresh leave a
    network near where it began, and the AUC of that varies with the seed.
    """

    def judge(sweep: Sweep) -> Verdict | None:
        arm = sweep.first({**flips, "epsilon": 0})
        if arm is None:
            return None
        found = level(sweep, arm)
        allowed = max(NEAR_CHANCE, tolerated * found.margin)
        numbers: Numbers = {"AUC(0)": found.mean, "margin": found.margin, "allowed": allowed}
        return Verdict(abs(found.mean - CHANCE) <= allowed, numbers)

    return Claim(name, judge)


def rises_to_clean(name: str, flips: Where) -> Claim[Sweep]:
    """AUC(0) < AUC(1) < AUC(5), each clearly, and the last at most what no noise gives."""
    zero, one, five = ({**flips, "epsilon": epsilon} for epsilon in (0, 1, 5))
    return every(name, apart(one, zero), apart(five, one), no_worse(NONE, five))


def lead(name: str, where: Where, limit: float, holds: Callable[[Estimate], bool]) -> Claim[Sweep]:
    """What an arm has above `limit` of the lead over chance is as `holds` asks."""

    def judge(sweep: Sweep) -> Verdict | None:
        arm, quiet = sweep.first(where), sweep.first(NONE)
        if arm is None or quiet is None:
            return None
        kept = (sweep.mean(arm) - CHANCE) / (sweep.mean(quiet) - CHANCE)
        more = estimate(sweep.values(arm) - CHANCE - limit * (sweep.values(quiet) - CHANCE))
        ends: Numbers = {arm: sweep.mean(arm), quiet: sweep.mean(quiet)}
        numbers: Numbers = {"share of the lead over chance": kept, "limit": limit}
        return Verdict(holds(more), {**ends, **numbers, "AUC above that": more.mean, "margin": more.margin})

    return Claim(name, judge)


# -- the log's losses --------------------------------------------------------------------------------------


def loss_is_higher(sweep: Sweep) -> Verdict | None:
    """As in the original's logs: higher with epsilon 1 than without, and both fall."""
    noisy, quiet = sweep.first({**AFRESH, "epsilon": 1}), sweep.first(NONE)
    if noisy is None or quiet is None:
        return None
    above = rise(sweep, quiet, noisy, LAST_TRUE_LOSS)
    falls = [
        estimate(sweep.values(arm, FIRST_TRUE_LOSS) - sweep.values(arm, LAST_TRUE_LOSS)).low
        for arm in (noisy, quiet)
    ]
    numbers: Numbers = {
        f"{arm}, {when} epoch": sweep.mean(arm, name)
        for arm in (quiet, noisy)
        for when, name in (("first", FIRST_TRUE_LOSS), ("last", LAST_TRUE_LOSS))
    }
    return Verdict(above > CLOSE and min(falls) > 0, {**numbers, "above in margins": above})


def log_shows_true_labels(sweep: Sweep) -> Verdict | None:
    """Below the entropy of the flips there is no loss on labels flipped afresh, but one on true labels."""
    arm, least = sweep.first({**AFRESH, "epsilon": 1}), entropy_of_flips(1.0)
    if arm is None:
        return None
    true, trained = (level(sweep, arm, name) for name in (LAST_TRUE_LOSS, LAST_LOSS))
    numbers: Numbers = {
        "on true labels": true.mean,
        "margin": true.margin,
        "on labels trained on": trained.mean,
        "its margin": trained.margin,
        "entropy of a flip": least,
    }
    return Verdict(true.high < least <= trained.high, numbers)


# -- once or afresh ----------------------------------------------------------------------------------------


def afresh_is_no_worse(sweep: Sweep) -> Verdict | None:
    """At the same stated epsilon fresh flips average out; at 0 neither tells anything."""
    pairs = [pair for pair in sweep.pairs(ONCE, AFRESH) if sweep.factor(pair[0], "epsilon") > 0]
    if not pairs:
        return None
    worst = max(rise(sweep, afresh, once) for once, afresh in pairs)
    numbers: Numbers = {arm: sweep.mean(arm) for pair in pairs for arm in pair}
    return Verdict(worst <= CLOSE, {**numbers, "largest gap the wrong way in margins": worst})


def once_is_better_for_its_cost(sweep: Sweep) -> Verdict | None:
    """For each fresh arm an arm drawn once for which no more is proved is at least as accurate."""
    pairs = {arm: best for arm in sweep.select(AFRESH) if (best := _affordable(sweep, arm)) is not None}
    if not pairs:
        return None
    worst = max(rise(sweep, best, arm) for arm, best in pairs.items())
    numbers: Numbers = {"largest gap the wrong way in margins": worst}
    for pair in pairs.items():
        numbers |= {
            f"{arm} (epsilon {sweep.number(arm, 'epsilon'):g})": sweep.mean(arm) for arm in pair[::-1]
        }
    return Verdict(worst <= CLOSE, numbers)


def _affordable(sweep: Sweep, arm: str) -> str | None:
    """The arm drawn once with the largest epsilon that is positive and no more than this arm's."""
    budget, stated = sweep.number(arm, "epsilon"), sweep.line("epsilon", ONCE).points
    return next((each for each in reversed(stated) if 0 < stated[each] <= budget), None)


# -- what gradients reveal ---------------------------------------------------------------------------------


def once_tells_what_it_may(sweep: Sweep) -> Verdict | None:
    """With flips drawn once, no more than each label is kept with, however many epochs."""
    stated = sweep.line("epsilon", ONCE).points
    if not stated:
        return None
    worst = max(level(sweep, arm, READ).high - keeping(epsilon) for arm, epsilon in stated.items())
    read: Numbers = {arm: sweep.mean(arm, READ) for arm in stated}
    told: Numbers = {"most above e^eps/(1+e^eps), with its margin": worst, "allowed": READ_MARGIN}
    return Verdict(worst <= READ_MARGIN, {**read, **told})


def afresh_tells_more(sweep: Sweep) -> Verdict | None:
    """Over the epochs the follower outvotes fresh flips, and reads more than the stated epsilon allows."""
    stated = sweep.line("epsilon", AFRESH).points
    allowed = {arm: keeping(epsilon) for arm, epsilon in stated.items() if epsilon > 0}
    if not allowed:
        return None
    told = [level(sweep, arm, READ).low - most for arm, most in allowed.items() if most + READ_MARGIN < 1]
    read: Numbers = {arm: sweep.mean(arm, READ) for arm in allowed}
    numbers: Numbers = {f"allowed by {arm}": most for arm, most in allowed.items()}
    return Verdict(bool(told) and min(told) > 0, {**read, **numbers})


# -- what epsilon is ---------------------------------------------------------------------------------------


def epsilons_are_true(sweep: Sweep) -> Verdict | None:
    """Each arm says what its draws cost: one for flips drawn once, one an epoch for all others."""
    arms = (*sweep.select(FLIPPED), *sweep.select(NOISY_SIGNS))
    if not arms:
        return None
    true = {arm: _true_epsilon(sweep, arm) for arm in arms}
    alike = [arm for arm in arms if math.isclose(true[arm], sweep.number(arm, "epsilon"))]
    known = all(
        sweep.fact(arm, "unit") == unit
        for where, unit in ((FLIPPED, ONE_LABEL), (NOISY_SIGNS, ONE_EMBEDDING))
        for arm in sweep.select(where)
    )
    numbers: Numbers = {"arms": len(arms), "that say what is proved": len(alike)}
    shown: Numbers = {f"{arm}, proved": true[arm] for arm in sweep.select(AFRESH)}
    return Verdict(len(alike) == len(arms) and known, {**numbers, **shown})


def _true_epsilon(sweep: Sweep, arm: str) -> float:
    """A release of both signs costs as much as a draw of one label with the same epsilon."""
    draws = 1 if arm in sweep.select(ONCE) else sweep.cells[arm].rounds
    return LabelDP(sweep.factor(arm, "epsilon")).total_epsilon(draws)


CLAIMS = (
    chance_at_zero("With epsilon 0 and flips drawn once, AUC is .5 within .02", ONCE),
    chance_at_zero("The same drawn afresh, within .02 or a margin, if that is more", AFRESH, CLOSE),
    rises_to_clean("AUC(0) < AUC(1) < AUC(5) <= AUC without noise (and a margin), drawn once", ONCE),
    rises_to_clean("The same, drawn afresh", AFRESH),
    never_falls("epsilon", FLIPPED, name="AUC does not fall as epsilon grows (neighbours within a margin)"),
    lead(
        "Below epsilon 1: low performance, less than half of the lead over chance",
        {**AFRESH, "epsilon": 0.5},
        LOW,
        lambda more: more.below,
    ),
    lead(
        "From epsilon 5 on: high performance, nine tenths of it and more",
        {**AFRESH, "epsilon": 5},
        HIGH,
        lambda more: more.above,
    ),
    Claim("Training loss on true labels falls, and stays higher at epsilon 1 than without", loss_is_higher),
    Claim("The log's loss at epsilon 1 is one on true labels: below .582", log_shows_true_labels),
    Claim(
        "Drawn afresh is at least as accurate as drawn once at the same stated epsilon (within a margin)",
        afresh_is_no_worse,
    ),
    Claim(
        "Drawn once is at least as accurate where no more is proved for it (within a margin)",
        once_is_better_for_its_cost,
    ),
    above(ALL_READ, NO_FLIPS, READ, "Without label privacy, gradients tell the follower every label"),
    Claim("With flips drawn once they tell no more than the stated epsilon allows", once_tells_what_it_may),
    Claim("With flips drawn afresh they tell more than the stated epsilon allows", afresh_tells_more),
    apart(NONE, SIGNS, name="Signs of the follower's outputs cost accuracy before any noise"),
    apart(
        SIGNS,
        {**NOISY_SIGNS, "epsilon": 0},
        name="Signs without noise are better than coin flips in their place",
    ),
    Claim(
        "Every epsilon is what its draws cost: stated once, or times the epochs",
        epsilons_are_true,
        "identity",
    ),
)


def headline(sweep: Sweep) -> str:
    """The main figures in a sentence or two."""
    named = {
        "without noise": NONE,
        "flipped once": {**ONCE, "epsilon": 1},
        "flipped afresh": {**AFRESH, "epsilon": 1},
    }
    said = [
        f"{sweep.mean(arm):.3f} {words}{_cost(sweep, arm)}"
        for words, where in named.items()
        if (arm := sweep.first(where)) is not None
    ]
    return f"AUC {', '.join(said)}." if said else f"Arms: {len(sweep.outcomes)}."


def _cost(sweep: Sweep, arm: str) -> str:
    if sweep.fact(arm, "epsilon") is None:
        return ""
    stated, true = (sweep.number(arm, name) for name in ("stated", "epsilon"))
    return f" (epsilon {stated:g} stated, {true:g} spent on a label)"


ENTRY = SCENARIOS["label-dp"]
STUDY = Study(
    name=ENTRY.name,
    source=ENTRY.source,
    summary=ENTRY.summary,
    stands_in=(
        ("Criteo, 41 million rows in batches of 16,000", "8,000 of them: 7,200 to train on, batches of 256"),
        ("categories seen more than 100 times", "more than 10 times"),
        ("hidden layers of 1024, 512, 256 and 128", "a sixteenth: 64, 32, 16 and 8; embeddings of 80"),
        ("one epoch of 2,582 steps", "12 epochs of 29 steps, chosen on a fifth of the training rows"),
        ("AUC on a test set of its own", "AUC on the dev and test rows together: 800, 22 % clicked"),
        ("the follower's L2 penalty is a mean, next to nothing", "the leader's sum, for both parties"),
        ("how weights start follows its settings", "wide 0, embeddings normal (std 0.01), layers torch's"),
    ),
    data_sets=(DATA_SET,),
    arms=ARMS,
    seeds=16,
    quick=Quick(seeds=4, rounds=None, arms=("none", "once-0", "once-1", "once-5", "redrawn-1", "signs-1")),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts.charts,
    tables=charts.tables,
)

LABEL_DP = scenario_of(STUDY)
