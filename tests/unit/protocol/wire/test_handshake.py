"""The handshake of a link: what each end accepts as a proof, and what it refuses."""

from __future__ import annotations

import pytest

from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.wire import codec, handshake
from protocol.wire.handshake import Challenge
from protocol.wire.messages import Accepted

DIALLER, ACCEPTOR, OTHER = (NodeKey(bytes([number]) * 32) for number in (1, 2, 3))
D, A, ELSE = b"d" * 32, b"a" * 32, b"e" * 32
KNOCK = handshake.knock(D)
CHALLENGE = handshake.challenge(ACCEPTOR, D, A)
SHOWN = Challenge(ACCEPTOR.public, A)
PROOF = handshake.proof(DIALLER, D, SHOWN)
TICKET = handshake.ticket(b"t" * 32)


def test_each_end_learns_whose_the_other_is():
    assert handshake.read_knock(KNOCK) == D
    assert handshake.read_challenge(CHALLENGE, D) == SHOWN
    assert handshake.read_proof(PROOF, D, A, ACCEPTOR.public) == DIALLER.public
    assert handshake.read_ticket(TICKET) == b"t" * 32


READERS = {
    "knock": (KNOCK, handshake.read_knock),
    "challenge": (CHALLENGE, lambda frame: handshake.read_challenge(frame, D)),
    "proof": (PROOF, lambda frame: handshake.read_proof(frame, D, A, ACCEPTOR.public)),
    "ticket": (TICKET, handshake.read_ticket),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("other", [b"", b"\x00", KNOCK, CHALLENGE, PROOF, TICKET])
def test_a_frame_of_another_kind_is_none(name, other):
    mine, read = READERS[name]
    if other != mine:
        with pytest.raises(RemoteProtocolError, match=f"no {name}"):
            read(other)


@pytest.mark.parametrize("name", READERS)
def test_a_frame_has_one_length(name):
    mine, read = READERS[name]
    for frame in (mine[:-1], mine + b"\0", mine[:1], mine * 2):
        with pytest.raises(RemoteProtocolError, match=f"no {name}"):
            read(frame)


@pytest.mark.parametrize("name", ["challenge", "proof"])
def test_no_byte_of_a_proof_may_be_another(name):
    mine, read = READERS[name]
    for place in range(len(mine)):
        frame = bytearray(mine)
        frame[place] ^= 1
        with pytest.raises(RemoteProtocolError):
            read(bytes(frame))


@pytest.mark.parametrize(
    "frame",
    [
        handshake.challenge(ACCEPTOR, ELSE, A),  # said on another link
        b"\x02" + OTHER.public + CHALLENGE[33:],  # somebody else's, under a key of one's own
        b"\x02" + ACCEPTOR.public + A + ACCEPTOR.sign(b"link-dialler", D + A + ACCEPTOR.public),
    ],
    ids=["of-another-link", "under-another-key", "with-the-other-end-s-label"],
)
def test_what_shows_no_acceptor_s_key(frame):
    with pytest.raises(RemoteProtocolError, match="bad link-acceptor signature"):
        handshake.read_challenge(frame, D)


@pytest.mark.parametrize(
    "frame",
    [
        handshake.proof(DIALLER, D, Challenge(ACCEPTOR.public, ELSE)),  # replayed: the nonce of another link
        handshake.proof(DIALLER, ELSE, SHOWN),
        handshake.proof(DIALLER, D, Challenge(OTHER.public, A)),  # meant for another acceptor, passed on
        b"\x03" + OTHER.public + PROOF[33:],
        b"\x03" + DIALLER.public + DIALLER.sign(b"link-acceptor", A + D + ACCEPTOR.public + DIALLER.public),
    ],
    ids=["acceptor-s-nonce", "dialler-s-nonce", "for-another", "under-another-key", "wrong-label"],
)
def test_what_shows_no_dialler_s_key(frame):
    with pytest.raises(RemoteProtocolError, match="bad link-dialler signature"):
        handshake.read_proof(frame, D, A, ACCEPTOR.public)


@pytest.mark.parametrize("number", [0, 1, 2**40])
def test_a_message_is_asked_for_again_by_its_number(number):
    assert handshake.read_again(handshake.again(number)) == number


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        handshake.again(1)[:-1],
        handshake.again(1) + b"\0",
        bytes(12),
        codec.encode(Accepted(b"n" * 16)).join(),
    ],
)
def test_nothing_else_asks_for_one(frame):
    assert handshake.read_again(frame) is None


def test_no_message_passes_for_such_a_request():
    """Its header would be longer than allowed."""
    with pytest.raises(RemoteProtocolError, match="too long"):
        codec.decode(handshake.again(7))


def test_a_proof_for_a_relay_is_none_for_a_link():
    node, relay = NodeKey(bytes([1]) * 32), NodeKey(bytes([2]) * 32)
    mine, theirs = bytes(32), bytes([9]) * 32
    challenged = handshake.read_challenge(
        handshake.challenge(relay, mine, theirs, handshake.RELAY), mine, handshake.RELAY
    )
    shown = handshake.proof(node, mine, challenged, handshake.RELAY)
    assert handshake.read_proof(shown, mine, theirs, relay.public, handshake.RELAY) == node.public
    with pytest.raises(RemoteProtocolError):
        handshake.read_proof(shown, mine, theirs, relay.public)
    with pytest.raises(RemoteProtocolError):
        handshake.read_challenge(handshake.challenge(relay, mine, theirs, handshake.RELAY), mine)
