"""The plots and tables of scenario `tables`: what each model learns, and what privacy costs."""

from __future__ import annotations

from scenarios.frame.spec import Json
from scenarios.study.arms import Factors, Where
from scenarios.study.charts import BARS
from scenarios.study.plots import Bars, Curve, Level, Lines, specified
from scenarios.study.sweep import Sweep
from scenarios.study.tables import ArmTable, Cells, Grid, number, protection_rows, seconds, tabled
from scenarios.systems.tables.arms import (
    ADDITIVE,
    ALONE,
    BOOSTING,
    BOTH,
    DATA,
    EPSILONS,
    EXACT,
    LINEAR,
    MIDDLE,
    NETWORK,
    POOLED,
    SWARM,
    TREES,
    WHOLE,
)
from scenarios.tables.cell import ROWS
from scenarios.tables.models import SUMS, WORDS

WORDS_OF: dict[str, Factors] = {
    "linear": LINEAR,
    "network": NETWORK,
    "additive": ADDITIVE,
    "trees": TREES,
    "additive, then trees": BOTH,
    "boosting": BOOSTING,
}
"""The models in words."""
_PARTIES: dict[str, Factors] = {"a swarm of three": SWARM, "one site": ALONE, "all rows pooled": POOLED}


def _measure(data: str) -> str:
    return "R²" if data == "progression" else "AUC"


def _axis(data: str) -> Json:
    return {"title": {"text": f"{_measure(data)} of the test rows"}, "rangemode": "normal"}


def _model_of(factors: Factors) -> str:
    return next(words for words, own in WORDS_OF.items() if own["model"] == factors["model"])


def _points(symbol: str) -> Json:
    return {"type": "scatter", "mode": "markers", "marker": {"symbol": symbol, "size": 9}}


def by_model(data: str) -> Bars:
    """A point for each model and for who learns it."""
    return Bars(
        key=f"models-{data}",
        title=f"{DATA[data]}: {_measure(data)} by model",
        caption=f"Without privacy. Models of the product have four fifths of each site's rows, as nodes "
        f"hold the rest back; boosting, which is scikit-learn's, has all of them. {BARS}",
        curves=tuple(
            Curve(words, {"data": data, **parties}, style=_points(symbol))
            for (words, parties), symbol in zip(
                _PARTIES.items(), ("circle", "x", "diamond-open"), strict=True
            )
        ),
        label=_model_of,
        y=_axis(data),
    )


def over_epsilon(data: str) -> Lines:
    """Figures over epsilon by model and by who learns, with the levels without privacy."""
    return Lines(
        "epsilon",
        key=f"epsilon-{data}",
        title=f"{WHOLE[data]}: AUC over epsilon",
        caption=f"To the right is less privacy. One site alone adds all of its noise by itself. {BARS}",
        curves=tuple(
            Curve(f"{words}, {of}", {"data": data, **own, **parties}, ink=ink + 2 * place)
            for ink, (words, own) in enumerate((("additive", ADDITIVE), ("linear", LINEAR)))
            for place, (of, parties) in enumerate(_PARTIES.items())
        ),
        levels=tuple(
            Level(f"{words}, without privacy", {"data": data, **own, **SWARM})
            for words, own in (("additive", ADDITIVE), ("linear", LINEAR))
        ),
        x_title="epsilon stated, for the whole run",
        y={"title": {"text": "AUC of the test rows"}},
        scale="marked",
    )


charts = specified(*map(by_model, DATA), *map(over_epsilon, WHOLE))


def _figure(sweep: Sweep, arm: str) -> str:
    return f"{sweep.mean(arm):.4f} ± {sweep.standard_error(arm):.4f}"


def _exponent(sweep: Sweep, arm: str) -> str:
    return f"{sweep.values(arm).max():.1e}"


def _kilobytes(sweep: Sweep, arm: str) -> str:
    return f"{4e-3 * sweep.mean(arm, WORDS):,.0f}"


def _grid(title: str, data: dict[str, str], columns: dict[str, Where]) -> Grid:
    rows = {
        f"{words}, {model}": {"data": name, **own}
        for name, words in data.items()
        for model, own in WORDS_OF.items()
    }
    return Grid(title, "table, model", rows=rows, columns=columns, cells=_figure)


_COST: dict[str, Cells] = {
    "training rows": number(ROWS),
    "sums": number(SUMS),
    "kB a member, in all sums": _kilobytes,
    "s a cell": seconds,
}
tables = tabled(
    _grid("Without privacy: AUC, of Diabetes R²", DATA, dict(_PARTIES)),
    _grid(
        "With privacy: AUC of a swarm, one site alone, and all rows pooled",
        WHOLE,
        {
            f"{parties['parties']}, epsilon {epsilon}": {**parties, "epsilon": epsilon}
            for parties in _PARTIES.values()
            for epsilon in EPSILONS
            if parties == SWARM or epsilon == MIDDLE
        },
    ),
    ArmTable("Statistics: the largest error against pooled rows", {"error": _exponent}, where=EXACT),
    ArmTable("Cost", _COST, where=SWARM),
    protection_rows(
        {
            "exact jobs": {**ADDITIVE, **SWARM},
            "shared noise": {"epsilon": EPSILONS, **SWARM},
            "one party": {"epsilon": EPSILONS, **POOLED},
        }
    ),
)
