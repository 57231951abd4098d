"""Plots as short specifications over factors, and the usual plots, table and headline of a study.

    charts=specified(Lines("epsilon"), Rounds({"epsilon": 8}), Bars())

`Lines` has a line for each combination of the other factors, `Rounds` a curve for each arm, `Bars` a bar for
each arm; error bars are 95 % confidence intervals over the seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scenarios.frame.spec import Chart, Json, Table
from scenarios.study.arms import Factors, Line, Where, is_number, level_text
from scenarios.study.charts import (
    BARS,
    SERIES,
    amount,
    axes,
    colour,
    curves,
    drawn,
    marked,
    series,
)
from scenarios.study.charts import level as level_line
from scenarios.study.sweep import FINAL, Sweep

_LOG_FROM = 20.0
"""An axis is logarithmic if its greatest value is this many times the least."""


class Plot(Protocol):
    """A specification of a chart."""

    def chart(self, sweep: Sweep) -> Chart:
        """The chart; without traces if its arms were not run."""


def specified(*plots: Plot) -> Callable[[Sweep], tuple[Chart, ...]]:
    """The charts that these specifications make of a sweep, without those that have nothing to draw."""
    return lambda sweep: drawn(*(plot.chart(sweep) for plot in plots))


@dataclass(frozen=True)
class Lines:
    """A figure or fact over one factor: a line for each combination of the other factors.

    A numeric factor whose values span a factor of 20 has a logarithmic axis. Arms that do not have the factor
    but agree in the others, such as a reference without noise, are dashed lines.
    """

    over: str
    where: Where = field(default_factory=dict)
    fact: str = FINAL
    title: str = ""

    def chart(self, sweep: Sweep) -> Chart:
        """See Plot."""
        found = sweep.lines(self.over, self.where)
        points = [_points(line) for line in found]
        traces = [
            series(sweep, line.words or _name(self.fact), at, position, _dash(position), self.fact)
            for position, (line, at) in enumerate(zip(found, points, strict=True))
        ]
        places = sorted({place for at in points for place in at.values()})
        title = self.title or f"{_name(self.fact, capital=True)} over {self.over}"
        if found:
            traces += self._references(sweep, found[0].levels)
        return Chart(
            _key("over", self.over, self.fact), title, BARS, tuple(traces), self._layout(found, places)
        )

    def _references(self, sweep: Sweep, levels: Sequence[str | float]) -> list[Json]:
        """Dashed lines for arms without the factor that still differ from all others in it alone."""
        where = {name: wanted for name, wanted in self.where.items() if name != self.over}
        bare = [arm for arm in sweep.select({}) if self.over not in sweep.factors[arm]]
        meant = [arm for arm in bare if _may_stand_beside(sweep.factors[arm], where)]
        ends = [levels[0], levels[-1]]
        return [level_line(arm, sweep.mean(arm, self.fact), ends) for arm in meant[:SERIES]]

    def _layout(self, found: Sequence[Line], places: Sequence[float]) -> Json:
        y: Json = {"title": {"text": _name(self.fact)}}
        numeric = all(is_number(level) for line in found for level in line.levels)
        if not numeric or not places:
            return axes(self.over, y)
        if places[0] > 0 and places[-1] >= _LOG_FROM * places[0]:
            return marked(self.over, places, y)
        return axes(self.over, y)


def _points(line: Line) -> dict[str, float]:
    """The place of each arm on the x axis: its level, which the plotting library takes as text, too."""
    return dict(zip(line.arms, line.levels, strict=True))  # type: ignore[arg-type]


def _may_stand_beside(factors: Factors, where: Where) -> bool:
    """Whether an arm contradicts `where` in no factor that it has."""
    return all(
        factors[name] == wanted if isinstance(wanted, str | int | float) else factors[name] in wanted
        for name, wanted in where.items()
        if name in factors
    )


def _dash(position: int) -> str:
    """Beyond as many lines as there are colours, lines are dotted."""
    return "solid" if position < SERIES else "dot"


@dataclass(frozen=True)
class Rounds:
    """Figures by round, as means over the seeds, of the first eight arms of a selection."""

    where: Where = field(default_factory=dict)
    title: str = "Figure by round"

    def chart(self, sweep: Sweep) -> Chart:
        """See Plot."""
        chosen = sweep.select(self.where) if self.where else tuple(sweep.outcomes)
        shown = {arm: arm for arm in chosen[:SERIES]}
        caption = "The mean over the seeds."
        if len(chosen) > SERIES:
            caption += f" The first {SERIES} of {len(chosen)} arms."
        found = curves(sweep, "rounds", self.title, caption, shown)
        layout = {**found.layout, "yaxis": _FIGURE}
        return Chart(found.key, found.title, found.caption, found.traces, layout)


_FIGURE: Json = {"title": {"text": "figure"}}


@dataclass(frozen=True)
class Bars:
    """A figure or fact of each arm of a selection, as a bar."""

    where: Where = field(default_factory=dict)
    fact: str = FINAL
    title: str = ""

    def chart(self, sweep: Sweep) -> Chart:
        """See Plot."""
        arms = sweep.select(self.where) if self.where else tuple(sweep.outcomes)
        bars: Json = {
            "type": "bar",
            "name": _name(self.fact),
            "x": list(arms),
            "y": [sweep.mean(arm, self.fact) for arm in arms],
            "error_y": {"type": "data", "array": [sweep.margin(arm, self.fact) for arm in arms]},
            "marker": {"color": colour(0)},
        }
        title = self.title or f"{_name(self.fact, capital=True)} of each arm"
        layout = axes("arm", {"title": {"text": _name(self.fact)}})
        return Chart(_key("bars", self.fact), title, BARS, (bars,) if arms else (), layout)


def _name(fact: str, capital: bool = False) -> str:
    """A figure or fact on an axis, or at the beginning of a title."""
    words = "figure after the last round" if fact == FINAL else fact
    return words[:1].upper() + words[1:] if capital else words


def _key(*parts: str) -> str:
    """The key of a chart, made of letters, digits and '-'."""
    return "-".join("".join(sign if sign.isalnum() else "-" for sign in part) for part in parts)


# -- what a study shows that says nothing about it ---------------------------------------------------------


def usual_charts(sweep: Sweep) -> tuple[Chart, ...]:
    """Lines over each numeric factor with several levels, else a bar for each arm; then figures by round."""
    names = dict.fromkeys(name for own in sweep.factors.values() for name in own)
    numeric = [name for name in names if _is_numeric(sweep, name) and sweep.lines(name, {})]
    plots: list[Plot] = [Lines(name) for name in numeric]
    return specified(*(plots or [Bars()]), Rounds())(sweep)


def _is_numeric(sweep: Sweep, name: str) -> bool:
    return all(is_number(own[name]) for own in sweep.factors.values() if name in own)


def usual_tables(sweep: Sweep) -> tuple[Table, ...]:
    """One table, with a row for each arm: its factors, its figure with the margin, and its epsilon."""
    names = tuple(dict.fromkeys(name for own in sweep.factors.values() for name in own))
    headings = ("arm", *names, "figure", "± margin", "epsilon spent", "seconds")
    return (Table("Arms", headings, tuple(_row(sweep, arm, names) for arm in sweep.outcomes)),)


def _row(sweep: Sweep, arm: str, names: Sequence[str]) -> tuple[str, ...]:
    own = sweep.factors.get(arm, {})
    seconds = sum(outcome.seconds for outcome in sweep.outcomes[arm]) / len(sweep.outcomes[arm])
    return (
        arm,
        *(level_text(own[name]) if name in own else "" for name in names),
        f"{sweep.mean(arm):.4g}",
        f"{sweep.margin(arm):.2g}",
        amount(sweep.fact(arm, "epsilon")),
        f"{seconds:.1f}",
    )


def usual_headline(sweep: Sweep) -> str:
    """The best and the worst arm, in a sentence."""
    ordered = sorted(sweep.outcomes, key=sweep.mean)
    best, worst = ordered[-1], ordered[0]
    said = f"{sweep.mean(best):.4g} with {best}"
    if len(ordered) > 1:
        said += f", the best of {len(ordered)} arms; {sweep.mean(worst):.4g} with {worst}, the worst"
    return f"{said}. Means of {len(sweep.seeds)} seeds."
