"""Members of one additive session, whose keys follow from their numbers; no network, no clock."""

from __future__ import annotations

import hashlib

from protocol.aggregation.participant import Participant, SessionTimeouts
from protocol.crypto.node_key import NodeKey
from protocol.crypto.sealing import Ephemeral
from protocol.wire import signing
from protocol.wire.messages import NO_SID, Announce, Base, Group, Ready

PARAMETERS = signing.parameters_hash("{}")
TIMEOUT_S = 3600.0


def participants(count: int, dimension: int) -> list[Participant]:
    """Return all participants of one session over vectors (dimension,), in the order of their keys."""
    numbered = ((NodeKey(_seed("key", number)), number) for number in range(count))
    members = sorted(numbered, key=lambda member: member[0].public)
    ephemerals = [Ephemeral(_seed("ephemeral", number)) for _, number in members]
    coordinator = members[0][0]
    readys = tuple(
        _ready(key, ephemeral, coordinator) for (key, _), ephemeral in zip(members, ephemerals, strict=True)
    )
    group = signing.sign(Group(readys, 0, coordinator.public), coordinator)
    return [
        Participant(group, 1, key, ephemeral, dimension, SessionTimeouts(TIMEOUT_S, TIMEOUT_S))
        for (key, _), ephemeral in zip(members, ephemerals, strict=True)
    ]


def _seed(label: str, number: int) -> bytes:
    return hashlib.sha256(f"benchmark {label} {number}".encode()).digest()


def _ready(key: NodeKey, ephemeral: Ephemeral, coordinator: NodeKey) -> Ready:
    announce = Announce(
        key=key.public,
        endpoint="127.0.0.1:1",
        task="benchmark",
        parameters=PARAMETERS,
        min_participants=3,
        instance=bytes(16),
        epoch=1,
        counter=1,
        round=0,
        base=Base(0, PARAMETERS, 0, NO_SID),
        leaving=False,
        following=False,
    )
    signed = signing.sign(announce, key)
    return signing.sign(Ready(signed, ephemeral.public, bytes(16), coordinator.public), key)
