"""The last things that a node told its owner, kept for whoever looks later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from node.observe.reporting import Reporter, Status, draining_text
from node.runtime.artifacts import Record, Summary
from node.runtime.group_guarantees import Withstands
from protocol.actions import Notice
from protocol.wire.messages import Base

KEPT = 100
PAGE = "page"
"""The line of the start that says where the page is: of no use on it, and perhaps with its token."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that was told, `at` Unix seconds."""

    at: float
    is_warning: bool
    text: str


class Journal:
    """Tells a reporter everything, and remembers what the run is and the last remarks."""

    def __init__(self, reporter: Reporter, now: Callable[[], float]) -> None:
        """`now`: Unix seconds."""
        self._reporter = reporter
        self._now = now
        self._remarks: deque[Remark] = deque(maxlen=KEPT)
        self.about: dict[str, str] = {}
        """What the owner was told at the start, with what the sums withstand now."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The oldest first."""
        return tuple(self._remarks)

    def _keep(self, text: str, is_warning: bool = False) -> None:
        self._remarks.append(Remark(self._now(), is_warning, text))

    def started(self, lines: dict[str, str]) -> None:
        """Kept, but for where the page is."""
        self.about = {name: text for name, text in lines.items() if name != PAGE}
        self._reporter.started(lines)

    def sums(self, group: Withstands) -> None:
        """In place of what was told before."""
        self.about = {**self.about, "sums": group.text}
        self._reporter.sums(group)

    def training(self, round: int) -> None:
        """Passed on."""
        self._reporter.training(round)

    def round_ended(self, record: Record, rounds: int) -> None:
        """Passed on: history.jsonl has it."""
        self._reporter.round_ended(record, rounds)

    def caught_up(self, base: Base, how: str) -> None:
        """A remark."""
        self._keep(f"caught up: base of generation {base.generation}, {how}")
        self._reporter.caught_up(base, how)

    def notice(self, notice: Notice, text: str) -> None:
        """A remark."""
        self._keep(text)
        self._reporter.notice(notice, text)

    def rolled_back(self, text: str) -> None:
        """A remark that is marked."""
        self._keep(text, is_warning=True)
        self._reporter.rolled_back(text)

    def draining(self, within_s: float) -> None:
        """A remark."""
        self._keep(draining_text(within_s))
        self._reporter.draining(within_s)

    def warning(self, text: str) -> None:
        """A remark that is marked."""
        self._keep(text, is_warning=True)
        self._reporter.warning(text)

    def finished(self, summary: Summary) -> None:
        """Passed on."""
        self._reporter.finished(summary)

    async def keep_showing(self, status: Status) -> None:
        """What the reporter does."""
        await self._reporter.keep_showing(status)
