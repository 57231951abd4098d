"""Scenario `mechanisms`: every mechanism on one axis of stated epsilon, with a server and without.

One data set, one model, ten parties. What is stated and what is proved stand side by side, and what each
protects, and from whom, stands in a table under the plot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.about import about, all_of, along, as_claims
from scenarios.study.bounds import ahead
from scenarios.study.comparison import level
from scenarios.study.makers import Numbers, alike, apart, identity, rises
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.swarms.progress import percent
from scenarios.systems.mechanisms.arms import (
    ARMS,
    EXACT,
    ROUNDING,
    by_proved,
    by_stated,
    keeps,
    keeps_given_radius,
    of,
    own,
)
from scenarios.systems.mechanisms.charts import TOLD_AT, charts, tables
from scenarios.systems.mechanisms.kinds import DATA_SET, lines_of

GAINED = 0.5
"""The accuracy that the protection of one record only gains, at least."""
LABEL_EPSILON, LABEL_COST = 3, 0.05
FORMULAS = ("nbafl", "rpfl", "nbafl-federatedscope")
"""The mechanisms whose stated epsilon is that of a formula, and not proved."""
MEANINGFUL = 0.5
"""Accuracy of a model that one could use: five times what guessing gives."""
SERVER_HELPS = (10, 30, 100, 300)
"""Stated epsilons in a range from noise that drowns everything to noise that costs nothing."""
LARGE_EPSILON = 300


# -- stated and proved ---------------------------------------------------------------------------------------


@about(all_of({"mechanism": EXACT}))
def exact_is_proved(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """Every mechanism that is meant to be exact spends no more than it states."""
    shares = [sweep.number(arm, "epsilon") / sweep.factor(arm, "epsilon") for arm in arms]
    numbers: Numbers = {"arms": len(arms), "largest proved / stated": max(shares), "least": min(shares)}
    return Verdict(all(keeps(sweep, arm) for arm in arms), numbers)


@about(all_of({"mechanism": FORMULAS}))
def formulas_overspend(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """NbAFL's paper and RPFL's theorem spend more than they state, always; FederatedScope has none."""
    numbers: Numbers = {}
    for name in FORMULAS:
        asked = by_stated(sweep, name)
        factors = [spent / asked[arm] for arm, spent in by_proved(sweep, name).items()]
        if asked:
            numbers[f"{name}, least proved / stated"] = min(factors) if factors else "none is proved"
    kept = [arm for arm in arms if keeps(sweep, arm)]
    return Verdict(not kept, {**numbers, "arms that keep what they state": len(kept)})


@about(along("epsilon", of("aldp-linear"), least=2))
def linear_turns(sweep: Sweep, arms: Mapping[str, float]) -> Verdict | None:
    """Given its radii it keeps small epsilons, and from some one on overspends."""
    if max(arms.values()) < LARGE_EPSILON:
        return None
    over = [not keeps_given_radius(sweep, arm) for arm in arms]
    numbers: Numbers = {
        f"stated {stated:g}, given the radii": sweep.number(arm, "epsilon") for arm, stated in arms.items()
    }
    return Verdict(over == sorted(over) and over[-1] and not over[0], numbers)


# -- what it costs -----------------------------------------------------------------------------------------


def _hiding_data_sets(sweep: Sweep) -> list[str]:
    """The arms with a proved epsilon of at most `TOLD_AT` for whole data sets."""
    proved = [point for name in lines_of(DATA_SET) for point in by_proved(sweep, name).items()]
    return [arm for arm, spent in proved if spent <= TOLD_AT * ROUNDING]


@about(_hiding_data_sets)
def few_parties_hide_no_data_set(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """None of these gives a useful model."""
    best = max(arms, key=lambda arm: level(sweep, arm).high)
    numbers: Numbers = {"arms": len(arms), "best of them": best, "its accuracy": sweep.mean(best)}
    numbers |= {"margin": sweep.margin(best), "below": MEANINGFUL}
    return Verdict(level(sweep, best).high < MEANINGFUL, numbers)


CLAIMS = as_claims(
    {
        "What exact mechanisms state is proved: none spends more": identity(exact_is_proved),
        "What NbAFL and RPFL (its open constants as below) state is proved at no epsilon": identity(
            formulas_overspend
        ),
        "linear-classic keeps small epsilons and overspends large ones, given its radii": identity(
            linear_turns
        ),
        "Secure aggregation costs no accuracy: as FedAvg, within a margin": alike(
            of("secure-sum"), of("fedavg")
        ),
        "The larger epsilon, the better, for every exact mechanism (neighbours within a margin)": rises(
            "epsilon", {"mechanism": EXACT}
        ),
        f"At a stated {TOLD_AT}, dp-sgd (one record) is {100 * GAINED:g} points above ldp (whole data "
        "sets)": ahead(GAINED, of("dp-sgd", TOLD_AT), of("ldp", TOLD_AT)),
        f"label-dp at {LABEL_EPSILON} is within {100 * LABEL_COST:g} points of no noise": ahead(
            -LABEL_COST, of("label-dp", LABEL_EPSILON), of("fedavg")
        ),
        "For one record, noise in training beats noise on rows (by more than a margin)": apart(
            of("dp-sgd"), of("row-noise")
        ),
        "For whole data sets, a trusted server's noise beats each peer's own (by more than a margin)": apart(
            {**of("dp-fedavg"), "epsilon": SERVER_HELPS}, {**of("ldp"), "epsilon": SERVER_HELPS}
        ),
        f"With ten parties, nothing hides a whole data set at a proved {TOLD_AT} and reaches "
        "50 %": few_parties_hide_no_data_set,
    }
)


def headline(sweep: Sweep) -> str:
    """The same stated epsilon in four meanings, in a sentence."""
    meanings = {
        "label-dp": "one label",
        "dp-sgd": "one record",
        "dp-fedavg": "a whole data set with a trusted server",
        "ldp": "one without trust",
    }
    told = [
        f"{percent(sweep.mean(arm))} for {meaning}"
        for name, meaning in meanings.items()
        if (arm := sweep.first(of(name, TOLD_AT)))
    ]
    free = sweep.first(of("fedavg"))
    quiet = f"{percent(sweep.mean(free))} without noise. " if free else ""
    said = f"At a stated epsilon of {TOLD_AT}: {', '.join(told)}." if told else ""
    return f"{quiet}{said}".strip() or f"{len(sweep.outcomes)} arms, {len(sweep.seeds)} seeds each."


STANDS_IN = {
    "each system's own data and models": "scikit-learn's digits, a perceptron 64-64-10, for all of them",
    "each system's own clients": "ten parties with unlike labels (Dirichlet 0.5), all in every round; peers "
    "and clients of a server have the same test rows and initial models, and parts of one kind, each by its "
    "own draw",
    "each system's own training": "20 rounds of two local epochs, batches of 16, rate 0.1, momentum 0.9; "
    "row-noise and rpfl with gradients clipped to 1, without which noise on rows drives weights out of the "
    "finite numbers",
    "each system's own delta": "1e-5 everywhere; NbAFL's c = 4.84 by its formula; label-dp has delta 0",
    "clip radii": "1 for updates and gradients of rows; NbAFL's C 10, FederatedScope's w_clip 0.5, no clip",
    "averages": "by rows at a server (as FedAvg has it), of all alike among peers and in dp-fedavg",
    "DP-FedAvg's sampling": "q = 1: ten users are too few to hide among; z by the accountant for epsilon",
    "NbAFL's exposures": "L = 1, and the download's noise as K = N = 10 asks for it; no proximal term",
    "FederatedScope's download": "as its command runs it: sizes are not joined, so it only clips",
    "RPFL's constants, which its document leaves open": "c = 1, G = 1, T = 10, mu = 0.01, epsilon dealt "
    "alike, no regulariser (line 19 as printed), rows of an L2 norm of at most 5, which all digits have",
    "embedding DP": "not drawn: it is for embeddings of a vertical split, where parties share rows",
}

STUDY = Study(
    **SCENARIOS["mechanisms"].listed,
    stands_in=STANDS_IN,
    data_sets=("digits",),
    arms=ARMS,
    seeds=5,
    quick=Quick(
        seeds=2,
        rounds=10,
        arms=(
            *("secure-sum", "fedavg", "*-10"),
            *("ldp-300", "dp-fedavg-100", "label-dp-1", "label-dp-3", "row-noise-300"),
        ),
    ),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts,
    tables=tables,
)
MECHANISMS = scenario_of(STUDY)
