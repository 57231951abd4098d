"""Checks the inputs that a total names and, once all its parts are published, judges a disputed chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from protocol.actions import Evidence
from protocol.aggregation.masked import linear_check
from protocol.errors import RemoteProtocolError
from protocol.wire.ids import Key, Sid
from protocol.wire.limits import CHECKS
from protocol.wire.masked_messages import CheckVote, Masked, MaskedHead, Total

WRONG_CHECK = "a check that does not fit its masked vector"


def inputs_digest(heads: Iterable[MaskedHead]) -> bytes:
    """The digest of the added chunks' heads that a total's head names."""
    digest = hashlib.sha256(b"murmuration/1/inputs")
    for head in heads:
        digest.update(head.sender + head.digest + head.signature)
    return digest.digest()


def check_inputs(total: Total, sid: Sid, included: Iterable[Key]) -> None:
    """Raises RemoteProtocolError unless a total names one chunk of each included member, in key order."""
    named = tuple((part.sid, part.sender, part.index) for part in total.inputs)
    expected = tuple((sid, key, total.head.index) for key in included)
    if named != expected or inputs_digest(total.inputs) != total.head.inputs:
        raise RemoteProtocolError("a total of other inputs than its head names")


def of_chunk(products: bytes, index: int) -> tuple[int, ...]:
    """The CHECKS products of chunk `index` in a vote's `products`."""
    numbers = np.frombuffer(products, dtype="<u4", count=CHECKS, offset=4 * CHECKS * index)
    return tuple(numbers.tolist())


def wrong_checks(
    parts: Iterable[Masked],
    index: int,
    votes: Mapping[Key, CheckVote],
    coefficients: linear_check.Coefficients,
) -> list[Evidence]:
    """Evidence against each member whose products are not those of the chunk that it published."""
    return [
        Evidence(part.head.sender, WRONG_CHECK, (votes[part.head.sender], part.head))
        for part in parts
        if coefficients.products(index, coefficients.words(part.payload))
        != of_chunk(votes[part.head.sender].products, index)
    ]
