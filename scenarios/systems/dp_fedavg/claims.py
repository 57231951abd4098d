"""Scenario `dp-fedavg`: what privacy for users costs, over noise, users and clips; and a book's settings.

DP-FedAvg is McMahan, Ramage, Talwar & Zhang 2018 (arXiv 1710.06963, Algorithm 1); the book is chapter 15.2 of
"Practicing Federated Learning" (Yang et al.), whose code never reads q and W and adds noise of a fixed size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from mechanisms.accounting.ledger import Gaussian, Ledger, SampledGaussian, privacy_spent
from mechanisms.servers.dp_fedavg_book import ZEROED_USER
from mechanisms.servers.server import ONE_USER
from scenarios.catalogue import SCENARIOS
from scenarios.federated.cell import FederatedCell
from scenarios.frame.spec import Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.about import about, along, as_claims
from scenarios.study.arms import Where
from scenarios.study.comparison import CLOSE, difference, rise
from scenarios.study.estimates import Estimate, estimate
from scenarios.study.makers import Numbers, best_inside, falls, identity, no_worse, rises
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.systems.dp_fedavg.arms import (
    ARMS,
    BOOK,
    BOOK_WITHOUT_NOISE,
    DATA_SET,
    FLAT,
    NOISE_OF_ALL,
    TEN,
    TEN_USERS,
    USERS,
    USUAL,
    USUAL_CLIP,
    USUAL_NOISE,
    Z,
    own,
)
from scenarios.systems.dp_fedavg.charts import QUIET, charts, tables

NO_PRIVACY = 1e6
"""An epsilon above this is none."""
MANY_COST_AT_MOST_POINTS, MANY_EPSILON = 2.0, 5.0
TEN_COST_AT_LEAST_POINTS, TEN_EPSILON = 30.0, 8.0
FIRST_ROUNDS = 10
NOISED: Where = {Z: USUAL.noise_multiplier}
MANY: Where = {**USUAL_CLIP, "clients": USERS[-1]}


# -- users -------------------------------------------------------------------------------------------------


@about(*(along("clients", {**USUAL_CLIP, Z: z}, least=2) for z in (USUAL.noise_multiplier, 0.0)))
def gains_by_less_noise(sweep: Sweep, *lines: Mapping[str, float]) -> Verdict:
    """The gain with users is more than what their rows give without noise."""
    ends = [(arms[0], arms[-1]) for arms in map(list, lines)]
    noised, quiet = (100 * (sweep.values(most) - sweep.values(fewest)) for fewest, most in ends)
    more = estimate(noised - quiet)
    numbers: Numbers = {"points gained": noised.mean(), "without noise": quiet.mean()}
    return Verdict(more.above, {**numbers, "margin of the difference": more.margin})


@about({**MANY, **NOISED}, {**MANY, Z: 0.0})
def many_pay_little(sweep: Sweep, noised: str, quiet: str) -> Verdict:
    """With the most users a small epsilon costs little."""
    cost, numbers = _cost(sweep, noised, quiet)
    holds = 100 * cost.high <= MANY_COST_AT_MOST_POINTS and sweep.number(noised, "epsilon") < MANY_EPSILON
    return Verdict(holds, {**numbers, "at most": MANY_COST_AT_MOST_POINTS})


@about({**TEN_USERS, "clients": TEN}, BOOK_WITHOUT_NOISE)
def ten_pay_dearly(sweep: Sweep, noised: str, quiet: str) -> Verdict:
    """With ten users, an epsilon that means something costs most of the accuracy."""
    cost, numbers = _cost(sweep, noised, quiet)
    holds = 100 * cost.low >= TEN_COST_AT_LEAST_POINTS and sweep.number(noised, "epsilon") <= TEN_EPSILON
    return Verdict(holds, {**numbers, "at least": TEN_COST_AT_LEAST_POINTS})


def _cost(sweep: Sweep, noised: str, quiet: str) -> tuple[Estimate, Numbers]:
    """What noise costs, and the numbers that say so beside its epsilon."""
    cost, epsilon = difference(sweep, noised, quiet), sweep.number(noised, "epsilon")
    return cost, {"epsilon": epsilon, "points lost": 100 * cost.mean, "margin": 100 * cost.margin}


# -- the clip ----------------------------------------------------------------------------------------------


@about(along("clip", {**FLAT, Z: 0.0}, least=3))
def large_clip_is_harmless(sweep: Sweep, clips: Mapping[str, float]) -> Verdict:
    """Without noise the largest clip is as good as the best."""
    last, best = list(clips)[-1], max(clips, key=sweep.mean)
    figures: Numbers = {f"S = {clip:g}": sweep.mean(arm) for arm, clip in clips.items()}
    return Verdict(rise(sweep, last, best) <= CLOSE, {**figures, "best S": clips[best]})


@about(*(along("clip", {**FLAT, Z: z}, least=3) for z in NOISE_OF_ALL))
def noise_shrinks_the_best_clip(sweep: Sweep, *by_noise: Mapping[str, float]) -> Verdict:
    """The more noise, the smaller the clip that is best.

    With more noise no larger clip is better by more than a margin than the best of the clips up to the former
    best; and with most noise the best clip is better than the one that is best with least.
    """
    lines = dict(zip(NOISE_OF_ALL, by_noise, strict=True))
    best = {z: clips[max(clips, key=sweep.mean)] for z, clips in lines.items()}
    gains = []
    for (_, clip), (z, _) in pairwise(best.items()):
        smaller = [arm for arm, radius in lines[z].items() if radius <= clip]
        gains.append(rise(sweep, max(smaller, key=sweep.mean), max(lines[z], key=sweep.mean)))
    most, first = lines[max(best)], best[min(best)]
    now = max(most, key=sweep.mean)
    former = [arm for arm, clip in most.items() if clip == first and clip > most[now]]
    shrinks = any(rise(sweep, arm, now) > CLOSE for arm in former)
    numbers: Numbers = {f"best S at z = {z:g}": clip for z, clip in best.items()}
    told: Numbers = {"largest gain of a larger clip in margins": max(gains)}
    return Verdict(max(gains) <= CLOSE and shrinks, {**numbers, **told})


# -- the book, and what epsilon is -------------------------------------------------------------------------


@about(BOOK)
def book_has_no_privacy(sweep: Sweep, book: str) -> Verdict:
    """The epsilon that is proved for the book's settings is no privacy."""
    epsilon, z = sweep.number(book, "epsilon"), sweep.number(book, "noise multiplier")
    return Verdict(epsilon > NO_PRIVACY, {"noise multiplier z": z, "proved epsilon": epsilon})


@about(BOOK, BOOK_WITHOUT_NOISE)
def book_noise_does_not_show(sweep: Sweep, book: str, quiet: str) -> Verdict:
    """The book's accuracy is that without noise, at the end and in the first rounds."""
    apart = abs(rise(sweep, book, quiet))
    curves = zip(sweep.curve(book)[:FIRST_ROUNDS], sweep.curve(quiet), strict=False)
    early = 100 * max(abs(one - other) for one, other in curves)
    numbers: Numbers = {"with noise": sweep.mean(book), "without": sweep.mean(quiet)}
    gaps = {"apart in margins": apart, f"largest gap of the first {FIRST_ROUNDS} rounds in points": early}
    return Verdict(apart <= CLOSE, {**numbers, **gaps})


def _noised(sweep: Sweep) -> list[str]:
    """The arms with noise, but for one of the user's own."""
    known = sweep.select({"setting": ("paper", "book")})
    return [arm for arm in known if sweep.number(arm, "noise multiplier") > 0]


@about(_noised)
def epsilons_are_true(sweep: Sweep, noised: Sequence[str]) -> Verdict:
    """What each noised arm says is what its z, q and rounds cost, adding or removing one user."""
    true = {arm: _accounted(sweep, arm) for arm in noised}
    alike = [arm for arm in noised if math.isclose(true[arm], sweep.number(arm, "epsilon"), rel_tol=1e-9)]
    units = {str(sweep.fact(arm, "unit")) for arm in noised}
    known = units <= {ONE_USER.words, ZEROED_USER.words}
    numbers: Numbers = {"arms with noise": len(noised), "that say what is proved": len(alike)}
    whom: Numbers = {"delta": sweep.number(noised[0], "delta"), "unit": str(sweep.fact(noised[0], "unit"))}
    return Verdict(len(alike) == len(noised) and known, {**numbers, "least": min(true.values()), **whom})


def _accounted(sweep: Sweep, arm: str) -> float:
    """Epsilon of a Poisson-sampled Gaussian release a round; for the book's fixed samples of a plain one."""
    cell, z = sweep.cells[arm], sweep.number(arm, "noise multiplier")
    parameters = cell.mechanism.parameters if isinstance(cell, FederatedCell) else {}
    sampled = parameters.get("sampling_probability")
    if sampled is None:
        return privacy_spent(Ledger(((Gaussian(z), cell.rounds),)), parameters["delta"]).epsilon
    return privacy_spent(Ledger.of([SampledGaussian(z, sampled, cell.rounds)]), parameters["delta"]).epsilon


CLAIMS = as_claims(
    {
        "Accuracy falls as z rises, for every number of users (neighbours within a margin)": falls(
            Z, USUAL_CLIP
        ),
        "At the same q and z, more users are more accurate (neighbours within a margin)": rises(
            "clients", {**USUAL_CLIP, Z: [z for z in NOISE_OF_ALL if z > 0]}
        ),
        "They gain by less noise, not only by their rows": gains_by_less_noise,
        f"With {USERS[-1]} users an epsilon below {MANY_EPSILON:g} costs at most "
        f"{MANY_COST_AT_MOST_POINTS:g} points": many_pay_little,
        "The best clip S is neither the smallest nor the largest": best_inside("clip", USUAL_NOISE),
        "Without noise a large clip does no harm": large_clip_is_harmless,
        "The more noise, the smaller the best clip": noise_shrinks_the_best_clip,
        "Estimator f_f is at least as accurate as f_c at the same z (within a margin)": no_worse(
            {"estimator": "fixed"}, {"estimator": "clipped"}, shown="noise std"
        ),
        "A flat clip is at least as accurate as equal clips a layer (within a margin)": no_worse(
            {"per_layer": False}, {"per_layer": True}, shown="noise std"
        ),
        "The book's settings have no privacy: the proved epsilon is above a million": identity(
            book_has_no_privacy
        ),
        "The book's noise does not show: accuracy is as without it (within a "
        "margin)": book_noise_does_not_show,
        f"With ten users an epsilon below {TEN_EPSILON:g} costs at least {TEN_COST_AT_LEAST_POINTS:g} "
        "points": ten_pay_dearly,
        "Every epsilon is what the accountant proves, for adding or removing one user": identity(
            epsilons_are_true
        ),
    }
)


def headline(sweep: Sweep) -> str:
    """The main figures in a sentence or two."""
    said, usual = [], {**USUAL_CLIP, **USUAL_NOISE}
    if sweep.select(usual):
        users, quiet = sweep.line("clients", usual).points, sweep.first(QUIET)
        reached = ", ".join(f"{sweep.mean(arm):.1%} with {number:g} users" for arm, number in users.items())
        beside = f"; {sweep.mean(quiet):.1%} without noise" if quiet else ""
        epsilon = sweep.number(next(iter(users)), "epsilon")
        said.append(f"At epsilon {epsilon:.2g} for a user, {reached}{beside}.")
    if book := sweep.first(BOOK):
        epsilon = sweep.number(book, "epsilon")
        said.append(
            f"The book's settings reach {sweep.mean(book):.1%}, at a proved epsilon of {epsilon:.3g}."
        )
    return " ".join(said) or f"Arms: {len(sweep.outcomes)}, each with {len(sweep.seeds)} seeds."


STUDY = Study(
    **SCENARIOS["dp-fedavg"].listed,
    stands_in={
        "the paper: text of hundreds of thousands of users": "MNIST dealt at random, 60 images a user",
        "the paper: an LSTM of 1.35 million parameters": "a perceptron 784-32-10 of 25,450",
        "the paper: thousands of rounds": "40 rounds, each user in with probability 0.1",
        "the book: a pretrained resnet18": "the same perceptron, from scratch",
        "the book: CIFAR-10, ten clients of 5,000 images": "MNIST, ten clients of 500 images",
    },
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
    charts=charts,
    tables=tables,
)

DP_FEDAVG = scenario_of(STUDY)
