"""The session of two ends: equal passwords, one order, both directions apart."""

from __future__ import annotations

import pytest

from protocol.errors import RemoteProtocolError
from protocol.invitation.messages import OPEN, Sealed, Standing, State
from protocol.invitation.sealed import NO_SECRET, End, Exchange, Session, accepted_bytes, password_of
from tests.invitations import INVITATION

SID = bytes(32)
SAID = State(Standing.ACCEPTED)


def sessions(joiners=b"code", inviters=b"code", rooms=("48213", "48213"), sids=(SID, SID)) -> list[Session]:
    joiner = Exchange(End.JOINER, b"\x01" * 32, joiners, rooms[0], sids[0])
    inviter = Exchange(End.INVITER, b"\x02" * 32, inviters, rooms[1], sids[1])
    return [joiner.finish(inviter.share), inviter.finish(joiner.share)]


def box(session: Session) -> Sealed:
    sealed = OPEN.read(session.seal(SAID))
    assert isinstance(sealed, Sealed)
    return sealed


def test_ends_with_one_password_prove_it_and_read_each_other():
    joiner, inviter = sessions()
    assert inviter.is_proved(OPEN.read(joiner.proof))
    assert joiner.is_proved(OPEN.read(inviter.proof))
    for _ in range(2):
        assert inviter.open(box(joiner)) == SAID
        assert joiner.open(box(inviter)) == SAID
    assert joiner.resumption == inviter.resumption != joiner.binding == inviter.binding
    assert accepted_bytes(joiner, INVITATION) == accepted_bytes(inviter, INVITATION)


@pytest.mark.parametrize(
    "change", [{"inviters": b"cod"}, {"rooms": ("48213", "48214")}, {"sids": (SID, b"s" * 32)}]
)
def test_another_password_room_or_nonce_is_no_session(change):
    joiner, inviter = sessions(**change)
    assert not inviter.is_proved(OPEN.read(joiner.proof))
    assert not joiner.is_proved(OPEN.read(inviter.proof))
    with pytest.raises(RemoteProtocolError, match="does not open"):
        inviter.open(box(joiner))


def test_a_proof_is_worthless_if_it_is_sent_back():
    joiner, _ = sessions()
    assert not joiner.is_proved(OPEN.read(joiner.proof))


def test_no_message_is_repeated_left_out_or_sent_back():
    joiner, inviter = sessions()
    first, second = box(joiner), box(joiner)
    with pytest.raises(RemoteProtocolError):
        inviter.open(second)
    with pytest.raises(RemoteProtocolError):
        joiner.open(first)
    inviter.open(first)
    with pytest.raises(RemoteProtocolError):
        inviter.open(first)
    assert inviter.open(second) == SAID


def test_the_secret_of_a_session_is_part_of_the_next_password():
    assert password_of("a-b-c", NO_SECRET) != password_of("a-b-c", b"r" * 32)
