"""What the doctor prints: a table with a row for each peer, and a line for each with what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from node.doctor.finding import TO_MEMBER, TO_PEER, TO_RELAY, Examined, Level
from node.runtime.clocks import THIS_MACHINE, wrong_clocks
from node.system.errors import one_line

_TITLES = {TO_PEER: "peer", TO_RELAY: "relay", TO_MEMBER: "member"}


@dataclass(frozen=True)
class Line:
    """What to do about one peer, or about this machine."""

    level: Level
    who: str
    text: str

    def __str__(self) -> str:
        return f"{self.level:<8} {self.who}: {one_line(self.text)}"


def table(found: Sequence[Examined]) -> list[str]:
    """Returns the lines of the table; a column is as wide as its widest cell. All took the same way."""
    columns = found[0].columns
    rows = [(_TITLES[columns], *columns)]
    rows += [(each.who, *(each.cell(column) for column in columns)) for each in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def advice(found: Sequence[Examined]) -> list[Line]:
    """Returns a line for each peer; one more, the first, if it is this machine's clock that is wrong."""
    clocks = wrong_clocks({each.who: each.ahead_s for each in found if each.ahead_s is not None})
    lines = [Line("warning", THIS_MACHINE, clocks[None])] if None in clocks else []
    return lines + [_line(each, clocks.get(each.who)) for each in found]


def as_json(found: Sequence[Examined]) -> Iterator[str]:
    """Yields a JSON object for each line of `advice`; a peer's has its cells in the table, too."""
    cells = {each.who: {column: each.cell(column) for column in each.columns} for each in found}
    for line in advice(found):
        yield json.dumps(
            {"who": line.who, "level": line.level, "text": line.text, "steps": cells.get(line.who)}
        )


def _line(each: Examined, clock: str | None) -> Line:
    texts = [finding.advice for finding in each.findings if finding.advice]
    texts += [] if clock is None else [clock]
    level: Level = "warning" if clock is not None and each.level == "ok" else each.level
    if level == "ok":
        texts.append("nothing to do")
    if each.key is not None and level != "problem" and "pinned" not in each.cell("key"):
        texts.append(f"its key, not pinned here, is {each.key.hex()}")
    return Line(level, each.who, "; ".join(texts))
