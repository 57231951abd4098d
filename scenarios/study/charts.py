"""Parts of plots and tables that studies share: series, axes, colours, and figures as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from node.training.figures.metric_words import METRIC_NAMES, SHARES
from scenarios.frame.spec import Chart, Json
from scenarios.study.arms import capital
from scenarios.study.sweep import FINAL, Sweep

SERIES = 8
BARS = "Bars are 95 % confidence intervals over the seeds."
"""A sentence for captions."""

PERCENT = "~%"
"""A format of ticks: as many decimals as tell neighbours apart."""
ACCURACY: Json = {"title": {"text": "test accuracy"}, "tickformat": PERCENT}
MAX_TICKS = 10


def whole_numbers(last: int) -> Json:
    """Ticks on an axis of whole numbers up to `last`: at most MAX_TICKS, and none between two numbers."""
    steps = (factor * 10**power for power in range(10) for factor in (1, 2, 5))
    step = next(step for step in steps if last <= MAX_TICKS * step)
    return {"tickformat": "d", "tick0": 0, "dtick": step}


def drawn(*charts: Chart) -> tuple[Chart, ...]:
    """The charts that have something to draw."""
    return tuple(chart for chart in charts if chart.traces)


def colour(position: int) -> str:
    """The colour of a series, by its position."""
    return f"var(--series-{position % SERIES + 1})"


def series(
    sweep: Sweep,
    name: str,
    points: Mapping[str, float],
    position: int,
    dash: str = "solid",
    fact: str = FINAL,
) -> Json:
    """A line through arms. `points`: from arms to positions on the x axis; bars are 95 % intervals."""
    arms = [arm for arm in points if sweep.has(arm)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [points[arm] for arm in arms],
        "y": [sweep.mean(arm, fact) for arm in arms],
        "error_y": {**bars(sweep, arms, fact), "color": colour(position), "thickness": 1.5},
        "line": {"color": colour(position), "width": 2.5, "dash": dash},
        "marker": {"color": colour(position), "size": 7},
    }


def bars(sweep: Sweep, arms: Sequence[str], fact: str = FINAL) -> Json:
    """The error bars of arms: 95 % intervals, which end where the metric does."""
    up, down = zip(*(sweep.ends(arm, fact) for arm in arms), strict=True) if arms else ((), ())
    if up == down:
        return {"type": "data", "array": list(up)}
    return {"type": "data", "symmetric": False, "array": list(up), "arrayminus": list(down)}


def level(name: str, value: float, between: Sequence[float | str]) -> Json:
    """A dashed horizontal line between positions on the x axis, such as the result without noise."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(between),
        "y": [value] * len(between),
        "line": {"color": "var(--faint)", "width": 2, "dash": "dash"},
    }


def metric_axis(metric: str) -> Json:
    """The y axis of a metric of `node.training.figures.metrics` on test rows."""
    share: Json = {"tickformat": PERCENT} if metric in SHARES else {}
    return {"title": {"text": f"test {METRIC_NAMES[metric]}"}, **share}


def sentence(metric: str) -> str:
    """The name of a metric at the beginning of a sentence."""
    return capital(METRIC_NAMES[metric])


def metric_hover(metric: str) -> str:
    """How a chart writes a value of a metric."""
    return "%{y:.1%}" if metric in SHARES else "%{y:.3f}"


def axes(x: str, y: Json = ACCURACY, log_x: bool = False) -> Json:
    """The layout of a plot over a parameter called `x`."""
    return {"xaxis": {"title": {"text": x}, **({"type": "log"} if log_x else {})}, "yaxis": y}


def marked(x: str, places: Sequence[float], y: Json = ACCURACY) -> Json:
    """The layout of a plot over a parameter on a logarithmic axis with tick marks at `places`."""
    layout = axes(x, y, log_x=True)
    return {**layout, "xaxis": {**layout["xaxis"], "tickvals": list(places)}}


def by_round(last: int, y: Json = ACCURACY) -> Json:
    """The layout of a plot over rounds, from the first to `last`."""
    layout = axes("round", y)
    return {**layout, "xaxis": {**layout["xaxis"], **whole_numbers(last)}}


def accuracy_text(sweep: Sweep, arm: str, fact: str = FINAL) -> str:
    """An arm's accuracy, or another share among its facts, with standard error; "" if it was not run."""
    if not sweep.has(arm):
        return ""
    return f"{sweep.mean(arm, fact):.1%} ± {100 * sweep.standard_error(arm, fact):.1f}"


def amount(value: object) -> str:
    """A number with at most four digits; `none` if there is none."""
    return f"{value:.4g}" if isinstance(value, int | float) else "none"
