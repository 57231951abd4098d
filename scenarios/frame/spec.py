"""The type of a scenario: a frozen value that defines the run, its claims and its presentation.

A run uses the fields in this order; only `harness` does so:

    Request --plan--> configuration --execute--> results --+--> claims   (Verdict)
                                                            +--> arms     (result.json)
                                                            +--> charts   (report.html)
                                                            +--> tables   (terminal and report.html)

A new scenario is a new file with one such value, listed in `scenarios.catalogue`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from rich.console import Console

Configuration = TypeVar("Configuration")
Results = TypeVar("Results")

Json = Mapping[str, Any]
"""A JSON object, for result.json or for the browser's plotting library."""


@dataclass(frozen=True)
class Request:
    """The command line of `scenarios run`, parsed but not yet checked by a scenario. None: not given."""

    peers: int | None = None
    rounds: int | None = None
    seed: int | None = None
    engine: str | None = None
    jobs: int | None = None
    data_dir: Path | None = None
    out: Path | None = None
    quick: bool | None = None
    overrides: tuple[str, ...] | None = None

    def given(self) -> frozenset[str]:
        """The names of the fields that the command line set."""
        return frozenset(name for name, value in vars(self).items() if value is not None)


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, with the numbers that decide it (name with unit -> value)."""

    holds: bool
    numbers: Mapping[str, float | int | str | None]


Kind = Literal["finding", "identity"]
"""A finding could have come out otherwise; an identity follows from formulas, whatever is trained."""


@dataclass(frozen=True)
class Claim(Generic[Results]):
    """A statement about the results that can be false, by a wrong system or a wrong replay."""

    name: str
    judge: Callable[[Results], Verdict | None]
    """Returns None if the run lacks what the claim is about, such as arms that were left out."""
    kind: Kind = "finding"


@dataclass(frozen=True)
class Judged:
    """A claim's name and kind with its verdict for one run."""

    name: str
    verdict: Verdict
    kind: Kind = "finding"


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; the first column names the row."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Chart:
    """One plot: traces and layout in the format of the plotting library.

    A colour may be written `var(--name)`: the page replaces it with the style sheet's value, light or dark.
    layout: its `height`, if any, is the plot's height in pixels. under: a table below the plot.
    """

    key: str
    title: str
    caption: str
    traces: tuple[Json, ...]
    layout: Json
    under: Table | None = None


def no_files(results: Any, folder: Path) -> None:
    """Write nothing besides result.json and report.html."""


PROSE_CHARACTERS = 24


def is_figures(table: Table, column: int) -> bool:
    """Whether a column is right-aligned: it does not name the rows, and all its cells are short."""
    return column > 0 and all(len(row[column]) <= PROSE_CHARACTERS for row in table.rows)


@dataclass(frozen=True)
class CommandLine(Generic[Configuration]):
    """What `scenarios run` takes for a scenario, and the configuration that it makes of it.

    options: the fields of Request that it accepts; a request with any other field is refused.
    plan: turns a request into a configuration; raises ConfigError if that cannot run.
    describe: the configuration as JSON; equal for two runs exactly if they may share a folder.
    again: the arguments after `scenarios run NAME` that reproduce this configuration.
    target: what stands there for NAME; "" stands for the scenario's name.
    """

    options: frozenset[str]
    engines: tuple[str, ...]
    plan: Callable[[Request], Configuration]
    describe: Callable[[Configuration], Json]
    again: Callable[[Configuration], tuple[str, ...]]
    target: str = ""


@dataclass(frozen=True)
class Presentation(Generic[Results]):
    """What result.json, report.html and the terminal say about results.

    headline: one sentence with the main figures.
    files: writes further files with the results to the folder, before result.json.
    method: how the claims are judged, in a sentence or two, for a report's reader.
    """

    headline: Callable[[Results], str]
    arms: Callable[[Results], Mapping[str, Json]]
    claims: tuple[Claim[Results], ...]
    charts: Callable[[Results], tuple[Chart, ...]]
    tables: Callable[[Results], tuple[Table, ...]]
    files: Callable[[Results, Path], None] = no_files
    method: str = ""


@dataclass(frozen=True)
class Scenario(Generic[Configuration, Results]):
    """A scenario.

    execute: runs a configuration in a folder and shows progress on the console; raises UserError.
    stored: the results that a result.json holds; None if it does not hold all of them. Raises ConfigError.
    """

    name: str
    source: str
    summary: str
    command_line: CommandLine[Configuration]
    execute: Callable[[Configuration, Path, Console], Results]
    presentation: Presentation[Results]
    stored: Callable[[Json], Results] | None = None


def judge(claims: tuple[Claim[Results], ...], results: Results) -> tuple[Judged, ...]:
    """The verdicts of all claims that this run can judge, in order."""
    verdicts = [(claim, claim.judge(results)) for claim in claims]
    return tuple(
        Judged(claim.name, verdict, claim.kind) for claim, verdict in verdicts if verdict is not None
    )


def holding(judged: Sequence[Judged]) -> str:
    """How many findings hold, and how many identities, in words."""
    counts = []
    for kind, words in (("finding", "hold"), ("identity", "identities hold")):
        verdicts = [claim.verdict.holds for claim in judged if claim.kind == kind]
        if verdicts:
            counts.append(f"{sum(verdicts)} of {len(verdicts)} {words}")
    return ", ".join(counts)


def claims_json(judged: Sequence[Judged]) -> list[Json]:
    """The claims as result.json has them."""
    return [
        {
            "name": claim.name,
            "kind": claim.kind,
            "holds": claim.verdict.holds,
            "numbers": dict(claim.verdict.numbers),
        }
        for claim in judged
    ]
