"""Scenario `aldp`: local noise with an adaptive radius, and additive float shares, in a swarm of peers.

The source is DISCO's documentation of its privacy ("differential privacy", "secure aggregation"), and its
code where that does something else (mechanisms.updates.linear_classic). It gives ranges and orders of size,
no table: each is a claim here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.about import about, all_of, along, as_claims, together
from scenarios.study.comparison import CLOSE, level, rise
from scenarios.study.makers import Numbers, apart, identity, no_worse, rises
from scenarios.study.plots import usual_headline
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.swarms.progress import percent
from scenarios.systems.aldp.arms import (
    ARMS,
    CAP,
    CAPS,
    DP_SGD,
    EXACT,
    FIXED,
    FLOATS,
    INTEGERS,
    LINEAR,
    NONE,
    SHARE_RANGE,
    own,
)
from scenarios.systems.aldp.charts import STATED_ERROR, charts, tables

MEANINGFUL = 0.5
"""Accuracy of a model that one could use: five times what guessing gives."""
DOCUMENTED_EPSILONS = (5, 20)
LARGE_EPSILON = 300
TENFOLD = (5.0, 20.0)
ORDER = 10.0
"""The largest factor between two figures of the same order."""
INTEGER_GAIN = 100.0
_BUDGET_ROUNDING = 1.001

# -- noise -------------------------------------------------------------------------------------------------


def _kept(sweep: Sweep) -> dict[float, tuple[str, str]]:
    """By stated epsilon the exact and the linear-classic arm, where the latter spends no more than that."""
    return {
        sweep.factor(low, "epsilon"): (fine, low)
        for fine, low in sweep.pairs(EXACT, LINEAR)
        if sweep.number(low, "epsilon") <= sweep.factor(low, "epsilon")
    }


@about(_kept)
def exact_is_no_worse(sweep: Sweep, kept: Mapping[float, tuple[str, str]]) -> Verdict:
    """If linear-classic keeps its stated epsilon, exact calibration is at least as accurate."""
    gains = {epsilon: rise(sweep, low, fine) for epsilon, (fine, low) in kept.items()}
    numbers: Numbers = {f"gain in margins at epsilon {epsilon:g}": gain for epsilon, gain in gains.items()}
    return Verdict(min(gains.values()) >= -CLOSE, numbers)


@about(_kept)
def linear_wastes(sweep: Sweep, kept: Mapping[float, tuple[str, str]]) -> Verdict | None:
    """There it also has more noise than needed, over the same radius."""
    ratios = {
        epsilon: noise_multiplier(sweep, low) / noise_multiplier(sweep, fine)
        for epsilon, (fine, low) in kept.items()
    }
    if any(map(math.isnan, ratios.values())):
        return None
    numbers: Numbers = {f"times the noise at epsilon {epsilon:g}": ratio for epsilon, ratio in ratios.items()}
    return Verdict(min(ratios.values()) > 1, numbers)


def noise_multiplier(sweep: Sweep, arm: str) -> float:
    """Noise std of the last offers over twice their radius; NaN on real nodes, which do not report it."""
    return sweep.number(arm, "noise_std") / (2 * sweep.number(arm, "radius"))


@about(along("epsilon", LINEAR, least=2))
def linear_overspends(sweep: Sweep, stated: Mapping[str, float]) -> Verdict | None:
    """From some epsilon on it spends more than it states."""
    if max(stated.values()) < LARGE_EPSILON:
        return None
    proved = {arm: sweep.number(arm, "epsilon") for arm in stated}
    over = [proved[arm] > stated[arm] for arm in stated]
    numbers: Numbers = {f"proved at {stated[arm]:g}": proved[arm] for arm in stated}
    return Verdict(over == sorted(over) and over[-1], numbers)


@about(all_of(EXACT))
def exact_spends_its_budget(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """Exact calibration spends its stated epsilon, and no more."""
    shares = [sweep.number(arm, "epsilon") / sweep.factor(arm, "epsilon") for arm in arms]
    holds = 1 / _BUDGET_ROUNDING <= min(shares) <= max(shares) <= _BUDGET_ROUNDING
    return Verdict(holds, {"least share spent": min(shares), "largest": max(shares)})


def _documented(sweep: Sweep) -> dict[str, float]:
    """The arms with epsilons of the documented range."""
    low, high = DOCUMENTED_EPSILONS
    return {arm: at for arm, at in sweep.line("epsilon", EXACT).points.items() if low <= at <= high}


@about(_documented, NONE)
def documented_range_is_useful(sweep: Sweep, stated: Mapping[str, float], quiet: str) -> Verdict:
    """Epsilons of 5 to 20 give a model that one could use."""
    best = max(stated, key=sweep.mean)
    numbers: Numbers = {"best of them": sweep.mean(best), "at epsilon": stated[best]}
    numbers |= {"margin": sweep.margin(best), "at least": MEANINGFUL, "without noise": sweep.mean(quiet)}
    return Verdict(level(sweep, best).low >= MEANINGFUL, numbers)


# -- shares ------------------------------------------------------------------------------------------------


@about(along(SHARE_RANGE, FLOATS, least=2))
def error_grows_tenfold(sweep: Sweep, ranges: Mapping[str, float]) -> Verdict:
    """Every ten times the range of the shares gives ten times the error."""
    steps = {
        other: (sweep.mean(other) / sweep.mean(one)) ** (1 / math.log10(ranges[other] / ranges[one]))
        for one, other in pairwise(ranges)
    }
    low, high = TENFOLD
    numbers: Numbers = {f"{arm}, times the one before": step for arm, step in steps.items()}
    return Verdict(low <= min(steps.values()) <= max(steps.values()) <= high, numbers)


@about(along(SHARE_RANGE, FLOATS))
def error_is_of_stated_order(sweep: Sweep, ranges: Mapping[str, float]) -> Verdict:
    """The median error is within a factor of ten of maxShareValue * 10e-8."""
    ratios = [sweep.mean(arm) / (value * STATED_ERROR) for arm, value in ranges.items()]
    largest = [sweep.number(arm, "largest_error") / (value * STATED_ERROR) for arm, value in ranges.items()]
    numbers: Numbers = {"least median over stated": min(ratios), "largest median over stated": max(ratios)}
    numbers["largest single error over stated"] = max(largest)
    return Verdict(1 / ORDER <= min(ratios) <= max(ratios) <= ORDER, numbers)


@about(all_of(INTEGERS), {**FLOATS, SHARE_RANGE: 100})
def integers_are_exact(sweep: Sweep, integers: Sequence[str], default: str) -> Verdict:
    """Shares in fixed point are far more exact than floats with the default range."""
    worst = max(sweep.mean(arm) for arm in integers)
    numbers: Numbers = {"in fixed point": worst, "floats within 100": sweep.mean(default)}
    return Verdict(worst * INTEGER_GAIN <= sweep.mean(default), numbers)


CLAIMS = as_claims(
    {
        "Exact noise is no worse than linear-classic where that keeps its epsilon": exact_is_no_worse,
        "There linear-classic has more noise than its epsilon needs": identity(linear_wastes),
        "Exact noise is no worse at every stated epsilon, kept or not": no_worse(EXACT, LINEAR),
        "At large epsilons linear-classic spends more than it states": identity(linear_overspends),
        "Exact noise spends the epsilon that is stated": identity(exact_spends_its_budget),
        "Higher epsilons give better models": rises("epsilon", EXACT),
        "Epsilons from 5 to 20 give meaningful utility": documented_range_is_useful,
        "dp-sgd is better at the same epsilon, which is for one record there": apart(DP_SGD, EXACT),
        "A larger swarm is more accurate at the same epsilon": rises("peers", EXACT),
        "The adaptive radius is no worse than a fixed one, and better at a large cap": together(
            no_worse(EXACT, FIXED),
            apart({**EXACT, CAP: CAPS[-1]}, {**FIXED, CAP: CAPS[-1]}),
        ),
        "Ten times maxShareValue gives about ten times the error": error_grows_tenfold,
        "The error is of the order of maxShareValue * 10e-8": error_is_of_stated_order,
        "Shares in fixed point are a hundred times more exact": integers_are_exact,
    }
)


def headline(sweep: Sweep) -> str:
    """The main figures in one or two sentences."""
    quiet = sweep.first(NONE)
    parts = [f"{percent(sweep.mean(quiet))} without noise"] if quiet else []
    stated = sweep.line("epsilon", EXACT).points
    parts += [
        f"{percent(sweep.mean(arm))} at epsilon {at:g}" for arm, at in stated.items() if at in (20, 300, 3000)
    ]
    swarm = f"Local noise for whole data sets: test accuracy {', '.join(parts)}. " if parts else ""
    ranges = sweep.line(SHARE_RANGE, FLOATS).points
    errors = [f"{sweep.mean(arm):.1e} within {value:g}" for arm, value in ranges.items()]
    shares = f"Float shares err by {errors[0]}, {errors[-1]}." if len(errors) > 1 else ""
    return f"{swarm}{shares}".rstrip() or usual_headline(sweep)


STANDS_IN = {
    "images and tables of its own tasks, in browsers": "scikit-learn's digits, a perceptron 64-64-10, ten "
    "peers with unlike labels (Dirichlet 0.5)",
    "noise at every epoch": "20 rounds of two local epochs, one noised offer each",
    "noise as its text describes it": "arms exact-*: one radius and one noise for the whole update, "
    "calibrated exactly for all rounds",
    "noise as its code adds it": "arms linear-*: the budget split evenly over rounds, the classic formula, "
    "all of it for each tensor",
    "float shares between browsers": "the nodes' own arithmetic of shares, without a network",
    "the sum of updates": "their mean, as its code takes it",
}

STUDY = Study(
    **SCENARIOS["aldp"].listed,
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
    charts=charts,
    tables=tables,
)
ALDP = scenario_of(STUDY)
