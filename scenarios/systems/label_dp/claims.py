"""Scenario `label-dp`: what flipped labels cost two parties, and what a leader's gradients tell a follower.

The system is MindSpore Federated's vertical learning with label privacy (Ghazi et al. 2021, randomised
response). It flips the labels of every batch afresh; drawing them once is the alternative here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mechanisms.labels.flips import LabelDP
from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.comparison import CLOSE, largest_rise, level, rise
from scenarios.study.estimates import Estimate, estimate
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.systems.label_dp import charts
from scenarios.systems.label_dp.arms import (
    ARMS,
    CLEAN,
    SIGNS,
    entropy_of_flips,
    epochs_of_arm,
    keeping,
    noisy_signs,
    once,
    once_arm,
    own,
    redrawn,
    redrawn_arm,
    signs_arm,
)
from scenarios.vertical.cell import DATA_SET, LOSS, READ, TRUE_LOSS
from scenarios.vertical.choices import ONE_EMBEDDING, ONE_LABEL

CHANCE, NEAR_CHANCE = 0.5, 0.02
LOW, HIGH = 0.5, 0.9
"""Shares of the lead over chance without noise: less than the one is low performance, the other high."""
READ_MARGIN = 0.01
ALL_READ = 0.99
LAST_TRUE_LOSS, FIRST_TRUE_LOSS, LAST_LOSS = f"last {TRUE_LOSS}", f"first {TRUE_LOSS}", f"last {LOSS}"

Numbers = dict[str, float | int | str | None]
Arm = Callable[[float], str]
Judge = Callable[[Sweep], Verdict | None]


# -- accuracy ----------------------------------------------------------------------------------------------


def chance_at_zero(arm: Arm, tolerated: float) -> Judge:
    """With epsilon 0 labels are coin flips, and nothing is learned: AUC is .5.

    It is within .02 of it, or within `tolerated` margins, if that is more. Coin flips drawn afresh leave a
    network near where it began, and the AUC of that varies with the seed.
    """

    def judge(sweep: Sweep) -> Verdict | None:
        if not sweep.has(arm(0)):
            return None
        found = level(sweep, arm(0))
        allowed = max(NEAR_CHANCE, tolerated * found.margin)
        numbers: Numbers = {"AUC(0)": found.mean, "margin": found.margin, "allowed": allowed}
        return Verdict(abs(found.mean - CHANCE) <= allowed, numbers)

    return judge


def rises_to_clean(arm: Arm) -> Judge:
    """AUC(0) < AUC(1) < AUC(5), each clearly, and the last at most what no noise gives."""

    def judge(sweep: Sweep) -> Verdict | None:
        zero, one, five = (arm(epsilon) for epsilon in (0, 1, 5))
        if not sweep.has(zero, one, five, CLEAN):
            return None
        gaps = [rise(sweep, zero, one), rise(sweep, one, five)]
        above = rise(sweep, CLEAN, five)
        numbers: Numbers = {each: sweep.mean(each) for each in (zero, one, five, CLEAN)}
        numbers |= {"smaller gap in margins": min(gaps), "AUC(5) above no noise by margins": above}
        return Verdict(min(gaps) > CLOSE >= above, numbers)

    return judge


def never_falls(sweep: Sweep) -> Verdict | None:
    """No epsilon is clearly worse than a smaller one."""
    lines = [list(arms) for arms in (once(sweep), redrawn(sweep)) if len(arms) > 1]
    if not lines:
        return None
    worst = max(largest_rise(sweep, arms[::-1]) for arms in lines)
    return Verdict(
        worst <= CLOSE,
        {"largest fall in margins": worst, **{arm: sweep.mean(arm) for arms in lines for arm in arms}},
    )


def low_below_one(sweep: Sweep) -> Verdict | None:
    """Below epsilon 1 less than half of the lead over chance is left."""
    return _lead(sweep, redrawn_arm(0.5), LOW, lambda more: more.below)


def high_above_five(sweep: Sweep) -> Verdict | None:
    """From epsilon 5 on most of it is left."""
    return _lead(sweep, redrawn_arm(5), HIGH, lambda more: more.above)


def _lead(sweep: Sweep, arm: str, limit: float, holds: Callable[[Estimate], bool]) -> Verdict | None:
    """Whether what an arm has above `limit` of the lead over chance is as `holds` asks."""
    if not sweep.has(arm, CLEAN):
        return None
    kept = (sweep.mean(arm) - CHANCE) / (sweep.mean(CLEAN) - CHANCE)
    ends: Numbers = {arm: sweep.mean(arm), CLEAN: sweep.mean(CLEAN)}
    more = estimate(sweep.values(arm) - CHANCE - limit * (sweep.values(CLEAN) - CHANCE))
    numbers: Numbers = {"share of the lead over chance": kept, "limit": limit}
    return Verdict(holds(more), {**ends, **numbers, "AUC above that": more.mean, "margin": more.margin})


# -- the log's losses --------------------------------------------------------------------------------------


def loss_is_higher(sweep: Sweep) -> Verdict | None:
    """As in the original's logs: higher with epsilon 1 than without, and both fall."""
    noisy = redrawn_arm(1)
    if not sweep.has(noisy, CLEAN):
        return None
    above = rise(sweep, CLEAN, noisy, LAST_TRUE_LOSS)
    falls = [
        estimate(sweep.values(arm, FIRST_TRUE_LOSS) - sweep.values(arm, LAST_TRUE_LOSS)).low
        for arm in (noisy, CLEAN)
    ]
    numbers: Numbers = {
        f"{arm}, {when} epoch": sweep.mean(arm, name)
        for arm in (CLEAN, noisy)
        for when, name in (("first", FIRST_TRUE_LOSS), ("last", LAST_TRUE_LOSS))
    }
    return Verdict(above > CLOSE and min(falls) > 0, {**numbers, "above in margins": above})


def log_shows_true_labels(sweep: Sweep) -> Verdict | None:
    """Below the entropy of the flips there is no loss on labels flipped afresh, but one on true labels."""
    arm, least = redrawn_arm(1), entropy_of_flips(1.0)
    if not sweep.has(arm):
        return None
    true, trained = (level(sweep, arm, name) for name in (LAST_TRUE_LOSS, LAST_LOSS))
    numbers: Numbers = {"on true labels": true.mean, "margin": true.margin}
    numbers |= {
        "on labels trained on": trained.mean,
        "its margin": trained.margin,
        "entropy of a flip": least,
    }
    return Verdict(true.high < least <= trained.high, numbers)


# -- once or afresh ----------------------------------------------------------------------------------------


def redrawn_is_no_worse(sweep: Sweep) -> Verdict | None:
    """At the same stated epsilon fresh flips average out."""
    both = [(once_arm(each), arm) for arm, each in redrawn(sweep).items() if sweep.has(once_arm(each))]
    pairs = [pair for pair in both if pair != (once_arm(0), redrawn_arm(0))]
    if not pairs:
        return None
    worst = max(rise(sweep, afresh, one) for one, afresh in pairs)
    return Verdict(
        worst <= CLOSE,
        {
            **{arm: sweep.mean(arm) for pair in pairs for arm in pair},
            "largest gap the wrong way in margins": worst,
        },
    )


def once_is_better_for_its_cost(sweep: Sweep) -> Verdict | None:
    """For each fresh arm an arm drawn once for which no more is proved is at least as accurate."""
    pairs = {arm: best for arm in redrawn(sweep) if (best := _affordable(sweep, arm)) is not None}
    if not pairs:
        return None
    worst = max(rise(sweep, best, arm) for arm, best in pairs.items())
    numbers: Numbers = {"largest gap the wrong way in margins": worst}
    for arm, best in pairs.items():
        numbers[f"{best} (epsilon {sweep.number(best, 'epsilon'):g})"] = sweep.mean(best)
        numbers[f"{arm} (epsilon {sweep.number(arm, 'epsilon'):g})"] = sweep.mean(arm)
    return Verdict(worst <= CLOSE, numbers)


def _affordable(sweep: Sweep, arm: str) -> str | None:
    """The arm drawn once with the largest epsilon that is positive and no more than this arm's."""
    budget = sweep.number(arm, "epsilon")
    return next((each for each, own in reversed(once(sweep).items()) if 0 < own <= budget), None)


# -- what gradients reveal ---------------------------------------------------------------------------------


def gradients_tell_labels(sweep: Sweep) -> Verdict | None:
    """Without label privacy the follower reads every label."""
    arms = [arm for arm in (CLEAN, SIGNS, *noisy_signs(sweep)) if sweep.has(arm)]
    if not arms:
        return None
    least = min(level(sweep, arm, READ).low for arm in arms)
    return Verdict(
        least >= ALL_READ, {f"least {READ}, less its margin": least, "arms": len(arms), "at least": ALL_READ}
    )


def once_tells_what_it_may(sweep: Sweep) -> Verdict | None:
    """With flips drawn once, no more than each label is kept with, however many epochs."""
    arms = once(sweep)
    if not arms:
        return None
    over = {arm: level(sweep, arm, READ).high - keeping(epsilon) for arm, epsilon in arms.items()}
    read: Numbers = {arm: sweep.mean(arm, READ) for arm in arms}
    worst = max(over.values())
    told: Numbers = {"most above e^eps/(1+e^eps), with its margin": worst, "allowed": READ_MARGIN}
    return Verdict(worst <= READ_MARGIN, {**read, **told})


def redrawn_tells_more(sweep: Sweep) -> Verdict | None:
    """Over the epochs the follower outvotes fresh flips, and reads more than the stated epsilon allows."""
    arms = {arm: epsilon for arm, epsilon in redrawn(sweep).items() if epsilon > 0}
    if not arms:
        return None
    over = {arm: level(sweep, arm, READ).low - keeping(epsilon) for arm, epsilon in arms.items()}
    numbers: Numbers = {arm: sweep.mean(arm, READ) for arm in arms}
    at_one = {f"allowed by {arm}": keeping(epsilon) for arm, epsilon in arms.items()}
    told = [value for arm, value in over.items() if keeping(arms[arm]) + READ_MARGIN < 1]
    return Verdict(bool(told) and min(told) > 0, {**numbers, **at_one})


# -- signs, and what epsilon is ----------------------------------------------------------------------------


def signs_cost(sweep: Sweep) -> Verdict | None:
    """Signs alone, before any noise, are worse than the outputs."""
    if not sweep.has(CLEAN, SIGNS):
        return None
    below = rise(sweep, SIGNS, CLEAN)
    return Verdict(
        below > CLOSE, {SIGNS: sweep.mean(SIGNS), CLEAN: sweep.mean(CLEAN), "below in margins": below}
    )


def signs_carry_something(sweep: Sweep) -> Verdict | None:
    """Signs are better than coin flips in their place."""
    nothing = signs_arm(0)
    if not sweep.has(nothing, SIGNS):
        return None
    above = rise(sweep, nothing, SIGNS)
    figures: Numbers = {arm: sweep.mean(arm) for arm in (SIGNS, *noisy_signs(sweep))}
    return Verdict(above > CLOSE, {**figures, "above coin flips in margins": above})


def epsilons_are_true(sweep: Sweep) -> Verdict | None:
    """Each arm says what its draws cost: one for flips drawn once, one an epoch for all others."""
    true = _true_epsilons(sweep)
    if not true:
        return None
    units = {**dict.fromkeys((*once(sweep), *redrawn(sweep)), ONE_LABEL)}
    units |= dict.fromkeys(noisy_signs(sweep), ONE_EMBEDDING)
    alike = [arm for arm, epsilon in true.items() if math.isclose(epsilon, sweep.number(arm, "epsilon"))]
    known = all(sweep.fact(arm, "unit") == unit for arm, unit in units.items())
    numbers: Numbers = {"arms": len(true), "that say what is proved": len(alike)}
    shown: Numbers = {f"{arm}, proved": true[arm] for arm in redrawn(sweep)}
    return Verdict(len(alike) == len(true) and known, {**numbers, **shown})


def _true_epsilons(sweep: Sweep) -> Mapping[str, float]:
    drawn_once = {arm: LabelDP(epsilon).total_epsilon(1) for arm, epsilon in once(sweep).items()}
    afresh = {
        arm: LabelDP(epsilon).total_epsilon(epochs_of_arm(sweep, arm))
        for arm, epsilon in redrawn(sweep).items()
    }
    signs = {arm: 2 * epsilon / 2 * epochs_of_arm(sweep, arm) for arm, epsilon in noisy_signs(sweep).items()}
    return {**drawn_once, **afresh, **signs}


CLAIMS = (
    Claim("With epsilon 0 and flips drawn once, AUC is .5 within .02", chance_at_zero(once_arm, 0)),
    Claim("The same drawn afresh, within .02 or a margin, if that is more",
          chance_at_zero(redrawn_arm, CLOSE)),
    Claim("AUC(0) < AUC(1) < AUC(5) <= AUC without noise (and a margin), drawn once",
          rises_to_clean(once_arm)),
    Claim("The same, drawn afresh", rises_to_clean(redrawn_arm)),
    Claim("AUC does not fall as epsilon grows (neighbours within a margin)", never_falls),
    Claim("Below epsilon 1: low performance, less than half of the lead over chance", low_below_one),
    Claim("From epsilon 5 on: high performance, nine tenths of it and more", high_above_five),
    Claim("Training loss on true labels falls, and stays higher at epsilon 1 than without", loss_is_higher),
    Claim("The log's loss at epsilon 1 is one on true labels: below .582", log_shows_true_labels),
    Claim("Drawn afresh is at least as accurate as drawn once at the same stated epsilon (within a margin)",
          redrawn_is_no_worse),
    Claim("Drawn once is at least as accurate where no more is proved for it (within a margin)",
          once_is_better_for_its_cost),
    Claim("Without label privacy, gradients tell the follower every label", gradients_tell_labels),
    Claim("With flips drawn once they tell no more than the stated epsilon allows", once_tells_what_it_may),
    Claim("With flips drawn afresh they tell more than the stated epsilon allows", redrawn_tells_more),
    Claim("Signs of the follower's outputs cost accuracy before any noise", signs_cost),
    Claim("Signs without noise are better than coin flips in their place", signs_carry_something),
    Claim("Every epsilon is what its draws cost: stated once, or times the epochs", epsilons_are_true,
          "identity"),
)  # fmt: skip


def headline(sweep: Sweep) -> str:
    """The main figures in a sentence or two."""
    named = {CLEAN: "without noise", once_arm(1): "flipped once", redrawn_arm(1): "flipped afresh"}
    said = [
        f"{sweep.mean(arm):.3f} {words}{_cost(sweep, arm)}" for arm, words in named.items() if sweep.has(arm)
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
    quick=Quick(seeds=4, rounds=None, arms=(CLEAN, "once-0", "once-1", "once-5", "redrawn-1", "signs-1")),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts.charts,
    tables=charts.tables,
)

LABEL_DP = scenario_of(STUDY)
