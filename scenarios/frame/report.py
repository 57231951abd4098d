"""report.html: one file that loads nothing else, with the plots first, light and dark, readable on a phone.

The page contains the plotting library, and a content security policy that forbids it to fetch anything. A
report can therefore be mailed, archived, and opened years later without a network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any

from plotly.offline import get_plotlyjs

from node.observe.views import script_json
from node.report.html_page import asset_text, html_page
from scenarios.frame.spec import Chart, Judged, Table, Verdict, holding, is_figures

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


@dataclass(frozen=True)
class Provenance:
    """How a run was made: its command line, the versions of what it ran on, its start and duration."""

    command: str
    versions: dict[str, str]
    started: str
    seconds: float


@dataclass(frozen=True)
class Ended:
    """A run that has ended, as result.json and report.html describe it."""

    name: str
    source: str
    headline: str
    note: str
    configuration: dict[str, Any]
    provenance: Provenance
    method: str = ""


def render(ended: Ended, charts: Sequence[Chart], tables: Sequence[Table], judged: Sequence[Judged]) -> str:
    """Return the whole page as HTML."""
    note = f"<p class='note'>{escape(ended.note)}</p>" if ended.note else ""
    return html_page(
        title=f"Murmuration: scenario {ended.name}",
        overline="Murmuration scenario",
        heading=ended.name,
        lead=f'<p class="headline">{escape(ended.headline)}</p>\n{note}',
        style=asset_text("scenarios", "report.css"),
        policy=POLICY,
        main=_main(ended, charts, tables, judged),
    )


def _main(ended: Ended, charts: Sequence[Chart], tables: Sequence[Table], judged: Sequence[Judged]) -> str:
    made = ended.provenance
    return _MAIN.format(
        charts="\n".join(_chart(chart) for chart in charts),
        claims="\n".join(_claim(claim) for claim in judged),
        holding=holding(judged),
        method=f"<p class='how'>{escape(ended.method)}</p>" if ended.method else "",
        tables="\n".join(f"<div class='scroll'>{_bare(table)}</div>" for table in tables),
        configuration=_configuration(ended.configuration),
        command=escape(made.command),
        versions=_definitions({**made.versions, "started": made.started, "seconds": figure(made.seconds)}),
        data=script_json([asdict(replace(chart, under=None)) for chart in charts]),
        plotly=get_plotlyjs(),
        script=asset_text("scenarios", "report.js"),
    )


_MAIN = """<noscript><p class="note">The plots need JavaScript; claims and figures stand below.</p></noscript>
<section class="charts" aria-label="Plots">
{charts}
</section>
<section>
<h2>Claims <small>{holding}</small></h2>
<ul class="claims">
{claims}
</ul>
{method}
</section>
<section>
<h2>Figures</h2>
{tables}
</section>
<section>
<h2>Run it again</h2>
<pre class="command"><code>{command}</code></pre>
</section>
<section>
<h2>Configuration</h2>
{configuration}
<h3>Ran on</h3>
{versions}
</section>
<script type="application/json" id="charts">{data}</script>
<script>{plotly}</script>
<script>
{script}
</script>
"""


SHOWN_AT_MOST = 60
"""The most values of a configuration that are shown open; the parts of a longer one are folded."""


def _configuration(configuration: Mapping[str, Any]) -> str:
    """Keys and values of the configuration; if there are many, each part is folded behind its heading."""
    if len(flatten(dict(configuration))) <= SHOWN_AT_MOST:
        return _definitions(flatten(dict(configuration)))
    parts = {name: value for name, value in configuration.items() if isinstance(value, dict)}
    rest = {name: value for name, value in configuration.items() if name not in parts}
    folded = "".join(
        f"<details><summary>{escape(name)}</summary>{_configuration(part)}</details>"
        for name, part in parts.items()
    )
    return (_definitions(flatten(rest)) if rest else "") + folded


def flatten(value: Any, key: str = "") -> dict[str, str]:
    """Nested JSON as dotted keys with readable values."""
    if isinstance(value, dict) and value:
        return {
            k: v
            for name, inner in value.items()
            for k, v in flatten(inner, f"{key}.{name}" if key else name).items()
        }
    return {key: value if isinstance(value, str) else json.dumps(value)}


def numbers(verdict: Verdict) -> str:
    """A verdict's numbers in one line."""
    return " · ".join(f"{name} {figure(value)}" for name, value in verdict.numbers.items())


def figure(value: float | int | str | None) -> str:
    """A readable number: integers unchanged, others with four significant digits."""
    match value:
        case None:
            return "none"
        case float():
            return f"{value:.4g}"
        case _:
            return str(value)


def _chart(chart: Chart) -> str:
    title, key, height = escape(chart.title), escape(chart.key), chart.layout.get("height")
    style = f" style='--height: {height:d}px'" if height else ""
    aside = " aside" if chart.layout.get("legend", {}).get("orientation") == "v" else ""
    under = f"<div class='under'>{_bare(chart.under)}</div>" if chart.under else ""
    return (
        f"<figure class='chart'><h2>{title}</h2>"
        f"<div class='plot{aside}' id='chart-{key}' role='img' aria-label='{title}'{style}></div>"
        f"<figcaption>{escape(chart.caption)}</figcaption>{under}</figure>"
    )


def _claim(claim: Judged) -> str:
    kind, mark, word = ("holds", "✓", "holds") if claim.verdict.holds else ("fails", "✗", "does not hold")
    badge = " <small>identity</small>" if claim.kind == "identity" else ""
    return (
        f"<li class='{kind}'><span class='mark' role='img' aria-label='{word}'>{mark}</span>"
        f"<div><strong>{escape(claim.name)}</strong>{badge}"
        f"<span class='numbers'>{escape(numbers(claim.verdict))}</span></div></li>"
    )


def _bare(table: Table) -> str:
    prose = [not is_figures(table, column) for column in range(len(table.headings))]
    head = "".join(
        f"<th scope='col' role='columnheader'{_class(is_prose)}>{escape(heading)}</th>"
        for heading, is_prose in zip(table.headings, prose, strict=True)
    )
    body = "".join(f"<tr role='row'>{_cells(row, table.headings, prose)}</tr>" for row in table.rows)
    return (
        f"<table role='table'><caption>{escape(table.title)}</caption>"
        f"<thead role='rowgroup'><tr role='row'>{head}</tr></thead>"
        f"<tbody role='rowgroup'>{body}</tbody></table>"
    )


def _cells(row: Sequence[str], headings: Sequence[str], prose: Sequence[bool]) -> str:
    """The cells of a row. On a phone a row is a card, in which each cell has its heading beside it."""
    first, *others = zip(row, headings, prose, strict=True)
    cells = "".join(
        f"<td role='cell' data-label='{escape(heading)}'{_class(is_prose)}>{escape(cell)}</td>"
        for cell, heading, is_prose in others
    )
    heads = f"<th scope='row' role='rowheader' data-label='{escape(first[1])}'>{escape(first[0])}</th>"
    return heads + cells


def _class(is_prose: bool) -> str:
    return " class='prose'" if is_prose else ""


def _definitions(pairs: dict[str, str]) -> str:
    rows = "".join(
        f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in pairs.items()
    )
    return f"<dl>{rows}</dl>"
