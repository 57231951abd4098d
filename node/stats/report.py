"""The report of statistics: one HTML file that loads nothing, statistics.json and table1.csv.

It is laid out as a paper's results are: table one, models with forest plots, survival curves with numbers at
risk, and a paragraph of methods to paste.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape

import numpy as np

from node.report.html_page import asset_text, html_page
from node.stats.charts import forest, histogram, survival
from node.stats.disclosure import LEAST_CELL, LEAST_FOR_QUARTILES
from node.stats.estimates import INTERCEPT
from node.stats.summaries import MINE, ModelResult, NumberSummary, Results, SiteSummary, SurvivalResult
from node.stats.tables import (
    RATIOS,
    TextTable,
    correlations_text,
    cross_text,
    medians_text,
    model_text,
    table_one_text,
)

MARK = "<!-- statistics of murmuration -->"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_LINKS = {
    "binomial": "logistic regression",
    "poisson": "Poisson regression with a logarithmic link",
    "gaussian": "linear regression",
}


def html(results: Results, made: str, mine: SiteSummary | None = None) -> str:
    """Returns the report; `made`: when, and by what, as text; `mine`: the column of this member alone."""
    apart = results.sites if mine is None else (mine, *results.sites)
    table = results.table_one
    figures = [
        f"<figure>{histogram(column)}<figcaption>{escape(column.name)}</figcaption></figure>"
        for column in table.columns
        if isinstance(column, NumberSummary) and column.bars
    ]
    sections = [
        _section(
            "Table one",
            _table(table_one_text(table, apart)),
            *([] if mine is None else [f"<p class='note'>{_MINE}</p>"]),
            *_grid(figures),
        ),
        *(
            _section("Cross tables", *map(_table, map(cross_text, results.tables)))
            for _ in results.tables[:1]
        ),
        *(
            _section("Correlations", _table(correlations_text(results.correlations)))
            for _ in results.correlations[:1]
        ),
        *(_section("Models", *map(_model, results.models)) for _ in results.models[:1]),
        *(_section("Survival", *map(_survival, results.survival)) for _ in results.survival[:1]),
        _section("Methods", f"<p>{escape(methods(results))}</p>"),
        _section("What is not printed", f"<p>{escape(_HIDDEN if results.privacy is None else _DROWNED)}</p>"),
    ]
    unfinished = f"<p class='note'>{escape(results.unfinished)}</p>" if results.unfinished else ""
    return html_page(
        title=f"Statistics of {results.members} members",
        overline="Murmuration statistics",
        heading=f"{table.rows[0]} rows of {results.members} members",
        lead=f"<p>{escape(made)}</p>{unfinished}",
        style=asset_text("node.stats", "charts.css"),
        policy=_POLICY,
        main="\n".join(sections),
        mark=MARK,
    )


def as_json(results: Results) -> str:
    """Returns all results as JSON, hidden counts as the text that stands in their place."""
    return json.dumps(asdict(results), default=_plain, indent=1, allow_nan=False) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} is not allowed in statistics.json")


def methods(results: Results) -> str:
    """Returns a paragraph that describes the methods, to be pasted into a paper."""
    if results.privacy is not None:
        return _PRIVATE.format(members=results.members, **asdict(results.privacy))
    kinds = dict.fromkeys(_LINKS[model.kind] for model in results.models if model.fit)
    said = [_POOLED.format(members=results.members)]
    if results.table_one.by:
        said.append(
            f"Groups of {results.table_one.by} were compared by Welch's t-test (two groups) or one-way "
            "ANOVA, and by the chi-squared test, with Yates's correction for two by two, or Fisher's exact "
            "test where an expected count was below 5; differences are also given as standardised mean "
            "differences. p-values are not corrected for the number of tests."
        )
    if kinds:
        said.append(
            f"We fitted {', '.join(kinds)} by Newton's method to rows without missing values and report Wald "
            "intervals of 95 %."
        )
    if results.survival:
        said.append(
            "Survival was estimated by Kaplan and Meier's method, with intervals of 95 % by Greenwood's "
            "variance of log(-log S), and compared by the log-rank test; times were grouped by the grid "
            "that the sites agreed on."
        )
    if any(each.cox is not None and each.cox.fit for each in results.survival):
        said.append("Hazard ratios are from Cox models with Breslow's treatment of ties.")
    return " ".join(said)


_POOLED = (
    "The rows of {members} sites were analysed together without being pooled: the sites added up counts, "
    "sums and products by secure aggregation, so that only totals over all sites were opened. The figures "
    "are those of the pooled rows. Continuous variables are given as mean (standard deviation) and median "
    "[quartiles], categories as number (percentage of those known)."
)
_PRIVATE = (
    "The rows of {members} sites were counted together by one secure sum with Gaussian noise, to which every "
    "site contributed. It is ({epsilon:g}, {delta:g})-differentially private for single rows of a site (add "
    "or remove one), as long as at least {honest} other sites are honest. The noise in each count has a "
    "standard deviation of {cell_std:.3g} rows; counts were made consistent afterwards (weighted least "
    "squares, projection). Continuous variables are given as mean (standard deviation) and median "
    "[quartiles]; no tests were made."
)
_MINE = (
    f"The column <i>{MINE}</i> is of this site's rows alone, and stands in no other site's report: leave it "
    "out of what you pass on."
)
_DROWNED = (
    "A figure whose noise has a standard deviation above a quarter of it is not printed. No member has seen "
    "a total without noise."
)
_HIDDEN = (
    f"Counts of 1 to {LEAST_CELL - 1} are printed as < {LEAST_CELL}, and a second count is hidden where a "
    f"total would tell the first; a test of hidden counts is left out. Groups below {LEAST_CELL} have no "
    f"mean, groups below {LEAST_FOR_QUARTILES} no quartiles; minimum and maximum are never printed; bars of "
    f"histograms hold {LEAST_CELL} rows or more, and curves end where fewer than {LEAST_CELL} are at risk. "
    "Each site's own program has seen the totals that this report hides."
)


def _model(model: ModelResult) -> str:
    if model.fit is None:
        title = f"{escape(model.title)} ({escape(model.kind)})"
        return f"<h3>{title}</h3><p class='note'>{escape(model.reason or '')}</p>"
    shown = [one for one in model.fit.estimates if one.label != INTERCEPT]
    plot = forest(shown, is_ratio=model.kind in RATIOS) if shown else ""
    return f"{_table(model_text(model))}<figure>{plot}</figure>"


def _survival(each: SurvivalResult) -> str:
    parts = [_table(medians_text(each))]
    if each.curves:
        parts.append(f"<figure>{survival(each.curves, each.time)}</figure>")
    if each.cox is not None:
        parts.append(_model(each.cox))
    return "".join(parts)


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def _grid(figures: Sequence[str]) -> list[str]:
    return [f"<div class='small'>{''.join(figures)}</div>"] if figures else []


def _table(table: TextTable) -> str:
    head = "".join(f"<th scope='col'>{escape(heading)}</th>" for heading in table.headings)
    rows = [(escape(row[0]), "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])) for row in table.rows]
    body = "".join(f"<tr><th scope='row'>{first}</th>{rest}</tr>" for first, rest in rows)
    return (
        f"<div class='scroll'><table><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
