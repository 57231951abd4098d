"""Signs and verifies records, and hashes what names a session and a swarm.

A signature covers the msgpack of a record's fields without the signature. `verify` packs a record again, so a
record has exactly one byte string that can be signed.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

import msgpack

from protocol.crypto import node_key
from protocol.errors import RemoteProtocolError
from protocol.wire.codec import PACKED, plain, read_record
from protocol.wire.masked_messages import (
    AckVote,
    CheckVote,
    Dispute,
    JoinHead,
    JoinVote,
    Lacking,
    MaskedHead,
    ProposalHead,
    ReleaseHead,
    TotalHead,
    ViewVote,
)
from protocol.wire.messages import (
    Announce,
    CertificateRequest,
    Charged,
    Goodbye,
    Group,
    Key,
    PieceRequest,
    Ready,
    Roster,
    Sum,
)

MaskedRecord = (
    JoinHead
    | JoinVote
    | Lacking
    | MaskedHead
    | TotalHead
    | CheckVote
    | Dispute
    | AckVote
    | ReleaseHead
    | ViewVote
    | ProposalHead
)
Signed = (
    Announce
    | Ready
    | Roster
    | Goodbye
    | Charged
    | Group
    | Sum
    | CertificateRequest
    | PieceRequest
    | MaskedRecord
)
Record = TypeVar("Record", bound=Signed)
_LABELS: dict[type, bytes] = {
    Announce: b"announce",
    Ready: b"ready",
    Roster: b"roster",
    Goodbye: b"goodbye",
    Charged: b"charged",
    Group: b"group",
    Sum: b"sum",
    CertificateRequest: b"certificate-request",
    PieceRequest: b"piece-request",
    JoinHead: b"join",
    Lacking: b"lacking",
    JoinVote: b"joined",
    MaskedHead: b"masked",
    TotalHead: b"total",
    CheckVote: b"check",
    Dispute: b"dispute",
    AckVote: b"ack",
    ReleaseHead: b"release",
    ViewVote: b"view-change",
    ProposalHead: b"propose",
}


def canonical(record: Signed) -> bytes:
    """The signed bytes of a record: every field but the signature.

    A SUM is signed without its piece, and a GROUP as its coordinator made it, for the first step of a run.
    """
    whole: Any = record
    match record:
        case Sum():
            whole = record.header
        case Group():
            whole = record.run
    values = plain(whole)
    values[PACKED[type(whole)].index("signature")] = b""
    return bytes(msgpack.packb(values))


def evidence(record: Signed) -> bytes:
    """The label, the signed bytes and the signature of a record: enough to prove it to others."""
    return _LABELS[type(record)] + b"\0" + canonical(record) + record.signature


def record_of(evidence: bytes) -> Any:
    """The record that `evidence` wrote, its signature unchecked. Raises RemoteProtocolError if it is none."""
    label, _, rest = evidence.partition(b"\0")
    kind = next((kind for kind, known in _LABELS.items() if known == label), None)
    if kind is None:
        raise RemoteProtocolError("evidence of an unknown kind of record")
    packed, signature = rest[: -node_key.SIGNATURE_BYTES], rest[-node_key.SIGNATURE_BYTES :]
    return read_record(kind, packed, signature)


def sign(record: Record, key: node_key.NodeKey) -> Record:
    """The record with `key`'s signature."""
    return replace(record, signature=key.sign(_LABELS[type(record)], canonical(record)))


def verify(record: Signed, key: Key) -> None:
    """Raises RemoteProtocolError unless `key` signed the record."""
    if isinstance(record, Announce | Ready):
        _verify_once(record, key)
    else:
        node_key.verify(key, _LABELS[type(record)], canonical(record), record.signature)


@lru_cache(maxsize=1024)
def _verify_once(record: Any, key: Key) -> None:
    """Cache valid signatures: the same announcement comes in hellos, in READYs and in GROUPs.

    The cache holds only small records: a SUM's header may have 270 kB, and its sender may sign any number.
    """
    node_key.verify(key, _LABELS[type(record)], canonical(record), record.signature)


def parameters_hash(parameters: str) -> bytes:
    """SHA-256 of the canonical parameters, which all members of a swarm must share."""
    return hashlib.sha256(b"murmuration/1/parameters" + parameters.encode()).digest()


def session_id(group: Group) -> bytes:
    """sid = H(task, round, attempt, sorted READYs, parameters): binds every message of a session.

    The READYs, in key order, hold task, parameters and rounds. The announcements that the group excuses and
    the electors that a tracker named follow, so that all members count votes in the same way.

    A later step of a run has sid = H(the run's sid, the base that the step builds on).
    """
    if group.on:
        base = group.base
        place = base.generation.to_bytes(4, "big") + base.digest
        return hashlib.sha256(b"murmuration/1/step" + session_id(group.run) + place).digest()
    digest = hashlib.sha256(b"murmuration/1/sid" + group.attempt.to_bytes(4, "big"))
    for ready in sorted(group.readys, key=lambda ready: ready.key):
        digest.update(hashlib.sha256(canonical(ready) + ready.signature).digest())
    for excused in group.excused:
        digest.update(hashlib.sha256(b"excused" + canonical(excused)).digest())
    for elector in group.electors:
        digest.update(hashlib.sha256(b"elector" + elector).digest())
    return digest.digest()


def contributors_hash(keys: tuple[Key, ...]) -> bytes:
    """H(contributors): the hash of the members whose shares are in a partial sum, in key order."""
    return hashlib.sha256(b"murmuration/1/contributors" + b"".join(sorted(keys))).digest()
