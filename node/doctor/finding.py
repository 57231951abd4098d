"""What an examination found at one step of the way to a peer, and at all steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]
Column = Literal[
    "proxy",
    "name",
    "port",
    "TLS",
    "answers",
    "websocket",
    "here",
    "key",
    "admission",
    "state",
    "clock",
    "round trip",
    "throughput",
    "upload",
]
Columns = tuple[Column, ...]
"""Steps in their order. After a problem, the later ones are not taken."""
TO_PEER: Columns = (
    "name",
    "port",
    "TLS",
    "answers",
    "key",
    "state",
    "clock",
    "round trip",
    "throughput",
    "upload",
)
TO_RELAY: Columns = ("proxy", "name", "port", "TLS", "websocket", "key", "admission", "round trip")
TO_MEMBER: Columns = ("here", "key", "clock", "round trip", "upload")
"""To a member of a swarm by invitation, through its relays."""


@dataclass(frozen=True)
class Finding:
    """One step: its cell in the table, and what is wrong and what to do about it ("" if nothing is)."""

    column: Column
    cell: str
    level: Level = "ok"
    advice: str = ""


@dataclass(frozen=True)
class Examined:
    """One peer: its "host:port" or name, what was found, the key that it proved, how far its clock is ahead.

    `key` has 32 bytes; None if none was proved. `ahead_s`: in seconds, to a second; None if unknown.
    """

    who: str
    findings: tuple[Finding, ...]
    key: bytes | None
    ahead_s: float | None
    columns: Columns = TO_PEER

    @property
    def level(self) -> Level:
        """The worst level of all findings."""
        levels = {finding.level for finding in self.findings}
        return "problem" if "problem" in levels else "warning" if "warning" in levels else "ok"

    def cell(self, column: Column) -> str:
        """Returns the table's cell; "-" for a step that was not taken."""
        return next((finding.cell for finding in self.findings if finding.column == column), "-")
