"""Scenario `nbafl`: what noise before aggregation costs, by FederatedScope's code and by the paper.

NbAFL is Wei et al. 2020 (IEEE TIFS 15; arXiv 1911.00222). FederatedScope's page on differential privacy has a
table of nine cells of (epsilon, delta) on FEMNIST. Its code depends on c / epsilon alone, and bounds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.comparison import CLOSE, largest_rise, rise
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.systems.nbafl import charts
from scenarios.systems.nbafl.arms import (
    ARMS,
    CELLS,
    DIGITS,
    KINDS,
    MNIST_EPSILON,
    NO_NOISE,
    TEST,
    TEST_SILENT,
    WRITERS,
    by_clients,
    by_epsilon,
    by_ratio,
    by_rounds,
    mnist_arm,
    own,
    proved_by_steps,
    stated_in,
    table_arm,
)

SAME_NOISE = ((50.0, 1.0), (100.0, 2.0))
"""Two cells of the table, (epsilon, c), with one c / epsilon."""
DOWNLOAD = "download noise std"

Numbers = dict[str, float | int | str | None]
Judge = Callable[[Sweep], Verdict | None]


# -- the table ---------------------------------------------------------------------------------------------


def falls_with_ratio(sweep: Sweep, kind: str) -> Verdict | None:
    """Each cell is no better than the one before it in c / epsilon, and the last is worse than the first."""
    return _falls(sweep, by_ratio(sweep, kind), "c / epsilon")


def same_noise_same_accuracy(sweep: Sweep) -> Verdict | None:
    """The two cells agree in both ways."""
    pairs = {kind: [table_arm(kind, *cell) for cell in SAME_NOISE] for kind in KINDS}
    there = {kind: pair for kind, pair in pairs.items() if sweep.has(*pair)}
    if not there:
        return None
    gaps = {kind: abs(rise(sweep, *pair)) for kind, pair in there.items()}
    apart: Numbers = {f"{KINDS[kind]}, apart in margins": gap for kind, gap in gaps.items()}
    figures: Numbers = {arm: sweep.mean(arm) for pair in there.values() for arm in pair}
    return Verdict(max(gaps.values()) <= CLOSE, {**apart, **figures})


def download_noise_fires_in_the_test_only(sweep: Sweep) -> Verdict | None:
    """The download is noised in FederatedScope's own test, and in no cell of its table."""
    cells = list(by_ratio(sweep, "federatedscope"))
    if not cells or not sweep.has(TEST):
        return None
    most = max(sweep.number(arm, DOWNLOAD) for arm in cells)
    fired = sweep.number(TEST, DOWNLOAD)
    numbers: Numbers = {f"{DOWNLOAD}, its test": fired, "the table's cells, at most": most}
    if sweep.has(TEST_SILENT):
        numbers["its test, sizes not joined"] = sweep.number(TEST_SILENT, DOWNLOAD)
    return Verdict(fired > 0 == most, numbers)


def no_stated_epsilon_is_proved(sweep: Sweep) -> Verdict | None:
    """What is proved is above what is stated, in each arm; FederatedScope's class itself proves nothing.

    Its training does, where gradients are clipped. Nothing here refutes a stated epsilon.
    """
    theirs = [arm for arm in (*by_ratio(sweep, "federatedscope"), TEST, TEST_SILENT) if sweep.has(arm)]
    papers = _papers(sweep)
    if not theirs or not papers:
        return None
    least = min(papers, key=lambda arm: sweep.number(arm, "epsilon") / sweep.number(arm, "stated"))
    given = sum(sweep.fact(arm, "epsilon") is not None for arm in theirs)
    above = sum(sweep.number(arm, "epsilon") > sweep.number(arm, "stated") for arm in papers)
    counts: Numbers = {"FederatedScope's arms": len(theirs), "of them with an epsilon": given}
    counts |= {"the paper's arms": len(papers), "of them above what they state": above}
    closest: Numbers = {"closest": least, "stated": sweep.number(least, "stated")}
    proved: Numbers = {"proved": sweep.number(least, "epsilon")}
    steps = {arm: proved_by_steps(sweep, arm) for arm in by_ratio(sweep, "federatedscope")}
    by_steps = {arm: epsilon for arm, epsilon in steps.items() if epsilon is not None}
    shown: Numbers = {f"{arm}, by its clipped steps": epsilon for arm, epsilon in by_steps.items()}
    exceed = all(epsilon > stated_in(sweep, arm) for arm, epsilon in by_steps.items())
    return Verdict(given == 0 and exceed and above == len(papers), {**counts, **closest, **proved, **shown})


def _papers(sweep: Sweep) -> list[str]:
    varied = (*by_epsilon(sweep), *by_clients(sweep, MNIST_EPSILON), *by_rounds(sweep))
    return list(dict.fromkeys((*by_ratio(sweep, "paper"), *varied)))


# -- the paper's three findings ----------------------------------------------------------------------------


def falls_with_privacy(sweep: Sweep) -> Verdict | None:
    """The smaller epsilon, the worse."""
    arms = by_epsilon(sweep)
    return _falls(sweep, dict(reversed(arms.items())), "epsilon")


def gains_with_clients(sweep: Sweep) -> Verdict | None:
    """At one epsilon more clients are better; the numbers show their gain without noise, too."""
    noised, quiet = by_clients(sweep, MNIST_EPSILON), by_clients(sweep, None)
    if len(noised) < 2:
        return None
    arms = list(noised)
    worst, gain = largest_rise(sweep, arms[::-1]), rise(sweep, arms[0], arms[-1])
    figures: Numbers = {f"{number:g} clients": sweep.mean(arm) for arm, number in noised.items()}
    figures |= {f"{number:g} clients, no noise": sweep.mean(arm) for arm, number in quiet.items()}
    return Verdict(
        worst <= CLOSE < gain,
        {**figures, "largest fall in margins": worst, "gain from first to last in margins": gain},
    )


def best_rounds_are_inside(sweep: Sweep) -> Verdict | None:
    """At one epsilon neither the fewest nor the most rounds are the best: both are clearly below."""
    arms = by_rounds(sweep)
    if len(arms) < 3:
        return None
    first, *_, last = arms
    best = max(arms, key=sweep.mean)
    below = min(rise(sweep, first, best), rise(sweep, last, best))
    figures: Numbers = {f"{rounds:g} rounds": sweep.mean(arm) for arm, rounds in arms.items()}
    return Verdict(below > CLOSE, {**figures, "best": arms[best], "ends below it by margins": below})


def _falls(sweep: Sweep, arms: Mapping[str, float], name: str) -> Verdict | None:
    """Whether no arm is better than the one before it, and the last is worse than the first."""
    if len(arms) < 2:
        return None
    first, *_, last = arms
    worst, fall = largest_rise(sweep, list(arms)), rise(sweep, last, first)
    ends: Numbers = {f"{name} = {arms[arm]:g}": sweep.mean(arm) for arm in (first, last)}
    steps: Numbers = {"largest rise in margins": worst, "fall from first to last in margins": fall}
    return Verdict(worst <= CLOSE < fall, {**steps, **ends})


CLAIMS = (
    *(
        Claim(f"Accuracy falls in c / epsilon, as {name} has it (neighbours within a margin)",
              partial(falls_with_ratio, kind=kind))
        for kind, name in KINDS.items()
    ),
    Claim("Cells (50, c = 1) and (100, c = 2), whose noise is one, agree (within a margin)",
          same_noise_same_accuracy),
    Claim("Download noise fires in FederatedScope's test, and in no cell of its table",
          download_noise_fires_in_the_test_only, "identity"),
    Claim("No stated epsilon is proved: what holds by the paper's clip, and by FederatedScope's clipped "
          "gradients, is larger", no_stated_epsilon_is_proved, "identity"),
    Claim("MNIST: the smaller epsilon, the less accurate (neighbours within a margin)", falls_with_privacy),
    Claim("MNIST: at one epsilon more clients are more accurate (neighbours within a margin)",
          gains_with_clients),
    Claim("MNIST: at one epsilon there is a best number of rounds, neither few nor many",
          best_rounds_are_inside),
)  # fmt: skip


def headline(sweep: Sweep) -> str:
    """The main figures in a sentence or two."""
    said = [_table_in_words(sweep, kind) for kind in KINDS if len(by_ratio(sweep, kind)) > 1]
    if said and sweep.has(NO_NOISE):
        said.append(f"Without noise it is {sweep.mean(NO_NOISE):.1%}.")
    noised = mnist_arm(MNIST_EPSILON)
    if sweep.has(noised):
        stated, true = sweep.number(noised, "stated"), sweep.number(noised, "epsilon")
        said.append(f"On MNIST the paper's noise at a stated {stated:g} proves {true:.2g}.")
    return " ".join(said) or f"{len(sweep.outcomes)} arms, {len(sweep.seeds)} seeds each."


def _table_in_words(sweep: Sweep, kind: str) -> str:
    first, *_, last = (arms := by_ratio(sweep, kind))
    fall = f"{sweep.mean(first):.1%} at c / epsilon {arms[first]:g} to {sweep.mean(last):.1%}"
    return f"As {KINDS[kind]} has it, accuracy falls from {fall} at {arms[last]:g}."


ENTRY = SCENARIOS["nbafl"]
STUDY = Study(
    name=ENTRY.name,
    source=ENTRY.source,
    summary=ENTRY.summary,
    stands_in=(
        ("FEMNIST, 62 classes", "its ten digits"),
        ("about 200 writers of about 200 images", "12 writers cut into 120 clients of about 40 images"),
        ("300 rounds, 20 % of the clients in each", "60 rounds, 20 %: rounds over rows are as there"),
        ("convnet2: two convolutions, batch norm, 2048 units", "one convolution, 23,466 parameters"),
        ("learning rate 0.01", "0.015, so that it learns within 60 rounds"),
        ("the paper: 50 clients with parts of MNIST", "50 clients of 200 images"),
        ("the paper: rate 0.002, batches unknown here", "0.002, batches of 10, one epoch, momentum 0.9"),
    ),
    data_sets=(WRITERS, DIGITS),
    arms=ARMS,
    seeds=4,
    quick=Quick(
        seeds=2,
        rounds=None,
        arms=(NO_NOISE, TEST, *(table_arm(kind, *cell) for kind in KINDS for cell in (CELLS[0], CELLS[-1]))),
    ),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts.charts,
    tables=charts.tables,
)
NBAFL = scenario_of(STUDY)
