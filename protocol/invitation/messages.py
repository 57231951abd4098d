"""What a joiner and an inviter say to each other in a room of a relay.

    joiner   Knock       a nonce; whether it has accepted before   ──▶  inviter
             Answer      a nonce                                   ◀──
             Share       CPace                                     ──▶
             Share       CPace                                     ◀──
             Proof       the joiner's tag                          ──▶
             Proof       the inviter's tag                         ◀──   or Refusal: the code is wrong

From here on each message is sealed (protocol.invitation.sealed):

             Invitation  names, task, relays                       ◀──   not to one who comes back
             State       outside: its data do not fit yet          ──▶   or
             Accept      its node's key, signed                    ──▶   or, of one who comes back,
             State       where it stands                           ──▶
             State       that the inviter has that, too            ◀──
             Roster      the signed list, once it is closed        ◀──
             State       confirmed or declined                     ──▶
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from protocol.crypto.cpace import POINT_BYTES, TAG_BYTES
from protocol.invitation.roster import Relays, Roster
from protocol.wire.dialect import Dialect
from protocol.wire.fields import LONGEST_NAME, Count, Most, Name, Nonce, Octets, Signature, Text, Whole
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_MEMBERS

MOST_TRIES = 3
MAX_TASK_BYTES = 1 << 20
"""Of a task; of an invitation's two, if it has two."""
MAX_MESSAGE_BYTES = MAX_TASK_BYTES + 16 * 1024
"""An invitation: its task, and 64 names of at most 4 bytes a character."""
_VERSION = 1


class Reason(IntEnum):
    """Why an inviter does not let somebody in."""

    WRONG = 0
    """The code is wrong; so many tries are left."""
    BURNT = 1
    """Too many wrong codes were tried."""
    USED = 2
    """Somebody joined by this code."""
    EXPIRED = 3
    """The code is too old."""
    UNKNOWN = 4
    """Who says that it accepted is not known to have: it should begin again."""


class Standing(IntEnum):
    """How far a joiner has come."""

    OUTSIDE = 0
    """It has not accepted: its data do not fit yet."""
    ACCEPTED = 1
    CONFIRMED = 2
    """It confirmed the closed list."""
    DECLINED = 3
    """It declined the closed list."""


@dataclass(frozen=True)
class Knock:
    """A joiner is here. `is_back`: it accepted in an earlier session and has that session's secret."""

    nonce: Nonce
    is_back: bool


@dataclass(frozen=True)
class Answer:
    """The inviter is here, too."""

    nonce: Nonce


@dataclass(frozen=True)
class Share:
    """A share of CPace."""

    point: Annotated[bytes, Octets(POINT_BYTES, POINT_BYTES)]


@dataclass(frozen=True)
class Proof:
    """A tag of CPace: whoever sends it has the same code."""

    tag: Annotated[bytes, Octets(TAG_BYTES, TAG_BYTES)]


@dataclass(frozen=True)
class Refusal:
    """The inviter lets nobody in. `tries`: wrong codes that it still bears."""

    reason: Reason
    tries: Annotated[int, Whole(0, MOST_TRIES)]


@dataclass(frozen=True)
class Sealed:
    """An encrypted message of the second kind."""

    box: Annotated[bytes, Octets(1, MAX_MESSAGE_BYTES)]


Open = Knock | Answer | Share | Proof | Refusal | Sealed


@dataclass(frozen=True)
class Invitation:
    """What the joiner is invited to. `you`: its name; `others`: those of all but it and the inviter.

    `task`: the text of the task file, UTF-8; `until`: when the code ends (Unix time, s). `agreed`: of a swarm
    that learns already, the task with the scales that its members agreed on; empty: there are none.
    """

    swarm: Annotated[str, Text(LONGEST_NAME * 2)]
    inviter: Name
    inviter_key: Key
    you: Name
    others: Annotated[tuple[Name, ...], Most(MAX_MEMBERS)]
    task: Annotated[bytes, Octets(1, MAX_TASK_BYTES)]
    relays: Relays
    until: Count
    agreed: Annotated[bytes, Octets(0, MAX_TASK_BYTES)] = b""

    @property
    def learned(self) -> bytes:
        """The text of the task as the joiner would learn it, as far as it is known."""
        return self.agreed or self.task


@dataclass(frozen=True)
class Accept:
    """The joiner takes its name with this key, which signs the session and the invitation."""

    key: Key
    signature: Signature


@dataclass(frozen=True)
class State:
    """How far the joiner has come; from the inviter, what it has kept of that."""

    standing: Standing


Secret = Invitation | Accept | State | Roster

OPEN: Dialect[Open] = Dialect(
    "an invitation", _VERSION, (Knock, Answer, Share, Proof, Refusal, Sealed), MAX_MESSAGE_BYTES + 64
)
SECRET: Dialect[Secret] = Dialect(
    "an invitation", _VERSION, (Invitation, Accept, State, Roster), MAX_MESSAGE_BYTES
)
