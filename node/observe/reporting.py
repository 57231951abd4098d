"""What a node tells its owner: a live table on a terminal, plain lines elsewhere, JSON for programs."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Protocol, TextIO

from node.runtime.artifacts import Record, Summary
from node.runtime.group_guarantees import Withstands
from node.runtime.privacy_budget import ledger_text
from node.task.parameters import describe_difference
from protocol.actions import Fatal, Note, Notice, Reason
from protocol.wire.messages import Base

Status = Callable[[], Awaitable[dict[str, object]]]


class Reporter(Protocol):
    """Everything that a node says while it runs."""

    def started(self, lines: dict[str, str]) -> None:
        """What this node is and what it is going to do."""

    def sums(self, group: Withstands) -> None:
        """A group has another size than was told before: what its sums withstand."""

    def training(self, round: int) -> None:
        """A round begins."""

    def round_ended(self, record: Record, rounds: int) -> None:
        """A round is over."""

    def caught_up(self, base: Base, how: str) -> None:
        """A base that the others agreed on was fetched."""

    def notice(self, notice: Notice, text: str) -> None:
        """Something about a peer; `text` is the whole of it in words."""

    def rolled_back(self, text: str) -> None:
        """The owner's gate refused a base; `text` says it with the losses on the owner's rows."""

    def warning(self, text: str) -> None:
        """Something the owner should look at."""

    def draining(self, within_s: float) -> None:
        """This node was told to end, and first ends what has begun, within so many seconds."""

    def finished(self, summary: Summary) -> None:
        """The run is over."""

    async def keep_showing(self, status: Status) -> None:
        """Show what is going on until cancelled."""


def notice_text(notice: Notice, parameters: str) -> str:
    """A notice in words; `parameters` are this node's own."""
    who, text = notice.who, notice.text
    match notice.kind:
        case Note.JOINED:
            return f"{who} is here (key {text})"
        case Note.LEFT:
            return f"{who} has left (key {text})"
        case Note.LOST:
            return f"{who} is gone: {text}"
        case Note.COORDINATOR:
            return f"coordinator {who}: {text}"
        case Note.UNREACHABLE:
            return f"{who} can not be reached ({text}); trying again"
        case Note.REFUSED:
            return f"{who} refuses this node: {text}"
        case Note.NOT_ALLOWED | Note.WRONG_PIN:
            return f"{who} is not let in: {text}"
        case Note.CLOCK:
            return f"{who}: {text}"
        case Note.WAITING | Note.WEAK | Note.QUORUM:
            return text
        case Note.EPOCH:
            return (
                "peers remember a later start with this key: this folder was restored from an older copy, or "
                "is a new one; what this node says from now on counts as later"
            )
        case Note.OTHER_SWARM:
            return f"{who} is in another swarm: {describe_difference(parameters, text)}"


def fatal_text(fatal: Fatal, parameters: str) -> str:
    """The one line for a node that can not take part."""
    if not fatal.parameters:
        return fatal.text
    return f"{fatal.text}: {describe_difference(parameters, fatal.parameters)}; make them equal"


def round_text(record: Record, rounds: int) -> str:
    """A round in a line."""
    accuracy = f"{record.accuracy_of} accuracy {100 * record.accuracy:.1f} %"
    times = f"train {record.train_s:.2f} s, aggregate {record.aggregate_s:.2f} s"
    spent = "" if record.epsilon is None else f"epsilon {record.epsilon:.3f} spent; "
    back = "; rolled back" if record.rolled_back else ""
    return f"round {record.round}/{rounds}: {_outcome_text(record)}{back}; {accuracy}; {spent}{times}"


def _outcome_text(record: Record) -> str:
    if record.reason is None:
        without = f", WITHOUT {', '.join(record.without)} (gone for good)" if record.without else ""
        return f"aggregated with {record.participants} peers{without}"
    if record.reason == Reason.BUDGET_SPENT:
        return "offered nothing (the privacy budget is spent), followed the others"
    missing = f", missing {', '.join(key[:8] for key in record.missing)}" if record.missing else ""
    return f"own update kept ({record.reason}{missing})"


def summary_text(summary: Summary) -> str:
    """A run in a line, and its privacy ledger, where there is one, in another."""
    ledger = f"\n{ledger_text(summary.privacy)}" if summary.privacy else ""
    return (
        f"{'finished' if summary.finished else 'stopped'} after round {summary.rounds}: {summary.aggregated} "
        f"aggregated, {summary.fallbacks} on its own; {summary.accuracy_of} accuracy "
        f"{100 * summary.accuracy:.1f} %; base {summary.base_digest[:16]}; "
        f"{summary.bytes_sent / 1e6:.1f} MB sent in {summary.seconds:.0f} s{ledger}"
    )


def draining_text(within_s: float) -> str:
    """What an interrupted node does, in a line."""
    return f"ending: a round that has begun may take {within_s:.0f} s; interrupt again to end at once"


class PlainReporter:
    """A line for each event."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def started(self, lines: dict[str, str]) -> None:
        """One line a fact."""
        for name, value in lines.items():
            self._say(f"{name}: {value}")

    def sums(self, group: Withstands) -> None:
        """In words."""
        self._say(f"sums: {group.text}")

    def training(self, round: int) -> None:
        """Nothing: a round's line comes at its end."""

    def round_ended(self, record: Record, rounds: int) -> None:
        """The round's line."""
        self._say(round_text(record, rounds))

    def caught_up(self, base: Base, how: str) -> None:
        """Which base, and on what ground."""
        self._say(f"caught up: base of generation {base.generation}, {how}")

    def notice(self, notice: Notice, text: str) -> None:
        """As it is."""
        self._say(text)

    def rolled_back(self, text: str) -> None:
        """A warning."""
        self.warning(text)

    def warning(self, text: str) -> None:
        """Marked."""
        self._say(f"warning: {text}")

    def draining(self, within_s: float) -> None:
        """What is waited for, and how not to."""
        self._say(draining_text(within_s))

    def finished(self, summary: Summary) -> None:
        """The summary's line."""
        self._say(summary_text(summary))

    async def keep_showing(self, status: Status) -> None:
        """Nothing moves on plain paper."""
        await asyncio.Event().wait()


class JsonReporter:
    """One JSON object a line, each with `event`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def _say(self, event: str, **values: object) -> None:
        print(json.dumps({"event": event, **values}), file=self._out, flush=True)

    def started(self, lines: dict[str, str]) -> None:
        """The facts as one object."""
        self._say("started", **lines)

    def sums(self, group: Withstands) -> None:
        """In figures and words."""
        self._say("sums", text=group.text, **group.facts)

    def training(self, round: int) -> None:
        """Which round."""
        self._say("training", round=round)

    def round_ended(self, record: Record, rounds: int) -> None:
        """The history line."""
        self._say("round", **record.as_json())

    def caught_up(self, base: Base, how: str) -> None:
        """Which base, and on what ground."""
        self._say("caught-up", generation=base.generation, base_digest=base.digest.hex(), how=how)

    def notice(self, notice: Notice, text: str) -> None:
        """As text."""
        self._say("notice", text=text)

    def rolled_back(self, text: str) -> None:
        """A warning."""
        self.warning(text)

    def warning(self, text: str) -> None:
        """As text."""
        self._say("warning", text=text)

    def draining(self, within_s: float) -> None:
        """For how long at most."""
        self._say("draining", within_s=within_s)

    def finished(self, summary: Summary) -> None:
        """The summary's fields."""
        self._say("finished", **summary.as_json())

    async def keep_showing(self, status: Status) -> None:
        """Nothing between events."""
        await asyncio.Event().wait()


def make_reporter(as_json: bool) -> Reporter:
    """For this process's standard output."""
    if as_json:
        return JsonReporter(sys.stdout)
    if sys.stdout.isatty():
        from node.observe.live import LiveReporter  # noqa: PLC0415 - rich is loaded only where it shows

        return LiveReporter()
    return PlainReporter(sys.stdout)
