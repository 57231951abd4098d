"""Scenario `rpfl`: robust and private federated learning under attack, beside what it is compared with.

The document is "Distributionally Robust Federated Learning for Differentially Private Data" (Shi, Hu, Wang,
Zhu & Han): slides, with one table and figures without numbers. It names neither trigger nor epsilon nor the
size of the radius; what stands in for them is said in every report.
"""

from __future__ import annotations

from scenarios.catalogue import SCENARIOS
from scenarios.federated.measures import BACKDOOR as SUCCESS
from scenarios.frame.spec import Claim
from scenarios.runs.run import scenario_of
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.systems.rpfl import charts, claims, lying, theorems
from scenarios.systems.rpfl.arms import (
    ADULT,
    ARMS,
    BACKDOOR,
    CAPS,
    CLEAN,
    DEFENCES,
    FEDAVG,
    GM,
    PRIVACY,
    TM,
    arm,
    own,
)
from scenarios.systems.rpfl.claims import (
    ALIKE_POINTS,
    HIGH_POINTS,
    MOST,
    RECORD_EPSILON,
    RPFLS,
    TIMES_ATTACK,
    TIMES_BENCHMARK,
    TIMES_FEDAVG,
    attacked,
)


def headline(sweep: Sweep) -> str:
    """What the backdoor does at the most attackers."""
    there = [(name, attacked(BACKDOOR, name)) for name in (FEDAVG, RPFLS[-1], GM, TM)]
    found = [f"{sweep.mean(one, SUCCESS):.0%} ({DEFENCES[name]})" for name, one in there if sweep.has(one)]
    if not found:
        return f"{len(sweep.outcomes)} arms were run."
    return (
        f"With {MOST:.0%} attackers a backdoor on Adult succeeds at {', '.join(found)} of the rows it is for."
    )


STANDS_IN = (
    (
        "a backdoor, not described",
        "never worked, from Holland: 0.31 each, on 40 % of an attacker's rows; class 1",
    ),
    (
        "epsilon, V, b_i, not given",
        f"a budget of 1 a client in the mean, at most {', '.join(map(str, CAPS))} in turn",
    ),
    ("c, G, mu of Theorem 1, not given", "c = 1, G = 1, mu = 0.01, T = 10, delta 1e-5"),
    ("noise drawn in each round", "as printed in rpfl-redrawn; all other arms draw it once and keep it"),
    (
        "Theorem 3's L, B and mu, not given",
        "weight decay 0.01 as mu, L and B from rows of norm 1 and a bias: 0.51, 1.41",
    ),
    ("radius rho, with unknown constants", "eta = sqrt(2 ln(1/gamma)/d), gamma 0.05, plus sigma sqrt(p)"),
    (
        "rho G(theta) at full size",
        "scaled so that the mean radius counts 0.01 or 0.03: at full size theta is 0",
    ),
    ("CDP, not described", "DP-FedAvg with all clients in every round, for a client's whole data"),
    ("LDP, not described", "Gaussian noise on rows, exactly calibrated, epsilon 1 for a record's features"),
    ("Adult, clients not given", "40 clients at random, rows scaled to a norm of 1, 30 rounds of 10 steps"),
    (
        "Loan, model and clients not given",
        "20-32-2, 25 clients at random or of two states, 30 rounds of 2 epochs",
    ),
    ("no swarm without a server", "beside it: 15 digits peers, one sum or five groups, loss gates"),
    (
        "Table I's setting, not given",
        "200 loans of 5 clients and 20-128-2, 60 rounds: so that there is anything to find",
    ),
)

CLAIMS: tuple[Claim[Sweep], ...] = (
    Claim(
        f"With {MOST:.0%} attackers RPFL's backdoor success falls with its weight, and is below FedAvg's.",
        claims.falls_with_weight,
    ),
    Claim(
        "Geometric median and trimmed mean let fewer backdoors in than FedAvg, and than RPFL at any weight.",
        claims.aggregators_are_below,
    ),
    Claim(
        "RPFL performs best of all defences that learn anything (the document, on backdoors).",
        claims.rpfl_is_best,
    ),
    Claim("GM + RPFL lets fewer backdoors in than either alone.", claims.together_is_better),
    Claim("RPFL's weight costs accuracy when nobody attacks.", claims.costs_accuracy),
    Claim(
        f"RPFL is {TIMES_FEDAVG} times as accurate as FedAvg under poisoned data (the document).",
        claims.times_fedavg,
    ),
    Claim(
        f"RPFL is {TIMES_FEDAVG} times as accurate as FedAvg under scaled updates (beyond its threat model).",
        claims.times_fedavg_scaled,
    ),
    Claim(
        f"RPFL is {TIMES_BENCHMARK} times as accurate as a benchmark under poisoned data (the document).",
        claims.times_benchmark,
    ),
    Claim(
        f"RPFL is {TIMES_BENCHMARK} times as accurate as a benchmark under forged updates (beyond its threat "
        "model).",
        claims.times_benchmark_forged,
    ),
    Claim(
        f"Noise redrawn in each round, as printed, does as noise drawn once: within {ALIKE_POINTS:g} points.",
        claims.redrawn_is_alike,
    ),
    Claim(
        f"RPFL's accuracy stays relatively high at {MOST:.0%} attackers: within {HIGH_POINTS:g} points.",
        claims.stays_high,
    ),
    Claim(
        "Scaled backdoors get through FedAvg and RPFL, and not through norm bound, GM and TM.",
        claims.scaling_needs_an_aggregator,
    ),
    Claim("Averaging without noise lets members be told from others.", claims.averaging_leaks),
    Claim(
        f"Membership inference is near chance where epsilon for a record is at most {RECORD_EPSILON:g}.",
        claims.membership_is_chance,
    ),
    Claim(
        "Table I: RPFL gives less away than averaging and learns more than LDP.",
        claims.order_of_the_table,
    ),
    Claim(
        f"RPFL's membership inference is {TIMES_ATTACK} times as accurate as a benchmark's (the document).",
        claims.times_attack,
    ),
    Claim("Table I's 86 % is the majority rate of the loans.", claims.majority_rate),
    *theorems.CLAIMS,
    *lying.CLAIMS,
)

SHORT = (FEDAVG, *RPFLS, GM, TM)
"""Defences of the short form."""

ENTRY = SCENARIOS["rpfl"]
STUDY = Study(
    name=ENTRY.name,
    source=ENTRY.source,
    summary=ENTRY.summary,
    stands_in=STANDS_IN,
    data_sets=("adult", "loan"),
    arms=ARMS,
    seeds=3,
    quick=Quick(
        seeds=2,
        rounds=12,
        arms=(
            *(attacked(BACKDOOR, defence) for defence in SHORT),
            *(arm(ADULT, CLEAN, 0.0, defence) for defence in SHORT),
            *(f"{PRIVACY}-{method}" for method in (FEDAVG, "ldp1", RPFLS[1])),
        ),
    ),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts.charts,
    tables=charts.tables,
)

RPFL = scenario_of(STUDY)
