"""The plots and tables of scenario `aldp`: accuracies first, then errors of shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scenarios.frame.spec import Chart, Json, Table
from scenarios.study.charts import amount, arms_table, axes, colour, curves, level, protection_table, series
from scenarios.study.sweep import Sweep
from scenarios.swarms.share_errors import ShareErrorCell
from scenarios.systems.aldp.arms import (
    CAPS,
    NONE,
    POWERS,
    RADII,
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
    record,
    run_of,
    sized,
    tasks_of,
)

STATED_ERROR = 10e-8
"""The error of a sum of shares over maxShareValue that the source states."""
RADIUS_NAMES = {
    "raw": "mean of one's last norms (as the source has it)",
    "aggregate": "from the last aggregates",
    "quantile": "noised quantile",
    "fixed": "fixed",
}


def charts(sweep: Sweep) -> tuple[Chart, ...]:
    """All charts that have a line of two or more points, the most informative first."""
    made = (
        *(over_epsilon(sweep), truly_spent(sweep), over_caps(sweep), over_peers(sweep)),
        *(share_errors(sweep), by_round(sweep)),
    )
    return tuple(chart for chart in made if any(map(_shows, chart.traces)))


def _shows(trace: Json) -> bool:
    """Whether a trace shows figures; a dashed line is only for comparison."""
    return len(trace["x"]) > 1 and trace["line"].get("dash") != "dash"


def over_epsilon(sweep: Sweep) -> Chart:
    """Accuracy over the true epsilon, and over the epsilon that linear-classic states."""
    lines = (
        ("aldp, exact", by_stated(sweep, map(exact, STATED), "epsilon"), 0, "solid"),
        ("linear-classic, by its true epsilon", by_stated(sweep, map(linear, STATED), "epsilon"), 1, "solid"),
        ("linear-classic, by the epsilon it states", by_stated(sweep, map(linear, STATED)), 1, "dot"),
        ("dp-sgd, for one record", by_stated(sweep, map(record, RECORD_EPSILONS), "epsilon"), 2, "dashdot"),
    )
    traces = [series(sweep, name, points, place, dash) for name, points, place, dash in lines if points]
    if sweep.has(NONE):
        traces.append(level("no noise", sweep.mean(NONE), (1, max(STATED))))
    return Chart(
        "epsilon",
        "Accuracy over epsilon",
        "Test accuracy after the last round; bars are 95 % confidence intervals over the seeds. For aldp an "
        "epsilon is about a peer's whole data set, for dp-sgd about one row of it: the same number means "
        "another thing. linear-classic is the source's own calibration, faults included.",
        tuple(traces),
        axes("epsilon, over all rounds", log_x=True),
    )


def truly_spent(sweep: Sweep) -> Chart:
    """True epsilon over the stated one."""
    lines = (("exact", exact, 0), ("linear-classic", linear, 1))
    traces = []
    for name, arm, place in lines:
        points = by_stated(sweep, map(arm, STATED))
        spent = by_stated(sweep, points, "epsilon")
        traces.append(_line(name, list(points.values()), list(spent.values()), place))
    return Chart(
        "spent",
        "What is spent, and what is stated",
        "True epsilon, by an accountant, over the one that was asked for. Below the line of exact noise more "
        "noise is added than needed; above it the statement is false.",
        tuple(trace for trace in traces if trace["x"]),
        axes("epsilon stated", _log("true epsilon"), log_x=True),
    )


def over_caps(sweep: Sweep) -> Chart:
    """Accuracy over the cap of the radius, a line for each rule of the radius."""
    cells, drawn = tasks_of(sweep), run_of(sweep, (capped(radius, cap) for radius in RADII for cap in CAPS))
    traces = []
    for place, radius in enumerate(RADII):
        arms = run_of(sweep, (capped(radius, cap) for cap in CAPS))
        points = {arm: cells[arm].task.privacy.clipping_radius for arm in arms}
        traces.append(series(sweep, RADIUS_NAMES[radius], points, place))
    return Chart(
        "radius",
        "The clipping radius",
        f"Test accuracy at epsilon {_stated(sweep, drawn)} over the largest radius allowed. A radius that "
        "follows one's own norms needs no good guess, but it is taken before noise and the noise level shows "
        "it: epsilon does not cover that. The other three leak nothing.",
        tuple(traces),
        axes("largest clipping radius", log_x=True),
    )


def over_peers(sweep: Sweep) -> Chart:
    """Accuracy over the number of peers, with and without noise."""
    cells = tasks_of(sweep)
    traces = []
    for place, kind in enumerate(("exact", "none")):
        arms = run_of(sweep, (sized(kind, peers) for peers in SWARM_SIZES))
        name = f"aldp at epsilon {_stated(sweep, arms)}" if kind == "exact" else "no noise"
        traces.append(series(sweep, name, {arm: float(cells[arm].peers) for arm in arms}, place))
    return Chart(
        "peers",
        "The number of peers",
        "Test accuracy when the same rows are dealt out to more peers. Noise averages out among many; the "
        "rows of each become few.",
        tuple(traces),
        axes("peers"),
    )


def share_errors(sweep: Sweep) -> Chart:
    """The error of a mean of shares over the range of the shares."""
    values = {arm: _max_share_value(sweep, arm) for arm in run_of(sweep, map(floats, POWERS))}
    between = list(values.values())
    largest = [sweep.number(arm, "largest_error") for arm in values]
    traces = [
        series(sweep, "float shares, median error", values, 0),
        _line("float shares, largest error", between, largest, 1),
        _line("as the source states", between, [value * STATED_ERROR for value in between], 2, "dash"),
    ]
    if between and sweep.has(RING):
        traces.append(level("in fixed point, median error", sweep.mean(RING), (between[0], between[-1])))
    return Chart(
        "shares",
        "The error of shares",
        "Not an accuracy: how far a coordinate of the mean that nodes decode is from the true mean, on "
        "updates that peers have trained. Each share is drawn within the range on the x axis.",
        tuple(traces),
        axes("maxShareValue", _log("error of a coordinate"), log_x=True),
    )


def by_round(sweep: Sweep) -> Chart:
    """Accuracy by round for some arms."""
    kinds = {exact(3000): "aldp", exact(300): "aldp", exact(20): "aldp", record(20): "dp-sgd"}
    names = {arm: f"{kind}, epsilon {_stated(sweep, [arm])}" for arm, kind in kinds.items()}
    lines = {NONE: "no noise", **names}
    return curves(sweep, "curves", "Round by round", "Test accuracy, the mean over the seeds.", lines)


def _line(name: str, x: list[float], y: list[float], place: int, dash: str = "solid") -> Json:
    return {
        "type": "scatter",
        "mode": "lines" if dash == "dash" else "lines+markers",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": colour(place), "width": 2.5, "dash": dash},
        "marker": {"color": colour(place), "size": 7},
    }


def _log(title: str) -> Json:
    return {"title": {"text": title}, "type": "log", "exponentformat": "power"}


def _stated(sweep: Sweep, arms: Iterable[str]) -> str:
    """The requested epsilon of the first of these arms, as text."""
    return next((amount(stated) for stated in by_stated(sweep, arms).values()), "none")


def _max_share_value(sweep: Sweep, arm: str) -> float:
    return tasks_of(sweep)[arm].task.aggregation.max_share_value


# -- tables ------------------------------------------------------------------------------------------------


def tables(sweep: Sweep) -> tuple[Table, ...]:
    """Tables of accuracies, errors and protection, without those that have no rows."""
    errors = {cell.arm for cell in sweep.arms if isinstance(cell, ShareErrorCell)}
    accurate = {arm: outcomes for arm, outcomes in sweep.outcomes.items() if arm not in errors}
    made = (
        arms_table(replace(sweep, outcomes=accurate)),
        errors_table(sweep, run_of(sweep, (*map(floats, POWERS), RING, SEED))),
        protection_table(sweep, _kinds(sweep)),
        outside_table(sweep, _kinds(sweep)),
    )
    return tuple(table for table in made if table.rows)


def errors_table(sweep: Sweep, arms: Iterable[str]) -> Table:
    """The errors of shares."""
    headings = ("arm", "shares", "maxShareValue", "median error", "largest error", "as stated")
    return Table(
        "Errors of shares (not accuracies)", headings, tuple(_errors_row(sweep, arm) for arm in arms)
    )


def _errors_row(sweep: Sweep, arm: str) -> tuple[str, ...]:
    section = tasks_of(sweep)[arm].task.aggregation
    is_float = section.shares == "float"
    return (
        arm,
        section.shares,
        f"{section.max_share_value:g}" if is_float else "-",
        f"{sweep.mean(arm):.1e}",
        f"{sweep.number(arm, 'largest_error'):.1e}",
        f"{section.max_share_value * STATED_ERROR:.0e}" if is_float else "-",
    )


def _kinds(sweep: Sweep) -> Mapping[str, str]:
    """From one arm of each kind that was run to the kind's name."""
    kinds: dict[str, list[str]] = {
        "aldp, exact": [exact(epsilon) for epsilon in STATED],
        "aldp, linear-classic": [linear(epsilon) for epsilon in STATED],
        "ldp": [capped("fixed", cap) for cap in CAPS],
        "aldp, radius from aggregates": [capped("aggregate", cap) for cap in CAPS],
        "dp-sgd": [record(epsilon) for epsilon in RECORD_EPSILONS],
        "none": [NONE],
        "own": ["own"],
    }
    return {arms[0]: kind for kind, names in kinds.items() if (arms := run_of(sweep, names))}


def outside_table(sweep: Sweep, kinds: Mapping[str, str]) -> Table:
    """A table of what no epsilon covers."""
    rows = tuple(
        (kind, str(sweep.fact(arm, "outside") or "nothing that leaves a node"))
        for arm, kind in kinds.items()
        if sweep.fact(arm, "unit")
    )
    return Table("What epsilon does not cover", ("mechanism", "what it does not cover"), rows)
