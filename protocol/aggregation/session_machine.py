"""The interface through which a node drives a session, additive or masked; and the cost of messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from protocol.actions import Action
from protocol.aggregation.participant import Participant
from protocol.vectors.pieces import Vector
from protocol.wire.masked_messages import (
    Ack,
    Check,
    Join,
    JoinCertificate,
    Joined,
    Lacking,
    Masked,
    Release,
    ReleaseHead,
    Total,
    ViewChange,
)
from protocol.wire.messages import (
    Accepted,
    CertificateRequest,
    Charged,
    Hello,
    Key,
    Message,
    PieceRequest,
    Redirect,
    Refused,
    Reminder,
    Roster,
    Sum,
)


class SessionMachine(Protocol):
    """One member of one session, additive or masked. Sends go to node keys."""

    participant: Participant
    shares_since: float
    sums_since: float
    deadline: float | None

    @property
    def headers(self) -> Mapping[Key, Sum | ReleaseHead]:
        """Of each other member the signed header of its sum, or head of its release, if it is here."""

    @property
    def stage(self) -> str:
        """The half of the session, as figures name it: "shares" until the offer is spent, then "sums"."""

    def start(self, vector: Vector, rand: bytes, now: float) -> list[Action]:
        """Begin with a (d,) offer, as the encoding takes it, and 32 secret bytes."""

    def takes(self, message: Message) -> bool:
        """Whether this machine processes such a message, and it belongs to the machine's session."""

    def awaits_only(self, message: Message) -> bool:
        """Whether a message of this kind is the last one before the machine processes the whole vector."""

    def receive(self, message: Message, now: float) -> list[Action]:
        """Process a message that it `takes`. Raises RemoteProtocolError, and changes nothing, if invalid."""

    def waiting_for(self) -> tuple[Key, ...]:
        """The members that this machine waits for."""

    def unreachable(self, key: Key, now: float) -> list[Action]:
        """A member cannot be reached any more."""

    def arriving(self, key: Key) -> None:
        """Bulk of a member is on its way here, and slow."""

    def gave_up(self, key: Key, now: float) -> list[Action]:
        """A member ended this session without a result."""

    def finished(self, key: Key, now: float) -> list[Action]:
        """A member shows the base that this session made."""

    def tick(self, now: float) -> list[Action]:
        """Act on the deadline, if it is over."""


LIGHT = (
    *(Hello, Roster, Refused, Accepted, Redirect, CertificateRequest, PieceRequest, Charged, Reminder),
    *(Join, Lacking, Joined, JoinCertificate, Masked, Check, Ack, ViewChange),
)
"""Messages whose processing costs a few signature checks and at most one chunk of a vector."""


def is_always_light(message: Message) -> bool:
    """Whether a message of this kind is light in every state of a session."""
    return isinstance(message, LIGHT)


def is_light(message: Message, machine: SessionMachine | None) -> bool:
    """Whether the message is light now. `machine`: the running session, if any.

    Only the last total and the last release cause more work.
    """
    if isinstance(message, Total | Release):
        return machine is None or not machine.awaits_only(message)
    return is_always_light(message)
