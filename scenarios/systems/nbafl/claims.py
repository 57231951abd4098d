"""Scenario `nbafl`: what noise before aggregation costs, by FederatedScope's code and by the paper.

NbAFL is Wei et al. 2020 (IEEE TIFS 15; arXiv 1911.00222). FederatedScope's page on differential privacy has a
table of nine cells of (epsilon, delta) on FEMNIST. Its code depends on c / epsilon alone, and bounds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mechanisms.servers.nbafl import delta_of, epsilon_of_clipped_steps
from scenarios.catalogue import SCENARIOS
from scenarios.federated.cell import FederatedCell
from scenarios.frame.spec import Claim, Verdict
from scenarios.runs.run import scenario_of
from scenarios.study.about import about, all_of, as_claims
from scenarios.study.comparison import CLOSE, largest_rise, rise
from scenarios.study.makers import Numbers, alike, best_inside, identity, rises
from scenarios.study.sweep import Quick, Study, Sweep
from scenarios.systems.nbafl.arms import ARMS, DATA_SETS, MNIST_EPSILON, RATIO, WAYS, mnist, own, writers
from scenarios.systems.nbafl.charts import DOWNLOAD, charts, tables


def by_ratio(sweep: Sweep, way: str) -> dict[str, float]:
    """The table's cells in one way that were run, each with its c / epsilon, from little noise to much."""
    return {arm: sweep.factor(arm, RATIO) for arm in sweep.select(writers(way))}


def proved_by_steps(sweep: Sweep, arm: str) -> float | None:
    """The epsilon that the clipped gradients of a cell of FederatedScope's table prove; None without any.

    Of its clients the largest counts: it takes most steps, and has the least noise.
    """
    cell = sweep.cells[arm]
    if not isinstance(cell, FederatedCell) or cell.train.grad_clip is None:
        return None
    parameters, train = cell.mechanism.parameters, cell.train
    if train.momentum or train.weight_decay:
        return None
    epsilon, constant = float(parameters["epsilon"]), float(parameters["constant"])
    noise_std = sweep.number(arm, "least upload noise std")
    rows = round(parameters["clip"] * cell.rounds * constant / (noise_std * epsilon))
    steps = train.epochs * math.ceil(rows / train.batch_size)
    movement = train.learning_rate * cell.train.grad_clip
    return epsilon_of_clipped_steps(movement, steps, noise_std, cell.rounds, delta_of(constant))


def falls_with_ratio(way: str) -> Claim[Sweep]:
    """No cell is better than the one before it in c / epsilon, and the last is worse than the first."""

    @about(lambda sweep: by_ratio(sweep, way))
    def judge(sweep: Sweep, cells: Mapping[str, float]) -> Verdict | None:
        if len(cells) < 2:
            return None
        first, *_, last = cells
        worst, fall = largest_rise(sweep, list(cells)), rise(sweep, last, first)
        steps: Numbers = {"largest rise in margins": worst, "fall from first to last in margins": fall}
        ends: Numbers = {f"{RATIO} = {cells[arm]:g}": sweep.mean(arm) for arm in (first, last)}
        return Verdict(worst <= CLOSE < fall, {**steps, **ends})

    return judge


@about(all_of(writers("federatedscope")), {**writers("federatedscope's test"), "sizes joined": True})
def download_noise_fires_in_the_test_only(sweep: Sweep, cells: Sequence[str], test: str) -> Verdict:
    """The download is noised in FederatedScope's own test, and in no cell of its table."""
    most, fired = max(sweep.number(arm, DOWNLOAD) for arm in cells), sweep.number(test, DOWNLOAD)
    numbers: Numbers = {f"{DOWNLOAD}, its test": fired, "the table's cells, at most": most}
    for silent in sweep.select({**writers("federatedscope's test"), "sizes joined": False}):
        numbers["its test, sizes not joined"] = sweep.number(silent, DOWNLOAD)
    return Verdict(fired > 0 == most, numbers)


@about(
    lambda sweep: (*sweep.select(writers("federatedscope")), *sweep.select(writers("federatedscope's test"))),
    lambda sweep: (*sweep.select(writers("paper")), *sweep.select(mnist("paper"))),
)
def no_stated_epsilon_is_proved(sweep: Sweep, theirs: Sequence[str], papers: Sequence[str]) -> Verdict:
    """What is proved is above what is stated, in each arm; FederatedScope's class itself proves nothing.

    Its training does, where gradients are clipped. Nothing here refutes a stated epsilon.
    """
    over = {arm: sweep.number(arm, "epsilon") / sweep.number(arm, "stated") for arm in papers}
    closest = min(over, key=lambda arm: over[arm])
    given = sum(sweep.fact(arm, "epsilon") is not None for arm in theirs)
    above = sum(ratio > 1 for ratio in over.values())
    cells = sweep.select(writers("federatedscope"))
    by_steps = {arm: epsilon for arm in cells if (epsilon := proved_by_steps(sweep, arm)) is not None}
    exceed = all(epsilon > sweep.factor(arm, "epsilon") for arm, epsilon in by_steps.items())
    numbers: Numbers = {
        "FederatedScope's arms": len(theirs),
        "of them with an epsilon": given,
        "the paper's arms": len(papers),
        "of them above what they state": above,
        "closest": closest,
        "stated": sweep.number(closest, "stated"),
        "proved": sweep.number(closest, "epsilon"),
        **{f"{arm}, by its clipped steps": epsilon for arm, epsilon in by_steps.items()},
    }
    return Verdict(given == 0 and exceed and above == len(papers), numbers)


CLAIMS = as_claims(
    {
        **{
            f"Accuracy falls in c / epsilon, as {who} has it (neighbours within a margin)": falls_with_ratio(
                way
            )
            for way, who in WAYS.items()
        },
        "Cells (50, c = 1) and (100, c = 2), whose noise is one, agree (within a margin)": alike(
            {"epsilon": 50, "constant": 1}, {"epsilon": 100, "constant": 2}
        ),
        "Download noise fires in FederatedScope's test, and in no cell of its table": identity(
            download_noise_fires_in_the_test_only
        ),
        "No stated epsilon is proved: what holds by the paper's clip, and by FederatedScope's clipped "
        "gradients, is larger": identity(no_stated_epsilon_is_proved),
        "MNIST: the smaller epsilon, the less accurate (neighbours within a margin)": rises(
            "epsilon", mnist("paper")
        ),
        "MNIST: at one epsilon more clients are more accurate (neighbours within a margin)": rises(
            "clients", mnist("paper")
        ),
        "MNIST: at one epsilon there is a best number of rounds, neither few nor many": best_inside(
            "rounds", mnist("paper")
        ),
    }
)


def headline(sweep: Sweep) -> str:
    """The main figures in a sentence or two."""
    said = []
    for way, name in WAYS.items():
        if len(arms := by_ratio(sweep, way)) > 1:
            first, *_, last = arms
            fall = f"{sweep.mean(first):.1%} at c / epsilon {arms[first]:g} to {sweep.mean(last):.1%}"
            said.append(f"As {name} has it, accuracy falls from {fall} at {arms[last]:g}.")
    quiet, noised = (
        sweep.first(writers("no noise")),
        sweep.first({**mnist("paper"), "epsilon": MNIST_EPSILON}),
    )
    if said and quiet:
        said.append(f"Without noise it is {sweep.mean(quiet):.1%}.")
    if noised:
        stated, true = sweep.number(noised, "stated"), sweep.number(noised, "epsilon")
        said.append(f"On MNIST the paper's noise at a stated {stated:g} proves {true:.2g}.")
    return " ".join(said) or f"{len(sweep.outcomes)} arms, {len(sweep.seeds)} seeds each."


STUDY = Study(
    **SCENARIOS["nbafl"].listed,
    stands_in={
        "FEMNIST, 62 classes": "its ten digits",
        "about 200 writers of about 200 images": "12 clients cut into 120 of about 40 images",
        "300 rounds, 20 % of the clients in each": "60 rounds, 20 %: rounds over rows are as there",
        "convnet2: two convolutions, batch norm, 2048 units": "one convolution, 23,466 parameters",
        "learning rate 0.01": "0.015, so that it learns within 60 rounds",
        "the paper: 50 clients with parts of MNIST": "50 clients of 200 images",
        "the paper: rate 0.002, batches unknown here": "0.002, batches of 10, one epoch, momentum 0.9",
    },
    data_sets=DATA_SETS,
    arms=ARMS,
    seeds=4,
    quick=Quick(
        seeds=2,
        rounds=None,
        arms=("no-noise", "federatedscope-test", "*-eps100-c1", "*-eps10-c3"),
    ),
    own=own,
    claims=CLAIMS,
    headline=headline,
    charts=charts,
    tables=tables,
)
NBAFL = scenario_of(STUDY)
