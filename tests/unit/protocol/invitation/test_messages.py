"""The messages of an invitation: each is read as it was written, and nothing else is read."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest

from protocol.errors import RemoteProtocolError
from protocol.invitation.inviter import SEATS
from protocol.invitation.joiner import PLACES
from protocol.invitation.messages import (
    MAX_TASK_BYTES,
    OPEN,
    SECRET,
    Accept,
    Answer,
    Invitation,
    Knock,
    Proof,
    Reason,
    Refusal,
    Sealed,
    Share,
    Standing,
    State,
)
from protocol.relay.admission import Relay
from tests.invitations import INVITATION, INVITER, PLACE, ROSTER, SEAT

LONGEST = Invitation(
    *("w" * 80, "W" * 40, INVITER.public, "\U0001f426" * 40),
    *(("\U0001f426" * 40,) * 64, bytes(MAX_TASK_BYTES)),
    (Relay(f"{'h' * 60}.{'h' * 60}.{'h' * 60}.{'h' * 60}:65535", INVITER.public, bytes(64)),) * 3,
    2**53,
)


@pytest.mark.parametrize(
    ("dialect", "message"),
    [
        (OPEN, Knock(bytes(16), True)),
        (OPEN, Answer(bytes(16))),
        (OPEN, Share(bytes(32))),
        (OPEN, Proof(bytes(64))),
        *((OPEN, Refusal(reason, 3)) for reason in Reason),
        (OPEN, Sealed(b"box")),
        (SECRET, INVITATION),
        (SECRET, LONGEST),
        (SECRET, Accept(bytes(32), bytes(64))),
        *((SECRET, State(standing)) for standing in Standing),
        (SECRET, ROSTER),
        (SEATS, SEAT),
        (PLACES, PLACE),
    ],
)
def test_a_message_is_read_as_it_was_written(dialect, message):
    assert dialect.read(dialect.write(message)) == message


def test_what_was_agreed_is_learned_in_place_of_the_task():
    assert INVITATION.learned == INVITATION.task
    assert replace(INVITATION, agreed=b"agreed").learned == b"agreed"


def test_the_longest_invitation_fits_its_box():
    box = OPEN.write(Sealed(SECRET.write(LONGEST) + bytes(16)))
    assert isinstance(OPEN.read(box), Sealed)


@pytest.mark.parametrize("number", [-1, 5, True, "0", None])
def test_an_unknown_reason_or_standing_is_refused(number):
    with pytest.raises(RemoteProtocolError, match="a reason of an unknown number"):
        OPEN.read(msgpack.packb([1, 4, number, 3]))
    with pytest.raises(RemoteProtocolError, match="a standing of an unknown number"):
        SECRET.read(msgpack.packb([1, 2, number]))


@pytest.mark.parametrize("task", [b"", bytes(MAX_TASK_BYTES + 1)])
def test_a_task_has_its_limits(task):
    fields = [*msgpack.unpackb(SECRET.write(INVITATION))]
    fields[fields.index(INVITATION.task)] = task
    with pytest.raises(RemoteProtocolError):
        SECRET.read(msgpack.packb(fields))
