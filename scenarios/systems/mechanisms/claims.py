"""Scenario `mechanisms`: every mechanism on one axis of stated epsilon, with a server and without.

One data set, one model, ten parties. What is stated and what is proved stand side by side, and what each
protects, and from whom, stands in a table under the plot.
"""

from __future__ import annotations

from collections.abc import Sequence

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.comparison import CLOSE, difference, largest_rise, level, rise
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.swarms.progress import percent
from scenarios.systems.mechanisms import charts
from scenarios.systems.mechanisms.arms import (
    ARMS,
    DP_FEDAVG,
    DP_SGD,
    FEDERATEDSCOPE,
    LABEL_DP,
    LDP,
    LINEAR,
    LINES,
    NBAFL,
    ROW_NOISE,
    RPFL,
    SECURE_SUM,
    SERVER_ONLY,
    at,
    by_proved,
    by_stated,
    keeps,
    keeps_given_radius,
    own,
)
from scenarios.systems.mechanisms.charts import TOLD_AT
from scenarios.systems.mechanisms.kinds import DATA_SET, lines_of

RECORDS_GAIN_AT_LEAST_POINTS = 50.0
LABEL_EPSILON, LABEL_COSTS_AT_MOST_POINTS = 3, 5.0
MEANINGFUL = 0.5
"""Accuracy of a model that one could use: five times what guessing gives."""
SERVER_HELPS = (10, 30, 100, 300)
"""Stated epsilons in a range from noise that drowns everything to noise that costs nothing."""
LARGE_EPSILON = 300

Numbers = dict[str, float | int | str | None]


# -- stated and proved ---------------------------------------------------------------------------------------


def exact_is_proved(sweep: Sweep) -> Verdict | None:
    """Every mechanism that is meant to be exact spends no more than it states."""
    arms = {arm: stated for line in LINES if line.exact for arm, stated in by_stated(sweep, line).items()}
    if not arms:
        return None
    shares = {arm: sweep.number(arm, "epsilon") / stated for arm, stated in arms.items()}
    numbers: Numbers = {"arms": len(arms), "largest proved / stated": max(shares.values())}
    return Verdict(all(keeps(sweep, arm) for arm in arms), {**numbers, "least": min(shares.values())})


def formulas_overspend(sweep: Sweep) -> Verdict | None:
    """NbAFL's paper and RPFL's theorem spend more than they state, always; FederatedScope has none."""
    lines = [line for line in (NBAFL, RPFL, FEDERATEDSCOPE) if by_stated(sweep, line)]
    if not lines:
        return None
    numbers: Numbers = {}
    for line in lines:
        proved, stated = by_proved(sweep, line), by_stated(sweep, line)
        factors = [proved[arm] / stated[arm] for arm in proved]
        numbers[f"{line.name}, least proved / stated"] = min(factors) if factors else "none is proved"
    kept = [arm for line in lines for arm in by_stated(sweep, line) if keeps(sweep, arm)]
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


def rises_with_epsilon(sweep: Sweep) -> Verdict | None:
    """Of every exact mechanism no epsilon is worse than the one before it, and the last beats the first."""
    lines = {line: list(arms) for line in LINES if line.exact and len(arms := by_stated(sweep, line)) > 1}
    if not lines:
        return None
    falls = {line.name: largest_rise(sweep, arms[::-1]) for line, arms in lines.items()}
    gains = [rise(sweep, arms[0], arms[-1]) for arms in lines.values()]
    numbers: Numbers = {f"{name}, largest fall in margins": fall for name, fall in falls.items()}
    numbers["least gain from first to last in margins"] = min(gains)
    return Verdict(max(falls.values()) <= CLOSE < min(gains), numbers)


def secure_sum_is_free(sweep: Sweep) -> Verdict | None:
    """Without noise a secure sum among peers is as accurate as averaging by a server."""
    if not sweep.has(SECURE_SUM, SERVER_ONLY):
        return None
    apart = rise(sweep, SERVER_ONLY, SECURE_SUM)
    numbers: Numbers = {"secure sum": sweep.mean(SECURE_SUM), "fedavg": sweep.mean(SERVER_ONLY)}
    return Verdict(abs(apart) <= CLOSE, {**numbers, "apart in margins": apart})


def records_cost_less(sweep: Sweep) -> Verdict | None:
    """At one stated epsilon privacy for a record leaves far more than privacy for a whole data set."""
    record, data_set = at(sweep, DP_SGD, TOLD_AT), at(sweep, LDP, TOLD_AT)
    if record is None or data_set is None:
        return None
    gain = difference(sweep, data_set, record)
    numbers: Numbers = {"dp-sgd": sweep.mean(record), "ldp": sweep.mean(data_set), "points": 100 * gain.mean}
    numbers |= {"margin": 100 * gain.margin, "at least": RECORDS_GAIN_AT_LEAST_POINTS}
    return Verdict(100 * gain.low >= RECORDS_GAIN_AT_LEAST_POINTS, numbers)


def labels_cost_little(sweep: Sweep) -> Verdict | None:
    """Noisy labels at a small epsilon are close to no noise."""
    arm = at(sweep, LABEL_DP, LABEL_EPSILON)
    if arm is None or not sweep.has(SERVER_ONLY):
        return None
    cost = difference(sweep, arm, SERVER_ONLY)
    numbers: Numbers = {"label-dp": sweep.mean(arm), "no noise": sweep.mean(SERVER_ONLY)}
    numbers |= {"points lost": 100 * cost.mean, "margin": 100 * cost.margin}
    numbers["at most"] = LABEL_COSTS_AT_MOST_POINTS
    return Verdict(100 * cost.high <= LABEL_COSTS_AT_MOST_POINTS, numbers)


def training_beats_rows(sweep: Sweep) -> Verdict | None:
    """At each stated epsilon noise in training (dp-sgd) is more accurate than noise on the rows."""
    pairs = [
        (row, arm)
        for arm, stated in by_stated(sweep, DP_SGD).items()
        if (row := at(sweep, ROW_NOISE, stated)) is not None
    ]
    return _each_gains(sweep, pairs)


def a_trusted_server_helps(sweep: Sweep) -> Verdict | None:
    """For whole data sets one noise by a trusted server leaves more than noise by each peer."""
    pairs = [(at(sweep, LDP, epsilon), at(sweep, DP_FEDAVG, epsilon)) for epsilon in SERVER_HELPS]
    return _each_gains(sweep, [(one, other) for one, other in pairs if one is not None and other is not None])


def _each_gains(sweep: Sweep, pairs: Sequence[tuple[str, str]]) -> Verdict | None:
    """The second arm of each pair is above the first, by more than chance; None without a pair."""
    if not pairs:
        return None
    gains = {other: rise(sweep, one, other) for one, other in pairs}
    numbers: Numbers = {f"{arm}, gain in margins": gain for arm, gain in gains.items()}
    return Verdict(min(gains.values()) > CLOSE, numbers)


def few_parties_hide_no_data_set(sweep: Sweep) -> Verdict | None:
    """At a proved epsilon of at most `TOLD_AT` no mechanism for whole data sets gives a useful model."""
    proved = {arm: spent for line in lines_of(DATA_SET) for arm, spent in by_proved(sweep, line).items()}
    arms = [arm for arm, spent in proved.items() if spent <= TOLD_AT * (1 + 1e-6)]
    if not arms:
        return None
    best = max(arms, key=lambda arm: level(sweep, arm).high)
    numbers: Numbers = {"arms": len(arms), "best of them": best, "its accuracy": sweep.mean(best)}
    numbers |= {"margin": sweep.margin(best), "below": MEANINGFUL}
    return Verdict(level(sweep, best).high < MEANINGFUL, numbers)


CLAIMS = (
    Claim("What exact mechanisms state is proved: none spends more", exact_is_proved, "identity"),
    Claim("What NbAFL and RPFL (its open constants as below) state is proved at no epsilon",
          formulas_overspend, "identity"),
    Claim("linear-classic keeps small epsilons and overspends large ones, given its radii", linear_turns,
          "identity"),
    Claim("Secure aggregation costs no accuracy: as FedAvg, within a margin", secure_sum_is_free),
    Claim("The larger epsilon, the better, for every exact mechanism (neighbours within a margin)",
          rises_with_epsilon),
    Claim(f"At a stated {TOLD_AT}, dp-sgd (one record) is {RECORDS_GAIN_AT_LEAST_POINTS:g} points above ldp "
          "(whole data sets)", records_cost_less),
    Claim(f"label-dp at {LABEL_EPSILON} is within {LABEL_COSTS_AT_MOST_POINTS:g} points of no noise",
          labels_cost_little),
    Claim("For one record, noise in training beats noise on rows (by more than a margin)",
          training_beats_rows),
    Claim("For whole data sets, a trusted server's noise beats each peer's own (by more than a margin)",
          a_trusted_server_helps),
    Claim(f"With ten parties, nothing hides a whole data set at a proved {TOLD_AT} and reaches 50 %",
          few_parties_hide_no_data_set),
)  # fmt: skip


def headline(sweep: Sweep) -> str:
    """The same stated epsilon in four meanings, in a sentence."""
    lines = {LABEL_DP: "one label", DP_SGD: "one record",
             DP_FEDAVG: "a whole data set with a trusted server", LDP: "one without trust"}  # fmt: skip
    told = [
        f"{percent(sweep.mean(arm))} for {meaning}"
        for line, meaning in lines.items()
        if (arm := at(sweep, line, TOLD_AT)) is not None
    ]
    quiet = f"{percent(sweep.mean(SERVER_ONLY))} without noise. " if sweep.has(SERVER_ONLY) else ""
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
    charts=charts.charts,
    tables=charts.tables,
)
MECHANISMS = scenario_of(STUDY)
