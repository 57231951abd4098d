"""Scenario `mechanisms`: every mechanism on one axis of stated epsilon, with a server and without.

One data set, one model, ten parties. What is stated and what is proved stand side by side, and what each
protects, and from whom, stands in a table under the plot.
"""

from __future__ import annotations

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.bounds import ahead
from scenarios.study.comparison import level
from scenarios.study.makers import Numbers, alike, apart, rises
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.swarms.progress import percent
from scenarios.systems.mechanisms.arms import (
    ARMS,
    DP_FEDAVG,
    DP_SGD,
    EXACT,
    FEDERATEDSCOPE,
    LABEL_DP,
    LDP,
    LINEAR,
    NBAFL,
    ROUNDING,
    ROW_NOISE,
    RPFL,
    SECURE_SUM,
    SERVER_ONLY,
    by_proved,
    by_stated,
    keeps,
    keeps_given_radius,
    of,
    own,
)
from scenarios.systems.mechanisms.charts import TOLD_AT, charts, tables
from scenarios.systems.mechanisms.kinds import DATA_SET, lines_of

RECORDS_GAIN_AT_LEAST_POINTS = 50.0
LABEL_EPSILON, LABEL_COSTS_AT_MOST_POINTS = 3, 5.0
MEANINGFUL = 0.5
"""Accuracy of a model that one could use: five times what guessing gives."""
SERVER_HELPS = (10, 30, 100, 300)
"""Stated epsilons in a range from noise that drowns everything to noise that costs nothing."""
LARGE_EPSILON = 300


# -- stated and proved ---------------------------------------------------------------------------------------


def exact_is_proved(sweep: Sweep) -> Verdict | None:
    """Every mechanism that is meant to be exact spends no more than it states."""
    arms = sweep.select({"mechanism": EXACT})
    if not arms:
        return None
    shares = [sweep.number(arm, "epsilon") / sweep.factor(arm, "epsilon") for arm in arms]
    numbers: Numbers = {"arms": len(arms), "largest proved / stated": max(shares), "least": min(shares)}
    return Verdict(all(keeps(sweep, arm) for arm in arms), numbers)


def formulas_overspend(sweep: Sweep) -> Verdict | None:
    """NbAFL's paper and RPFL's theorem spend more than they state, always; FederatedScope has none."""
    there = {name: arms for name in (NBAFL, RPFL, FEDERATEDSCOPE) if (arms := by_stated(sweep, name))}
    if not there:
        return None
    numbers: Numbers = {}
    for name, stated in there.items():
        factors = [spent / stated[arm] for arm, spent in by_proved(sweep, name).items()]
        numbers[f"{name}, least proved / stated"] = min(factors) if factors else "none is proved"
    kept = [arm for arms in there.values() for arm in arms if keeps(sweep, arm)]
    return Verdict(not kept, {**numbers, "arms that keep what they state": len(kept)})


def linear_turns(sweep: Sweep) -> Verdict | None:
    """Given its radii, linear-classic keeps small epsilons, and from some one on overspends."""
    arms = by_stated(sweep, LINEAR)
    if len(arms) < 2 or max(arms.values()) < LARGE_EPSILON:
        return None
    over = [not keeps_given_radius(sweep, arm) for arm in arms]
    numbers: Numbers = {
        f"stated {stated:g}, given the radii": sweep.number(arm, "epsilon") for arm, stated in arms.items()
    }
    return Verdict(over == sorted(over) and over[-1] and not over[0], numbers)


# -- what it costs -----------------------------------------------------------------------------------------


def few_parties_hide_no_data_set(sweep: Sweep) -> Verdict | None:
    """At a proved epsilon of at most `TOLD_AT` no mechanism for whole data sets gives a useful model."""
    proved = [point for name in lines_of(DATA_SET) for point in by_proved(sweep, name).items()]
    arms = [arm for arm, spent in proved if spent <= TOLD_AT * ROUNDING]
    if not arms:
        return None
    best = max(arms, key=lambda arm: level(sweep, arm).high)
    numbers: Numbers = {"arms": len(arms), "best of them": best, "its accuracy": sweep.mean(best)}
    numbers |= {"margin": sweep.margin(best), "below": MEANINGFUL}
    return Verdict(level(sweep, best).high < MEANINGFUL, numbers)


CLAIMS = (
    Claim("What exact mechanisms state is proved: none spends more", exact_is_proved, "identity"),
    Claim(
        "What NbAFL and RPFL (its open constants as below) state is proved at no epsilon",
        *(formulas_overspend, "identity"),
    ),
    Claim(
        "linear-classic keeps small epsilons and overspends large ones, given its radii",
        *(linear_turns, "identity"),
    ),
    alike(
        *(of(SECURE_SUM), of(SERVER_ONLY)),
        name="Secure aggregation costs no accuracy: as FedAvg, within a margin",
    ),
    rises(
        *("epsilon", {"mechanism": EXACT}),
        name="The larger epsilon, the better, for every exact mechanism (neighbours within a margin)",
    ),
    ahead(
        *(RECORDS_GAIN_AT_LEAST_POINTS / 100, of(DP_SGD, TOLD_AT), of(LDP, TOLD_AT)),
        name=f"At a stated {TOLD_AT}, dp-sgd (one record) is {RECORDS_GAIN_AT_LEAST_POINTS:g} points above "
        "ldp (whole data sets)",
    ),
    ahead(
        *(-LABEL_COSTS_AT_MOST_POINTS / 100, of(LABEL_DP, LABEL_EPSILON), of(SERVER_ONLY)),
        name=f"label-dp at {LABEL_EPSILON} is within {LABEL_COSTS_AT_MOST_POINTS:g} points of no noise",
    ),
    apart(
        *(of(DP_SGD), of(ROW_NOISE)),
        name="For one record, noise in training beats noise on rows (by more than a margin)",
    ),
    apart(
        *({**of(DP_FEDAVG), "epsilon": SERVER_HELPS}, {**of(LDP), "epsilon": SERVER_HELPS}),
        name="For whole data sets, a trusted server's noise beats each peer's own (by more than a margin)",
    ),
    Claim(
        f"With ten parties, nothing hides a whole data set at a proved {TOLD_AT} and reaches 50 %",
        few_parties_hide_no_data_set,
    ),
)


def headline(sweep: Sweep) -> str:
    """The same stated epsilon in four meanings, in a sentence."""
    meanings = {
        LABEL_DP: "one label",
        DP_SGD: "one record",
        DP_FEDAVG: "a whole data set with a trusted server",
        LDP: "one without trust",
    }
    told = [
        f"{percent(sweep.mean(arm))} for {meaning}"
        for name, meaning in meanings.items()
        if (arm := sweep.first(of(name, TOLD_AT)))
    ]
    free = sweep.first(of(SERVER_ONLY))
    quiet = f"{percent(sweep.mean(free))} without noise. " if free else ""
    said = f"At a stated epsilon of {TOLD_AT}: {', '.join(told)}." if told else ""
    return f"{quiet}{said}".strip() or f"{len(sweep.outcomes)} arms, {len(sweep.seeds)} seeds each."


STANDS_IN = (
    ("each system's own data and models", "scikit-learn's digits, a perceptron 64-64-10, for all of them"),
    (
        "each system's own clients",
        (
            "ten parties with unlike labels (Dirichlet 0.5), all in every round; peers and clients of a "
            "server have the same test rows and initial models, and parts of one kind, each by its own draw"
        ),
    ),
    (
        "each system's own training",
        (
            "20 rounds of two local epochs, batches of 16, rate 0.1, momentum 0.9; row-noise and rpfl with "
            "gradients clipped to 1, without which noise on rows drives weights out of the finite numbers"
        ),
    ),
    ("each system's own delta", "1e-5 everywhere; NbAFL's c = 4.84 by its formula; label-dp has delta 0"),
    ("clip radii", "1 for updates and gradients of rows; NbAFL's C 10, FederatedScope's w_clip 0.5, no clip"),
    ("averages", "by rows at a server (as FedAvg has it), of all alike among peers and in dp-fedavg"),
    ("DP-FedAvg's sampling", "q = 1: ten users are too few to hide among; z by the accountant for epsilon"),
    ("NbAFL's exposures", "L = 1, and the download's noise as K = N = 10 asks for it; no proximal term"),
    ("FederatedScope's download", "as its command runs it: sizes are not joined, so it only clips"),
    (
        "RPFL's constants, which its document leaves open",
        (
            "c = 1, G = 1, T = 10, mu = 0.01, epsilon dealt alike, no regulariser (line 19 as printed), rows "
            "of an L2 norm of at most 5, which all digits have"
        ),
    ),
    ("embedding DP", "not drawn: it is for embeddings of a vertical split, where parties share rows"),
)

ENTRY = SCENARIOS["mechanisms"]
STUDY = Study(
    name=ENTRY.name,
    source=ENTRY.source,
    summary=ENTRY.summary,
    stands_in=STANDS_IN,
    data_sets=("digits",),
    arms=ARMS,
    seeds=5,
    quick=Quick(
        seeds=2,
        rounds=10,
        arms=(
            SECURE_SUM,
            SERVER_ONLY,
            "*-10",
            "ldp-300",
            "dp-fedavg-100",
            "label-dp-1",
            "label-dp-3",
            "row-noise-300",
        ),
    ),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts,
    tables=tables,
)
MECHANISMS = scenario_of(STUDY)
