"""Metrics in words, for the terminal; `assets/words.js` has the same for the page."""

from __future__ import annotations

from collections.abc import Mapping

from node.data.report import TOO_FEW
from node.storage.records import SwarmFigure
from node.training.figures.headline import CONSTANT_ANSWERS, SMALL_IS_GOOD, Alone, Headline, companion

METRIC_NAMES = {
    "accuracy": "accuracy",
    "balanced-accuracy": "balanced accuracy",
    "auc": "AUC",
    "r2": "R2",
    "mae": "MAE",
    "deviance": "Poisson deviance",
}
SHARES = ("accuracy", "balanced-accuracy")
_BASELINES = {
    "accuracy": "largest class {}",
    "balanced-accuracy": "guessing {}",
    "auc": "guessing {}",
    "r2": "the mean {}",
    "mae": "the median {}",
    "deviance": "the mean {}",
}
"""Words for the constant answer that reaches the baseline of a metric."""
CONSTANT = "a constant answer"
"""The constant answer for any other metric."""


def value_text(metric: str, value: float | None) -> str:
    """Returns a value as its metric is written; an error is in the target's own unit."""
    if value is None:
        return "not defined"
    if metric in SHARES:
        return f"{100 * value:.1f} %"
    if metric in SMALL_IS_GOOD:
        return f"{value:.4g}" if value < 10_000 else f"{value:,.0f}"
    return f"{value:.3f}"


def metric_text(metric: str, value: float | None) -> str:
    """Returns a metric and its value."""
    return f"{METRIC_NAMES.get(metric, metric)} {value_text(metric, value)}"


def swarm_text(found: SwarmFigure) -> str:
    """Returns the metric of all members' rows beside one's own, and of which model it is.

    With noise it says that the figures are estimates, and how far off they may be.
    """
    headline = Headline(found.metric, found.value, found.baseline, found.only_class)
    mine = "" if found.mine is None else f", mine {value_text(found.metric, found.mine)}"
    about, off = ("about ", error_text(found)) if found.noised else ("", "")
    where = f"all {about}{found.rows} {found.unit}s of {found.peers} peers (generation {found.generation})"
    return f"{where}: {about}{headline_text(headline, {})}{off}{mine}"


def error_text(found: SwarmFigure) -> str:
    """Returns the standard error of a figure with noise; "" if it has no value."""
    return "" if found.error is None else f", noise +-{value_text(found.metric, found.error)}"


def figures_text(
    measured_on: str, found: Headline, metrics: Mapping[str, float | None], *, whole: bool = False
) -> str:
    """Returns how good a model is on some rows, or that these are too few to say.

    `whole`: with all metrics, not the headline and the one beside it alone.
    """
    if not metrics and found.value is None:
        return TOO_FEW
    return f"{measured_on} {headline_text(found, metrics, whole=whole)}"


def compared_text(
    measured_on: str, found: Headline, metrics: Mapping[str, float | None], alone: Alone
) -> str:
    """Returns how good the common model is, a model of the owner's rows alone, and a constant answer."""
    metric = found.metric
    whole = "" if alone.trained == 1 else f" after {100 * alone.trained:.0f} % of the training"
    than = (
        ""
        if found.baseline is None
        else f", {value_text(metric, found.baseline)} by {CONSTANT_ANSWERS.get(metric, CONSTANT)}"
    )
    return (
        f"{measured_on} {metric_text(metric, found.value)} together, {value_text(metric, alone.value)} alone"
        f"{whole}{than}{_beside(metric, metrics)}{_says(found)}"
    )


def headline_text(found: Headline, metrics: Mapping[str, float | None], *, whole: bool = False) -> str:
    """Returns how good a model is: the headline, its baseline, the metric beside it, and a warning.

    `whole`: all metrics are beside it.
    """
    metric, base = found.metric, found.baseline
    than = "" if base is None else f" ({_BASELINES[metric].format(value_text(metric, base))})"
    rest = "".join(f", {metric_text(name, value)}" for name, value in metrics.items() if name != metric)
    beside = rest if whole else _beside(metric, metrics)
    return f"{metric_text(metric, found.value)}{than}{beside}{_says(found)}"


def _beside(metric: str, metrics: Mapping[str, float | None]) -> str:
    """Returns the metric that is shown beside a headline; "" if there is none."""
    beside = companion(metric, metrics)
    return "" if beside is None else f", {metric_text(beside, metrics[beside])}"


def _says(found: Headline) -> str:
    """Returns the warning that a model gives every row one class; "" if it does not."""
    return "" if found.only_class is None else f"; the model says {found.only_class!r} to every row"
