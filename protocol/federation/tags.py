"""Tags of a federation's messages: they prove that the sender of a message holds the run's secret."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import Any, TypeVar

from protocol.errors import RemoteProtocolError
from protocol.wire import codec
from protocol.wire.messages import Done, Enlist, Enlisted, ModelPiece, Order, UploadPiece

Federated = Enlist | Enlisted | Order | ModelPiece | UploadPiece | Done
Tagged = TypeVar("Tagged", bound=Federated)


def tag(record: Tagged, run: bytes) -> Tagged:
    """The record with its tag: HMAC-SHA256 (RFC 2104) under the key `run`, over header and payload."""
    return replace(record, tag=_mac(record, run))


def check_tag(record: Federated, run: bytes) -> None:
    """Raises RemoteProtocolError unless the tag was made with `run`; compares in constant time."""
    if not hmac.compare_digest(record.tag, _mac(record, run)):
        raise RemoteProtocolError(f"{type(record).__name__} of another run")


def _mac(record: Federated, run: bytes) -> bytes:
    whole: Any = record
    frame = codec.encode(replace(whole, tag=b""))
    mac = hmac.new(run, b"murmuration/1/federation" + frame.head, hashlib.sha256)
    mac.update(frame.payload)
    return mac.digest()
