"""What one check of `python -m node.check` found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from node.system.errors import one_line

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """The result of one check, a line for the user: level, subject, and advice; with a table of details."""

    level: Level
    what: str
    text: str
    table: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Returns the line, followed by the table."""
        return [f"{self.level:<8} {self.what}: {one_line(self.text)}", *(f"  {line}" for line in self.table)]
