"""Encodes and decodes messages, and checks every limit before it builds anything.

A frame is a 4-byte little-endian header length, the header (a msgpack array: version, type, fields), and
the payload of bulk messages as raw bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

import msgpack

from protocol.crypto import node_key
from protocol.errors import RemoteProtocolError
from protocol.wire.fields import Reader, boolean, endpoint, integer, many, many_octets, octets, text, wrong
from protocol.wire.limits import (
    MAX_BITMAP_BYTES,
    MAX_BUDGET_CHARS,
    MAX_CHARGES,
    MAX_ELECTOR_BYTES,
    MAX_EVIDENCE_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    MAX_KNOWN,
    MAX_MEMBERS,
    MAX_OPEN,
    MAX_PARAMETERS_CHARS,
    MAX_PAYLOAD_BYTES,
    MAX_PIECES,
    MAX_PRODUCT_BYTES,
    MAX_RIVALS,
    MAX_RUN,
    VERSION,
)
from protocol.wire.masked_messages import (
    Ack,
    AckVote,
    Check,
    CheckVote,
    Deal,
    Dealt,
    Dispute,
    Join,
    JoinCertificate,
    Joined,
    JoinHead,
    JoinVote,
    Lacking,
    Masked,
    MaskedHead,
    Proof,
    ProposalHead,
    Propose,
    Release,
    ReleaseHead,
    ResultCertificate,
    Total,
    TotalHead,
    TotalPiece,
    ViewChange,
    ViewVote,
)
from protocol.wire.messages import (
    Accepted,
    Announce,
    Base,
    BasePiece,
    Certificate,
    CertificateRequest,
    ChargeCount,
    Charged,
    Electors,
    Equivocation,
    Goodbye,
    Group,
    Head,
    Heard,
    Hello,
    LeftOut,
    LineagePiece,
    Link,
    Message,
    PieceRequest,
    Ready,
    Redirect,
    Refused,
    Reminder,
    Roster,
    Share,
    Stalled,
    Sum,
)

_MAX_INTEGER = 2**53
_KNOWN_RECORDS = 1024
_ATOMS = frozenset((bytes, int, str, bool))


def _record(kind: type) -> Reader:
    def read(value: Any) -> Any:
        return kind(*_fields(kind, value))

    return read


@cache
def _known(kind: type) -> Reader:
    """A reader of records of plain values that all members pass on; it builds equal ones only once."""
    built = lru_cache(maxsize=_KNOWN_RECORDS, typed=True)(lambda *values: kind(*_fields(kind, [*values])))

    def read(value: Any) -> Any:
        try:
            return built(*value)
        except TypeError as error:  # not a list, or an item is not hashable
            raise wrong(f"the fields of {kind.__name__}", value) from error

    return read


def _fields(kind: type, value: Any) -> list[Any]:
    """The values of a record's fields, each read by its reader."""
    readers = _READERS[kind]
    if type(value) is not list or len(value) != len(readers):
        raise wrong(f"the fields of {kind.__name__}", value)
    return [read_field(item) for read_field, item in zip(readers, value, strict=True)]


_KEY = octets(32, 32)
_SIGNATURE = octets(node_key.SIGNATURE_BYTES, node_key.SIGNATURE_BYTES)
_NONCE = octets(16, 16)
_COUNT = integer(0, _MAX_INTEGER)
_INDEX = integer(0, MAX_PIECES - 1)
_ROUND = integer(0, 2**31 - 1)
_CHARGES = integer(0, MAX_CHARGES)
_KNOWN = many(_record(Announce), MAX_KNOWN)
_PARAMETERS = text(MAX_PARAMETERS_CHARS)

_SET = integer(0, 2**MAX_MEMBERS - 1)
_VIEW = integer(0, MAX_MEMBERS)
_DIGESTS = many_octets(32, MAX_PIECES)
_EACH = many_octets(32, MAX_MEMBERS)
_ELECTORS = many(octets(1, MAX_ELECTOR_BYTES), MAX_MEMBERS)
_LOCKS = many(_record(AckVote), 1)
_PROOFS = many(_record(Proof), 1)
_HEADS = many(_known(JoinHead), MAX_MEMBERS)
_INPUTS = many(_record(MaskedHead), MAX_MEMBERS)
_PATH = many(_KEY, MAX_RUN.bit_length())

_MASKED_READERS: dict[type, tuple[Reader, ...]] = {
    Deal: (_KEY, _KEY, _KEY),
    JoinHead: (_KEY, _KEY, _KEY, integer(1, MAX_RUN), _SIGNATURE),
    Dealt: (_known(JoinHead), _record(Deal), _PATH),
    Join: (
        *(_known(JoinHead), many(_record(Deal), MAX_RUN)),
        *(many_octets(32, 2 * MAX_MEMBERS * MAX_RUN), _KEY),
    ),
    Lacking: (_KEY, _KEY, _SET, _SIGNATURE),
    JoinVote: (_KEY, _KEY, _KEY, _SIGNATURE),
    Joined: (_record(JoinVote), _HEADS),
    JoinCertificate: (_KEY, _KEY, many_octets(node_key.SIGNATURE_BYTES, MAX_MEMBERS)),
    MaskedHead: (_KEY, _KEY, _INDEX, _KEY, _SIGNATURE),
    Masked: (_known(MaskedHead),),
    TotalHead: (_KEY, _KEY, _SET, _INDEX, _KEY, _KEY, _SIGNATURE),
    Total: (_known(TotalHead), _INPUTS),
    CheckVote: (_KEY, _KEY, _SET, _KEY, octets(0, MAX_PRODUCT_BYTES), _SIGNATURE),
    Check: (_record(CheckVote), many(_known(TotalHead), MAX_PIECES)),
    Dispute: (_KEY, _KEY, _SET, _INDEX, _SIGNATURE),
    AckVote: (_KEY, _KEY, _SET, _KEY, _SIGNATURE),
    Ack: (_record(AckVote), _DIGESTS, many(_known(MaskedHead), MAX_MEMBERS)),
    ReleaseHead: (_KEY, _KEY, _SET, _KEY, _KEY, _KEY, _SIGNATURE),
    Release: (_record(ReleaseHead), _EACH),
    ViewVote: (_KEY, _KEY, _VIEW, octets(0, MAX_BITMAP_BYTES), _LOCKS, _SIGNATURE),
    Proof: (_DIGESTS, many(_record(CheckVote), MAX_MEMBERS)),
    ViewChange: (_record(ViewVote), _PROOFS),
    ProposalHead: (
        *(_KEY, _KEY, _VIEW, _SET, many(integer(0, MAX_MEMBERS - 1), MAX_PIECES), _KEY),
        *(_LOCKS, _SIGNATURE),
    ),
    Propose: (_record(ProposalHead), many(_record(ViewVote), MAX_MEMBERS), _PROOFS),
    TotalPiece: (_KEY, _INDEX),
    ResultCertificate: (
        *(_KEY, _SET, _DIGESTS, many(_record(Dealt), MAX_MEMBERS), _EACH),
        many(_record(ReleaseHead), MAX_MEMBERS),
    ),
}
_READERS: dict[type, tuple[Reader, ...]] = {
    Base: (_ROUND, _KEY, integer(0, MAX_MEMBERS), _KEY, _ROUND),
    Announce: (
        *(_KEY, endpoint, text(200), _KEY, integer(3, MAX_MEMBERS), _NONCE, _COUNT, _COUNT),
        *(_ROUND, _known(Base), boolean, boolean, many(_KEY, MAX_OPEN), _KEY, _SIGNATURE),
    ),
    Ready: (*(_record(Announce), _KEY, _NONCE, _KEY), *(_KEY, boolean, _ELECTORS, _SIGNATURE)),
    Hello: (_record(Announce), _NONCE, boolean, _PARAMETERS, _KNOWN, _COUNT, _COUNT),
    Roster: (_KEY, _NONCE, _KNOWN, _COUNT, _SIGNATURE),
    Refused: (_NONCE, text(300), _PARAMETERS),
    Accepted: (_NONCE,),
    Redirect: (_NONCE, _record(Announce)),
    Group: (
        *(many(_record(Ready), MAX_MEMBERS), integer(0, 2**31 - 1), _KEY),
        *(many(_record(Announce), MAX_MEMBERS), _EACH, _SIGNATURE, many(_record(Base), 1)),
    ),
    Electors: (_ELECTORS, integer(0, MAX_MEMBERS), integer(-1, MAX_MEMBERS)),
    Share: (_KEY, _KEY, _KEY, _INDEX),
    Sum: (_KEY, _KEY, _KEY, many(_KEY, MAX_PIECES), _SIGNATURE, _INDEX),
    CertificateRequest: (_KEY, _KEY, _KEY, _COUNT, _COUNT, _SIGNATURE),
    Certificate: (_KEY, many(_record(Sum), MAX_MEMBERS)),
    PieceRequest: (_KEY, octets(0, 32), _INDEX, _KEY, _KEY, _COUNT, _COUNT, _SIGNATURE),
    BasePiece: (_KEY, _INDEX),
    Link: (_record(Group), many(_record(ResultCertificate), 1), many(_record(Certificate), 1)),
    LineagePiece: (_KEY, _INDEX, _INDEX, many(_record(Link), 1)),
    **_MASKED_READERS,
    Goodbye: (_KEY, _NONCE, integer(0, 255), _SIGNATURE),
    LeftOut: (_NONCE, _EACH),
    Stalled: (_KEY, _ROUND),
    Head: (_KEY, _ROUND),
    Heard: (_KEY, many(_record(Group), MAX_RIVALS)),
    ChargeCount: (_CHARGES, _CHARGES),
    Charged: (_KEY, text(MAX_BUDGET_CHARS), _record(ChargeCount), _SIGNATURE),
    Reminder: (_NONCE, many(_record(Charged), 1)),
    Equivocation: (octets(1, MAX_EVIDENCE_BYTES), octets(1, MAX_EVIDENCE_BYTES)),
}
_RETIRED = (None,) * 6
"""The numbers of messages that earlier releases had: they stay unused."""
_TYPES: dict[int, type] = {
    number: kind
    for number, kind in enumerate(
        (
            *(Hello, Roster, Refused, Accepted, Redirect, Ready, Group, Share, Sum),
            *(CertificateRequest, Certificate, PieceRequest, BasePiece, Electors, LineagePiece),
            *(Join, Joined, JoinCertificate, Masked, Total, Check, Dispute, Ack, Release, ViewChange),
            *(Propose, TotalPiece, ResultCertificate, *_RETIRED, Goodbye, LeftOut, Lacking, Stalled),
            *(Head, Heard, Charged, Reminder, Equivocation),
        )
    )
    if kind is not None
}
_BULK = (Share, Sum, BasePiece, Join, Masked, Total, TotalPiece)
PACKED = {kind: tuple(field.name for field in fields(kind) if field.name != "payload") for kind in _READERS}
"""The names of a record's fields in the header, in their order."""
_NUMBERS = {kind: number for number, kind in _TYPES.items()}


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda value: (get(value),)


_GETTERS = {kind: _getter(names) for kind, names in PACKED.items()}


def plain(value: Any) -> Any:
    """The value that msgpack packs: records as lists of their fields, without payloads."""
    getter = _GETTERS.get(type(value))
    if getter is not None:
        value = getter(value)
    elif type(value) is not tuple:
        return value
    return [item if type(item) in _ATOMS else plain(item) for item in value]


@dataclass(frozen=True, slots=True)
class Frame:
    """An encoded message: `head` (length and header) and `payload`, kept apart so as not to copy bulk."""

    head: bytes
    payload: bytes | memoryview

    def __len__(self) -> int:
        return len(self.head) + len(self.payload)

    def join(self) -> bytes:
        """The frame as one byte string."""
        return self.head + bytes(self.payload) if len(self.payload) else self.head


def encode(message: Message) -> Frame:
    """The frame of a message."""
    header = _header(message)
    return Frame(len(header).to_bytes(4, "little") + header, getattr(message, "payload", b""))


def _header(message: Message) -> bytes:
    return bytes(msgpack.packb([VERSION, _NUMBERS[type(message)], *plain(message)]))


def frame_bytes(message: Message) -> int:
    """The length in bytes of a message's frame."""
    return 4 + len(_header(message)) + len(getattr(message, "payload", b""))


def fits(message: Message) -> bool:
    """Whether a message that is not bulk is short enough for one frame."""
    return len(_header(message)) <= MAX_HEADER_BYTES


def payload_start(head: bytes | memoryview) -> int:
    """The offset of the payload in a frame that begins with these 4 bytes."""
    return 4 + int.from_bytes(head[:4], "little")


def decode(frame: bytes | memoryview) -> Message:
    """The message of a frame. Raises RemoteProtocolError, and builds nothing, if a limit or type is violated.

    A large payload is a view of the frame, which must not change from here on; a small one is a copy, so that
    it does not keep a large header in memory.
    """
    view = memoryview(frame).toreadonly()
    if not 4 <= len(view) <= MAX_FRAME_BYTES:
        raise RemoteProtocolError(f"a frame of {len(view)} bytes; 4 to {MAX_FRAME_BYTES} are allowed")
    end = payload_start(view)
    if end > min(len(view), 4 + MAX_HEADER_BYTES):
        raise RemoteProtocolError("a frame whose header is cut off or too long")
    header = _unpack(bytes(view[4:end]))
    if type(header) is not list or len(header) < 2 or type(header[0]) is not int or header[0] != VERSION:
        raise RemoteProtocolError(f"not a frame of protocol version {VERSION}")
    if type(header[1]) is not int or header[1] not in _TYPES:
        raise wrong("the number of a message", header[1])
    return _build(_TYPES[header[1]], header[2:], view[end:])


def read_record(kind: type, packed: bytes, signature: bytes) -> Any:
    """A record from its fields, packed as they are signed. Raises RemoteProtocolError beyond a limit."""
    values = _unpack(packed)
    if type(values) is not list or len(values) != len(PACKED[kind]):
        raise wrong(f"the fields of {kind.__name__}", values)
    values[PACKED[kind].index("signature")] = signature
    return kind(*_fields(kind, values))


def _unpack(header: bytes) -> object:
    try:
        return msgpack.unpackb(
            header,
            max_str_len=MAX_PARAMETERS_CHARS * 4,
            max_bin_len=max(MAX_BITMAP_BYTES, MAX_PRODUCT_BYTES, MAX_EVIDENCE_BYTES),
            max_array_len=MAX_PIECES,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise RemoteProtocolError("a header that is not msgpack within the limits") from error


def _build(kind: Any, values: list[Any], payload: memoryview) -> Message:
    """Build the message; the payload of bulk messages is their last field."""
    fields_read = _fields(kind, values)
    if kind not in _BULK:
        if len(payload):
            raise RemoteProtocolError(f"{kind.__name__} with {len(payload)} bytes after its header")
        return kind(*fields_read)  # type: ignore[no-any-return]
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise RemoteProtocolError(f"a payload of {len(payload)} bytes; {MAX_PAYLOAD_BYTES} are allowed")
    carried = payload if len(payload) > MAX_HEADER_BYTES else bytes(payload)
    return kind(*fields_read, carried)  # type: ignore[no-any-return]
