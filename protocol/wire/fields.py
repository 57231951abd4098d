"""What a field of a message may hold, written beside its type: readers follow (protocol.wire.records)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, ClassVar, NamedTuple

from protocol.crypto.node_key import SIGNATURE_BYTES
from protocol.errors import RemoteProtocolError
from protocol.wire.endpoints import is_canonical
from protocol.wire.limits import MAX_MEMBERS, MAX_PIECES

Reader = Callable[[Any], Any]
"""Returns an unpacked value, or raises RemoteProtocolError if it is invalid."""


class Octets(NamedTuple):
    """Bytes, so many."""

    low: int
    high: int


class Text(NamedTuple):
    """At most so many characters."""

    high: int


class Whole(NamedTuple):
    """An integer from `low` to `high`, and no boolean."""

    low: int
    high: int


class Most(NamedTuple):
    """A tuple of at most so many items, each as its own type says."""

    high: int


class Passed(Enum):
    """How records come."""

    ON = "by all members, as they are: equal ones are built only once"


class Signed:
    """A record that its sender signs; `label` tells its kind from all others that a key signs."""

    __slots__ = ()
    label: ClassVar[bytes]
    signature: bytes


def canonical_endpoint(value: Any) -> str:
    """Reads an endpoint in the canonical form of protocol.wire.endpoints: nodes dial it unchanged."""
    if type(value) is not str or not is_canonical(value):
        raise RemoteProtocolError("an endpoint that is not HOST:PORT in its one form")
    return value


LONGEST_NAME = 40  # characters


def is_name(written: str) -> bool:
    """Whether a member may be called so: 1 to 40 characters that can be seen, none of them around it."""
    return 1 <= len(written) <= LONGEST_NAME and written.isprintable() and written == written.strip()


def member_name(value: Any) -> str:
    """Reads a member's name."""
    if type(value) is not str or not is_name(value):
        raise RemoteProtocolError("a member's name that is empty, too long, or cannot be shown")
    return value


Name = Annotated[str, member_name]
Digest = Annotated[bytes, Octets(32, 32)]
Nonce = Annotated[bytes, Octets(16, 16)]
Signature = Annotated[bytes, Octets(SIGNATURE_BYTES, SIGNATURE_BYTES)]
Endpoint = Annotated[str, canonical_endpoint]
Count = Annotated[int, Whole(0, 2**53)]
Round = Annotated[int, Whole(0, 2**31 - 1)]
Index = Annotated[int, Whole(0, MAX_PIECES - 1)]
Members = Annotated[int, Whole(0, MAX_MEMBERS)]
MemberSet = Annotated[int, Whole(0, 2**MAX_MEMBERS - 1)]
