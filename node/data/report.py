"""A report on how a reader interpreted somebody's data, as a short table for the user."""

from __future__ import annotations

from dataclasses import dataclass

from node.system.errors import one_line

TOO_FEW = "too few rows to validate"
_WIDEST = 60


@dataclass(frozen=True)
class Entry:
    """One column: its kind, and a remark on how it was read."""

    column: str
    kind: str
    remark: str
    doubt: str = ""
    """What may be wrong, for a warning of node.check."""
    lost: str = ""
    """Why more than half of the column is lost, or stands in another, for a problem of node.check."""


@dataclass(frozen=True)
class Report:
    """The content of a file or folder: a headline, an entry for each column, remarks about rows."""

    headline: str
    entries: tuple[Entry, ...]
    remarks: tuple[str, ...]

    def lines(self) -> list[str]:
        """Returns the headline, the aligned table and the remarks."""
        rows = [("column", "read as", "remarks")]
        rows += [(_cut(entry.column), _cut(entry.kind), one_line(entry.remark)) for entry in self.entries]
        widths = [max(len(row[place]) for row in rows) for place in range(2)]
        table = [f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows]
        return [self.headline, *table, *self.remarks]


def _cut(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _WIDEST else line[: _WIDEST - 3] + "..."
