"""Plots as short specifications over factors, and the usual plots and headline of a study.

    charts=specified(Lines("epsilon"), Rounds({"epsilon": 8}), Bars())

`Lines` has a line for each combination of the other factors, `Rounds` a curve for each arm, `Bars` a bar for
each arm; error bars are 95 % confidence intervals over the seeds. A study that names its curves, or draws
only some of the arms, gives them one by one:

    Lines("epsilon", curves=(Curve("ldp", {"mechanism": "ldp"}), Curve("dp-sgd", {"mechanism": "dp-sgd"})),
          levels=(Level("no noise", {"mechanism": "none"}),))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from scenarios.frame.spec import Chart, Json
from scenarios.study.arms import Factors, Where, capital, in_words, is_number, matches
from scenarios.study.charts import (
    BARS,
    SERIES,
    axes,
    bars,
    by_round,
    colour,
    drawn,
    marked,
    metric_axis,
    series,
)
from scenarios.study.charts import level as level_line
from scenarios.study.sweep import FINAL, Sweep

_AFTER = " after the last round"
_LOG_FROM = 20.0
"""An axis is logarithmic if its greatest value is this many times the least."""

T = TypeVar("T")
Text = str | Callable[[Sweep], str]
"""Text, or a function that writes it about a sweep."""
Naming = str | Callable[[Factors], str]
"""A name, or a function that makes one of factors, such as `"{users:g} users".format_map`."""
Place = str | Callable[[Sweep, str], float | str]
"""Where an arm is on an axis: at the value of a factor, else of a fact, or at that of a function."""
Style = Json | Callable[[Sweep, Sequence[str]], Json]
"""Changes to a trace as the plotting library has it, or a function of the arms that makes them."""
Look = Json | Callable[[Sweep], Json]
"""Changes to a layout as the plotting library has it, or a function that makes them."""


def at_fact(name: str) -> Place:
    """The place at the mean of a fact, also where a factor has the same name."""
    return lambda sweep, arm: sweep.mean(arm, name)


PROVED = at_fact("epsilon")
"""The place at the proved epsilon; the factor `epsilon` is the one that is asked for."""


class Plot(Protocol):
    """A specification of a chart."""

    def chart(self, sweep: Sweep) -> Chart:
        """The chart; without traces if its arms were not run."""


def specified(*plots: Plot | Callable[[Sweep], Chart]) -> Callable[[Sweep], tuple[Chart, ...]]:
    """The charts that these specifications or functions make, without those that have nothing to draw."""
    return lambda sweep: drawn(*(plot(sweep) if callable(plot) else plot.chart(sweep) for plot in plots))


@dataclass(frozen=True)
class Curve:
    """One line of a plot, or its lines of one kind.

    name: text, for the line with most levels of those that `where` means; or a function of the factors that
    the arms of a line share, for every such line. over, x, fact: instead of those of the plot. ink: the
    position of the colour; None: that of the curve.
    """

    name: Naming
    where: Where = field(default_factory=dict)
    fact: str = ""
    x: Place = ""
    dash: str = "solid"
    ink: int | None = None
    over: str | None = None
    style: Style = field(default_factory=dict)


class Reference(Protocol):
    """What a plot shows for comparison."""

    def trace(self, sweep: Sweep, places: Sequence[Any], fact: str) -> Json | None:
        """The trace beside curves at `places` that show `fact`; None if no arm that was run has it."""


@dataclass(frozen=True)
class Level:
    """A dashed line from the first to the last place.

    of: the selection whose first arm has this level; a number; or a function of the place, whose curve is
    drawn through `at`, or else through the places of the curves.
    """

    name: str
    of: Where | float | Callable[[float], float]
    fact: str = ""
    at: Sequence[float] = ()
    style: Json = field(default_factory=dict)

    def trace(self, sweep: Sweep, places: Sequence[Any], fact: str) -> Json | None:
        """See Reference."""
        if callable(self.of):
            at = list(self.at or places)
            return merged({**level_line(self.name, 0.0, at), "y": [self.of(x) for x in at]}, self.style)
        value = self.of if isinstance(self.of, int | float) else math.nan
        if isinstance(self.of, Mapping) and (arm := sweep.first(self.of)) is not None:
            value = sweep.mean(arm, self.fact or fact)  # NaN if the arm has no such fact
        if math.isnan(value):
            return None
        return merged(level_line(self.name, value, [places[0], places[-1]]), self.style)


@dataclass(frozen=True)
class Drawn:
    """A trace as it is, such as a source's own figures."""

    json: Json

    def trace(self, sweep: Sweep, places: Sequence[Any], fact: str) -> Json | None:
        """See Reference."""
        return self.json


def merged(one: Json, other: Json) -> Json:
    """JSON objects joined: `other` has the last word, also within objects that both have."""
    both = {
        name: merged(one[name], value)
        if isinstance(value, Mapping) and isinstance(one.get(name), Mapping)
        else value
        for name, value in other.items()
    }
    return {**one, **both}


# -- lines -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lines:
    """A figure or fact over one factor: a line for each combination of the other factors.

    A numeric factor whose values span a factor of 20 has a logarithmic axis, unless `scale` says "linear",
    "log", or "marked", which is "log" with tick marks at the places, or at `ticks`. Arms that do not have the
    factor but agree in the others, such as a reference without noise, are dashed lines.

    over: "" takes all arms of a curve as one line, whatever they differ in; the curves then say their `x`.
    curves: instead of `where`; then `levels` are the only references. A curve of one arm is a point; a chart
    is left out if no curve has `least` points. x_title, y: of the axes. look: changes to the layout.
    """

    over: str
    where: Where = field(default_factory=dict)
    fact: str = FINAL
    title: Text = ""
    key: str = ""
    caption: Text = BARS
    curves: tuple[Curve, ...] = ()
    levels: tuple[Reference, ...] = ()
    x_title: str = ""
    y: Json | None = None
    scale: str = ""
    ticks: Sequence[float] = ()
    least: int = 2
    look: Look = field(default_factory=dict)

    def chart(self, sweep: Sweep) -> Chart:
        """See Plot."""
        name = _name(sweep, self.fact)
        curves = self.curves or (Curve(lambda others: in_words(others) or name, self.where),)
        traces = [
            trace
            for place, curve in enumerate(curves)
            for trace in self._traces(sweep, curve, place if curve.ink is None else curve.ink)
        ]
        places = _in_order([place for trace in traces for place in trace["x"]])
        key = self.key or _key("over", self.over, self.fact)
        if not any(len(trace["x"]) >= self.least for trace in traces):
            return Chart(key, "", "", (), {})
        found = (one.trace(sweep, places, self.fact) for one in self._references(sweep))
        return Chart(
            key,
            given(self.title, sweep) or f"{_name(sweep, self.fact, begins=True)} over {self.over}",
            _barred(self.caption, sweep),
            (*traces, *(trace for trace in found if trace is not None)),
            merged(self._layout(sweep, places), given(self.look, sweep)),
        )

    def _traces(self, sweep: Sweep, curve: Curve, first: int) -> Iterator[Json]:
        for position, (name, arms) in enumerate(self._lines(sweep, curve), first):
            over = self.over if curve.over is None else curve.over
            points = _placed(sweep, arms, curve.x or over, curve.fact or self.fact)
            if points:
                fact, dash = curve.fact or self.fact, curve.dash if position < SERIES else "dot"
                made = series(sweep, name, points, position, dash, fact)
                yield merged(made, given(curve.style, sweep, tuple(points)))

    def _lines(self, sweep: Sweep, curve: Curve) -> list[tuple[str, Sequence[str]]]:
        """The names and arms of the lines of a curve."""
        over = self.over if curve.over is None else curve.over
        if not isinstance(curve.name, str):
            return [(curve.name(line.others), line.arms) for line in sweep.lines(over, curve.where)]
        arms = sweep.line(over, curve.where).arms if over else sweep.select(curve.where)
        return [(curve.name, arms)]

    def _references(self, sweep: Sweep) -> Sequence[Reference]:
        """Those given, else arms without the factor that still differ from all others in it alone."""
        if self.levels or self.curves:
            return self.levels
        where = {name: wanted for name, wanted in self.where.items() if name != self.over}
        bare = [arm for arm in sweep.select({}) if self.over not in sweep.factors[arm]]
        meant = [
            arm
            for arm in bare
            if matches(own := sweep.factors[arm], {name: where[name] for name in where if name in own})
        ]
        return [Level(arm, sweep.mean(arm, self.fact)) for arm in meant[:SERIES]]

    def _layout(self, sweep: Sweep, places: Sequence[Any]) -> Json:
        x, y = self.x_title or self.over, self.y or _axis(sweep, self.fact)
        match self.scale or _scale(places):
            case "marked":
                return marked(x, self.ticks or places, y)
            case "log":
                return axes(x, y, log_x=True)
        return axes(x, y)


def _in_order(places: Sequence[Any]) -> list[Any]:
    """Every place once: ascending if they are numbers, else as they come."""
    once = list(dict.fromkeys(places))
    return sorted(once) if all(map(is_number, once)) else once


def _scale(places: Sequence[Any]) -> str:
    wide = all(map(is_number, places)) and places[0] > 0 and places[-1] >= _LOG_FROM * places[0]
    return "marked" if wide else "linear"


def _placed(sweep: Sweep, arms: Sequence[str], x: Place, fact: str) -> dict[str, Any]:
    """The place of each arm on the x axis; without arms that have no place there, or not this fact."""
    found = {arm: _place(sweep, arm, x) for arm in arms if not math.isnan(sweep.mean(arm, fact))}
    known = {arm: place for arm, place in found.items() if isinstance(place, str) or not math.isnan(place)}
    numbers = all(map(is_number, known.values()))
    return dict(sorted(known.items(), key=lambda item: item[1])) if numbers else known


def _place(sweep: Sweep, arm: str, x: Place) -> Any:
    if callable(x):
        return x(sweep, arm)
    return sweep.factors[arm][x] if x in sweep.factors[arm] else sweep.mean(arm, x)


def given(value: T | Callable[..., T], *subject: Any) -> T:
    """A part of a specification: the value itself, or what it makes of a sweep, or of a sweep and arms."""
    return value(*subject) if callable(value) else value


def _named(sweep: Sweep, curve: Curve) -> list[tuple[str, str]]:
    """The arms of a curve with their names: the first one if the name is text."""
    arms = sweep.select(curve.where)
    if isinstance(curve.name, str):
        return [(arm, curve.name) for arm in arms[:1]]
    return [(arm, curve.name(sweep.factors[arm])) for arm in arms]


# -- rounds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounds:
    """Figures by round, as means over the seeds, of the first eight arms of a selection.

    curves: instead of `where`, and as many as there are: of each the first arm, or with a function as its
    name every arm, named by all of its factors. Their `fact` is the name of a series.
    """

    where: Where = field(default_factory=dict)
    title: Text = lambda sweep: f"{capital(sweep.figure)} by round"
    key: str = "rounds"
    caption: Text = "The mean over the seeds."
    curves: tuple[Curve, ...] = ()
    levels: tuple[Reference, ...] = ()
    x_title: str = "round"
    y: Json | None = None
    look: Look = field(default_factory=dict)

    def chart(self, sweep: Sweep) -> Chart:
        """See Plot."""
        shown = self._shown(sweep)
        traces = [_by_round(sweep, *one, place) for place, one in enumerate(shown)]
        last = max((len(trace["x"]) for trace in traces), default=1)
        caption, there = given(self.caption, sweep), sweep.select(self.where)
        if not self.curves and len(there) > SERIES:
            caption += f" The first {SERIES} of {len(there)} arms."
        found = [one.trace(sweep, [1, last], FINAL) for one in self.levels] if traces else []
        layout = merged(
            by_round(last, self.y or _axis(sweep, FINAL, "")), {"xaxis": {"title": {"text": self.x_title}}}
        )
        return Chart(
            self.key,
            given(self.title, sweep),
            caption,
            (*traces, *(trace for trace in found if trace is not None)),
            merged(layout, given(self.look, sweep)),
        )

    def _shown(self, sweep: Sweep) -> list[tuple[Curve, str, str]]:
        """Each curve with its arm and name."""
        if not self.curves:
            return [(Curve(arm), arm, arm) for arm in sweep.select(self.where)[:SERIES]]
        return [(curve, *named) for curve in self.curves for named in _named(sweep, curve)]


def _by_round(sweep: Sweep, curve: Curve, arm: str, name: str, position: int) -> Json:
    values = sweep.curve(arm, curve.fact or FINAL)
    ink = colour(position if curve.ink is None else curve.ink)
    trace: Json = {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(range(1, len(values) + 1)),
        "y": list(values),
        "line": {"color": ink, "width": 2.5, **({"dash": curve.dash} if curve.dash != "solid" else {})},
    }
    return merged(trace, given(curve.style, sweep, (arm,)))


# -- bars --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bars:
    """A figure or fact of each arm of a selection, as a bar.

    curves: instead of `where`, bars of one colour for each, side by side where they have the same name on the
    axis; with a function as its name, bars of one colour for each name that it gives. label: the name of an
    arm on the axis, made of its factors. base: where bars begin. A single bar of curves is no chart.
    """

    where: Where = field(default_factory=dict)
    fact: str = FINAL
    title: Text = ""
    key: str = ""
    caption: Text = BARS
    curves: tuple[Curve, ...] = ()
    levels: tuple[Reference, ...] = ()
    label: Callable[[Factors], str] | None = None
    base: float = 0.0
    y: Json | None = None
    look: Look = field(default_factory=dict)

    def chart(self, sweep: Sweep) -> Chart:
        """See Plot."""
        curves = self.curves or (Curve(_name(sweep, self.fact), self.where),)
        traces = [
            self._bars(sweep, curve, name, arms, position if curve.ink is None else curve.ink)
            for place, curve in enumerate(curves)
            for position, (name, arms) in enumerate(self._groups(sweep, curve).items(), place)
        ]
        places = list(dict.fromkeys(place for trace in traces for place in trace["x"]))
        if self.curves and sum(len(trace["x"]) for trace in traces) < 2:
            return Chart(self.key, "", "", (), {})
        found = [one.trace(sweep, places, self.fact) for one in self.levels] if traces else []
        layout = axes("arm", self.y or _axis(sweep, self.fact))
        if self.label is not None:
            layout = {"barmode": "group", "yaxis": layout["yaxis"]}
        return Chart(
            self.key or _key("bars", self.fact),
            given(self.title, sweep) or f"{_name(sweep, self.fact, begins=True)} of each arm",
            _barred(self.caption, sweep),
            (*traces, *(trace for trace in found if trace is not None)),
            merged(layout, given(self.look, sweep)),
        )

    def _groups(self, sweep: Sweep, curve: Curve) -> dict[str, list[str]]:
        """The arms of a curve that have its fact, by name: one text, or what a function says of each."""
        groups: dict[str, list[str]] = {}
        for arm in sweep.select(curve.where):
            if not math.isnan(sweep.mean(arm, curve.fact or self.fact)):
                name = curve.name if isinstance(curve.name, str) else curve.name(sweep.factors[arm])
                groups.setdefault(name, []).append(arm)
        return groups

    def _bars(self, sweep: Sweep, curve: Curve, name: str, arms: Sequence[str], ink: int) -> Json:
        fact, label = curve.fact or self.fact, self.label
        found: Json = {
            "type": "bar",
            "name": name,
            "x": [arm if label is None else label(sweep.factors[arm]) for arm in arms],
            "y": [sweep.mean(arm, fact) - self.base for arm in arms],
            "error_y": bars(sweep, arms, fact),
            "marker": {"color": colour(ink)},
            **({"base": self.base} if self.base else {}),
        }
        return merged(found, given(curve.style, sweep, arms))


def _name(sweep: Sweep, fact: str, begins: bool = False) -> str:
    """A figure or fact on an axis, or at the beginning of a title."""
    words = f"{sweep.figure}{_AFTER}" if fact == FINAL else fact
    return capital(words) if begins else words


def _axis(sweep: Sweep, fact: str, after: str = _AFTER) -> Json:
    """The y axis of a figure or fact."""
    if fact != FINAL:
        return {"title": {"text": fact}}
    known = metric_axis(sweep.metric) if sweep.metric else {}
    return {**known, "title": {"text": f"{sweep.figure}{after}"}}


def _barred(caption: Text, sweep: Sweep) -> str:
    """The caption of a plot with error bars."""
    words = given(caption, sweep)
    return f"{words}{sweep.few_seeds}" if BARS in words else words


def _key(*parts: str) -> str:
    """The key of a chart, made of letters, digits and '-'."""
    return "-".join("".join(sign if sign.isalnum() else "-" for sign in part) for part in parts)


# -- what a study shows that says nothing about it ---------------------------------------------------------


def usual_charts(sweep: Sweep) -> tuple[Chart, ...]:
    """Lines over each numeric factor with several levels, else a bar for each arm; then figures by round."""
    names = dict.fromkeys(name for own in sweep.factors.values() for name in own)
    numeric = [
        name
        for name in names
        if all(is_number(own[name]) for own in sweep.factors.values() if name in own)
        and sweep.lines(name, {})
    ]
    plots: list[Plot] = [Lines(name) for name in numeric]
    return specified(*(plots or [Bars()]), Rounds())(sweep)


def usual_headline(sweep: Sweep) -> str:
    """The best and the worst arm, in a sentence."""
    ordered = sorted(sweep.outcomes, key=sweep.mean)
    best, worst = ordered[-1], ordered[0]
    name = f"{capital(sweep.figure)} " if sweep.metric else ""
    said = f"{name}{sweep.mean(best):.4g} with {best}"
    if len(ordered) > 1:
        said += f", the best of {len(ordered)} arms; {sweep.mean(worst):.4g} with {worst}, the worst"
    return f"{said}. Means of {len(sweep.seeds)} seeds{', which are few' if sweep.few_seeds else ''}."
