"""Scenario `attacks`: what a curious server or peer learns of others' data, and what prevents it.

Gradient inversion (Geiping et al. 2020), property inference (Melis et al. 2019) and membership inference
(Yeom et al. 2018, Watson et al. 2022, Carlini et al. 2022), each on bare updates or models, in secure sums or
under noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.inference.inversion import RECOVERED
from scenarios.inference.membership import ATTACKS
from scenarios.runs.run import scenario_of
from scenarios.study.about import about, all_of, as_claims, together
from scenarios.study.arms import Where
from scenarios.study.bounds import above, below
from scenarios.study.comparison import CLOSE, level
from scenarios.study.estimates import Estimate, estimate
from scenarios.study.makers import Numbers, apart, falls
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


@about({**ROWS, "updates": 1})
def bare_update_is_inverted(sweep: Sweep, arm: str) -> Verdict:
    """One row, one step, no noise."""
    found = level(sweep, arm).low >= RECOVERED and excess(sweep, arm, "above guess").above
    return Verdict(found, _with_guess(sweep, arm))


def not_inverted(where: Where) -> Claim[Sweep]:
    """In none of these arms is the row recovered, and no reconstruction is better than a guess."""

    @about(all_of(where))
    def judge(sweep: Sweep, arms: Sequence[str]) -> Verdict:
        safe = all(
            sweep.mean(arm) < RECOVERED and excess(sweep, arm, "above guess").margins <= CLOSE for arm in arms
        )
        return Verdict(safe, _with_guess(sweep, *arms))

    return judge


def _with_guess(sweep: Sweep, *arms: str) -> Numbers:
    both = ({arm: sweep.mean(arm), f"{arm}, guess": sweep.mean(arm, "guess")} for arm in arms)
    return {name: value for one in both for name, value in one.items()}


@about({**ROWS, "updates": 1}, all_of({**ROWS, "updates": SUMS[1:]}))
def quotient_needs_one_row(sweep: Sweep, bare: str, sums: Sequence[str]) -> Verdict:
    """The first layer's quotient is exact for one row, and no better than a guess in every sum."""
    most = max(excess(sweep, arm, "quotient above guess").margins for arm in sums)
    numbers: Numbers = {arm: sweep.mean(arm, "quotient") for arm in (bare, *sums)}
    holds = level(sweep, bare, "quotient").low >= RECOVERED and most <= CLOSE
    return Verdict(holds, {**numbers, "most above one guess in margins": most})


# -- property inference ------------------------------------------------------------------------------------


@about(all_of({**CLIENTS, "updates": MEMBERS[1:]}))
def sums_tell_no_more_than_a_count(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """Who could count the members with the property knows at least as much of one of them."""
    most, numbers = [], Numbers()
    for arm in arms:
        counted = sweep.number(arm, "counting auc")
        most.append(excess(sweep, arm, FINAL, counted).margins)
        numbers |= {arm: sweep.mean(arm), f"{arm}, by counting": counted}
    return Verdict(max(most) <= CLOSE, numbers)


# -- membership inference ----------------------------------------------------------------------------------


def each_attack(claim_of: Callable[[str], Claim[Sweep]]) -> Claim[Sweep]:
    """A claim about the AUC of each attack; `claim_of` makes it of the fact's name."""
    return together(*(claim_of(f"{attack} auc") for attack in ATTACKS))


@about(MODEL)
def calibration_is_no_worse(sweep: Sweep, arm: str) -> Verdict:
    """Both attacks with shadow models, compared with the loss alone, without noise."""
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


@about(all_of(PRIVATE_MODELS))
def advantages_are_below_the_ceiling(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """No attack has a larger advantage than what epsilon allows."""
    gaps, numbers = [], Numbers()
    for arm in arms:
        most = max((level(sweep, arm, f"{attack} advantage") for attack in ATTACKS), key=lambda it: it.high)
        ceiling = sweep.mean(arm, "ceiling")
        numbers |= {f"{arm}, largest advantage": most.mean, f"{arm}, margin": most.margin}
        numbers[f"{arm}, ceiling"] = ceiling
        gaps.append(ceiling - most.high)
    return Verdict(min(gaps) >= 0, numbers)


# -- the study ---------------------------------------------------------------------------------------------

CLAIMS = as_claims(
    {
        "Gradient inversion recovers a row from a bare update of one step on it (similarity "
        f"{RECOVERED:g})": bare_update_is_inverted,
        "Gradient inversion does not recover it from the secure sum of three or more such "
        "updates": not_inverted({**ROWS, "updates": SUMS[1:]}),
        "It does not from the secure sum of a hundred such updates: no better than a guess (within a "
        "margin)": not_inverted({**ROWS, "updates": SUMS[-1]}),
        "What is found is less like the row the more updates are in the sum (neighbours within a "
        "margin)": falls("updates", ROWS),
        "The first layer's quotient alone gives a row away, and in a sum of three or more is no better than "
        "a guess (within a margin)": quotient_needs_one_row,
        "Inversion does not recover a row from updates that are trained as nodes do on 100 rows or more, one "
        "or a sum of three: no better than a guess (within a margin)": not_inverted(
            {**NODES, "rows": NODE_ROWS[1:]}
        ),
        "It does not from a noised update of one row, at an epsilon of at most "
        f"{STRONG_NOISE} for it": not_inverted({**INVERSION, **up_to(STRONG_NOISE)}),
        "It does not from an update whose step is private for a record (dp-sgd), at an epsilon of at most "
        f"{RECORD_EPSILONS[-1]}": not_inverted({**INVERSION, **DP_SGD}),
        "A bare update tells whether most of a client's rows are women's: AUC at least "
        f"{GIVEN_AWAY:g}": above(GIVEN_AWAY, {**CLIENTS, "updates": 1}),
        "A secure sum tells less of one member the more members it has (by more than a margin)": together(
            *(
                apart({**CLIENTS, "updates": fewer}, {**CLIENTS, "updates": more})
                for fewer, more in pairwise(MEMBERS)
            )
        ),
        "A secure sum tells no more of one member than how many members have the property (within a "
        "margin)": sums_tell_no_more_than_a_count,
        f"A secure sum of ten hides it: AUC at most {NEAR_CHANCE:g}": below(
            NEAR_CHANCE, {**CLIENTS, "updates": MEMBERS[-1]}
        ),
        f"Noise hides it at an epsilon of at most {PROPERTY_EPSILON} for the update: AUC at most "
        f"{NEAR_CHANCE:g}": below(NEAR_CHANCE, {**PROPERTY, **up_to(PROPERTY_EPSILON)}),
        "Membership inference is above chance where there is no noise (by more than a margin)": each_attack(
            lambda auc: above(CHANCE, MODEL, auc)
        ),
        "Attacks calibrated by shadow models are at least as good as the loss threshold (AUC, within a "
        "margin)": calibration_is_no_worse,
        f"Membership inference is near chance at a record-level epsilon of {RECORD_EPSILON}: AUC at most "
        f"{NEAR_CHANCE:g}": each_attack(
            lambda auc: below(NEAR_CHANCE, {**PRIVATE_MODELS, "epsilon": RECORD_EPSILON}, auc)
        ),
        "No attack on membership has a larger advantage than epsilon "
        "allows": advantages_are_below_the_ceiling,
    }
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


STUDY = Study(
    **SCENARIOS["attacks"].listed,
    stands_in={
        "inversion: ImageNet and CIFAR-10, residual networks": "digits of 8 x 8 pixels, a perceptron "
        "64-64-10",
        "inversion: the attacker guesses labels": "the attacker knows all labels of a sum",
        "property: faces, who wears glasses": "Adult, whose clients are mostly women",
        "property: many rounds of one group": "one round",
        "membership: CIFAR and ImageNet, up to 256 shadows": "digits, models of 150 rows, 8 shadows",
    },
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
