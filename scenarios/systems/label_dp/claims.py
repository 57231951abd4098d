"""Scenario `label-dp`: what flipped labels cost two parties, and what a leader's gradients tell a follower.

The system is MindSpore Federated's vertical learning with label privacy (Ghazi et al. 2021, randomised
response). It flips the labels of every batch afresh; drawing them once is the alternative here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from mechanisms.labels.flips import LabelDP
from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.about import about, along, as_claims, together
from scenarios.study.arms import Where
from scenarios.study.bounds import above
from scenarios.study.comparison import CLOSE, level, rise
from scenarios.study.estimates import Estimate, estimate
from scenarios.study.makers import Numbers, apart, identity, never_falls, no_worse
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.systems.label_dp import charts
from scenarios.systems.label_dp.arms import (
    AFRESH,
    ARMS,
    EPSILONS,
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


def chance_at_zero(flips: Where, tolerated: float = 0.0) -> Claim[Sweep]:
    """With epsilon 0 labels are coin flips, and nothing is learned: AUC is .5.

    It is within .02 of it, or within `tolerated` margins, if that is more. Coin flips drawn afresh leave a
    network near where it began, and the AUC of that varies with the seed.
    """

    @about({**flips, "epsilon": 0})
    def judge(sweep: Sweep, arm: str) -> Verdict:
        found = level(sweep, arm)
        allowed = max(NEAR_CHANCE, tolerated * found.margin)
        numbers: Numbers = {"AUC(0)": found.mean, "margin": found.margin, "allowed": allowed}
        return Verdict(abs(found.mean - CHANCE) <= allowed, numbers)

    return judge


def rises_to_clean(flips: Where) -> Claim[Sweep]:
    """AUC(0) < AUC(1) < AUC(5), each clearly, and the last at most what no noise gives."""
    zero, one, five = ({**flips, "epsilon": epsilon} for epsilon in (0, 1, 5))
    return together(apart(one, zero), apart(five, one), no_worse(NONE, five))


def lead(where: Where, limit: float, holds: Callable[[Estimate], bool]) -> Claim[Sweep]:
    """What an arm has above `limit` of the lead over chance is as `holds` asks."""

    @about(where, NONE)
    def judge(sweep: Sweep, arm: str, quiet: str) -> Verdict:
        kept = (sweep.mean(arm) - CHANCE) / (sweep.mean(quiet) - CHANCE)
        more = estimate(sweep.values(arm) - CHANCE - limit * (sweep.values(quiet) - CHANCE))
        ends: Numbers = {arm: sweep.mean(arm), quiet: sweep.mean(quiet)}
        numbers: Numbers = {"share of the lead over chance": kept, "limit": limit}
        return Verdict(holds(more), {**ends, **numbers, "AUC above that": more.mean, "margin": more.margin})

    return judge


# -- the log's losses --------------------------------------------------------------------------------------


@about(NONE, {**AFRESH, "epsilon": 1})
def loss_is_higher(sweep: Sweep, quiet: str, noisy: str) -> Verdict:
    """As in the original's logs: higher with epsilon 1 than without, and both fall."""
    above = rise(sweep, quiet, noisy, LAST_TRUE_LOSS)
    falls = [
        estimate(sweep.values(arm, FIRST_TRUE_LOSS) - sweep.values(arm, LAST_TRUE_LOSS)).above
        for arm in (noisy, quiet)
    ]
    numbers: Numbers = {
        f"{arm}, {when} epoch": sweep.mean(arm, name)
        for arm in (quiet, noisy)
        for when, name in (("first", FIRST_TRUE_LOSS), ("last", LAST_TRUE_LOSS))
    }
    return Verdict(above > CLOSE and all(falls), {**numbers, "above in margins": above})


@about({**AFRESH, "epsilon": 1})
def log_shows_true_labels(sweep: Sweep, arm: str) -> Verdict:
    """Below the entropy of the flips there is no loss on labels flipped afresh, but one on true labels."""
    true, trained, least = (
        level(sweep, arm, LAST_TRUE_LOSS),
        level(sweep, arm, LAST_LOSS),
        entropy_of_flips(1.0),
    )
    numbers: Numbers = {"on true labels": true.mean, "margin": true.margin}
    numbers |= {"on labels trained on": trained.mean, "its margin": trained.margin}
    return Verdict(true.high < least <= trained.high, {**numbers, "entropy of a flip": least})


# -- once or afresh ----------------------------------------------------------------------------------------


@about(lambda sweep: [pair for pair in sweep.pairs(ONCE, AFRESH) if sweep.factor(pair[0], "epsilon") > 0])
def afresh_is_no_worse(sweep: Sweep, pairs: Sequence[tuple[str, str]]) -> Verdict:
    """At the same stated epsilon fresh flips average out; at 0 neither tells anything."""
    worst = max(rise(sweep, afresh, once) for once, afresh in pairs)
    numbers: Numbers = {arm: sweep.mean(arm) for pair in pairs for arm in pair}
    return Verdict(worst <= CLOSE, {**numbers, "largest gap the wrong way in margins": worst})


def _affordable(sweep: Sweep) -> list[tuple[str, str]]:
    """Each fresh arm after the one drawn once with the largest positive epsilon that is no more than its."""
    once = sweep.line("epsilon", ONCE).points
    found = []
    for arm in sweep.select(AFRESH):
        budget = sweep.number(arm, "epsilon")
        found += [(one, arm) for one, epsilon in once.items() if 0 < epsilon <= budget][-1:]
    return found


@about(_affordable)
def once_is_better_for_its_cost(sweep: Sweep, pairs: Sequence[tuple[str, str]]) -> Verdict:
    """For each fresh arm an arm drawn once for which no more is proved is at least as accurate."""
    worst = max(rise(sweep, once, afresh) for once, afresh in pairs)
    arms = (arm for pair in pairs for arm in pair)
    told: Numbers = {f"{arm} (epsilon {sweep.number(arm, 'epsilon'):g})": sweep.mean(arm) for arm in arms}
    return Verdict(worst <= CLOSE, {"largest gap the wrong way in margins": worst, **told})


# -- what gradients reveal ---------------------------------------------------------------------------------


@about(along("epsilon", ONCE))
def once_tells_what_it_may(sweep: Sweep, once: Mapping[str, float]) -> Verdict:
    """With flips drawn once, no more than each label is kept with, however many epochs."""
    worst = max(level(sweep, arm, READ).high - keeping(epsilon) for arm, epsilon in once.items())
    read: Numbers = {arm: sweep.mean(arm, READ) for arm in once}
    told: Numbers = {"most above e^eps/(1+e^eps), with its margin": worst, "allowed": READ_MARGIN}
    return Verdict(worst <= READ_MARGIN, {**read, **told})


@about(along("epsilon", {**AFRESH, "epsilon": EPSILONS[1:]}))
def afresh_tells_more(sweep: Sweep, afresh: Mapping[str, float]) -> Verdict:
    """Over the epochs the follower outvotes fresh flips, and reads more than the stated epsilon allows."""
    allowed = {arm: keeping(epsilon) for arm, epsilon in afresh.items()}
    told = [level(sweep, arm, READ).low - most for arm, most in allowed.items() if most + READ_MARGIN < 1]
    read: Numbers = {arm: sweep.mean(arm, READ) for arm in allowed}
    numbers: Numbers = {f"allowed by {arm}": most for arm, most in allowed.items()}
    return Verdict(bool(told) and min(told) > 0, {**read, **numbers})


# -- what epsilon is ---------------------------------------------------------------------------------------


@about(lambda sweep: (*sweep.select(FLIPPED), *sweep.select(NOISY_SIGNS)))
def epsilons_are_true(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """Each arm says what its draws cost: one for flips drawn once, one an epoch for all others."""
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


CLAIMS = as_claims(
    {
        "With epsilon 0 and flips drawn once, AUC is .5 within .02": chance_at_zero(ONCE),
        "The same drawn afresh, within .02 or a margin, if that is more": chance_at_zero(AFRESH, CLOSE),
        "AUC(0) < AUC(1) < AUC(5) <= AUC without noise (and a margin), drawn once": rises_to_clean(ONCE),
        "The same, drawn afresh": rises_to_clean(AFRESH),
        "AUC does not fall as epsilon grows (neighbours within a margin)": never_falls("epsilon", FLIPPED),
        "Below epsilon 1: low performance, less than half of the lead over chance": lead(
            {**AFRESH, "epsilon": 0.5}, LOW, lambda more: more.below
        ),
        "From epsilon 5 on: high performance, nine tenths of it and more": lead(
            {**AFRESH, "epsilon": 5}, HIGH, lambda more: more.above
        ),
        "Training loss on true labels falls, and stays higher at epsilon 1 than without": loss_is_higher,
        "The log's loss at epsilon 1 is one on true labels: below .582": log_shows_true_labels,
        "Drawn afresh is at least as accurate as drawn once at the same stated epsilon (within a "
        "margin)": afresh_is_no_worse,
        "Drawn once is at least as accurate where no more is proved for it (within a "
        "margin)": once_is_better_for_its_cost,
        "Without label privacy, gradients tell the follower every label": above(ALL_READ, NO_FLIPS, READ),
        "With flips drawn once they tell no more than the stated epsilon allows": once_tells_what_it_may,
        "With flips drawn afresh they tell more than the stated epsilon allows": afresh_tells_more,
        "Signs of the follower's outputs cost accuracy before any noise": apart(NONE, SIGNS),
        "Signs without noise are better than coin flips in their place": apart(
            SIGNS, {**NOISY_SIGNS, "epsilon": 0}
        ),
        "Every epsilon is what its draws cost: stated once, or times the epochs": identity(epsilons_are_true),
    }
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


STUDY = Study(
    **SCENARIOS["label-dp"].listed,
    stands_in={
        "Criteo, 41 million rows in batches of 16,000": "8,000 of them: 7,200 to train on, batches of 256",
        "categories seen more than 100 times": "more than 10 times",
        "hidden layers of 1024, 512, 256 and 128": "a sixteenth: 64, 32, 16 and 8; embeddings of 80",
        "one epoch of 2,582 steps": "12 epochs of 29 steps, chosen on a fifth of the training rows",
        "AUC on a test set of its own": "AUC on the dev and test rows together: 800, 22 % clicked",
        "the follower's L2 penalty is a mean, next to nothing": "the leader's sum, for both parties",
        "how weights start follows its settings": "wide 0, embeddings normal (std 0.01), layers torch's",
    },
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
