"""What a node is doing now, in a form for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from protocol.aggregation.session_machine import SessionMachine
from protocol.swarm.meeting.discovery import Introductions
from protocol.swarm.meeting.group_seeker import Offer
from protocol.swarm.recovery.catch_up import Healer
from protocol.wire.messages import Key


@dataclass(frozen=True)
class Status:
    """What a node is doing, for people: the phase, who is waited for, until when (Unix s)."""

    phase: str
    waiting_for: tuple[str, ...]
    deadline: float | None


def status_of(
    machine: SessionMachine | None,
    healer: Healer,
    hellos: Introductions,
    offer: Offer | None,
    following_until: float | None,
    closing_until: float | None,
    name: Callable[[Key], str],
) -> Status:
    """The innermost thing that is going on; `name` says a member's endpoint."""
    if machine is not None:
        return Status(machine.stage, tuple(name(key) for key in machine.waiting_for()), machine.deadline)
    if healer.busy:
        return Status("catching up", (), healer.deadline)
    if hellos.joining:
        return Status("joining", hellos.awaited(), hellos.deadline)
    if offer is not None:
        return Status("group", hellos.awaited(), offer.deadline)
    if following_until is not None:
        return Status("following", (), following_until)
    return Status("idle" if closing_until is None else "closing", (), closing_until)
