"""One member of one session, additive or masked, as the node drives it; and what its messages cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from protocol.actions import Action
from protocol.aggregation.participant import Participant
from protocol.vectors.pieces import Floats
from protocol.wire.masked_messages import (
    Ack,
    Check,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    Release,
    Total,
    ViewChange,
)
from protocol.wire.messages import (
    Accepted,
    CertificateRequest,
    Hello,
    Key,
    Message,
    PieceRequest,
    Redirect,
    Refused,
    Roster,
    Sum,
)


class SessionMachine(Protocol):
    """One member of one session, additive or masked: what a Session drives. Sends go to node keys."""

    participant: Participant
    shares_since: float
    sums_since: float
    deadline: float | None

    @property
    def headers(self) -> Mapping[Key, Sum]:
        """The signed sums seen so far, where there are any."""

    @property
    def stage(self) -> str:
        """The half of the session, as figures name it: shares until the offer is spent, then sums."""

    def start(self, vector: Floats, rand: bytes, now: float) -> list[Action]:
        """Begin with a (d,) float32 offer and 32 secret bytes."""

    def takes(self, message: Message) -> bool:
        """Whether this is a kind of message that goes to this machine, of its session."""

    def awaits_only(self, message: Message) -> bool:
        """Whether a message of this kind is the last one before it goes through all of the vector."""

    def receive(self, message: Message, now: float) -> list[Action]:
        """Take in a message that it takes; RemoteProtocolError, and nothing changed, if it is not right."""

    def waiting_for(self) -> tuple[Key, ...]:
        """Who is waited for."""

    def unreachable(self, key: Key, now: float) -> list[Action]:
        """A member can not be reached any more."""

    def gave_up(self, key: Key, now: float) -> list[Action]:
        """A member ended this session without a result."""

    def finished(self, key: Key, now: float) -> list[Action]:
        """A member shows the base that this session made."""

    def tick(self, now: float) -> list[Action]:
        """The deadline is over."""


LIGHT = (
    *(Hello, Roster, Refused, Accepted, Redirect, CertificateRequest, PieceRequest),
    *(Join, Joined, JoinCertificate, Masked, Check, Ack, ViewChange),
)
"""Messages that a machine takes in with a few signatures, and at most a chunk of a vector."""


def is_always_light(message: Message) -> bool:
    """Whether it is of a kind that is always taken in like that."""
    return isinstance(message, LIGHT)


def is_light(message: Message, machine: SessionMachine | None) -> bool:
    """Whether it is taken in like that now. `machine`: the session that runs, if one does.

    Of totals and releases only the last one has work behind it.
    """
    if isinstance(message, Total | Release):
        return machine is None or not machine.awaits_only(message)
    return is_always_light(message)
