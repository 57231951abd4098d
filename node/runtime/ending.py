"""How a node ends: the reason, its actions before the goodbye, its last log event, and its exit status.

| why | before the goodbye | last event | status |
|---|---|---|---|
| its last round is over, or it has enough bases | the closing: all have the last base | finished | 0 (4) |
| told to end while others count on it | the session or the closing, within a bound | stopped (1) | 130 |
| told to end while nobody does | nothing: it says goodbye in the same event | stopped (1) | 130 |
| told twice | nothing | stopped (1) | 130 |
| it came back, and its swarm is gone | one round of its own | failed (2) | 1 |
| it diverged, is refused, or cannot go on | nothing: it says goodbye, and why (5) | failed (2) | 1 or 2 (3) |
| Ctrl-C before it has begun (node.cli.sigint) | (there is no goodbye) | none | 130 |

(1) `finished` if its last round has ended nevertheless.
(2) In a JSON log; otherwise a line on standard error (node.logs).
(3) The status of the error (node.errors); 1 for a fault of the program (node.cli.error_handling).
(4) 1 if the owner requires an aggregated round (--require-aggregation) and there was none.
(5) Nothing, if the error came with an action of the machine: others refuse the node, or a disk fails.

After the goodbye a node handles no more messages. Stored data stays, whatever the end.
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
    """Why a node ended without an error."""

    DONE = auto()
    """Its last round is over, or it has enough agreed bases."""
    TOLD = auto()
    """A signal told it to end, or the program that it runs in."""
    DESERTED = auto()
    """It came back to a swarm whose members are all gone (protocol.swarm.last_rounds)."""


def end_of(is_deserted: bool, is_told: bool) -> End:
    """Returns why a node ended. A deserted node stays deserted when told to end: its owner should know."""
    if is_deserted:
        return End.DESERTED
    return End.TOLD if is_told else End.DONE


def others_count_on(phase: str) -> bool:
    """Returns whether others count on a node in this phase, so that it finishes what has begun."""
    return phase in _COUNTED_ON


def exit_status(end: End, plan: Plan, round: int, aggregated: int, must_aggregate: bool) -> int:
    """Returns the exit status of a node whose last round was `round`, after `aggregated` rounds with others.

    Raises UserError if it is deserted, or if it `must_aggregate` and no round was aggregated.
    """
    match end:
        case End.DONE if must_aggregate and not aggregated:
            raise UserError(
                f"no round up to {round} of {plan.rounds} was aggregated, and --require-aggregation asks for "
                "one; start the nodes together, or let each wait for the others: --wait forever"
            )
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
    """The requests to end: `ask`, then `at_once`. Neither can be taken back."""

    def __init__(self) -> None:
        self.training = threading.Event()
        """Set by `ask`: training ends between two batches, in any thread."""
        self._at_once = asyncio.Event()

    @property
    def asked(self) -> bool:
        """Whether the node must begin nothing new."""
        return self.training.is_set()

    def ask(self) -> None:
        """Asks the node to begin nothing new."""
        self.training.set()

    def at_once(self) -> None:
        """Asks the node to wait for nothing more."""
        self.training.set()
        self._at_once.set()

    async def unless(self, wait: Awaitable[T]) -> T | None:
        """Returns the result of `wait`; None if `at_once` comes first."""
        waiting = asyncio.ensure_future(wait)
        stopped = asyncio.create_task(self._at_once.wait())
        try:
            await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()
            stopped.cancel()
