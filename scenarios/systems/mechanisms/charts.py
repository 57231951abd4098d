"""The plots and tables of scenario `mechanisms`: stated epsilon, proved epsilon, and protection."""

from __future__ import annotations

import math
from collections.abc import Mapping

from scenarios.frame.spec import Chart, Json, Table
from scenarios.study.charts import (
    ACCURACY,
    BARS,
    accuracy_text,
    arms_table,
    colour,
    drawn,
    level,
    marked,
    series,
)
from scenarios.study.sweep import Sweep
from scenarios.systems.mechanisms.arms import (
    MAJORITY,
    SECURE_SUM,
    SERVER_ONLY,
    STATED,
    Line,
    asked,
    at,
    by_proved,
    by_stated,
    cell_of,
    keeps,
    keeps_given_radius,
    proved_epsilon,
    shows_radius,
)
from scenarios.systems.mechanisms.kinds import (
    DATA_SET,
    LABEL,
    LINES,
    NOTHING,
    OTHERS,
    PEERS,
    RECORD,
    Kind,
    lines_of,
)

TOLD_AT = 10
"""The stated epsilon at which the mechanisms are compared."""
SHARE: Json = {**ACCURACY, "range": [0, 1.02]}
SWAPPED = (
    "dp-fedavg counts a party that comes or goes; the others one whose data are exchanged for any other."
)
NO_LABEL = (
    "dp-sgd covers a record that comes or goes, with its label; row-noise and rpfl the features of a record "
    "that are exchanged for any others."
)

_COLOURS: Mapping[str, str] = {DATA_SET: colour(0), RECORD: colour(1), LABEL: colour(3), NOTHING: colour(7)}
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star")
_WORDS: Mapping[str, str] = {
    DATA_SET: "protect a whole data set",
    RECORD: "protect one record",
    LABEL: "protects one label",
    NOTHING: "no epsilon is proved",
}


def charts(sweep: Sweep) -> tuple[Chart, ...]:
    """The charts that have figures, the one with all mechanisms first."""
    return drawn(
        over_stated(sweep),
        truth(sweep),
        over_proved(sweep, DATA_SET, "data-sets", "A whole data set", SWAPPED),
        over_proved(sweep, RECORD, "records", "One record", NO_LABEL),
        over_proved(sweep, LABEL, "labels", "One label", "label-dp spends what it states, in one draw."),
    )


# -- stated ------------------------------------------------------------------------------------------------


def over_stated(sweep: Sweep) -> Chart:
    """Every mechanism over the stated epsilon, with a table below of what each protects."""
    lines = [
        _grouped(sweep, line, points)
        for line in LINES
        if len(points := by_stated(sweep, line)) > 0
    ]  # fmt: skip
    traces = [*lines, *_levels(sweep)] if lines else []
    places = sorted({place for line in lines for place in line["x"]})
    return Chart(
        "stated",
        "Accuracy over the epsilon that is stated",
        "To the right is less privacy, further up a better model. Colour says what epsilon is about; full "
        "lines have no server, dashed ones have one. Hollow points state an epsilon that is not proved. "
        "Different colours are different promises: 10 for a label is not 10 for a whole data set. " + BARS,
        tuple(traces),
        {
            **marked("epsilon stated, for the whole run", places, SHARE),
            "height": _HEIGHT,
            "legend": {"orientation": "v"},
        },
        protection_table(sweep),
    )


_HEIGHT = 560
"""The height in pixels, for eleven lines and their names."""


def _grouped(sweep: Sweep, line: Line, points: Mapping[str, float]) -> Json:
    """A trace in the group of what it protects; a point is hollow if its stated epsilon is not proved."""
    protects = LINES[line].protects
    group = {"legendgroup": protects, "legendgrouptitle": {"text": _WORDS[protects]}}
    return {**_line(sweep, line, points), **group}


def _line(sweep: Sweep, line: Line, points: Mapping[str, float]) -> Json:
    kind = LINES[line]
    place = lines_of(kind.protects).index(line)
    ink, dash = _COLOURS[kind.protects], "solid" if kind.system == PEERS else "dash"
    drawn_line = series(sweep, kind.title, points, 0, dash)
    fill = [ink if keeps(sweep, arm) else "var(--card)" for arm in points]
    return {
        **drawn_line,
        "error_y": {**drawn_line["error_y"], "color": ink, "thickness": 1},
        "line": {"color": ink, "width": 2, "dash": dash},
        "marker": {"color": fill, "size": 9, "symbol": _SYMBOLS[place], "line": {"color": ink, "width": 2}},
    }


def _levels(sweep: Sweep) -> list[Json]:
    """Levels without noise, in both systems, and of guessing."""
    ends = (min(STATED), max(STATED))
    values = {
        "secure sum, no server": (SECURE_SUM, "solid"),
        "fedavg, with a server": (SERVER_ONLY, "dash"),
    }
    found = [
        _in_style(level(name, sweep.mean(arm), ends), dash)
        for name, (arm, dash) in values.items()
        if sweep.has(arm)
    ]
    return [*found, _in_style(level("guessing", MAJORITY, ends), "dot"), *_own(sweep, ends)]


def _in_style(trace: Json, dash: str) -> Json:
    line = {**trace["line"], "dash": dash, "color": "var(--muted)"}
    return {**trace, "line": line, "legendgroup": "none", "legendgrouptitle": {"text": "no noise"}}


def _own(sweep: Sweep, ends: tuple[float, float]) -> list[Json]:
    """A user's mechanism: a point at its requested epsilon, or a level if there is none."""
    if not sweep.has("own"):
        return []
    stated = asked(cell_of(sweep, "own"))
    if stated is None or sweep.fact("own", "stated") is None:
        return [_in_style(level("own mechanism", sweep.mean("own"), ends), "dashdot")]
    return [series(sweep, "own mechanism", {"own": stated}, 4)]


# -- proved --------------------------------------------------------------------------------------------------


def truth(sweep: Sweep) -> Chart:
    """The proved epsilon behind one stated epsilon, mechanism by mechanism."""
    arms = {line: arm for line in LINES if (arm := at(sweep, line, TOLD_AT)) is not None}
    known = [proved_epsilon(sweep, arm) for arm in arms.values()]
    end = 30 * max([TOLD_AT, *(epsilon for epsilon in known if not math.isnan(epsilon))])
    names = [LINES[line].title for line in arms]
    rails = [_rail(LINES[line].title, _shown(sweep, arm, end)) for line, arm in arms.items()]
    dots = [_dots(sweep, arms, protects, end) for protects in _COLOURS]
    return Chart(
        "truth",
        f"What is proved where {TOLD_AT} is stated",
        f"Colours and hollow points as above. The dashed line is {TOLD_AT}, which all of them state: points "
        "to its right spend more than they say, at the same delta, over the whole run.",
        tuple([_stated_line(names), *rails, *(trace for trace in dots if trace["x"])] if arms else ()),
        {
            "xaxis": {**_powers("proved epsilon", end / 30), "range": [0, math.log10(end) + 0.3]},
            "yaxis": {"categoryorder": "array", "categoryarray": names[::-1], "type": "category"},
            "height": _TRUTH_HEIGHT,
        },
    )


_TRUTH_HEIGHT = 380
_FAR = 100.0
"""Points with a larger epsilon have their number on the left."""
_MARKS = {0.1: "0.1", 1: "1", 10: "10", 100: "100", 1000: "1000"}
_WIDE_MARKS = {0.1: "0.1", 10: "10", 1e3: "1000", 1e5: "10⁵", 1e7: "10⁷", 1e9: "10⁹"}


def _powers(title: str, most: float) -> Json:
    """A logarithmic axis up to `most`; a long one has few tick marks, to fit on a phone."""
    marks = {x: text for x, text in (_MARKS if most <= 1e4 else _WIDE_MARKS).items() if x <= most}
    return {"title": {"text": title}, "type": "log", "tickvals": [*marks], "ticktext": [*marks.values()]}


def _shown(sweep: Sweep, arm: str, infinite: float) -> float:
    """The position of a point: its proved epsilon, or the right end if it has none."""
    epsilon = proved_epsilon(sweep, arm)
    return infinite if math.isnan(epsilon) else epsilon


def _dots(sweep: Sweep, arms: Mapping[Line, str], protects: str, infinite: float) -> Json:
    chosen = {LINES[line].title: arm for line, arm in arms.items() if LINES[line].protects == protects}
    kept = [keeps(sweep, arm) for arm in chosen.values()]
    places = [_shown(sweep, arm, infinite) for arm in chosen.values()]
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": protects,
        "x": places,
        "y": list(chosen),
        "text": [f"  {short(proved_epsilon(sweep, arm))}  " for arm in chosen.values()],
        "textposition": ["top left" if place > _FAR else "middle right" for place in places],
        "showlegend": False,
        "marker": {
            "color": [_COLOURS[protects] if keeps else "var(--card)" for keeps in kept],
            "size": 12,
            "line": {"color": _COLOURS[protects], "width": 2.5},
        },
    }


def _rail(title: str, end: float) -> Json:
    """A line from the stated to the proved epsilon."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [TOLD_AT, end],
        "y": [title, title],
        "line": {"color": "var(--faint)", "width": 2},
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _stated_line(names: list[str]) -> Json:
    return {
        **level(f"stated: {TOLD_AT}", 0.0, [TOLD_AT] * len(names)),
        "y": names,
        "showlegend": False,
        "hoverinfo": "skip",
    }


def short(epsilon: float) -> str:
    """An epsilon as text, to three digits: 3.5, 68, 131,000, 1.2e+09; `none` if no epsilon is proved."""
    if math.isnan(epsilon):
        return "none"
    if epsilon >= 1e7:
        return f"{epsilon:.1e}"
    rounded = float(f"{epsilon:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"


def over_proved(sweep: Sweep, protects: str, key: str, unit: str, words: str) -> Chart:
    """The mechanisms with one unit of privacy, over their proved epsilon."""
    lines = {line: points for line in lines_of(protects) if (points := by_proved(sweep, line))}
    traces = [_line(sweep, line, points) for line, points in lines.items()]
    places = sorted(place for points in lines.values() for place in points.values())
    if traces and sweep.has(SERVER_ONLY):
        traces.append(level("no noise", sweep.mean(SERVER_ONLY), (places[0], places[-1])))
    return Chart(
        key,
        f"{unit}: accuracy over the proved epsilon",
        f"Only here can mechanisms be compared at one epsilon: all of them are about {protects}. {words}",
        tuple(traces),
        {"xaxis": _powers("proved epsilon", max(places, default=1.0)), "yaxis": SHARE},
    )


# -- tables ------------------------------------------------------------------------------------------------


def tables(sweep: Sweep) -> tuple[Table, ...]:
    """The table of every arm."""
    return (arms_table(sweep),)


_TABLE = "What is protected, and from whom (embedding DP is not drawn: it is for a vertical split)"


def protection_table(sweep: Sweep) -> Table:
    """For each mechanism: what it protects, from whom, by which relation, whether it is proved, its cost."""
    headings = (
        *("mechanism", "system", "what is protected", "from whom", "neighbours; norm"),
        *("stated is proved?", f"accuracy, stated {TOLD_AT}", "to know"),
    )
    lines = tuple(_line_row(sweep, line, kind) for line, kind in LINES.items() if by_stated(sweep, line))
    others = tuple(
        _row(kind, "states none", accuracy_text(sweep, arm)) for arm, kind in OTHERS.items() if sweep.has(arm)
    )
    return Table(_TABLE, headings, lines + others + _own_row(sweep))


def _row(kind: Kind, told: str, accuracy: str) -> tuple[str, ...]:
    return (kind.title, kind.system, kind.protects, kind.whom, kind.neighbours, told, accuracy, kind.remark)


def _line_row(sweep: Sweep, line: Line, kind: Kind) -> tuple[str, ...]:
    arm = at(sweep, line, TOLD_AT)
    return _row(kind, kept_in_words(sweep, line), accuracy_text(sweep, arm) if arm else "")


def kept_in_words(sweep: Sweep, line: Line) -> str:
    """Whether the epsilon that a line states is proved."""
    arms = by_stated(sweep, line)
    given = _kept_given_radius(sweep, line, arms)
    if any(shows_radius(cell_of(sweep, arm)) for arm in arms):
        return f"no: no epsilon covers the radius, which the noise shows; given it, {given}"
    return given


def _kept_given_radius(sweep: Sweep, line: Line, arms: Mapping[str, float]) -> str:
    over = {arm: stated for arm, stated in arms.items() if not keeps_given_radius(sweep, arm)}
    if not over:
        return "yes"
    told = at(sweep, line, TOLD_AT)
    arm = told if told in over else next(iter(over))
    proved = sweep.number(arm, "epsilon")
    if math.isnan(proved):
        return "no: no epsilon is proved"
    return f"{'no' if len(over) == len(arms) else 'not always'}: {over[arm]:g} is {short(proved)}"


def _own_row(sweep: Sweep) -> tuple[tuple[str, ...], ...]:
    if not sweep.has("own"):
        return ()
    unit = str(sweep.fact("own", "unit") or "no epsilon")
    proved = short(proved_epsilon(sweep, "own"))
    told = "yes" if keeps(sweep, "own") else f"no: {proved} is"
    if sweep.fact("own", "stated") is None:
        told = "states none"
    protects = str(sweep.fact("own", "protects") or "")
    return (("own", "", protects, "", unit, told, accuracy_text(sweep, "own"), "a mechanism of your own"),)
