"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; characters that would end a cell are escaped.

    >>> print(table(["a", "b"], [["1/2", "`3|4`"]]))
    | a | b |
    |---|---|
    | 1/2 | `3|4` |
    """
    lines = [header, ["---"] * len(header), *rows]
    rule = 1
    told = ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines]
    told[rule] = "|" + "---|" * len(header)
    return "\n".join(told)


def _cell(text: str) -> str:
    """The text of a cell on one line; bars within backticks need no escape."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if number % 2 else part.replace("|", "\\|") for number, part in enumerate(parts))


def code(text: object) -> str:
    """`text` as inline code."""
    return f"`{text}`"
