"""How a node ends: the reason, its actions before the goodbye, its last log event, and its exit status.

| why | before the goodbye | last event | status |
|---|---|---|---|
| its run is over: it has the base of the last sum | the closing: all have the last base | finished | 0 (4) |
| too few members have any privacy budget left | the closing | finished | 0 (4) |
| it was alone for too long, or missed the others' run (`given_up`) | the closing | failed (2) | 1 |
| one of its job's members is gone (6) | the closing | failed (2) | 1 |
| told to end while others count on it | the session or the closing, within a bound | stopped (1) | 130 |
| told to end while nobody does | nothing: it says goodbye in the same event | stopped (1) | 130 |
| told twice | nothing | stopped (1) | 130 |
| it came back, and its swarm is gone | one round of its own | failed (2) | 1 |
| it diverged, is refused, or cannot go on | nothing: it says goodbye, and why (5) | failed (2) | 1 or 2 (3) |
| Ctrl-C before it has begun (node.cli.sigint) | (there is no goodbye) | none | 130 |

(1) `finished` if its run is over nevertheless.
(2) In a JSON log; otherwise a line on standard error (node.cli.logs).
(3) The status of the error (node.system.errors); 1 for a fault of the program (node.cli.error_handling).
(4) 1 if the owner requires an aggregated round (--require-aggregation) and there was none.
(6) Where all sums have the members of the first one: after the owner's wait it keeps the base that it has.
(5) Nothing, if the error came with an action of the machine: others refuse the node, or a disk fails.

After the goodbye a node handles no more messages. Stored data stays, whatever the end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Sequence
from enum import Enum, auto
from typing import TypeVar

from node.cli.sigint import INTERRUPTED
from node.runtime.plan import Plan
from node.system.errors import UserError, counted
from protocol.actions import Completed, Failed, Reason

T = TypeVar("T")

_COUNTED_ON = frozenset({"shares", "sums", "closing"})
"""Phases in which others count on this node."""


class End(Enum):
    """Why a node ended without an error."""

    DONE = auto()
    """Its run is over: it has the base of the last sum."""
    SPENT = auto()
    """So many privacy budgets are spent that no sum can come any more."""
    ALONE = auto()
    """It ended as many rounds alone in a row as its run has sums."""
    NOBODY_CAME = auto()
    """Its owner had it wait for the first group, and none came."""
    UNFINISHED = auto()
    """All sums have the members of the first one, and one of these did not come."""
    MISSED = auto()
    """The others' run is over, nobody is left for a group, and nobody gave it their last base."""
    TOLD = auto()
    """A signal told it to end, or the program that it runs in."""
    DESERTED = auto()
    """It came back to a swarm whose members are all gone (protocol.swarm.last_rounds)."""

    @property
    def is_over(self) -> bool:
        """Whether the run is over as its owner meant it to be."""
        return self in (End.DONE, End.SPENT)


def given_up(outcome: Completed | Failed, alone: int, is_first: bool, plan: Plan, sums: int) -> End | None:
    """Returns why a node ends after a round though its run is not over; None: it goes on.

    `alone`: its rounds alone in a row, this one included. `is_first`: this is the first round of the start.
    `sums`: those that led to its base.
    """
    reason = outcome.reason if isinstance(outcome, Failed) else None
    match reason:
        case Reason.ALL_SPENT:
            return End.SPENT
        case Reason.SWARM_FINISHED:
            return End.MISSED
        case Reason.GROUP_TIMEOUT if plan.cohort and sums:
            return End.UNFINISHED
        case Reason.GROUP_TIMEOUT if is_first and plan.waits:
            return End.NOBODY_CAME
        case _:
            return End.ALONE if alone >= plan.tries else None


def others_count_on(phase: str) -> bool:
    """Returns whether others count on a node in this phase, so that it finishes what has begun."""
    return phase in _COUNTED_ON


class Alone(UserError):
    """A node gave up for want of others, because of `why`. `kept`: what it keeps; `then`: what to do."""

    def __init__(self, end: End, why: str, kept: str, then: str) -> None:
        super().__init__(f"{why}, {kept}; {then}")
        self.end = end
        self.why = why


def exit_status(
    end: End,
    plan: Plan,
    round: int,
    aggregated: int,
    must_aggregate: bool,
    absent: str = "",
    other_versions: Sequence[str] = (),
    by_list: bool = False,
) -> int:
    """Returns the exit status of a node whose last round was `round`, after `aggregated` rounds with others.

    `absent`: who was not there, in words. `other_versions`: a line about each named peer
    of another version, which is why no group came. `by_list`: the swarm has a list of members.

    Raises UserError if it `must_aggregate` and no round was aggregated; Alone if it ended for want of others.
    """
    kept = f"after round {round} of {plan.rounds}{': what was agreed is kept' if round else ''}"
    likewise = f" ({counted(len(other_versions) - 1, 'more peer')} likewise)" if other_versions[1:] else ""
    version = f"{other_versions[0]}{likewise}; " if other_versions else ""
    again = f"{version}start the same command line again when the others are there"
    match end:
        case End.DONE | End.SPENT if must_aggregate and not aggregated:
            raise UserError(
                f"no round up to {round} of {plan.rounds} was aggregated, and --require-aggregation asks for "
                "one; start the nodes together, or let each wait for the others: --wait forever"
            )
        case End.DONE | End.SPENT:
            return 0
        case End.TOLD:
            return INTERRUPTED
        case End.ALONE:
            then = f"{again}, or let it wait for them: --wait forever"
            raise Alone(end, f"{counted(plan.tries, 'round')} alone in a row", kept, then)
        case End.NOBODY_CAME:
            who = f": {absent} did not come" if absent else ""
            then = f"{again}; --wait says how long it waits"
            raise Alone(end, f"no group came while this node waited for one{who}", kept, then)
        case End.UNFINISHED:
            who = f": {absent} did not come" if absent else ""
            gone = f"the job stopped unfinished: all its sums have the members of the first one{who}"
            raise Alone(end, gone, kept, f"{again}, or with --again to begin another job with the rest")
        case End.MISSED:
            nobody = (
                "the others have ended their run, and nobody is left who can give this node their last model"
            )
            then = "copy the model of a node that has it"
            start = "ask one of them to run `murmuration start` again, and then run it here"
            raise Alone(end, nobody, kept, start if by_list else then)
        case End.DESERTED:
            refused = f"every connection was refused for {plan.task.aggregation.group_timeout_s:g} s"
            gone = f"nobody of this swarm is there any more: {refused}; it has ended, or is down"
            raise Alone(end, gone, kept, again)


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
