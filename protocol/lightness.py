"""What a machine takes in at once, and what is worth a thread where vectors are large."""

from __future__ import annotations

from protocol.machine import SessionMachine
from protocol.masked_messages import (
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
from protocol.messages import (
    Accepted,
    CertificateRequest,
    Hello,
    Message,
    PieceRequest,
    Redirect,
    Refused,
    Roster,
)

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
