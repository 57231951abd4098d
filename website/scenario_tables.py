"""The tables in docs/scenarios: `python -m website.scenario_tables` writes them from docs/results.

The results of new runs are kept there first if they are named: `python -m website.scenario_tables FILE ...`.

Beside a page `nbafl.md` stands `nbafl.toml`, which says what its tables contain: the words are the
authors', the figures and the verdicts come from the result. A table replaces what is between its two
comments in the page:

    <!-- table: statements -->   ...   <!-- end -->    the [[statement]]s of the TOML file
    <!-- table: claims -->       ...   <!-- end -->    every claim of the result, with verdict and numbers
    <!-- table: NAME -->         ...   <!-- end -->    a [[table]] of the TOML file
    <!-- figure: EXPRESSION -->  ...   <!-- end -->    one figure within a sentence

`--check` writes nothing, and exits with 1 if a page is not what the results say.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from node.system.errors import ConfigError
from scenarios.frame.stored import read_result as stored_result
from scenarios.frame.stored import write_packed
from website.stored_figures import (
    Claim,
    Figures,
    Result,
    StoredFigureError,
    read_result,
    short_exponent,
)
from website.tables import code, table

DOCS = Path(__file__).resolve().parents[1] / "docs"
COMMAND = "python -m website.scenario_tables"
BLOCK = re.compile(r"<!-- (?P<kind>table|figure): (?P<name>.+?) -->(?P<inside>.*?)<!-- end -->", re.DOTALL)
_WORDS: Mapping[str, tuple[str, str, str]] = {
    "source": ("reproduced", "reproduced in part", "not reproduced"),
    "own": ("holds", "holds in part", "does not hold"),
}
"""For each kind of statement the verdict if all, some, or none of its conditions are met."""
UNJUDGED = ("not testable", "not run", "wrong as printed", "for comparison", "open")
"""Verdicts that an author may write: those that say neither that a statement holds nor that it does not."""
_MOST_NUMBERS = 8


@dataclass(frozen=True)
class Statement:
    """A row of the table of statements; every text may contain placeholders of `stored_figures`.

    statement: the source's words, or ours. arms: expressions whose figures the row shows, with standard
    errors; figures: the same in words of the author's. Conditions of the verdict: claims (words of their
    names) that must hold, and `against`, which must not; tests, comparisons that must be true. kind
    `epsilon`: the statement is *proved* if all conditions are met, *refuted* if all claims of `refuted`
    hold, else *open*. verdict: one of UNJUDGED, for a statement without conditions. result: another result
    than the page's.
    """

    statement: str
    kind: str = "source"
    arms: Sequence[str] = ()
    figures: str = ""
    claims: Sequence[str] = ()
    against: Sequence[str] = ()
    tests: Sequence[str] = ()
    refuted: Sequence[str] = ()
    verdict: str = ""
    remark: str = ""
    result: str = ""


@dataclass(frozen=True)
class Table:
    """A table of its own: the heading of each column, and rows of texts with placeholders."""

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Page:
    """What a page's tables contain.

    result: the name of its result. figure: what an arm's figure is, in words; the heading of its column.
    format: how a figure is written unless a placeholder says otherwise (see `Figures.filled`).
    claims: words of the claims that the page lists; none lists all.
    """

    result: str
    figure: str
    format: str = "%"
    claims: Sequence[str] = ()
    statement: Sequence[Statement] = ()
    table: Sequence[Table] = ()


_Part = TypeVar("_Part", Page, Statement, Table)


class SpecificationError(ValueError):
    """A page or its TOML file is not as it must be; the text says where, and what to do."""


def read_page(path: Path) -> Page:
    """Read a page's TOML file. Raises SpecificationError."""
    try:
        read = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SpecificationError(f"{path.name}: {error}") from None
    page = _made(Page, read, path.name)
    statements = [_made(Statement, one, f"{path.name}, a statement") for one in page.statement]
    for one in statements:
        _validate(one, path.name)
    return replace(page, statement=statements, table=[_made(Table, one, path.name) for one in page.table])


def _made(kind: type[_Part], read: Any, where: str) -> _Part:
    """A dataclass from a TOML table. Raises SpecificationError on an unknown or missing key."""
    known = {entry.name: entry for entry in fields(kind)}
    if unknown := sorted(set(read) - set(known)):
        raise SpecificationError(f"{where}: no key {unknown[0]!r}; allowed are {', '.join(known)}")
    try:
        return kind(**read)
    except TypeError as error:
        raise SpecificationError(f"{where}: {error}") from None


def _validate(row: Statement, name: str) -> None:
    conditions = (*row.claims, *row.against, *row.tests, *row.refuted)
    where = f"{name}, {row.statement[:50]!r}"
    if row.kind not in (*_WORDS, "epsilon"):
        raise SpecificationError(f"{where}: kind {row.kind!r}; allowed are source, own and epsilon")
    if row.refuted and row.kind != "epsilon":
        raise SpecificationError(f"{where}: only a statement of kind epsilon has `refuted`; use `against`")
    if bool(conditions) == bool(row.verdict):
        raise SpecificationError(f"{where}: it needs either claims, against, tests or refuted, or a verdict")
    if row.verdict and row.verdict not in UNJUDGED:
        raise SpecificationError(
            f"{where}: verdict {row.verdict!r} needs a claim or a test; without one, allowed are "
            f"{', '.join(UNJUDGED)}"
        )


def verdict(row: Statement, figures: Figures, result: Result) -> str:
    """The verdict on a statement: the author's if it has no conditions, else what the result says."""
    if row.verdict:
        return row.verdict
    met = [
        *(result.claim(words).holds for words in row.claims),
        *(not result.claim(words).holds for words in row.against),
        *(figures.holds(comparison) for comparison in row.tests),
    ]
    if row.kind == "epsilon":
        if row.refuted and all(result.claim(words).holds for words in row.refuted):
            return "refuted"
        return "proved" if met and all(met) else "open"
    every, some, none = _WORDS[row.kind]
    return every if all(met) else some if any(met) else none


def statements_table(page: Page, figures: Figures) -> str:
    """The statements, each with its arms and their figures, its verdict, remarks, and where it comes from."""
    header = ["statement", figures.filled(page.figure), "verdict", "what the run shows", "from"]
    return table(header, [_statement_row(row, page, figures) for row in page.statement])


def _statement_row(row: Statement, page: Page, figures: Figures) -> list[str]:
    own = replace(figures, own=row.result or page.result)
    result = figures.results(own.own)
    arms = [f"{code(arm)} {own.filled(f'{{{arm}|±}}')}" for arm in row.arms]
    return [
        row.statement,
        "<br>".join([*arms, *([own.filled(row.figures)] if row.figures else [])]),
        verdict(row, own, result),
        own.filled(row.remark),
        ", ".join(_links(row, page, result)),
    ]


def _links(row: Statement, page: Page, result: Result) -> list[str]:
    """Links to the claims that decide a row, where the page lists them, and to the result's file."""
    named = [result.claim(words) for words in (*row.claims, *row.against, *row.refuted)]
    listed = _listed(page, result) if result.name == page.result else []
    links = [f"[claim {claim.place}](#claim-{claim.place})" for claim in named if claim in listed]
    return [*links, *([] if row.verdict and not row.arms and not row.figures else [_file(result.name)])]


def _file(name: str) -> str:
    return f"[{name}.json](../results/{name}.json)"


def _listed(page: Page, result: Result) -> list[Claim]:
    return [result.claim(words) for words in page.claims] or list(result.claims)


def claims_table(page: Page, result: Result) -> str:
    """The page's claims: name, kind, verdict and its first numbers; before them how they were judged."""
    rows = [
        [
            f'<a id="claim-{claim.place}"></a>{claim.place}',
            claim.name if claim.kind == "finding" else f"{claim.name} ({claim.kind})",
            "holds" if claim.holds else "**does not hold**",
            _numbers(claim),
        ]
        for claim in _listed(page, result)
    ]
    told = table(["", f"claim of {_file(result.name)}", "verdict", "numbers"], rows)
    return f"{result.method}\n\n{told}" if result.method else told


def _numbers(claim: Claim) -> str:
    told = [f"{name}: {_number(value)}" for name, value in claim.numbers.items()]
    more = len(told) - _MOST_NUMBERS
    return "; ".join(told) if more < 2 else "; ".join([*told[:_MOST_NUMBERS], f"{more} more in the file"])


def _number(value: object) -> str:
    """A number as a table shows it: four digits, without an exponent where it is short enough.

    >>> _number(0.123456), _number(342915.2), _number(1.25e13), _number(5), _number(None), _number("mean")
    ('0.1235', '342,900', '1.25e13', '5', 'none', 'mean')
    """
    match value:
        case None:
            return "none"
        case bool() | str():
            return str(value)
        case int():
            return f"{value:,}"
        case float() if 1000 <= abs(value) < 1e7:
            return f"{float(f'{value:.4g}'):,.0f}"
        case float():
            return short_exponent(f"{value:.4g}")
    return str(value)


def filled_page(text: str, page: Page, figures: Figures) -> str:
    """A page's text with every table and figure as the results have them. Raises SpecificationError."""
    tables = {one.name: one for one in page.table}

    def made(match: re.Match[str]) -> str:
        kind, name = match["kind"], match["name"]
        opening = f"<!-- {kind}: {name} -->"
        if kind == "figure":
            return f"{opening}{figures.filled(f'{{{name}}}')}<!-- end -->"
        return f"{opening}\n\n{_table(name, page, figures, tables)}\n\n<!-- end -->"

    outside = BLOCK.sub("", text)
    if "<!-- table:" in outside or "<!-- figure:" in outside or "<!-- end -->" in outside:
        raise SpecificationError("a table or figure has no <!-- end -->, or no beginning; write both")
    return BLOCK.sub(made, text)


def _table(name: str, page: Page, figures: Figures, tables: Mapping[str, Table]) -> str:
    match name:
        case "statements":
            return statements_table(page, figures)
        case "claims":
            return claims_table(page, figures.results(page.result))
    if name not in tables:
        raise SpecificationError(f"no table {name!r}; there are statements, claims, {', '.join(tables)}")
    one = tables[name]
    return table(
        [figures.filled(cell) for cell in one.header],
        [[figures.filled(cell) for cell in row] for row in one.rows],
    )


def written_pages(docs: Path) -> dict[Path, str]:
    """Every page of docs/scenarios that has a TOML file, with the text that it should have.

    Raises SpecificationError, which names the page.
    """

    @cache
    def result(name: str) -> Result:
        return read_result(docs / "results" / f"{name}.json")

    pages = {}
    for path in sorted((docs / "scenarios").glob("*.toml")):
        target = path.with_suffix(".md")
        if not target.is_file():
            raise SpecificationError(f"{path.name} has no page {target.name} beside it; write that page")
        page = read_page(path)
        figures = Figures(results=result, own=page.result, usual=page.format)
        try:
            pages[target] = filled_page(target.read_text("utf-8"), page, figures)
        except (SpecificationError, StoredFigureError) as error:
            raise SpecificationError(f"{path.name}: {error}") from None
    return pages


def main(arguments: Sequence[str] | None = None, docs: Path = DOCS) -> int:
    """Write or check the pages; return the exit status: 1 for a stale page, 2 for a wrong file."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write the tables in docs/scenarios.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    what.add_argument(
        "results", nargs="*", default=(), type=Path, metavar="FILE", help="a result.json to keep there first"
    )
    given = parser.parse_args(arguments)
    check = given.check
    try:
        for result in map(stored_result, given.results):
            write_packed(docs / "results" / f"{result['scenario']}.json", result)
        pages = written_pages(docs)
    except (ConfigError, SpecificationError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    stale = [path for path, text in pages.items() if path.read_text("utf-8") != text]
    for path in stale:
        told = path.relative_to(docs.parent)
        if check:
            print(f"error: {told} is not what docs/results says; run {COMMAND}", file=sys.stderr)
        else:
            path.write_text(pages[path], "utf-8")
            print(told)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
