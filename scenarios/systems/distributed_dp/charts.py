"""The plots and tables of scenario `distributed-dp`: accuracy over epsilon by trust, and the cost."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite

from scenarios.frame.spec import Chart, Json, Table
from scenarios.study.charts import (
    ACCURACY,
    BARS,
    accuracy_text,
    amount,
    arms_table,
    curves,
    drawn,
    level,
    marked,
    protection_table,
    series,
)
from scenarios.study.sweep import Sweep
from scenarios.swarms.dealt import AUC, FACTOR, GRADIENT_S, STEP_BYTES, STEP_S
from scenarios.systems.distributed_dp.arms import (
    ALONE,
    CENTRAL,
    DATA_SETS,
    EPSILONS,
    POOLED,
    SETTINGS,
    Setting,
    run_of,
)

_NOT_RECORDS = "ldp protects a whole data set, the others one record: the same number is another promise."
_AUC_AXIS: Json = {"title": {"text": "AUC on the test rows"}}


def charts(sweep: Sweep) -> tuple[Chart, ...]:
    """A chart for each setting that was run, then curves by round at epsilon 3."""
    over = [over_epsilon(sweep, setting) for setting in SETTINGS]
    return drawn(*over, *(by_round(sweep, setting) for setting in SETTINGS))


def over_epsilon(sweep: Sweep, setting: Setting) -> Chart:
    """Accuracy over epsilon, a line for each kind of arms, and the level without privacy."""
    lines = [
        series(sweep, words(setting, kind), points, place, "dash" if kind == CENTRAL else "solid")
        for place, kind in enumerate(setting.kinds)
        if (points := run_of(sweep, setting, kind))
    ]
    if lines and sweep.has(pooled := setting.arm(POOLED)):
        lines.append(level("all rows, without privacy", sweep.mean(pooled), (EPSILONS[0], EPSILONS[-1])))
    return Chart(
        f"epsilon-{setting.name}",
        f"{setting.title}: {'AUC' if setting.measure == AUC else 'accuracy'} over epsilon",
        f"To the right is less privacy. {_NOT_RECORDS} {BARS}",
        tuple(lines),
        marked("epsilon stated, for the whole run", EPSILONS, _axis(setting)),
    )


def by_round(sweep: Sweep, setting: Setting) -> Chart:
    """Figures by round at epsilon 3."""
    arms = {setting.arm(kind, 3): words(setting, kind) for kind in setting.kinds}
    chart = curves(
        sweep,
        f"rounds-{setting.name}",
        f"{setting.title}: by round, epsilon 3",
        "With shared noise a round is ten steps, and the average of the iterates is evaluated.",
        arms,
    )
    layout = {**chart.layout, "yaxis": _axis(setting)}
    return Chart(chart.key, chart.title, chart.caption, chart.traces, layout)


def words(setting: Setting, kind: str) -> str:
    """A kind of arms in words."""
    told = {
        CENTRAL: "a trusted server",
        ALONE: "dp-sgd: each node for itself",
        DATA_SETS: "ldp: whole data sets",
    }
    return told.get(kind, f"noise shared, {kind.replace('-', ' ')} honest")


def size_of(setting: Setting) -> int:
    """The parameters of a perceptron of a setting."""
    widths = setting.model["args"]["sizes"]
    return sum((first + 1) * second for first, second in pairwise(widths))


def tables(sweep: Sweep) -> tuple[Table, ...]:
    """Figures by setting and epsilon, the cost of steps, protections, then all arms."""
    by_kind = {setting.arm(kind, 3): words(setting, kind) for setting in SETTINGS for kind in setting.kinds}
    seen: dict[str, str] = {}
    for arm, kind in by_kind.items():
        if sweep.has(arm) and kind not in seen.values():
            seen[arm] = kind
    return (figures(sweep), costs(sweep), protection_table(sweep, seen), arms_table(sweep))


def figures(sweep: Sweep) -> Table:
    """A row for each setting and kind, a column for each epsilon."""
    rows = [
        (
            f"{setting.name}, {kind}",
            *(accuracy_text(sweep, setting.arm(kind, epsilon)) for epsilon in EPSILONS),
        )
        for setting in SETTINGS
        for kind in setting.kinds
        if run_of(sweep, setting, kind)
    ]
    pooled = [
        (f"{setting.name}, without privacy", *[accuracy_text(sweep, setting.arm(POOLED))] * len(EPSILONS))
        for setting in SETTINGS
        if sweep.has(setting.arm(POOLED))
    ]
    headings = ("accuracy (adult: AUC)", *(f"epsilon {epsilon}" for epsilon in EPSILONS))
    return Table("By epsilon", headings, (*rows, *pooled))


def costs(sweep: Sweep) -> Table:
    """What steps with shared noise cost; seconds and bytes of whole steps where real nodes ran."""
    headings = ("arm", "noise over a server's", "gradient, ms a peer", "step, s", "sent, kB a peer and step")
    rows = tuple(
        (
            arm,
            amount(sweep.fact(arm, FACTOR)),
            *(_scaled(sweep, arm, name, times) for name, times in _COSTS),
        )
        for arm in sweep.outcomes
        if sweep.fact(arm, FACTOR) is not None
    )
    return Table("Cost of a step", headings, rows)


_COSTS = ((GRADIENT_S, 1e3), (STEP_S, 1.0), (STEP_BYTES, 1e-3))


def _scaled(sweep: Sweep, arm: str, name: str, times: float) -> str:
    value = sweep.mean(arm, name)
    return f"{times * value:.3g}" if isfinite(value) else ""


def _axis(setting: Setting) -> Json:
    return _AUC_AXIS if setting.measure == AUC else ACCURACY
