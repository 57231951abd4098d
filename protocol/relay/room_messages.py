"""What inviter, relay and joiner say about rooms. The relay pipes what they say to each other, unread.

The inviter's websocket is /v1/rooms; protocol.wire.handshake comes first, under the labels of a relay:

    inviter  WordShare   CPace by the relay's word; with nothing else to show              ──▶  relay
             WordShare   CPace                                                             ◀──
             OpenRooms   its proof, a licence or credentials; rooms to keep; how many new   ──▶
             Rooms       the licence, the digits of all rooms asked for, the relay's proof ◀──
          or Refused     why                                                               ◀──
             Knocked     a joiner came in; `visit` numbers the joiners of a room           ◀──
             Said        one message of the joiner                                         ◀──
             Left        the joiner is gone                                                ◀──
             Said        one message to the joiner                                         ──▶
             Proved      the joiner knows the code: its time to prove it is over           ──▶
             Dismiss     out with the joiner; the room stays                               ──▶
             CloseRoom   nobody comes in any more                                          ──▶

A newer websocket of the same key takes all its rooms over, and OpenRooms may be said again for more. A relay
that has started again knows no room: the inviter names those to keep, and gets them back unless another
inviter took the digits meanwhile.

The joiner's websocket is /v1/room/{digits}, without a handshake. The relay says first `Entered` or `Barred`;
after `Entered` each message is one of the inviter's, unchanged, and the inviter gets each of the joiner's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any

from protocol.crypto.cpace import POINT_BYTES, TAG_BYTES
from protocol.crypto.node_key import SIGNATURE_BYTES
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import Credentials, Refused
from protocol.wire.dialect import Dialect
from protocol.wire.fields import Most, Nonce, Octets, Signature, Whole

DIGITS = 5
ALL_DIGITS = 10**DIGITS
"""How many rooms can be named."""
MAX_ROOMS = 64
"""Rooms of one inviter."""
MAX_SAID_BYTES = 1024 * 1024 + 64 * 1024
"""One message to a joiner: a sealed invitation with a task of 1 MiB."""
MAX_JOINER_BYTES = 64 * 1024
"""One message of a joiner."""
MAX_ROOM_MESSAGE_BYTES = MAX_SAID_BYTES + 1024
_ALL_VISITS = 2**53


class Bar(IntEnum):
    """Why a joiner is not let in."""

    NO_ROOM = 0
    """No room has these digits: none had, its day is over, or its code was used or burnt."""
    NOBODY = 1
    """The inviter is not connected now."""
    TAKEN = 2
    """Another joiner is about to prove the code, or two have."""
    TOO_OFTEN = 3
    """Too many came to this room, or from this address, in the last minute."""


def is_room(written: str) -> bool:
    """Whether this is how a room is written: five digits."""
    return len(written) == DIGITS and written.isascii() and written.isdigit()


def _digits(value: Any) -> str:
    if type(value) is not str or not is_room(value):
        raise RemoteProtocolError(f"a room that is not {DIGITS} digits")
    return value


Digits = Annotated[str, _digits]
Visit = Annotated[int, Whole(0, _ALL_VISITS)]


@dataclass(frozen=True)
class WordShare:
    """A share of CPace by the relay's word (protocol.relay.word). `nonce`: the inviter's, in both."""

    nonce: Nonce
    point: Annotated[bytes, Octets(POINT_BYTES, POINT_BYTES)]


@dataclass(frozen=True)
class OpenRooms:
    """The inviter asks for rooms: `keep` are those it has had, `more` is how many new ones it wants.

    It proves the relay's word, or shows the licence that it once got for the word; or, as a member of a swarm
    by this relay, its credentials. The others are empty.
    """

    proof: Annotated[bytes, Octets(0, TAG_BYTES)]
    licence: Annotated[bytes, Octets(0, SIGNATURE_BYTES)]
    keep: Annotated[tuple[Digits, ...], Most(MAX_ROOMS)]
    more: Annotated[int, Whole(0, MAX_ROOMS)]
    credentials: Annotated[tuple[Credentials, ...], Most(1)] = ()


@dataclass(frozen=True)
class Rooms:
    """The rooms that were asked for: of those to keep what is still to be had, then the new ones.

    `licence`: whoever proved the word may invite by it from now on; a member gets the one that it showed.
    `proof`: that the relay knows its word, for who proved it; else empty.
    """

    licence: Signature
    digits: Annotated[tuple[Digits, ...], Most(2 * MAX_ROOMS)]
    proof: Annotated[bytes, Octets(0, TAG_BYTES)] = b""


@dataclass(frozen=True)
class Knocked:
    """A joiner is in the room."""

    room: Digits
    visit: Visit


@dataclass(frozen=True)
class Said:
    """One message of the joiner, or to it. A message for a visit that is over is dropped."""

    room: Digits
    visit: Visit
    data: Annotated[bytes, Octets(0, MAX_SAID_BYTES)]


@dataclass(frozen=True)
class Left:
    """The joiner has gone, or the relay has sent it away."""

    room: Digits
    visit: Visit


@dataclass(frozen=True)
class Proved:
    """The joiner knows the code."""

    room: Digits
    visit: Visit


@dataclass(frozen=True)
class Dismiss:
    """The joiner is to go, after what was said to it."""

    room: Digits
    visit: Visit


@dataclass(frozen=True)
class CloseRoom:
    """The room ends, after what was said in it."""

    room: Digits


@dataclass(frozen=True)
class Entered:
    """To the joiner: what follows comes from the inviter."""


@dataclass(frozen=True)
class Barred:
    """To the joiner: it cannot come in now, and why."""

    bar: Bar


FromInviter = WordShare | OpenRooms | Said | Proved | Dismiss | CloseRoom
ToInviter = WordShare | Rooms | Refused | Knocked | Said | Left
ToJoiner = Entered | Barred

_TALK: Dialect[FromInviter | ToInviter | ToJoiner] = Dialect(
    "the talk about rooms",
    1,
    (OpenRooms, Rooms, Refused, Knocked, Said, Left, Proved, Dismiss, CloseRoom, Entered, Barred, WordShare),
    MAX_ROOM_MESSAGE_BYTES,
)
write_room_message = _TALK.write


def read_from_inviter(packed: bytes) -> FromInviter:
    """What an inviter says to the relay. Raises RemoteProtocolError."""
    found = _TALK.read(packed)
    if not isinstance(found, FromInviter):
        raise RemoteProtocolError(f"an inviter that says {type(found).__name__}")
    return found


def read_to_inviter(packed: bytes) -> ToInviter:
    """What the relay says to an inviter. Raises RemoteProtocolError."""
    found = _TALK.read(packed)
    if not isinstance(found, ToInviter):
        raise RemoteProtocolError(f"a relay that says {type(found).__name__} to an inviter")
    return found


def read_to_joiner(packed: bytes) -> ToJoiner:
    """The relay's first message to a joiner. Raises RemoteProtocolError."""
    found = _TALK.read(packed)
    if not isinstance(found, ToJoiner):
        raise RemoteProtocolError(f"a relay that says {type(found).__name__} to a joiner")
    return found
