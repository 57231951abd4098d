"""How a node ends: why, what it does before its goodbye, what its log tells last, and the exit status.

| why | before the goodbye | last event | status |
|---|---|---|---|
| its last round is over, or enough is agreed | the closing: all have the last base | finished | 0 |
| told to end while others count on it | the session or the closing, within a bound | stopped (1) | 130 |
| told to end while nobody does | nothing: the goodbye is said in the same event | stopped (1) | 130 |
| told twice | nothing | stopped (1) | 130 |
| it came back, and nobody of its swarm is there | one round of its own | failed (2) | 1 |
| others refuse it, or it can not go on | (there is no goodbye) | failed (2) | 1 or 2 (3) |
| Ctrl-C before it has begun (node.cli.sigint) | (there is no goodbye) | none | 130 |

(1) `finished`, where its last round has ended all the same.
(2) In a log of JSON; else a line on standard error (node.logs).
(3) As the error says (node.errors); a fault of the program is 1 (node.cli.exit).

After the goodbye a node takes in nothing more. Whatever the end, what is stored stays.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from enum import Enum, auto
from typing import TypeVar

from node.cli.sigint import INTERRUPTED
from node.errors import UserError
from node.runtime.plan import Plan

T = TypeVar("T")

_COUNTED_ON = frozenset({"shares", "sums", "closing"})
"""Phases in which others count on this node."""


class End(Enum):
    """Why a node ended that no error ended."""

    DONE = auto()
    """Its last round is over, or enough is agreed."""
    TOLD = auto()
    """By a signal, or by the program that it runs in."""
    DESERTED = auto()
    """It came back to a swarm of which nobody is there any more (protocol.swarm.last_rounds)."""


def end_of(is_deserted: bool, is_told: bool) -> End:
    """Why a node ended. Told while it says goodbye to nobody, it is still deserted: its owner should know."""
    if is_deserted:
        return End.DESERTED
    return End.TOLD if is_told else End.DONE


def others_count_on(phase: str) -> bool:
    """Whether others wait for a node in this phase, so that what has begun comes to its end first."""
    return phase in _COUNTED_ON


def exit_status(end: End, plan: Plan, round: int) -> int:
    """Of a node whose last round was `round`. Raises UserError where its owner has to be told why."""
    match end:
        case End.DONE:
            return 0
        case End.TOLD:
            return INTERRUPTED
        case End.DESERTED:
            raise UserError(
                "nobody of this swarm is there any more: every connection was refused for "
                f"{plan.aggregation.group_timeout_s:g} s; it has ended, or is down; what was agreed is kept, "
                f"after round {round} of {plan.rounds}: start the same command line again when the others "
                "are back"
            )


class Stopping:
    """Asked for once, and then at once; neither is ever taken back."""

    def __init__(self) -> None:
        self.training = threading.Event()
        """Set when asked: training ends between two batches, in whatever thread it is."""
        self._at_once = asyncio.Event()

    @property
    def asked(self) -> bool:
        """Whether nothing new is to be begun."""
        return self.training.is_set()

    def ask(self) -> None:
        """Begin nothing new."""
        self.training.set()

    def at_once(self) -> None:
        """Wait for nothing more."""
        self.training.set()
        self._at_once.set()

    async def unless(self, wait: Awaitable[T]) -> T | None:
        """The wait's result; None if this node is to end at once before."""
        waiting = asyncio.ensure_future(wait)
        stopped = asyncio.create_task(self._at_once.wait())
        try:
            await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()
            stopped.cancel()
