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
from protocol.wire.codec import KINDS, read_record
from protocol.wire.fields import Signed
from protocol.wire.ids import Key
from protocol.wire.messages import Announce, Group, Ready, Sum
from protocol.wire.records import header_fields, plain, records_in

Record = TypeVar("Record", bound=Signed)
_LABELS = {kind.label: kind for kind in records_in(KINDS.values()) if issubclass(kind, Signed)}


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
    kind: type = type(whole)
    values: list[object] = plain(whole)
    values[header_fields(kind).index("signature")] = b""
    return bytes(msgpack.packb(values))


def evidence(record: Signed) -> bytes:
    """The label, the signed bytes and the signature of a record: enough to prove it to others."""
    return record.label + b"\0" + canonical(record) + record.signature


def record_of(evidence: bytes) -> Any:
    """The record that `evidence` wrote, its signature unchecked. Raises RemoteProtocolError if it is none."""
    label, _, rest = evidence.partition(b"\0")
    kind = _LABELS.get(label)
    if kind is None:
        raise RemoteProtocolError("evidence of an unknown kind of record")
    packed, signature = rest[: -node_key.SIGNATURE_BYTES], rest[-node_key.SIGNATURE_BYTES :]
    return read_record(kind, packed, signature)


def sign(record: Record, key: node_key.NodeKey) -> Record:
    """The record with `key`'s signature."""
    unsigned: Any = record
    signed: Record = replace(unsigned, signature=key.sign(record.label, canonical(record)))
    return signed


def verify(record: Signed, key: Key) -> None:
    """Raises RemoteProtocolError unless `key` signed the record."""
    if isinstance(record, Announce | Ready):
        _verify_once(record, key)
    else:
        node_key.verify(key, record.label, canonical(record), record.signature)


@lru_cache(maxsize=1024)
def _verify_once(record: Any, key: Key) -> None:
    """Cache valid signatures: the same announcement comes in hellos, in READYs and in GROUPs.

    The cache holds only small records: a SUM's header may have 270 kB, and its sender may sign any number.
    """
    node_key.verify(key, record.label, canonical(record), record.signature)


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
