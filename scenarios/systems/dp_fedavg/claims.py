"""Scenario `dp-fedavg`: what privacy for users costs, over noise, users and clips; and a book's settings.

DP-FedAvg is McMahan, Ramage, Talwar & Zhang 2018 (arXiv 1710.06963, Algorithm 1); the book is chapter 15.2 of
"Practicing Federated Learning" (Yang et al.), whose code never reads q and W and adds noise of a fixed size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from mechanisms.accounting.ledger import Gaussian, Ledger, SampledGaussian, spent
from mechanisms.servers.dp_fedavg import ONE_USER
from mechanisms.servers.dp_fedavg_book import ZEROED_USER
from scenarios.catalogue import SCENARIOS
from scenarios.federated.cell import FederatedCell
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.comparison import CLOSE, difference, largest_rise, rise
from scenarios.study.estimates import Estimate, estimate
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.systems.dp_fedavg import charts
from scenarios.systems.dp_fedavg.arms import (
    ARMS,
    BOOK,
    BOOK_WITHOUT_NOISE,
    DATA_SET,
    NOISE_OF_ALL,
    TEN,
    TEN_USERS,
    USERS,
    USUAL,
    by_clip,
    by_noise,
    by_users,
    cell_of,
    estimator_arm,
    noise_arm,
    own,
    users_of,
)

NO_PRIVACY = 1e6
"""An epsilon above this is none."""
MANY_COST_AT_MOST_POINTS, MANY_EPSILON = 2.0, 5.0
TEN_COST_AT_LEAST_POINTS, TEN_EPSILON = 30.0, 8.0
FIRST_ROUNDS = 10

Numbers = dict[str, float | int | str | None]


# -- noise and users ---------------------------------------------------------------------------------------


def falls_with_noise(sweep: Sweep) -> Verdict | None:
    """Each z is no better than the one before it, and the last is worse than the first."""
    lines = [arms for users in USERS if len(arms := list(by_noise(sweep, users))) > 1]
    if not lines:
        return None
    worst = max(largest_rise(sweep, arms) for arms in lines)
    falls = [rise(sweep, arms[-1], arms[0]) for arms in lines]
    ends: Numbers = {arm: sweep.mean(arm) for arms in lines for arm in (arms[0], arms[-1])}
    numbers = {"largest rise in margins": worst, "smallest fall from first to last in margins": min(falls)}
    return Verdict(worst <= CLOSE < min(falls), {**numbers, **ends})


def gains_with_users(sweep: Sweep) -> Verdict | None:
    """More users are no worse, and the most are better than the fewest."""
    lines = [list(arms) for z in NOISE_OF_ALL if z > 0 and len(arms := by_users(sweep, z)) > 1]
    if not lines:
        return None
    worst = max(largest_rise(sweep, arms[::-1]) for arms in lines)
    gains = [rise(sweep, arms[0], arms[-1]) for arms in lines]
    ends: Numbers = {arm: sweep.mean(arm) for arms in lines for arm in (arms[0], arms[-1])}
    numbers = {"largest fall in margins": worst, "smallest gain from first to last in margins": min(gains)}
    return Verdict(worst <= CLOSE < min(gains), {**numbers, **ends})


def gains_by_less_noise(sweep: Sweep) -> Verdict | None:
    """The gain with users is more than what their rows give without noise."""
    noised, quiet = (list(by_users(sweep, z)) for z in (USUAL.noise_multiplier, 0.0))
    if min(len(noised), len(quiet)) < 2:
        return None
    gains = [100 * (sweep.values(arms[-1]) - sweep.values(arms[0])) for arms in (noised, quiet)]
    more = estimate(gains[0] - gains[1])
    numbers: Numbers = {"points gained": gains[0].mean(), "without noise": gains[1].mean()}
    return Verdict(more.above, {**numbers, "margin of the difference": more.margin})


def many_pay_little(sweep: Sweep) -> Verdict | None:
    """With the most users a small epsilon costs little."""
    quiet, noised = (noise_arm(USERS[-1], z) for z in (0.0, USUAL.noise_multiplier))
    if not sweep.has(quiet, noised) or users_of(sweep, noised) != USERS[-1]:
        return None
    cost, epsilon = difference(sweep, noised, quiet), sweep.number(noised, "epsilon")
    numbers: Numbers = {"epsilon": epsilon, **_points_lost(cost), "at most": MANY_COST_AT_MOST_POINTS}
    return Verdict(100 * cost.high <= MANY_COST_AT_MOST_POINTS and epsilon < MANY_EPSILON, numbers)


def _points_lost(cost: Estimate) -> Numbers:
    return {"points lost": 100 * cost.mean, "margin": 100 * cost.margin}


# -- the clip ----------------------------------------------------------------------------------------------


def best_clip_is_inside(sweep: Sweep) -> Verdict | None:
    """At the usual z, the smallest and the largest clip are both clearly worse than the best."""
    arms = by_clip(sweep, USUAL.noise_multiplier)
    if len(arms) < 3:
        return None
    first, *_, last = arms
    best = _best(sweep, list(arms))
    below = min(rise(sweep, first, best), rise(sweep, last, best))
    figures: Numbers = {f"S = {clip:g}": sweep.mean(arm) for arm, clip in arms.items()}
    return Verdict(below > CLOSE, {**figures, "best S": arms[best], "ends below it by margins": below})


def large_clip_is_harmless(sweep: Sweep) -> Verdict | None:
    """Without noise the largest clip is as good as the best."""
    arms = by_clip(sweep, 0.0)
    if len(arms) < 3:
        return None
    last, best = list(arms)[-1], _best(sweep, list(arms))
    figures: Numbers = {f"S = {clip:g}": sweep.mean(arm) for arm, clip in arms.items()}
    return Verdict(rise(sweep, last, best) <= CLOSE, {**figures, "best S": arms[best]})


def noise_shrinks_the_best_clip(sweep: Sweep) -> Verdict | None:
    """The more noise, the smaller the clip that is best.

    With more noise no larger clip is better by more than a margin than the best of the clips up to the former
    best; and with most noise the best clip is better than the one that is best with least.
    """
    lines = {z: by_clip(sweep, z) for z in NOISE_OF_ALL}
    if min(map(len, lines.values())) < 3:
        return None
    best = {z: arms[_best(sweep, list(arms))] for z, arms in lines.items()}
    gains = []
    for (_, clip), (z, _) in pairwise(best.items()):
        smaller = [arm for arm, radius in lines[z].items() if radius <= clip]
        gains.append(rise(sweep, _best(sweep, smaller), _best(sweep, list(lines[z]))))
    most, first = lines[max(best)], best[min(best)]
    now = _best(sweep, list(most))
    former = [arm for arm, clip in most.items() if clip == first and clip > most[now]]
    shrinks = any(rise(sweep, arm, now) > CLOSE for arm in former)
    numbers: Numbers = {f"best S at z = {z:g}": clip for z, clip in best.items()}
    told: Numbers = {"largest gain of a larger clip in margins": max(gains)}
    return Verdict(max(gains) <= CLOSE and shrinks, {**numbers, **told})


def _best(sweep: Sweep, arms: Sequence[str]) -> str:
    return max(arms, key=sweep.mean)


# -- estimators and clips a layer --------------------------------------------------------------------------


def fixed_is_better(sweep: Sweep) -> Verdict | None:
    """f_f has half the noise of f_c, and is at least as accurate."""
    return _at_least(sweep, [(estimator_arm("fixed", own), estimator_arm("clipped", own)) for own in _CLIPS])


def flat_is_better(sweep: Sweep) -> Verdict | None:
    """A flat clip is at least as accurate as equal clips a layer, biases being layers too."""
    return _at_least(sweep, [(estimator_arm(one, False), estimator_arm(one, True)) for one in _ESTIMATORS])


_CLIPS, _ESTIMATORS = (False, True), ("fixed", "clipped")


def _at_least(sweep: Sweep, pairs: Sequence[tuple[str, str]]) -> Verdict | None:
    """In each pair that was run, the first is at least as accurate as the second."""
    there = [pair for pair in pairs if sweep.has(*pair)]
    if not there:
        return None
    worst = max(rise(sweep, better, worse) for better, worse in there)
    numbers: Numbers = {}
    for arm in (arm for pair in there for arm in pair):
        numbers |= {arm: sweep.mean(arm), f"{arm}, noise std": sweep.number(arm, "noise std")}
    return Verdict(worst <= CLOSE, {**numbers, "largest gap the wrong way in margins": worst})


# -- the book, and what epsilon is -------------------------------------------------------------------------


def book_has_no_privacy(sweep: Sweep) -> Verdict | None:
    """The epsilon that is proved for the book's settings is no privacy."""
    if not sweep.has(BOOK):
        return None
    epsilon = sweep.number(BOOK, "epsilon")
    z = sweep.number(BOOK, "noise multiplier")
    return Verdict(epsilon > NO_PRIVACY, {"noise multiplier z": z, "proved epsilon": epsilon})


def book_noise_does_not_show(sweep: Sweep) -> Verdict | None:
    """The book's accuracy is that without noise, at the end and in the first rounds."""
    if not sweep.has(BOOK, BOOK_WITHOUT_NOISE):
        return None
    apart = abs(rise(sweep, BOOK, BOOK_WITHOUT_NOISE))
    curves = zip(sweep.curve(BOOK)[:FIRST_ROUNDS], sweep.curve(BOOK_WITHOUT_NOISE), strict=False)
    early = 100 * max(abs(one - other) for one, other in curves)
    numbers: Numbers = {"with noise": sweep.mean(BOOK), "without": sweep.mean(BOOK_WITHOUT_NOISE)}
    gaps = {"apart in margins": apart, f"largest gap of the first {FIRST_ROUNDS} rounds in points": early}
    return Verdict(apart <= CLOSE, {**numbers, **gaps})


def ten_pay_dearly(sweep: Sweep) -> Verdict | None:
    """With ten users, an epsilon that means something costs most of the accuracy."""
    if not sweep.has(TEN_USERS, BOOK_WITHOUT_NOISE) or users_of(sweep, TEN_USERS) != TEN:
        return None
    cost = difference(sweep, TEN_USERS, BOOK_WITHOUT_NOISE)
    epsilon = sweep.number(TEN_USERS, "epsilon")
    numbers: Numbers = {"epsilon": epsilon, **_points_lost(cost), "at least": TEN_COST_AT_LEAST_POINTS}
    return Verdict(100 * cost.low >= TEN_COST_AT_LEAST_POINTS and epsilon <= TEN_EPSILON, numbers)


def epsilons_are_true(sweep: Sweep) -> Verdict | None:
    """What each noised arm says is what its z, q and rounds cost, adding or removing one user."""
    noised = [arm for arm in sweep.outcomes if sweep.number(arm, "noise multiplier") > 0 and arm != "own"]
    if not noised:
        return None
    true = {arm: _accounted(cell_of(sweep, arm), sweep) for arm in noised}
    alike = [arm for arm in noised if math.isclose(true[arm], sweep.number(arm, "epsilon"), rel_tol=1e-9)]
    units = {str(sweep.fact(arm, "unit")) for arm in noised}
    known = units <= {ONE_USER.words, ZEROED_USER.words}
    numbers: Numbers = {"arms with noise": len(noised), "that say what is proved": len(alike)}
    whom: Numbers = {"delta": sweep.number(noised[0], "delta"), "unit": str(sweep.fact(noised[0], "unit"))}
    return Verdict(len(alike) == len(noised) and known, {**numbers, "least": min(true.values()), **whom})


def _accounted(cell: FederatedCell, sweep: Sweep) -> float:
    """Epsilon of a Poisson-sampled Gaussian release a round; for the book's fixed samples of a plain one."""
    parameters, z = cell.mechanism.parameters, sweep.number(cell.arm, "noise multiplier")
    sampled = parameters.get("sampling_probability")
    if sampled is None:
        return spent(Ledger(((Gaussian(z), cell.rounds),)), parameters["delta"]).epsilon
    return spent(Ledger.of([SampledGaussian(z, sampled, cell.rounds)]), parameters["delta"]).epsilon


CLAIMS = (
    Claim("Accuracy falls as z rises, for every number of users (neighbours within a margin)",
          falls_with_noise),
    Claim("At the same q and z, more users are more accurate (neighbours within a margin)", gains_with_users),
    Claim("They gain by less noise, not only by their rows", gains_by_less_noise),
    Claim(f"With {USERS[-1]} users an epsilon below {MANY_EPSILON:g} costs at most "
          f"{MANY_COST_AT_MOST_POINTS:g} points", many_pay_little),
    Claim("The best clip S is neither the smallest nor the largest", best_clip_is_inside),
    Claim("Without noise a large clip does no harm", large_clip_is_harmless),
    Claim("The more noise, the smaller the best clip", noise_shrinks_the_best_clip),
    Claim("Estimator f_f is at least as accurate as f_c at the same z (within a margin)", fixed_is_better),
    Claim("A flat clip is at least as accurate as equal clips a layer (within a margin)", flat_is_better),
    Claim("The book's settings have no privacy: the proved epsilon is above a million", book_has_no_privacy,
          "identity"),
    Claim("The book's noise does not show: accuracy is as without it (within a margin)",
          book_noise_does_not_show),
    Claim(f"With ten users an epsilon below {TEN_EPSILON:g} costs at least "
          f"{TEN_COST_AT_LEAST_POINTS:g} points", ten_pay_dearly),
    Claim("Every epsilon is what the accountant proves, for adding or removing one user", epsilons_are_true,
          "identity"),
)  # fmt: skip


def headline(sweep: Sweep) -> str:
    """The main figures in a sentence or two."""
    arms = [noise_arm(users, USUAL.noise_multiplier) for users in USERS]
    there = [arm for arm in arms if sweep.has(arm)]
    said = [_usual_in_words(sweep, there)] if there else []
    if sweep.has(BOOK):
        epsilon = sweep.number(BOOK, "epsilon")
        said.append(
            f"The book's settings reach {sweep.mean(BOOK):.1%}, at a proved epsilon of {epsilon:.3g}."
        )
    return " ".join(said) or f"Arms: {len(sweep.outcomes)}, each with {len(sweep.seeds)} seeds."


def _usual_in_words(sweep: Sweep, arms: Sequence[str]) -> str:
    reached = ", ".join(f"{sweep.mean(arm):.1%} with {users_of(sweep, arm)} users" for arm in arms)
    quiet = noise_arm(USUAL.users, 0.0)
    beside = f"; {sweep.mean(quiet):.1%} without noise" if sweep.has(quiet) else ""
    return f"At epsilon {sweep.number(arms[0], 'epsilon'):.2g} for a user, {reached}{beside}."


ENTRY = SCENARIOS["dp-fedavg"]
STUDY = Study(
    name=ENTRY.name,
    source=ENTRY.source,
    summary=ENTRY.summary,
    stands_in=(
        ("the paper: text of hundreds of thousands of users", "MNIST dealt at random, 60 images a user"),
        ("the paper: an LSTM of 1.35 million parameters", "a perceptron 784-32-10 of 25,450"),
        ("the paper: thousands of rounds", "40 rounds, each user in with probability 0.1"),
        ("the book: a pretrained resnet18", "the same perceptron, from scratch"),
        ("the book: CIFAR-10, ten clients of 5,000 images", "MNIST, ten clients of 500 images"),
    ),
    data_sets=(DATA_SET,),
    arms=ARMS,
    seeds=5,
    quick=Quick(
        seeds=2,
        rounds=20,
        arms=(
            *("users300-z0", "users300-z1", "users300-z8", "users100-z1", "users1000-z1"),
            *("clip0.05-z1", "clip5-z1", "book"),
        ),
    ),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts.charts,
    tables=charts.tables,
)

DP_FEDAVG = scenario_of(STUDY)
