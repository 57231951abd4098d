"""The transition table of a node, from one round to the next and to its end (protocol.swarm.node)."""

from __future__ import annotations

from enum import Enum

from protocol.transitions import Step, Table


class Phase(Enum):
    """What a node is doing. It may fetch or store a base in any phase but `running`."""

    IDLE = "idle"
    SEEKING = "seeking"
    RUNNING = "running"
    FOLLOWING = "following"
    CLOSING = "closing"
    CLOSED = "closed"


class Event(Enum):
    """What moves a node from one phase to the next."""

    OFFER = "offer"
    STEP = "the next step of a run"
    GROUP = "a Group"
    NO_GROUP = "T_group is over"
    TOO_LATE = "the others have ended"
    OUTDATED = "another base"
    ENDED = "the session's end"
    NOT_BEGUN = "it never began"
    FOLLOW = "follow"
    FOLLOWED = "a base, or T_group"
    CLOSE = "close"
    CONFIRMED = "confirmed, or time"


STEPS: Table[Phase, Event] = {
    (Phase.IDLE, Event.OFFER): Step(
        Phase.SEEKING, "a group is sought as soon as nothing is fetched or stored"
    ),
    (Phase.IDLE, Event.STEP): Step(
        Phase.RUNNING, "the masked machine of the next step starts with the offer, in the same group"
    ),
    (Phase.SEEKING, Event.GROUP): Step(
        Phase.RUNNING, "a session of the additive or the masked machine starts with the offer"
    ),
    (Phase.SEEKING, Event.NO_GROUP): Step(Phase.IDLE, "Failed, the offer still fresh; Hello to all"),
    (Phase.SEEKING, Event.TOO_LATE): Step(
        Phase.IDLE, "Failed, as the last round, which the others have ended; Hello to all"
    ),
    (Phase.SEEKING, Event.OUTDATED): Step(
        Phase.IDLE, "where each sum is one step: Failed, as the offer was made for the base before"
    ),
    (Phase.RUNNING, Event.ENDED): Step(
        Phase.IDLE, "Completed, and the new base is stored; or Failed, and Hello to all"
    ),
    (Phase.RUNNING, Event.NOT_BEGUN): Step(
        Phase.SEEKING, "nothing was spent: the offer waits for another group, within its wait; Hello to all"
    ),
    (Phase.IDLE, Event.FOLLOW): Step(
        Phase.FOLLOWING, "nothing is offered, ever again; Hello to all, the first time"
    ),
    (Phase.FOLLOWING, Event.FOLLOWED): Step(
        Phase.IDLE,
        "Failed, for a spent budget or a late member: a base was adopted, T_group is over, or nobody offers; "
        "Hello to all",
    ),
    (Phase.IDLE, Event.CLOSE): Step(
        Phase.CLOSING, "Hello to all; who lacks something is served for as long as it may need"
    ),
    (Phase.CLOSING, Event.CONFIRMED): Step(
        Phase.CLOSED,
        "Closed: every live peer shows this base and round, and if offers wait for ever every other one, or "
        "the time to linger is over",
    ),
}
"""There are no other steps."""
