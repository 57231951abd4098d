"""The plots and tables of scenario `mechanisms`: stated epsilon, proved epsilon, and protection."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scenarios.frame.spec import Chart, Json, Table
from scenarios.study.arms import OWN
from scenarios.study.charts import ACCURACY, BARS, accuracy_text, colour, level
from scenarios.study.plots import Curve, Level, Lines, at_fact, specified
from scenarios.study.sweep import Sweep
from scenarios.study.tables import arms_rows, tabled
from scenarios.systems.mechanisms import kinds
from scenarios.systems.mechanisms.arms import (
    MAJORITY,
    by_proved,
    by_stated,
    keeps,
    keeps_given_radius,
    of,
    proved_epsilon,
    shows_radius,
)

TOLD_AT = 10
"""The stated epsilon at which the mechanisms are compared."""
SHARE: Json = {**ACCURACY, "range": [0, 1.02]}
_UNITS: Mapping[str, tuple[str, str]] = {
    kinds.DATA_SET: (colour(0), "protect a whole data set"),
    kinds.RECORD: (colour(1), "protect one record"),
    kinds.LABEL: (colour(3), "protects one label"),
    kinds.NOTHING: (colour(7), "no epsilon is proved"),
}
"""The colour and the words of what is protected."""
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star")


# -- stated ------------------------------------------------------------------------------------------------


def _curve(name: str, grouped: bool = False) -> Curve:
    """A mechanism's line, or its point; hollow where the stated epsilon is not proved."""
    kind = kinds.LINES[name]
    (ink, words), symbol = _UNITS[kind.protects], _SYMBOLS[kinds.lines_of(kind.protects).index(name)]
    group = {"legendgroup": kind.protects, "legendgrouptitle": {"text": words}}

    def style(sweep: Sweep, arms: Sequence[str]) -> Json:
        fill = [ink if keeps(sweep, arm) else "var(--card)" for arm in arms]
        return {
            "error_y": {"color": ink, "thickness": 1},
            "line": {"color": ink, "width": 2},
            "marker": {"color": fill, "size": 9, "symbol": symbol, "line": {"color": ink, "width": 2}},
            **(group if grouped else {}),
        }

    dash = "solid" if kind.system == kinds.PEERS else "dash"
    return Curve(kind.title, of(name), dash=dash, ink=0, style=style)


def _quiet(dash: str) -> Json:
    """The style of a level without noise."""
    group = {"legendgroup": "none", "legendgrouptitle": {"text": "no noise"}}
    return {"line": {"dash": dash, "color": "var(--muted)"}, **group}


ALL = Lines(
    "epsilon",
    key="stated",
    title="Accuracy over the epsilon that is stated",
    caption="To the right is less privacy, further up a better model. Colour says what epsilon is about; "
    "full lines have no server, dashed ones have one. Hollow points state an epsilon that is not proved. "
    "Different colours are different promises: 10 for a label is not 10 for a whole data set. " + BARS,
    curves=(
        *(_curve(name, grouped=True) for name in kinds.LINES),
        Curve("own mechanism", OWN, x=at_fact("stated"), over="", ink=4),
    ),
    levels=(
        Level("secure sum, no server", of("secure-sum"), style=_quiet("solid")),
        Level("fedavg, with a server", of("fedavg"), style=_quiet("dash")),
        Level("guessing", MAJORITY, style=_quiet("dot")),
    ),
    x_title="epsilon stated, for the whole run",
    y=SHARE,
    scale="marked",
    look={"height": 560, "legend": {"orientation": "v"}},
    least=1,
)


def over_stated(sweep: Sweep) -> Chart:
    """Every mechanism over the stated epsilon, with a table below of what each protects.

    A user's mechanism is a point at the epsilon that it states, or a level if it states none.
    """
    own = sweep.first(OWN)
    silent = own is not None and math.isnan(sweep.number(own, "stated"))
    level_of_own = (Level("own mechanism", OWN, style=_quiet("dashdot")),) if silent else ()
    shown = replace(ALL, levels=(*ALL.levels, *level_of_own)).chart(sweep)
    return replace(shown, under=protection_table(sweep))


# -- proved --------------------------------------------------------------------------------------------------


def truth(sweep: Sweep) -> Chart:
    """The proved epsilon behind one stated epsilon, mechanism by mechanism."""
    arms = {kind.title: arm for name, kind in kinds.LINES.items() if (arm := sweep.first(of(name, TOLD_AT)))}
    known = {title: proved_epsilon(sweep, arm) for title, arm in arms.items()}
    end = 30 * max([TOLD_AT, *(epsilon for epsilon in known.values() if not math.isnan(epsilon))])
    places = {title: end if math.isnan(epsilon) else epsilon for title, epsilon in known.items()}
    rails = [  # from the stated to the proved epsilon
        {
            "type": "scatter",
            "mode": "lines",
            "x": [TOLD_AT, place],
            "y": [title, title],
            "line": {"color": "var(--faint)", "width": 2},
            "showlegend": False,
            "hoverinfo": "skip",
        }
        for title, place in places.items()
    ]
    dots = [_dots(sweep, arms, places, protects) for protects in _UNITS]
    line = level(f"stated: {TOLD_AT}", 0.0, [TOLD_AT] * len(arms))
    stated = {**line, "y": [*arms], "showlegend": False, "hoverinfo": "skip"}
    return Chart(
        "truth",
        f"What is proved where {TOLD_AT} is stated",
        f"Colours and hollow points as above. The dashed line is {TOLD_AT}, which all of them state: points "
        "to its right spend more than they say, at the same delta, over the whole run.",
        tuple([stated, *rails, *(trace for trace in dots if trace["x"])] if arms else ()),
        {
            "xaxis": {**_powers("proved epsilon", end / 30), "range": [0, math.log10(end) + 0.3]},
            "yaxis": {"categoryorder": "array", "categoryarray": [*arms][::-1], "type": "category"},
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


def _dots(sweep: Sweep, arms: Mapping[str, str], places: Mapping[str, float], protects: str) -> Json:
    chosen = [kind.title for kind in kinds.LINES.values() if kind.protects == protects and kind.title in arms]
    ink, _ = _UNITS[protects]
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": protects,
        "x": [places[title] for title in chosen],
        "y": chosen,
        "text": [f"  {short(proved_epsilon(sweep, arms[title]))}  " for title in chosen],
        "textposition": ["top left" if places[title] > _FAR else "middle right" for title in chosen],
        "showlegend": False,
        "marker": {
            "color": [ink if keeps(sweep, arms[title]) else "var(--card)" for title in chosen],
            "size": 12,
            "line": {"color": ink, "width": 2.5},
        },
    }


def short(epsilon: float) -> str:
    """An epsilon as text, to three digits: 3.5, 68, 131,000, 1.2e+09; `none` if no epsilon is proved."""
    if math.isnan(epsilon):
        return "none"
    if epsilon >= 1e7:
        return f"{epsilon:.1e}"
    rounded = float(f"{epsilon:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"


def over_proved(protects: str, key: str, unit: str, words: str) -> Lines:
    """The mechanisms with one unit of privacy, over their proved epsilon."""

    def look(sweep: Sweep) -> Json:
        proved = [spent for name in kinds.lines_of(protects) for spent in by_proved(sweep, name).values()]
        return {"xaxis": _powers("proved epsilon", max(proved, default=1.0))}

    return Lines(
        "epsilon",
        key=key,
        title=f"{unit}: accuracy over the proved epsilon",
        caption="Only here can mechanisms be compared at one epsilon: all of them are about "
        f"{protects}. {words}",
        curves=tuple(replace(_curve(name), x=proved_epsilon) for name in kinds.lines_of(protects)),
        levels=(Level("no noise", of("fedavg")),),
        y=SHARE,
        scale="linear",
        look=look,
        least=1,
    )


charts = specified(
    over_stated,
    truth,
    over_proved(
        *(kinds.DATA_SET, "data-sets", "A whole data set"),
        "dp-fedavg counts a party that comes or goes; the others one whose data are exchanged for any other.",
    ),
    over_proved(
        *(kinds.RECORD, "records", "One record"),
        "dp-sgd covers a record that comes or goes, with its label; row-noise and rpfl the features of a "
        "record that are exchanged for any others.",
    ),
    over_proved(kinds.LABEL, "labels", "One label", "label-dp spends what it states, in one draw."),
)


# -- tables ------------------------------------------------------------------------------------------------

tables = tabled(arms_rows())

_TABLE = "What is protected, and from whom (embedding DP is not drawn: it is for a vertical split)"


def protection_table(sweep: Sweep) -> Table:
    """For each mechanism: what it protects, from whom, by which relation, whether it is proved, its cost."""
    headings = (
        *("mechanism", "system", "what is protected", "from whom", "neighbours; norm"),
        *("stated is proved?", f"accuracy, stated {TOLD_AT}", "to know"),
    )
    stated = tuple(
        _row(sweep, kind, kept_in_words(sweep, name), sweep.first(of(name, TOLD_AT)))
        for name, kind in kinds.LINES.items()
        if by_stated(sweep, name)
    )
    others = tuple(
        _row(sweep, kind, "states none", arm)
        for name, kind in kinds.OTHERS.items()
        if (arm := sweep.first(of(name)))
    )
    return Table(_TABLE, headings, stated + others + _own_row(sweep))


def _row(sweep: Sweep, kind: kinds.Kind, told: str, arm: str | None) -> tuple[str, ...]:
    accuracy = accuracy_text(sweep, arm) if arm else ""
    return (kind.title, kind.system, kind.protects, kind.whom, kind.neighbours, told, accuracy, kind.remark)


def kept_in_words(sweep: Sweep, mechanism: str) -> str:
    """Whether the epsilon that a mechanism states is proved."""
    arms = by_stated(sweep, mechanism)
    given = _kept_given_radius(sweep, arms)
    if any(shows_radius(sweep, arm) for arm in arms):
        return f"no: no epsilon covers the radius, which the noise shows; given it, {given}"
    return given


def _kept_given_radius(sweep: Sweep, arms: Mapping[str, float]) -> str:
    over = {stated: arm for arm, stated in arms.items() if not keeps_given_radius(sweep, arm)}
    if not over:
        return "yes"
    stated = TOLD_AT if TOLD_AT in over else next(iter(over))
    proved = sweep.number(over[stated], "epsilon")
    if math.isnan(proved):
        return "no: no epsilon is proved"
    return f"{'no' if len(over) == len(arms) else 'not always'}: {stated:g} is {short(proved)}"


def _own_row(sweep: Sweep) -> tuple[tuple[str, ...], ...]:
    own = sweep.first(OWN)
    if own is None:
        return ()
    protects, unit = str(sweep.fact(own, "protects") or ""), str(sweep.fact(own, "unit") or "no epsilon")
    told = "yes" if keeps(sweep, own) else f"no: {short(proved_epsilon(sweep, own))} is"
    if sweep.fact(own, "stated") is None:
        told = "states none"
    return (_row(sweep, kinds.Kind(own, "", protects, "", unit, "a mechanism of your own"), told, own),)
