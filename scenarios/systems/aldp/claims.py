"""Scenario `aldp`: local noise with an adaptive radius, and additive float shares, in a swarm of peers.

The source is DISCO's documentation of its privacy ("differential privacy", "secure aggregation"), and its
code where that does something else (mechanisms.updates.linear_classic). It gives ranges and orders of size,
no table: each is a claim here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.comparison import CLOSE, largest_rise, level, rise
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.swarms.progress import percent
from scenarios.systems.aldp import charts
from scenarios.systems.aldp.arms import (
    ARMS,
    CAPS,
    NONE,
    POWERS,
    RECORD_EPSILONS,
    RING,
    SEED,
    STATED,
    SWARM_SIZES,
    by_stated,
    capped,
    exact,
    floats,
    linear,
    own,
    record,
    run_of,
    sized,
    tasks_of,
)

MEANINGFUL = 0.5
"""Accuracy of a model that one could use: five times what guessing gives."""
DOCUMENTED_EPSILONS = (5, 20)
LARGE_EPSILON = 300
TENFOLD = (5.0, 20.0)
ORDER = 10.0
"""The largest factor between two figures of the same order."""
INTEGER_GAIN = 100.0
_BUDGET_ROUNDING = 1.001

Numbers = dict[str, float | int | str | None]


def gain(sweep: Sweep, one: str, other: str) -> float:
    """How far the mean of `one` is above that of `other`, in margins."""
    return rise(sweep, other, one)


def _pairs(sweep: Sweep) -> dict[int, tuple[str, str]]:
    """Stated epsilon -> the exact and the linear-classic arm, where both were run."""
    pairs = {epsilon: (exact(epsilon), linear(epsilon)) for epsilon in STATED}
    return {epsilon: pair for epsilon, pair in pairs.items() if sweep.has(*pair)}


def _kept(sweep: Sweep) -> dict[int, tuple[str, str]]:
    """Of those, where linear-classic spends no more than it states."""
    return {
        epsilon: pair
        for epsilon, pair in _pairs(sweep).items()
        if sweep.number(pair[1], "epsilon") <= sweep.number(pair[1], "stated")
    }


# -- noise -------------------------------------------------------------------------------------------------


def exact_is_no_worse(sweep: Sweep) -> Verdict | None:
    """If linear-classic keeps its stated epsilon, exact calibration is at least as accurate."""
    pairs = _kept(sweep)
    if not pairs:
        return None
    gains = {epsilon: gain(sweep, *pair) for epsilon, pair in pairs.items()}
    numbers: Numbers = {f"gain in margins at epsilon {epsilon}": value for epsilon, value in gains.items()}
    return Verdict(min(gains.values()) >= -CLOSE, numbers)


def exact_is_no_worse_anywhere(sweep: Sweep) -> Verdict | None:
    """The same at every stated epsilon, also where linear-classic spends more than it states."""
    pairs = _pairs(sweep)
    if not pairs:
        return None
    gains = {epsilon: gain(sweep, *pair) for epsilon, pair in pairs.items()}
    worst = min(gains, key=lambda epsilon: gains[epsilon])
    numbers: Numbers = {
        "least gain in margins": gains[worst],
        "at stated epsilon": worst,
        "for which linear-classic proves": sweep.number(pairs[worst][1], "epsilon"),
    }
    return Verdict(gains[worst] >= -CLOSE, numbers)


def linear_wastes(sweep: Sweep) -> Verdict | None:
    """There it also has more noise than needed, over the same radius."""
    ratios = {
        epsilon: noise_multiplier(sweep, low) / noise_multiplier(sweep, fine)
        for epsilon, (fine, low) in _kept(sweep).items()
    }
    if not ratios or any(map(math.isnan, ratios.values())):
        return None
    numbers: Numbers = {f"times the noise at epsilon {epsilon}": ratio for epsilon, ratio in ratios.items()}
    return Verdict(min(ratios.values()) > 1, numbers)


def noise_multiplier(sweep: Sweep, arm: str) -> float:
    """Noise std of the last offers over twice their radius; NaN on real nodes, which do not report it."""
    return sweep.number(arm, "noise_std") / (2 * sweep.number(arm, "radius"))


def linear_overspends(sweep: Sweep) -> Verdict | None:
    """From some epsilon on it spends more than it states."""
    arms = by_stated(sweep, map(linear, STATED))
    if len(arms) < 2 or max(arms.values()) < LARGE_EPSILON:
        return None
    over = [sweep.number(arm, "epsilon") > stated for arm, stated in arms.items()]
    numbers: Numbers = {f"proved at {stated:g}": sweep.number(arm, "epsilon") for arm, stated in arms.items()}
    return Verdict(over == sorted(over) and over[-1], numbers)


def exact_spends_its_budget(sweep: Sweep) -> Verdict | None:
    """Exact calibration spends its stated epsilon, and no more."""
    arms = by_stated(sweep, map(exact, STATED))
    if not arms:
        return None
    shares = {arm: sweep.number(arm, "epsilon") / stated for arm, stated in arms.items()}
    numbers: Numbers = {"least share spent": min(shares.values()), "largest": max(shares.values())}
    holds = 1 / _BUDGET_ROUNDING <= min(shares.values()) <= max(shares.values()) <= _BUDGET_ROUNDING
    return Verdict(holds, numbers)


def rises_with_epsilon(sweep: Sweep) -> Verdict | None:
    """Each epsilon is no worse than the one before, and the last far better than the first."""
    arms = run_of(sweep, map(exact, STATED))
    if len(arms) < 2:
        return None
    falls = largest_rise(sweep, arms[::-1])
    numbers: Numbers = {arm: sweep.mean(arm) for arm in arms}
    holds = falls <= CLOSE < gain(sweep, arms[-1], arms[0])
    return Verdict(holds, {"largest fall in margins": falls, **numbers})


def documented_range_is_useful(sweep: Sweep) -> Verdict | None:
    """Epsilons of 5 to 20 give a model that one could use."""
    low, high = DOCUMENTED_EPSILONS
    arms = run_of(sweep, (exact(epsilon) for epsilon in STATED if low <= epsilon <= high))
    if not arms or not sweep.has(NONE):
        return None
    best = max(arms, key=sweep.mean)
    numbers: Numbers = {
        "best of them": sweep.mean(best),
        "at epsilon": sweep.number(best, "stated"),
        "margin": sweep.margin(best),
        "at least": MEANINGFUL,
        "without noise": sweep.mean(NONE),
    }
    return Verdict(level(sweep, best).low >= MEANINGFUL, numbers)


def records_are_cheaper(sweep: Sweep) -> Verdict | None:
    """At the same number, private gradient steps are better: they protect one record, not the data set."""
    pairs = [(record(epsilon), exact(epsilon)) for epsilon in RECORD_EPSILONS]
    pairs = [pair for pair in pairs if sweep.has(*pair)]
    if not pairs:
        return None
    gains = {one: gain(sweep, one, other) for one, other in pairs}
    numbers: Numbers = {f"{arm}, gain in margins": value for arm, value in gains.items()}
    return Verdict(min(gains.values()) > CLOSE, numbers)


def more_peers_help(sweep: Sweep) -> Verdict | None:
    """At one epsilon the largest swarm beats the smallest, though without noise it does not."""
    first, last = (sized("exact", peers) for peers in (SWARM_SIZES[0], SWARM_SIZES[-1]))
    if not sweep.has(first, last):
        return None
    sizes = {arm: tasks_of(sweep)[arm].peers for arm in (first, last)}
    if sizes[first] >= sizes[last]:
        return None
    numbers: Numbers = {f"{peers} peers": sweep.mean(arm) for arm, peers in sizes.items()}
    quiet = [(f"{peers} without noise", sized("none", peers)) for peers in (SWARM_SIZES[0], SWARM_SIZES[-1])]
    numbers |= {name: sweep.mean(arm) for name, arm in quiet if sweep.has(arm)}
    return Verdict(gain(sweep, last, first) > CLOSE, numbers)


def adaptive_radius_helps(sweep: Sweep) -> Verdict | None:
    """With every cap it is no worse than a fixed radius of that size, and with the largest far better."""
    pairs = [(capped("raw", cap), capped("fixed", cap)) for cap in CAPS]
    pairs = [pair for pair in pairs if sweep.has(*pair)]
    if len(pairs) < len(CAPS):
        return None
    gains = [gain(sweep, *pair) for pair in pairs]
    numbers: Numbers = {arm: sweep.mean(arm) for pair in pairs for arm in pair}
    return Verdict(min(gains) >= -CLOSE and gains[-1] > CLOSE, numbers)


# -- shares ------------------------------------------------------------------------------------------------


def error_grows_tenfold(sweep: Sweep) -> Verdict | None:
    """Every ten times the range of the shares gives ten times the error."""
    arms = _float_arms(sweep)
    if len(arms) < 2:
        return None
    steps = {}
    for (one, small), (other, large) in pairwise(arms.items()):
        steps[other] = (sweep.mean(other) / sweep.mean(one)) ** (1 / math.log10(large / small))
    low, high = TENFOLD
    numbers: Numbers = {f"{arm}, times the one before": step for arm, step in steps.items()}
    return Verdict(low <= min(steps.values()) <= max(steps.values()) <= high, numbers)


def error_is_of_stated_order(sweep: Sweep) -> Verdict | None:
    """The median error is within a factor of ten of maxShareValue * 10e-8."""
    arms = _float_arms(sweep)
    if not arms:
        return None
    ratios = {arm: sweep.mean(arm) / (value * charts.STATED_ERROR) for arm, value in arms.items()}
    largest = {
        arm: sweep.number(arm, "largest_error") / (value * charts.STATED_ERROR) for arm, value in arms.items()
    }
    numbers: Numbers = {
        "least median over stated": min(ratios.values()),
        "largest median over stated": max(ratios.values()),
        "largest single error over stated": max(largest.values()),
    }
    return Verdict(1 / ORDER <= min(ratios.values()) <= max(ratios.values()) <= ORDER, numbers)


def integers_are_exact(sweep: Sweep) -> Verdict | None:
    """Shares in fixed point are far more exact than floats with the default range."""
    integers, default = run_of(sweep, (RING, SEED)), floats(2)
    if not integers or not sweep.has(default):
        return None
    worst = max(sweep.mean(arm) for arm in integers)
    numbers: Numbers = {"in fixed point": worst, "floats within 100": sweep.mean(default)}
    return Verdict(worst * INTEGER_GAIN <= sweep.mean(default), numbers)


def _float_arms(sweep: Sweep) -> dict[str, float]:
    """Arms with their max_share_value, as they were run."""
    arms = run_of(sweep, map(floats, POWERS))
    return {arm: tasks_of(sweep)[arm].task.aggregation.max_share_value for arm in arms}


CLAIMS = (
    Claim("Exact noise is no worse than linear-classic where that keeps its epsilon", exact_is_no_worse),
    Claim("There linear-classic has more noise than its epsilon needs", linear_wastes, "identity"),
    Claim("Exact noise is no worse at every stated epsilon, kept or not", exact_is_no_worse_anywhere),
    Claim("At large epsilons linear-classic spends more than it states", linear_overspends, "identity"),
    Claim("Exact noise spends the epsilon that is stated", exact_spends_its_budget, "identity"),
    Claim("Higher epsilons give better models", rises_with_epsilon),
    Claim("Epsilons from 5 to 20 give meaningful utility", documented_range_is_useful),
    Claim("dp-sgd is better at the same epsilon, which is for one record there", records_are_cheaper),
    Claim("A larger swarm is more accurate at the same epsilon", more_peers_help),
    Claim(
        "The adaptive radius is no worse than a fixed one, and better at a large cap", adaptive_radius_helps
    ),
    Claim("Ten times maxShareValue gives about ten times the error", error_grows_tenfold),
    Claim("The error is of the order of maxShareValue * 10e-8", error_is_of_stated_order),
    Claim("Shares in fixed point are a hundred times more exact", integers_are_exact),
)


def headline(sweep: Sweep) -> str:
    """The main figures in one or two sentences."""
    parts = [f"{percent(sweep.mean(NONE))} without noise"] if sweep.has(NONE) else []
    arms = by_stated(sweep, map(exact, (20, 300, 3000)))
    parts += [f"{percent(sweep.mean(arm))} at epsilon {stated:g}" for arm, stated in arms.items()]
    swarm = f"Local noise for whole data sets: test accuracy {', '.join(parts)}. " if parts else ""
    return f"{swarm}{_shares_in_words(sweep)}".rstrip() or _plainly(list(sweep.outcomes), sweep)


def _shares_in_words(sweep: Sweep) -> str:
    errors = [f"{sweep.mean(arm):.1e} within {value:g}" for arm, value in _float_arms(sweep).items()]
    return f"Float shares err by {errors[0]}, {errors[-1]}." if len(errors) > 1 else ""


def _plainly(arms: Sequence[str], sweep: Sweep) -> str:
    return "; ".join(f"{arm}: {sweep.mean(arm):.4g}" for arm in arms)


STANDS_IN = (
    (
        "images and tables of its own tasks, in browsers",
        "scikit-learn's digits, a perceptron 64-64-10, ten peers with unlike labels (Dirichlet 0.5)",
    ),
    ("noise at every epoch", "20 rounds of two local epochs, one noised offer each"),
    (
        "noise as its text describes it",
        "arms exact-*: one radius and one noise for the whole update, calibrated exactly for all rounds",
    ),
    (
        "noise as its code adds it",
        "arms linear-*: the budget split evenly over rounds, the classic formula, all of it for each tensor",
    ),
    ("float shares between browsers", "the nodes' own arithmetic of shares, without a network"),
    ("the sum of updates", "their mean, as its code takes it"),
)

ENTRY = SCENARIOS["aldp"]
STUDY = Study(
    name=ENTRY.name,
    source=ENTRY.source,
    summary=ENTRY.summary,
    stands_in=STANDS_IN,
    data_sets=(),
    arms=ARMS,
    seeds=5,
    quick=Quick(
        seeds=2,
        rounds=10,
        arms=(
            *("none", "exact-20", "exact-300", "exact-3000", "linear-20", "linear-300", "dp-sgd-20"),
            *("shares-float-1e0", "shares-float-1e2", "shares-float-1e4", "shares-ring"),
        ),
    ),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts.charts,
    tables=charts.tables,
)
ALDP = scenario_of(STUDY)
