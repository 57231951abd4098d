"""Several that are told what a node does: its owner on standard output, a log, figures, a page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from node.observe.reporting import Reporter, Status
from node.runtime.artifacts import Record, Summary
from node.runtime.group_guarantees import Withstands
from protocol.actions import Notice
from protocol.wire.messages import Base


class SilentReporter:
    """Does nothing with what it is told; those who care for some of it build on this."""

    def started(self, lines: dict[str, str]) -> None:
        """Nothing."""

    def sums(self, group: Withstands) -> None:
        """Nothing."""

    def training(self, round: int) -> None:
        """Nothing."""

    def round_ended(self, record: Record, rounds: int) -> None:
        """Nothing."""

    def caught_up(self, base: Base, how: str) -> None:
        """Nothing."""

    def notice(self, notice: Notice, text: str) -> None:
        """Nothing."""

    def rolled_back(self, text: str) -> None:
        """Nothing."""

    def warning(self, text: str) -> None:
        """Nothing."""

    def draining(self, within_s: float) -> None:
        """Nothing."""

    def finished(self, summary: Summary) -> None:
        """Nothing."""

    async def keep_showing(self, status: Status) -> None:
        """Nothing, until cancelled."""
        await asyncio.Event().wait()


class Reporters:
    """Tells each of them, in their order."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._all = tuple(reporters)

    def started(self, lines: dict[str, str]) -> None:
        """Each is told."""
        for reporter in self._all:
            reporter.started(lines)

    def sums(self, group: Withstands) -> None:
        """Each is told."""
        for reporter in self._all:
            reporter.sums(group)

    def training(self, round: int) -> None:
        """Each is told."""
        for reporter in self._all:
            reporter.training(round)

    def round_ended(self, record: Record, rounds: int) -> None:
        """Each is told."""
        for reporter in self._all:
            reporter.round_ended(record, rounds)

    def caught_up(self, base: Base, how: str) -> None:
        """Each is told."""
        for reporter in self._all:
            reporter.caught_up(base, how)

    def notice(self, notice: Notice, text: str) -> None:
        """Each is told."""
        for reporter in self._all:
            reporter.notice(notice, text)

    def rolled_back(self, text: str) -> None:
        """Each is told."""
        for reporter in self._all:
            reporter.rolled_back(text)

    def warning(self, text: str) -> None:
        """Each is told."""
        for reporter in self._all:
            reporter.warning(text)

    def draining(self, within_s: float) -> None:
        """Each is told."""
        for reporter in self._all:
            reporter.draining(within_s)

    def finished(self, summary: Summary) -> None:
        """Each is told."""
        for reporter in self._all:
            reporter.finished(summary)

    async def keep_showing(self, status: Status) -> None:
        """All of them at once, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reporter in self._all:
                tasks.create_task(reporter.keep_showing(status))
