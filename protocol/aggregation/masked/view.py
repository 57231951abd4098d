"""What a masked session sums at a time, and what its votes are for."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.errors import RemoteProtocolError
from protocol.wire.masked_messages import AckVote, Proof


@dataclass(frozen=True)
class Choice:
    """What acknowledgements and releases are for: whom the sum includes, and the digest of its totals."""

    included: int
    totals: bytes


@dataclass(frozen=True)
class View:
    """Who is included, who adds up which chunk (empty: everybody does), and what must be proposed again."""

    number: int
    included: int
    reducers: tuple[int, ...]
    locks: tuple[AckVote, ...]
    proofs: tuple[Proof, ...] = ()
    """Of the locks, where chunks have reducers: nothing is added up in such a view, only fetched."""


class NotYet(RemoteProtocolError):
    """Right, as far as it goes, but of a view that this member is not in: kept for later by the machine."""
