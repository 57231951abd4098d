"""Scenario `rpfl`: robust and private federated learning under attack, beside what it is compared with.

The document is "Distributionally Robust Federated Learning for Differentially Private Data" (Shi, Hu, Wang,
Zhu & Han): slides, with one table and figures without numbers. It names neither trigger nor epsilon nor the
size of the radius; what stands in for them is said in every report.
"""

from __future__ import annotations

from scenarios.catalogue import SCENARIOS
from scenarios.federated.measures import BACKDOOR as SUCCESS
from scenarios.runs.run import scenario_of
from scenarios.study.arms import Where, selected
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.systems.rpfl.arms import (
    ARMS,
    AT_REST,
    CAPS,
    DEFENCES,
    DOOR,
    FEW,
    MOST,
    WEIGHTS,
    own,
    rpfl,
    words_of,
)
from scenarios.systems.rpfl.charts import charts, tables
from scenarios.systems.rpfl.claims import CLAIMS, ROBUST


def headline(sweep: Sweep) -> str:
    """What the backdoor does at the most attackers."""
    defences: tuple[Where, ...] = (
        {"defence": "fedavg"},
        rpfl(WEIGHTS[-1]),
        *({"defence": one} for one in ROBUST),
    )
    arms = [arm for one in defences if (arm := sweep.first({**DOOR, **one}))]
    found = [f"{sweep.mean(arm, SUCCESS):.0%} ({words_of(DEFENCES, sweep.factors[arm])})" for arm in arms]
    if not found:
        return f"{len(sweep.outcomes)} arms were run."
    return (
        f"With {MOST:.0%} attackers a backdoor on Adult succeeds at {', '.join(found)} of the rows it is for."
    )


STANDS_IN = {
    "a backdoor, not described": "never worked, from Holland: 0.31 each, on 40 % of an attacker's rows; "
    "class 1",
    "epsilon, V, b_i, not given": f"a budget of 1 a client in the mean, at most {', '.join(map(str, CAPS))} "
    "in turn",
    "c, G, mu of Theorem 1, not given": "c = 1, G = 1, mu = 0.01, T = 10, delta 1e-5",
    "noise drawn in each round": "as printed in rpfl-redrawn; all other arms draw it once and keep it",
    "Theorem 3's L, B and mu, not given": "weight decay 0.01 as mu, L and B from rows of norm 1 and a bias: "
    "0.51, 1.41",
    "radius rho, with unknown constants": "eta = sqrt(2 ln(1/gamma)/d), gamma 0.05, plus sigma sqrt(p)",
    "rho G(theta) at full size": "scaled so that the mean radius counts 0.01 or 0.03: at full size theta is "
    "0",
    "CDP, not described": "DP-FedAvg with all clients in every round, for a client's whole data",
    "LDP, not described": "Gaussian noise on rows, exactly calibrated, epsilon 1 for a record's features",
    "Adult, clients not given": "40 clients at random, rows scaled to a norm of 1, 30 rounds of 10 steps",
    "Loan, model and clients not given": "20-32-2, 25 clients at random or of two states, 30 rounds of 2 "
    "epochs",
    "no swarm without a server": "beside it: 15 digits peers, one sum or five groups, loss gates",
    "Table I's setting, not given": "200 loans of 5 clients and 20-128-2, 60 rounds: so that there is "
    "anything to find",
}

SHORT: tuple[Where, ...] = (
    *({**where, "defence": ("fedavg", "rpfl", *ROBUST)} for where in (DOOR, AT_REST)),
    {**FEW, "defence": "fedavg"},
    {**FEW, "defence": "ldp", "epsilon": 1.0},
    {**FEW, **rpfl(WEIGHTS[1])},
)
"""The arms of the short form."""
FACTORS = {arm.arm: arm.factors for arm in ARMS}

STUDY = Study(
    **SCENARIOS["rpfl"].listed,
    stands_in=STANDS_IN,
    data_sets=("adult", "loan"),
    arms=ARMS,
    seeds=3,
    quick=Quick(seeds=2, rounds=12, arms=tuple(arm for where in SHORT for arm in selected(FACTORS, where))),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts,
    tables=tables,
)

RPFL = scenario_of(STUDY)
