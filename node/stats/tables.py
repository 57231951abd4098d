"""Table one, models and cross tables as rows of text: what the report and table1.csv print alike."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

from node.stats.disclosure import LEAST_CELL, Cell, Hidden, cell
from node.stats.estimates import INTERCEPT, Estimate
from node.stats.summaries import (
    CategorySummary,
    Correlation,
    CrossTable,
    ModelResult,
    NumberSummary,
    Shown,
    SiteSummary,
    SurvivalResult,
    TableOne,
)
from node.stats.tests import Test

RATIOS = {"binomial": "OR", "poisson": "IRR", "cox": "HR"}
"""What the exponential of a coefficient is called."""


@dataclass(frozen=True)
class TextTable:
    """A table as it is printed: a title, headings and rows of cells."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_one_text(table: TableOne, sites: Sequence[SiteSummary] = ()) -> TextTable:
    """Returns table one as `tableone` prints it: missing, overall, groups, `sites`, p-value, SMD."""
    rows = [("n", "", "", *map(str, table.rows), *(str(site.rows) for site in sites), "", "")]
    for column in table.columns:
        if isinstance(column, NumberSummary):
            rows += _number_rows(column, sites)
        else:
            rows += _category_rows(column, sites)
    by = f" by {table.by}" if table.by else ""
    headings = ("", "level", "missing", *table.groups, *(site.name for site in sites), "p-value", "SMD")
    kept = [*range(len(headings))] if table.by else [*range(len(headings) - 2)]
    return TextTable(f"Table 1{by}", _only(headings, kept), tuple(_only(row, kept) for row in rows))


def _only(cells: Sequence[str], kept: Sequence[int]) -> tuple[str, ...]:
    return tuple(cells[place] for place in kept)


def _number_rows(column: NumberSummary, sites: Sequence[SiteSummary]) -> list[tuple[str, ...]]:
    moments = [
        one if isinstance(one, Hidden) else f"{one[0]:.{_digits(one[1])}f} ({one[1]:.{_digits(one[1])}f})"
        for one in (*column.moments, *(site.moments[column.name] for site in sites))
    ]
    spread = next((one[1] for one in column.moments if not isinstance(one, Hidden)), 1.0)
    digits = _digits(spread)
    quartiles = [
        one if isinstance(one, Hidden) else f"{one[1]:.{digits}f} [{one[0]:.{digits}f}, {one[2]:.{digits}f}]"
        for one in column.quartiles
    ]
    return [
        (f"{column.name}, mean (SD)", "", str(column.missing[0]), *moments, *_compared(column)),
        (f"{column.name}, median [Q1, Q3]", "", "", *quartiles, *[""] * len(sites), "", ""),
    ]


def _category_rows(column: CategorySummary, sites: Sequence[SiteSummary]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    apart = [site.counts[column.name][:-1] for site in sites]
    totals = [*column.known, *map(_total, apart)]
    for place, (level, counts) in enumerate(zip(column.levels, column.counts, strict=True)):
        first = not rows
        shown = (*counts, *(each[place] for each in apart))
        cells = [_share(count, known) for count, known in zip(shown, totals, strict=True)]
        rows.append(
            (
                f"{column.name}, n (%)" if first else "",
                level,
                str(column.missing[0]) if first else "",
                *cells,
                *(_compared(column) if first else ["", ""]),
            )
        )
    return rows


def _total(counts: Shown) -> Cell:
    known = [count for count in counts if not isinstance(count, Hidden)]
    return sum(known) if len(known) == len(counts) else Hidden.BESIDE


def _compared(column: NumberSummary | CategorySummary) -> list[str]:
    smd = "" if column.difference is None else f"{column.difference:.3f}"
    return [p_value(column.test), smd]


def _share(count: Cell, known: Cell) -> str:
    if isinstance(count, Hidden) or isinstance(known, Hidden) or not known:
        return str(count)
    return f"{count} ({100 * count / known:.1f})"


def _digits(spread: float) -> int:
    """Returns the decimals of a mean: one, or two digits of a small standard deviation."""
    return 1 if spread >= 1 or spread <= 0 else 1 - math.floor(math.log10(spread))


def p_value(test: Test | None) -> str:
    """Returns a p-value as papers print it; "" without a test."""
    return "" if test is None else p_text(test.p)


def p_text(p: float) -> str:
    """Returns `0.042` or `<0.001`."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def model_text(model: ModelResult) -> TextTable:
    """Returns a model's coefficients, with ratios where they are what is read."""
    ratio = RATIOS.get(model.kind)
    headings = ["", "coefficient", "SE", "95 % CI", *([f"{ratio} (95 % CI)"] if ratio else []), "p-value"]
    estimates = () if model.fit is None else model.fit.estimates
    rows = [
        (
            one.label,
            _figure(one.value),
            _figure(one.error),
            f"{_figure(one.low)} to {_figure(one.high)}",
            *([_ratio(one)] if ratio else []),
            p_text(one.p),
        )
        for one in estimates
    ]
    return TextTable(f"{model.title} ({model.kind}), n = {model.rows}", tuple(headings), tuple(rows))


def _ratio(one: Estimate) -> str:
    if one.label == INTERCEPT:
        return ""
    value, low, high = (math.exp(min(each, 700.0)) for each in (one.value, one.low, one.high))
    return f"{_figure(value)} ({_figure(low)} to {_figure(high)})"


def _figure(value: float) -> str:
    return f"{value:#.3g}" if 1e-3 <= abs(value) < 1000 else f"{value:.3g}"


def cross_text(table: CrossTable) -> TextTable:
    """Returns a cross table with its margins."""
    test = f", {table.test.name} p {p_value(table.test)}" if table.test else ""
    rows = [
        (label, *map(str, counts)) for label, counts in zip((*table.rows, "all"), table.counts, strict=True)
    ]
    return TextTable(f"{table.first} by {table.second}{test}", ("", *table.columns, "all"), tuple(rows))


def correlations_text(found: Sequence[Correlation]) -> TextTable:
    """Returns the correlations of all pairs of columns."""
    rows = tuple((one.first, one.second, f"{one.value:.3f}", str(one.rows)) for one in found)
    return TextTable("Pearson correlations", ("", "with", "r", "n"), rows)


def medians_text(survival: SurvivalResult) -> TextTable:
    """Returns rows, events and median survival of each curve."""
    rows = []
    for label, curve in survival.curves:
        median = "not reached" if curve.median is None else f"{curve.median:g}"
        rows.append((label, str(_count(curve.at_risk[0])), str(_count(curve.events.sum())), median))
    test = f", log-rank p {p_value(survival.test)}" if survival.test else ""
    by = f" by {survival.by}" if survival.by else ""
    return TextTable(
        f"{survival.event} over {survival.time}{by}{test}", ("", "n", "events", "median"), tuple(rows)
    )


def _count(count: int) -> Cell:
    return cell(int(count), 0 < count < LEAST_CELL)


def as_csv(table: TextTable) -> bytes:
    """Returns the table as CSV with a header line, UTF-8."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([table.headings, *table.rows])
    return text.getvalue().encode()
