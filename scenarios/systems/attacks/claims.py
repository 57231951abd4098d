"""Scenario `attacks`: what a curious server or peer learns of others' data, and what prevents it.

Gradient inversion (Geiping et al. 2020), property inference (Melis et al. 2019) and membership inference
(Yeom et al. 2018, Watson et al. 2022, Carlini et al. 2022), each on bare updates or models, in secure sums or
under noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.inference.inversion import RECOVERED
from scenarios.inference.membership import ATTACKS
from scenarios.runs.run import scenario_of
from scenarios.study.arms import Where
from scenarios.study.bounds import above, below
from scenarios.study.comparison import CLOSE, level
from scenarios.study.estimates import Estimate, estimate
from scenarios.study.makers import Numbers, apart, every, falls
from scenarios.study.sweep import FINAL, Quick, Study, Sweep
from scenarios.systems.attacks.arms import (
    ARMS,
    CLIENTS,
    DP_SGD,
    INVERSION,
    LDP,
    MEMBERS,
    MODEL,
    NODE_ROWS,
    NODES,
    PRIVATE_MODELS,
    PROPERTY,
    RECORD_EPSILONS,
    ROWS,
    SUMS,
    UPDATE_EPSILONS,
    own,
)
from scenarios.systems.attacks.charts import CHANCE, charts, tables

STRONG_NOISE = 100
"""Epsilons of a whole update up to this one are to prevent inversion."""
GIVEN_AWAY = 0.8
"""An AUC from which on a property counts as given away."""
NEAR_CHANCE = 0.55
"""The AUC of an attack that hardly knows more than nothing."""
PROPERTY_EPSILON, RECORD_EPSILON = 8, 1


def up_to(most: float) -> Where:
    """Noise on the update at an epsilon of at most `most`."""
    return {**LDP, "epsilon": [epsilon for epsilon in UPDATE_EPSILONS if epsilon <= most]}


def excess(sweep: Sweep, arm: str, fact: str, value: float = 0.0) -> Estimate:
    """How far a fact's mean is above a value."""
    return estimate(sweep.values(arm, fact) - value)


# -- gradient inversion ------------------------------------------------------------------------------------


def bare_update_is_inverted(sweep: Sweep) -> Verdict | None:
    """One row, one step, no noise."""
    arm = sweep.first({**ROWS, "updates": 1})
    if arm is None:
        return None
    found = level(sweep, arm).low >= RECOVERED and excess(sweep, arm, "above guess").above
    return Verdict(found, _with_guess(sweep, arm))


def not_inverted(name: str, where: Where) -> Claim[Sweep]:
    """In none of these arms is the row recovered, and no reconstruction is better than a guess."""

    def judge(sweep: Sweep) -> Verdict | None:
        arms = sweep.select(where)
        if not arms:
            return None
        safe = all(
            sweep.mean(arm) < RECOVERED and excess(sweep, arm, "above guess").margins <= CLOSE for arm in arms
        )
        return Verdict(safe, _with_guess(sweep, *arms))

    return Claim(name, judge)


def _with_guess(sweep: Sweep, *arms: str) -> Numbers:
    return {
        name: value
        for arm in arms
        for name, value in ((arm, sweep.mean(arm)), (f"{arm}, guess", sweep.mean(arm, "guess")))
    }


def quotient_needs_one_row(sweep: Sweep) -> Verdict | None:
    """The first layer's quotient is exact for one row, and no better than a guess in every sum."""
    bare, sums = sweep.first({**ROWS, "updates": 1}), sweep.select({**ROWS, "updates": SUMS[1:]})
    if bare is None or not sums:
        return None
    most = max(excess(sweep, arm, "quotient above guess").margins for arm in sums)
    numbers: Numbers = {arm: sweep.mean(arm, "quotient") for arm in (bare, *sums)}
    holds = level(sweep, bare, "quotient").low >= RECOVERED and most <= CLOSE
    return Verdict(holds, {**numbers, "most above one guess in margins": most})


# -- property inference ------------------------------------------------------------------------------------


def sums_tell_no_more_than_a_count(sweep: Sweep) -> Verdict | None:
    """Who could count the members with the property knows at least as much of one of them."""
    counted = {
        arm: sweep.number(arm, "counting auc") for arm in sweep.select({**CLIENTS, "updates": MEMBERS[1:]})
    }
    if not counted:
        return None
    most = max(excess(sweep, arm, FINAL, auc).margins for arm, auc in counted.items())
    numbers: Numbers = {}
    for arm, auc in counted.items():
        numbers |= {arm: sweep.mean(arm), f"{arm}, by counting": auc}
    return Verdict(most <= CLOSE, numbers)


# -- membership inference ----------------------------------------------------------------------------------


def each_attack(name: str, claim_of: Callable[[str], Claim[Sweep]]) -> Claim[Sweep]:
    """A claim about the AUC of each attack; `claim_of` makes it of the fact's name."""
    return every(name, *(claim_of(f"{attack} auc") for attack in ATTACKS))


def calibration_is_no_worse(sweep: Sweep) -> Verdict | None:
    """Both attacks with shadow models, compared with the loss alone, without noise."""
    arm = sweep.first(MODEL)
    if arm is None:
        return None
    loss = sweep.values(arm, "loss auc")
    gains = {
        attack: estimate(sweep.values(arm, f"{attack} auc") - loss).margins
        for attack in ATTACKS
        if attack != "loss"
    }
    aucs: Numbers = {f"{arm}, {attack}": sweep.mean(arm, f"{attack} auc") for attack in ATTACKS}
    told: Numbers = {f"{attack}, gain in margins": gain for attack, gain in gains.items()}
    tprs: Numbers = {f"{attack} TPR at FPR .05": sweep.mean(arm, f"{attack} tpr") for attack in ATTACKS}
    return Verdict(min(gains.values()) >= -CLOSE, {**aucs, **told, **tprs})


def advantages_are_below_the_ceiling(sweep: Sweep) -> Verdict | None:
    """No attack has a larger advantage than what epsilon allows."""
    numbers: Numbers = {}
    gaps = []
    for arm in sweep.select(PRIVATE_MODELS):
        most = max((level(sweep, arm, f"{attack} advantage") for attack in ATTACKS), key=lambda it: it.high)
        ceiling = sweep.mean(arm, "ceiling")
        numbers |= {
            f"{arm}, largest advantage": most.mean,
            f"{arm}, margin": most.margin,
            f"{arm}, ceiling": ceiling,
        }
        gaps.append(ceiling - most.high)
    return Verdict(min(gaps) >= 0, numbers) if gaps else None


# -- the study ---------------------------------------------------------------------------------------------

CLAIMS: tuple[Claim[Sweep], ...] = (
    Claim(
        f"Gradient inversion recovers a row from a bare update of one step on it (similarity {RECOVERED:g})",
        bare_update_is_inverted,
    ),
    not_inverted(
        "Gradient inversion does not recover it from the secure sum of three or more such updates",
        {**ROWS, "updates": SUMS[1:]},
    ),
    not_inverted(
        "It does not from the secure sum of a hundred such updates: no better than a guess (within a margin)",
        {**ROWS, "updates": SUMS[-1]},
    ),
    falls(
        "updates",
        ROWS,
        name="What is found is less like the row the more updates are in the sum (neighbours within a "
        "margin)",
    ),
    Claim(
        "The first layer's quotient alone gives a row away, and in a sum of three or more is no better than "
        "a guess (within a margin)",
        quotient_needs_one_row,
    ),
    not_inverted(
        "Inversion does not recover a row from updates that are trained as nodes do on 100 rows or more, one "
        "or a sum of three: no better than a guess (within a margin)",
        {**NODES, "rows": NODE_ROWS[1:]},
    ),
    not_inverted(
        f"It does not from a noised update of one row, at an epsilon of at most {STRONG_NOISE} for it",
        {**INVERSION, **up_to(STRONG_NOISE)},
    ),
    not_inverted(
        "It does not from an update whose step is private for a record (dp-sgd), at an epsilon of at most "
        f"{RECORD_EPSILONS[-1]}",
        {**INVERSION, **DP_SGD},
    ),
    above(
        GIVEN_AWAY,
        {**CLIENTS, "updates": 1},
        name=f"A bare update tells whether most of a client's rows are women's: AUC at least {GIVEN_AWAY:g}",
    ),
    every(
        "A secure sum tells less of one member the more members it has (by more than a margin)",
        *(
            apart({**CLIENTS, "updates": fewer}, {**CLIENTS, "updates": more})
            for fewer, more in pairwise(MEMBERS)
        ),
    ),
    Claim(
        "A secure sum tells no more of one member than how many members have the property (within a margin)",
        sums_tell_no_more_than_a_count,
    ),
    below(
        NEAR_CHANCE,
        {**CLIENTS, "updates": MEMBERS[-1]},
        name=f"A secure sum of ten hides it: AUC at most {NEAR_CHANCE:g}",
    ),
    below(
        NEAR_CHANCE,
        {**PROPERTY, **up_to(PROPERTY_EPSILON)},
        name=f"Noise hides it at an epsilon of at most {PROPERTY_EPSILON} for the update: AUC at most "
        f"{NEAR_CHANCE:g}",
    ),
    each_attack(
        "Membership inference is above chance where there is no noise (by more than a margin)",
        lambda auc: above(CHANCE, MODEL, auc),
    ),
    Claim(
        "Attacks calibrated by shadow models are at least as good as the loss threshold (AUC, within a "
        "margin)",
        calibration_is_no_worse,
    ),
    each_attack(
        f"Membership inference is near chance at a record-level epsilon of {RECORD_EPSILON}: AUC at most "
        f"{NEAR_CHANCE:g}",
        lambda auc: below(NEAR_CHANCE, {**PRIVATE_MODELS, "epsilon": RECORD_EPSILON}, auc),
    ),
    Claim(
        "No attack on membership has a larger advantage than epsilon allows", advantages_are_below_the_ceiling
    ),
)

HEADLINE: Mapping[str, Mapping[str, Where]] = {
    "Inversion finds a row with similarity": {
        "in a bare update of one step on it": {**ROWS, "updates": 1},
        "in a secure sum of three": {**ROWS, "updates": 3},
        "after a node's training on 100 rows": {**NODES, "updates": 1, "rows": 100},
    },
    "A property is told with an AUC of": {
        "from a bare update": {**CLIENTS, "updates": 1},
        "from a sum of ten": {**CLIENTS, "updates": 10},
    },
    "Membership is told with an AUC of": {
        "without noise": MODEL,
        "at epsilon 1": {**PRIVATE_MODELS, "epsilon": 1},
    },
}


def headline(sweep: Sweep) -> str:
    """The main figures in a sentence for each attack."""
    listed = {words: _listed(sweep, arms) for words, arms in HEADLINE.items()}
    told = [f"{words} {figures}." for words, figures in listed.items() if figures]
    return " ".join(told) or f"Arms: {len(sweep.outcomes)}, each with {len(sweep.seeds)} seeds."


def _listed(sweep: Sweep, arms: Mapping[str, Where]) -> str:
    found = {words: sweep.first(where) for words, where in arms.items()}
    return ", ".join(f"{sweep.mean(arm):.2f} {words}" for words, arm in found.items() if arm is not None)


ENTRY = SCENARIOS["attacks"]
STUDY = Study(
    name=ENTRY.name,
    source=ENTRY.source,
    summary=ENTRY.summary,
    stands_in=(
        (
            "inversion: ImageNet and CIFAR-10, residual networks",
            "digits of 8 x 8 pixels, a perceptron 64-64-10",
        ),
        ("inversion: the attacker guesses labels", "the attacker knows all labels of a sum"),
        ("property: faces, who wears glasses", "Adult, whose clients are mostly women"),
        ("property: many rounds of one group", "one round"),
        ("membership: CIFAR and ImageNet, up to 256 shadows", "digits, models of 150 rows, 8 shadows"),
    ),
    data_sets=("digits",),  # Adult is asked for by the arms that use it: the others need no file
    arms=ARMS,
    seeds=5,
    quick=Quick(
        seeds=2,
        rounds=None,
        arms=(
            *("inversion-bare", "inversion-sum3", "inversion-sum100", "inversion-node100"),
            *("inversion-epsilon100", "inversion-epsilon10000", "inversion-dp-sgd-epsilon8"),
            *("property-bare", "property-sum*", "property-epsilon8"),
            *("membership-none", "membership-epsilon1"),
        ),
    ),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts,
    tables=tables,
)

ATTACKS_SCENARIO = scenario_of(STUDY)
