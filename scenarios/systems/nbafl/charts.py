"""The plots and tables of scenario `nbafl`."""

from __future__ import annotations

from collections.abc import Mapping

from mechanisms.servers.nbafl import delta_of
from scenarios.frame.spec import Chart, Json, Table
from scenarios.study.charts import (
    BARS,
    accuracy_text,
    amount,
    arms_table,
    axes,
    colour,
    curves,
    drawn,
    level,
    marked,
    protection_table,
    series,
)
from scenarios.study.sweep import Sweep
from scenarios.systems.nbafl.arms import (
    CELLS,
    CLIP_ONLY,
    KINDS,
    MNIST_EPSILON,
    NO_NOISE,
    by_clients,
    by_epsilon,
    by_ratio,
    by_rounds,
    mnist_arm,
    table_arm,
)

DOCUMENT: Mapping[tuple[float, float], float] = {
    (100.0, 1.0): 80.58, (100.0, 2.0): 80.39, (100.0, 3.0): 74.80,
    (50.0, 1.0): 80.58, (50.0, 2.0): 67.98, (50.0, 3.0): 54.85,
    (10.0, 1.0): 41.71, (10.0, 2.0): 24.82, (10.0, 3.0): 11.73,
}  # fmt: skip
"""FederatedScope's table, accuracy in percent by (epsilon, c)."""


_DRAWN = ((100.0, 1.0), (10.0, 1.0), (10.0, 2.0), (10.0, 3.0))
"""The cells whose curves are drawn; more lines would be hard to distinguish."""


def charts(sweep: Sweep) -> tuple[Chart, ...]:
    """The charts that have figures, the most informative first."""
    return drawn(
        over_ratio(sweep),
        stated_and_proved(sweep),
        over_epsilon(sweep),
        over_clients(sweep),
        over_rounds(sweep),
        table_curves(sweep),
    )


# -- the table ---------------------------------------------------------------------------------------------


def over_ratio(sweep: Sweep) -> Chart:
    """Accuracy over c / epsilon, in both ways, with the document's figures and the level without noise."""
    lines = [
        series(sweep, f"{name}, here", points, position)
        for position, (kind, name) in enumerate(KINDS.items())
        if (points := by_ratio(sweep, kind))
    ]
    if lines:
        lines = [*lines, _document(), *_levels(sweep)]
    return Chart(
        "ratio",
        "Accuracy over the noise",
        "The nine cells of FederatedScope's table: noise goes with c / epsilon; no epsilon there is true. "
        "The document's model is larger and its writers are more, so compare the shapes, not the heights. "
        + BARS,
        tuple(lines),
        marked("c / epsilon", sorted({ratio for line in lines for ratio in line["x"]})),
    )


def _document() -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "FederatedScope, the document",
        "x": [constant / epsilon for epsilon, constant in CELLS],
        "y": [DOCUMENT[cell] / 100 for cell in CELLS],
        "line": {"color": "var(--muted)", "width": 2, "dash": "dot"},
        "marker": {"color": "var(--muted)", "size": 7, "symbol": "diamond"},
    }


def _levels(sweep: Sweep) -> list[Json]:
    between = [constant / epsilon for epsilon, constant in (CELLS[0], CELLS[-1])]
    names = {NO_NOISE: ("no noise", "dash"), CLIP_ONLY: ("weights clipped, no noise", "dashdot")}
    return [
        {**line, "line": {**line["line"], "dash": dash}}
        for arm, (name, dash) in names.items()
        if sweep.has(arm)
        for line in [level(name, sweep.mean(arm), between)]
    ]


def stated_and_proved(sweep: Sweep) -> Chart:
    """The proved epsilon of the paper's mechanism over its stated one."""
    lines = {"table's cells": list(by_ratio(sweep, "paper")), "MNIST": list(by_epsilon(sweep))}
    traces = [
        _epsilons(sweep, name, arms, position) for position, (name, arms) in enumerate(lines.items()) if arms
    ]
    if traces:
        stated = [value for trace in traces for value in trace["x"]]
        ends = [min(stated), max(stated)]
        traces.append({**level("proved is what is stated", 0.0, ends), "y": ends})
    return Chart(
        "epsilon",
        "The epsilon that is stated, and the proved one",
        "The paper's way. Proved: what clip and upload noise prove for a client's whole data set, over all "
        "rounds, at the same delta. The paper takes one record to move the weights by 2 C / m only, which "
        "training does not ensure. Points above each other state one epsilon at different deltas.",
        tuple(traces),
        marked(
            "epsilon stated",
            sorted({value for trace in traces for value in trace["x"]}),
            {"title": {"text": "epsilon proved"}, "type": "log", "exponentformat": "power"},
        ),
    )


def _epsilons(sweep: Sweep, name: str, arms: list[str], position: int) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [sweep.number(arm, "stated") for arm in arms],
        "y": [sweep.number(arm, "epsilon") for arm in arms],
        "text": [f"delta {amount(sweep.fact(arm, 'delta'))}" for arm in arms],
        "marker": {"color": colour(position), "size": 9},
    }


def table_curves(sweep: Sweep) -> Chart:
    """Accuracy by round, from little noise to much."""
    ratios = by_ratio(sweep, "federatedscope")
    chosen = [table_arm("federatedscope", *cell) for cell in _DRAWN]
    lines = {arm: f"c / epsilon {ratios[arm]:g}" for arm in chosen if arm in ratios}
    caption = "As FederatedScope has it; the mean over the seeds."
    arms = {NO_NOISE: "no noise", **lines, "own": "own mechanism"}
    return curves(sweep, "rounds", "Accuracy by round, by noise", caption, arms)


# -- MNIST -------------------------------------------------------------------------------------------------


def over_epsilon(sweep: Sweep) -> Chart:
    """Accuracy on MNIST over epsilon, with all clients."""
    points = by_epsilon(sweep)
    lines = [series(sweep, "the paper", points, 0)] if points else []
    if lines and sweep.has(mnist_arm(None)):
        ends = [min(points.values()), max(points.values())]
        lines.append(level("no noise", sweep.mean(mnist_arm(None)), ends))
    return Chart(
        "mnist-epsilon",
        "MNIST: accuracy over the stated epsilon",
        "The paper's way, its model and delta 0.01, every client in every round; both uploads and download "
        f"are noised. The epsilons that are proved are far larger, as the plot of both shows. {BARS}",
        tuple(lines),
        marked("epsilon stated", sorted(set(points.values()))),
    )


def over_clients(sweep: Sweep) -> Chart:
    """Accuracy on MNIST over the number of clients, with and without noise."""
    names = {MNIST_EPSILON: f"epsilon {MNIST_EPSILON:g} stated", None: "no noise"}
    lines = [
        series(sweep, name, points, position, "solid" if epsilon else "dash")
        for position, (epsilon, name) in enumerate(names.items())
        if len(points := by_clients(sweep, epsilon)) > 1
    ]
    return Chart(
        "mnist-clients",
        "MNIST: accuracy over the number of clients",
        "Each client has as many images, and all are in every round: the more there are, the more of their "
        f"noise cancels in the mean, and the less the download needs. {BARS}",
        tuple(lines),
        axes("clients"),
    )


def over_rounds(sweep: Sweep) -> Chart:
    """Accuracy on MNIST over the number of rounds, at one epsilon."""
    points = by_rounds(sweep)
    lines = [series(sweep, f"epsilon {MNIST_EPSILON:g} stated", points, 0)] if len(points) > 1 else []
    return Chart(
        "mnist-rounds",
        "MNIST: accuracy over the number of rounds",
        "A run of so many rounds in all: more rounds learn more, and ask for more noise on every download. "
        + BARS,
        tuple(lines),
        axes("rounds"),
    )


# -- tables ------------------------------------------------------------------------------------------------


def tables(sweep: Sweep) -> tuple[Table, ...]:
    """The document's table compared with ours, noise, every arm, and the protection."""
    found = (document_table(sweep), noise_table(sweep), arms_table(sweep), _protection(sweep))
    return tuple(table for table in found if table.rows)


def document_table(sweep: Sweep) -> Table:
    """The document's figures and ours, cell by cell."""
    headings = (
        *("epsilon stated", "c", "delta", "c / epsilon", "document"),
        *(f"{name}, here" for name in KINDS.values()),
        "epsilon proved of the paper's",
    )
    rows = tuple(
        _document_row(sweep, *cell)
        for cell in CELLS
        if any(sweep.has(table_arm(kind, *cell)) for kind in KINDS)
    )
    return Table("FederatedScope's table, cell by cell", headings, rows)


def _document_row(sweep: Sweep, epsilon: float, constant: float) -> tuple[str, ...]:
    paper = table_arm("paper", epsilon, constant)
    return (
        f"{epsilon:g}",
        f"{constant:g}",
        f"{delta_of(constant):.3g}",
        f"{constant / epsilon:.2g}",
        f"{DOCUMENT[epsilon, constant]:.2f} %",
        *(accuracy_text(sweep, table_arm(kind, epsilon, constant)) for kind in KINDS),
        amount(sweep.fact(paper, "epsilon")) if sweep.has(paper) else "",
    )


def noise_table(sweep: Sweep) -> Table:
    """The standard deviations of the noise on each coordinate."""
    headings = ("arm", "c / epsilon", "upload noise std", "download noise std", "accuracy")
    arms = [arm for arm in sweep.outcomes if sweep.fact(arm, "download noise std") is not None]
    rows = tuple(
        (
            arm,
            amount(sweep.fact(arm, "constant / epsilon")),
            amount(sweep.fact(arm, "upload noise std") or sweep.fact(arm, "largest upload noise std")),
            amount(sweep.fact(arm, "download noise std")),
            accuracy_text(sweep, arm),
        )
        for arm in arms
    )
    return Table("Noise on each coordinate", headings, rows)


def _protection(sweep: Sweep) -> Table:
    kinds = {
        table_arm("federatedscope", *CELLS[-1]): "nbafl-federatedscope",
        table_arm("paper", *CELLS[-1]): "nbafl",
        NO_NOISE: "fedavg",
        "own": "own",
    }
    return protection_table(sweep, kinds)
