"""Passing on a GROUP to members that do not join: perhaps its coordinator sent it to some only.

Else the members that have it would blame those that never heard of it, and leave them out; so the coordinator
would choose who takes part. Who gets it passes it on, too. A member that has it already ignores it.
"""

from __future__ import annotations

from protocol.actions import Action, Send
from protocol.aggregation.session_machine import SessionMachine

AFTER_S = 0.5
"""After so long a member that has sent nothing may lack the GROUP (s)."""
MOST = 8
"""To so many a member passes it on: in a large group that is slow, all would send it to all."""


class PassingOn:
    """When the GROUP of the session that this node has begun is passed on, until it was."""

    def __init__(self) -> None:
        self.deadline: float | None = None
        """When tick should be called at the latest; None: never."""

    def begin(self, now: float) -> None:
        """A session of a new group begins here."""
        self.deadline = now + AFTER_S

    def tick(self, machine: SessionMachine | None, now: float) -> list[Action]:
        """Once, send the GROUP to those of whom the machine still waits for the first message."""
        if self.deadline is None or now < self.deadline:
            return []
        self.deadline = None
        if machine is None or machine.stage != "shares":
            return []
        return [Send(key, (machine.participant.group,)) for key in machine.waiting_for()[:MOST]]
