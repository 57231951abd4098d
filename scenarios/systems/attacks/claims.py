"""Scenario `attacks`: what a curious server or peer learns of others' data, and what prevents it.

Gradient inversion (Geiping et al. 2020), property inference (Melis et al. 2019) and membership inference
(Yeom et al. 2018, Watson et al. 2022, Carlini et al. 2022), each on bare updates or models, in secure sums or
under noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.inference.inversion import RECOVERED
from scenarios.inference.membership import ATTACKS
from scenarios.runs.run import scenario_of
from scenarios.study.comparison import CLOSE, largest_rise, level, rise
from scenarios.study.estimates import estimate
from scenarios.study.sweep import FINAL, Quick, Study, Sweep
from scenarios.systems.attacks import charts
from scenarios.systems.attacks.arms import (
    ARMS,
    MEMBERS,
    RECORD_EPSILONS,
    SUMS,
    UPDATE_EPSILONS,
    inversion_node,
    inversion_noise,
    inversion_records,
    inversion_sum,
    membership_noise,
    own,
    property_noise,
    property_sum,
    run_of,
)

STRONG_NOISE = 100
"""Epsilons of a whole update up to this one are to prevent inversion."""
GIVEN_AWAY = 0.8
"""An AUC from which on a property counts as given away."""
CHANCE, NEAR_CHANCE = 0.5, 0.55
"""AUCs of an attack that knows nothing, and of one that hardly knows more."""
PROPERTY_EPSILON, RECORD_EPSILON = 8, 1

Numbers = dict[str, float | int | str | None]


# -- gradient inversion ------------------------------------------------------------------------------------


def bare_update_is_inverted(sweep: Sweep) -> Verdict | None:
    """One row, one step, no noise."""
    arm = inversion_sum(1)
    if not sweep.has(arm):
        return None
    recovered, above = level(sweep, arm).low >= RECOVERED, _above_guess(sweep, arm) > CLOSE
    return Verdict(recovered and above, _inversion_numbers(sweep, [arm]))


def few_are_not_inverted(sweep: Sweep) -> Verdict | None:
    """The claim as stated: no row is recovered from a sum of three or more updates of one row each."""
    return _nothing_found(sweep, [inversion_sum(updates) for updates in SUMS if updates >= 3])


def hundred_are_not_inverted(sweep: Sweep) -> Verdict | None:
    """The largest sum of single rows."""
    return _nothing_found(sweep, [inversion_sum(SUMS[-1])])


def falls_with_the_sum(sweep: Sweep) -> Verdict | None:
    """The more rows in the sum, the less similar the reconstruction."""
    arms = run_of(sweep, map(inversion_sum, SUMS))
    if len(arms) < 2:
        return None
    worst, fall = largest_rise(sweep, arms), rise(sweep, arms[-1], arms[0])
    numbers = {"largest rise in margins": worst, "fall from first to last in margins": fall}
    return Verdict(worst <= CLOSE < fall, {**numbers, **_inversion_numbers(sweep, arms)})


def quotient_needs_one_row(sweep: Sweep) -> Verdict | None:
    """The first layer's quotient is exact for one row, and no better than a guess in every sum."""
    bare, *others = (inversion_sum(updates) for updates in SUMS)
    others = run_of(sweep, others)
    if not sweep.has(bare) or not others:
        return None
    above = [_above(sweep, arm, "quotient above guess") for arm in others]
    numbers: Numbers = {arm: sweep.mean(arm, "quotient") for arm in (bare, *others)}
    holds = level(sweep, bare, "quotient").low >= RECOVERED and max(above) <= CLOSE
    return Verdict(holds, {**numbers, "most above one guess in margins": max(above)})


def trained_updates_are_not_inverted(sweep: Sweep) -> Verdict | None:
    """Nodes of a hundred rows or more with the default training, alone or in a sum."""
    arms = [inversion_node(100), inversion_node(287), inversion_node(100, 3)]
    return _nothing_found(sweep, arms)


def noise_prevents_inversion(sweep: Sweep) -> Verdict | None:
    """Up to some epsilon nothing is reconstructed, whatever is sent."""
    epsilons = [epsilon for epsilon in UPDATE_EPSILONS if epsilon <= STRONG_NOISE]
    return _nothing_found(sweep, [inversion_noise(epsilon) for epsilon in epsilons])


def private_steps_prevent_inversion(sweep: Sweep) -> Verdict | None:
    """One private step on one row: all that leaves is its clipped and noised gradient."""
    return _nothing_found(sweep, [inversion_records(epsilon) for epsilon in RECORD_EPSILONS])


def _nothing_found(sweep: Sweep, arms: Sequence[str]) -> Verdict | None:
    """In none of the arms that ran is the row recovered, and no reconstruction is better than a guess."""
    there = run_of(sweep, arms)
    if not there:
        return None
    least = all(sweep.mean(arm) < RECOVERED and _above_guess(sweep, arm) <= CLOSE for arm in there)
    return Verdict(least, _inversion_numbers(sweep, there))


def _inversion_numbers(sweep: Sweep, arms: Sequence[str]) -> Numbers:
    numbers: Numbers = {}
    for arm in arms:
        numbers |= {arm: sweep.mean(arm), f"{arm}, guess": sweep.mean(arm, "guess")}
    return numbers


def _above_guess(sweep: Sweep, arm: str) -> float:
    return _above(sweep, arm, "above guess")


def _above(sweep: Sweep, arm: str, fact: str, value: float = 0.0) -> float:
    """How far a fact's mean is above a value, in margins."""
    return estimate(sweep.values(arm, fact) - value).margins


# -- property inference ------------------------------------------------------------------------------------


def bare_update_tells_the_property(sweep: Sweep) -> Verdict | None:
    """One client's update."""
    arm = property_sum(1)
    if not sweep.has(arm):
        return None
    auc = level(sweep, arm)
    numbers: Numbers = {"AUC": auc.mean, "margin": auc.margin, "accuracy": sweep.mean(arm, "accuracy")}
    return Verdict(auc.low >= GIVEN_AWAY, numbers)


def sums_hide_the_property(sweep: Sweep) -> Verdict | None:
    """Each sum reveals less about one member than a smaller one."""
    arms = run_of(sweep, map(property_sum, MEMBERS))
    if len(arms) < 2:
        return None
    falls = [rise(sweep, other, one) for one, other in pairwise(arms)]
    numbers: Numbers = {arm: sweep.mean(arm) for arm in arms}
    return Verdict(min(falls) > CLOSE, {**numbers, "least fall in margins": min(falls)})


def sums_tell_no_more_than_a_count(sweep: Sweep) -> Verdict | None:
    """Who could count the members with the property knows at least as much of one of them."""
    arms = run_of(sweep, [property_sum(members) for members in MEMBERS if members > 1])
    if not arms:
        return None
    above = [_above(sweep, arm, FINAL, sweep.number(arm, "counting auc")) for arm in arms]
    numbers: Numbers = {}
    for arm in arms:
        numbers |= {arm: sweep.mean(arm), f"{arm}, by counting": sweep.number(arm, "counting auc")}
    return Verdict(max(above) <= CLOSE, numbers)


def ten_hide_the_property(sweep: Sweep) -> Verdict | None:
    """The largest sum leaves an attack near chance."""
    arm = property_sum(MEMBERS[-1])
    if not sweep.has(arm):
        return None
    auc = level(sweep, arm)
    numbers: Numbers = {"AUC": auc.mean, "margin": auc.margin, "at most": NEAR_CHANCE}
    return Verdict(auc.high <= NEAR_CHANCE, numbers)


def noise_hides_the_property(sweep: Sweep) -> Verdict | None:
    """Up to some epsilon of the whole update an attack is near chance."""
    epsilons = [epsilon for epsilon in UPDATE_EPSILONS if epsilon <= PROPERTY_EPSILON]
    arms = run_of(sweep, map(property_noise, epsilons))
    if not arms:
        return None
    numbers: Numbers = {arm: sweep.mean(arm) for arm in arms}
    most = max(level(sweep, arm).high for arm in arms)
    return Verdict(most <= NEAR_CHANCE, {**numbers, "most, with its margin": most, "at most": NEAR_CHANCE})


# -- membership inference ----------------------------------------------------------------------------------


def members_show_without_noise(sweep: Sweep) -> Verdict | None:
    """Each attack is above chance."""
    arm = membership_noise(0)
    if not sweep.has(arm):
        return None
    above = [_above(sweep, arm, f"{attack} auc", CHANCE) for attack in ATTACKS]
    return Verdict(min(above) > CLOSE, {**_aucs(sweep, arm), "least above chance in margins": min(above)})


def calibration_is_no_worse(sweep: Sweep) -> Verdict | None:
    """Both attacks with shadow models, compared with the loss alone, without noise."""
    arm = membership_noise(0)
    if not sweep.has(arm):
        return None
    loss = sweep.values(arm, "loss auc")
    gains = {attack: sweep.values(arm, f"{attack} auc") - loss for attack in ATTACKS if attack != "loss"}
    in_margins = {attack: estimate(gain).margins for attack, gain in gains.items()}
    tprs: Numbers = {f"{attack} TPR at FPR .05": sweep.mean(arm, f"{attack} tpr") for attack in ATTACKS}
    told: Numbers = {f"{attack}, gain in margins": gain for attack, gain in in_margins.items()}
    return Verdict(min(in_margins.values()) >= -CLOSE, {**_aucs(sweep, arm), **told, **tprs})


def near_chance_at_small_epsilon(sweep: Sweep) -> Verdict | None:
    """Each attack, at a record-level epsilon of at most 1."""
    arms = run_of(
        sweep, [membership_noise(epsilon) for epsilon in RECORD_EPSILONS if epsilon <= RECORD_EPSILON]
    )
    if not arms:
        return None
    most = max(level(sweep, arm, f"{attack} auc").high for arm in arms for attack in ATTACKS)
    numbers: Numbers = {name: value for arm in arms for name, value in _aucs(sweep, arm).items()}
    accuracies: Numbers = {f"{arm}, accuracy of the model": sweep.mean(arm, "accuracy") for arm in arms}
    told: Numbers = {"most, with its margin": most, "at most": NEAR_CHANCE}
    return Verdict(most <= NEAR_CHANCE, {**numbers, **told, **accuracies})


def advantages_are_below_the_ceiling(sweep: Sweep) -> Verdict | None:
    """No attack has a larger advantage than what epsilon allows."""
    arms = run_of(sweep, map(membership_noise, RECORD_EPSILONS))
    if not arms:
        return None
    numbers: Numbers = {}
    gaps = []
    for arm in arms:
        most = max((level(sweep, arm, f"{attack} advantage") for attack in ATTACKS), key=lambda it: it.high)
        numbers |= {f"{arm}, largest advantage": most.mean, f"{arm}, margin": most.margin}
        numbers |= {f"{arm}, ceiling": sweep.mean(arm, "ceiling")}
        gaps.append(sweep.mean(arm, "ceiling") - most.high)
    return Verdict(min(gaps) >= 0, numbers)


def _aucs(sweep: Sweep, arm: str) -> Numbers:
    return {f"{arm}, {attack}": sweep.mean(arm, f"{attack} auc") for attack in ATTACKS}


# -- the study ---------------------------------------------------------------------------------------------

CLAIMS: tuple[Claim[Sweep], ...] = (
    Claim("Gradient inversion recovers a row from a bare update of one step on it (similarity "
          f"{RECOVERED:g})", bare_update_is_inverted),
    Claim("Gradient inversion does not recover it from the secure sum of three or more such updates",
          few_are_not_inverted),
    Claim("It does not from the secure sum of a hundred such updates: no better than a guess (within a "
          "margin)",
          hundred_are_not_inverted),
    Claim("What is found is less like the row the more updates are in the sum (neighbours within a margin)",
          falls_with_the_sum),
    Claim("The first layer's quotient alone gives a row away, and in a sum of three or more is no better "
          "than a guess (within a margin)", quotient_needs_one_row),
    Claim("Inversion does not recover a row from updates that are trained as nodes do on 100 rows or more, "
          "one or a sum of three: no better than a guess (within a margin)",
          trained_updates_are_not_inverted),
    Claim(f"It does not from a noised update of one row, at an epsilon of at most {STRONG_NOISE} for it",
          noise_prevents_inversion),
    Claim("It does not from an update whose step is private for a record (dp-sgd), at an epsilon of at most "
          f"{RECORD_EPSILONS[-1]}", private_steps_prevent_inversion),
    Claim("A bare update tells whether most of a client's rows are women's: AUC at least "
          f"{GIVEN_AWAY:g}", bare_update_tells_the_property),
    Claim("A secure sum tells less of one member the more members it has (by more than a margin)",
          sums_hide_the_property),
    Claim("A secure sum tells no more of one member than how many members have the property (within "
          "a margin)",
          sums_tell_no_more_than_a_count),
    Claim(f"A secure sum of ten hides it: AUC at most {NEAR_CHANCE:g}", ten_hide_the_property),
    Claim(f"Noise hides it at an epsilon of at most {PROPERTY_EPSILON} for the update: AUC at most "
          f"{NEAR_CHANCE:g}", noise_hides_the_property),
    Claim("Membership inference is above chance where there is no noise (by more than a margin)",
          members_show_without_noise),
    Claim("Attacks calibrated by shadow models are at least as good as the loss threshold (AUC, within "
          "a margin)",
          calibration_is_no_worse),
    Claim(f"Membership inference is near chance at a record-level epsilon of {RECORD_EPSILON}: AUC at most "
          f"{NEAR_CHANCE:g}", near_chance_at_small_epsilon),
    Claim("No attack on membership has a larger advantage than epsilon allows",
          advantages_are_below_the_ceiling),
)  # fmt: skip


def headline(sweep: Sweep) -> str:
    """The main figures in a sentence for each attack."""
    sentences = (
        ("Inversion finds a row with similarity", HEADLINE_INVERSIONS),
        ("A property is told with an AUC of", HEADLINE_PROPERTIES),
        ("Membership is told with an AUC of", HEADLINE_MEMBERSHIPS),
    )
    told = [f"{words} {_listed(sweep, arms)}." for words, arms in sentences if _listed(sweep, arms)]
    return " ".join(told) or f"Arms: {len(sweep.outcomes)}, each with {len(sweep.seeds)} seeds."


def _listed(sweep: Sweep, arms: Mapping[str, str]) -> str:
    return ", ".join(f"{sweep.mean(arm):.2f} {where}" for arm, where in arms.items() if sweep.has(arm))


HEADLINE_INVERSIONS = {
    inversion_sum(1): "in a bare update of one step on it",
    inversion_sum(3): "in a secure sum of three",
    inversion_node(100): "after a node's training on 100 rows",
}
HEADLINE_PROPERTIES = {property_sum(1): "from a bare update", property_sum(10): "from a sum of ten"}
HEADLINE_MEMBERSHIPS = {membership_noise(0): "without noise", membership_noise(1): "at epsilon 1"}

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
    charts=charts.charts,
    tables=charts.tables,
)

ATTACKS_SCENARIO = scenario_of(STUDY)
