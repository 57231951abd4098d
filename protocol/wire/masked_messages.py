"""The messages of a masked session (protocol, Part II, D.4), as frozen values.

A member's number is its place among the members in key order. A set of members is an int whose bit i says
that member i is in it. Digests, shares and secrets are 32 bytes. A member signs small records (heads, votes)
that other members' messages carry, too, so that all see two contradicting records of a member; they are
evidence against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from protocol.wire.fields import (
    Digest,
    Index,
    Members,
    MemberSet,
    Most,
    Octets,
    Passed,
    Signature,
    Signed,
    Whole,
)
from protocol.wire.ids import NOBODY, Key, Sid
from protocol.wire.limits import MAX_BITMAP_BYTES, MAX_MEMBERS, MAX_PIECES, MAX_PRODUCT_BYTES, MAX_RUN

Secret = Annotated[bytes, Octets(32, 32)]


@dataclass(frozen=True, slots=True)
class Deal:
    """For one step: a mask key, a commitment to the self mask's secret, the digest of the share hashes."""

    mask_key: Digest
    commitment: Digest
    shares: Digest


@dataclass(frozen=True, slots=True)
class JoinHead(Signed):
    """1, signed: `deals` is the Merkle root of `sender`'s deals, one for each of the run's `steps`."""

    label = b"join"

    sid: Sid
    sender: Key
    deals: Digest
    steps: Annotated[int, Whole(1, MAX_RUN)]
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Dealt:
    """A member's deal for one step: `path` proves that its signed head holds it."""

    head: Annotated[JoinHead, Passed.ON]
    deal: Deal
    path: Annotated[tuple[Digest, ...], Most(MAX_RUN.bit_length())]


@dataclass(frozen=True, slots=True)
class Join:
    """1: the deals that the head names; for each step its 2 n `hashes`, and two sealed shares.

    The hashes are those of the n shares of the self mask's secret, then of the mask key's.
    """

    head: Annotated[JoinHead, Passed.ON]
    deals: Annotated[tuple[Deal, ...], Most(MAX_RUN)]
    hashes: Annotated[tuple[Digest, ...], Most(2 * MAX_MEMBERS * MAX_RUN)]
    recipient: Key
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Lacking(Signed):
    """1', signed: `missing` is the set of members without whose messages `sender` cannot go on.

    They are JOINs (shares) until it has voted for the joins; after that TOTALs, CHECKs or ACKs.
    """

    label = b"lacking"

    sid: Sid
    sender: Key
    missing: MemberSet
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class JoinVote(Signed):
    """2, signed: `sender` holds n valid JOINs; `joins` is the digest of their heads."""

    label = b"joined"

    sid: Sid
    sender: Key
    joins: Digest
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Joined:
    """2: a vote, and the n heads that it names, in key order."""

    vote: JoinVote
    heads: Annotated[tuple[Annotated[JoinHead, Passed.ON], ...], Most(MAX_MEMBERS)]


@dataclass(frozen=True, slots=True)
class JoinCertificate:
    """2': the signatures of all n votes for the same joins. Each member that holds it passes it on once."""

    sid: Sid
    joins: Digest
    signatures: Annotated[tuple[Signature, ...], Most(MAX_MEMBERS)]


@dataclass(frozen=True, slots=True)
class MaskedHead(Signed):
    """3, signed: the digest of chunk `index` of `sender`'s masked vector."""

    label = b"masked"

    sid: Sid
    sender: Key
    index: Index
    digest: Digest
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Masked:
    """3: a chunk of a masked vector: little-endian 32-bit words."""

    head: Annotated[MaskedHead, Passed.ON]
    payload: bytes | memoryview = b""


@dataclass(frozen=True, slots=True)
class TotalHead(Signed):
    """4, signed: chunk `index` of the sum over the members in `included`.

    `inputs` is the digest of the added chunks' heads; `digest` is the payload's.
    """

    label = b"total"

    sid: Sid
    sender: Key
    included: MemberSet
    index: Index
    inputs: Digest
    digest: Digest
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Total:
    """4: a chunk of the sum, with the heads of the added chunks; payload: words, then packed carries."""

    head: Annotated[TotalHead, Passed.ON]
    inputs: Annotated[tuple[MaskedHead, ...], Most(MAX_MEMBERS)]
    payload: bytes | memoryview = b""


@dataclass(frozen=True, slots=True)
class CheckVote(Signed):
    """5, signed: random products of `sender`'s own chunks, for these totals.

    `products`: limits.CHECKS little-endian 32-bit numbers for each chunk.
    """

    label = b"check"

    sid: Sid
    sender: Key
    included: MemberSet
    totals: Digest
    products: Annotated[bytes, Octets(0, MAX_PRODUCT_BYTES)]
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Check:
    """5: a vote, and the heads of all the totals that it is for, in chunk order."""

    vote: CheckVote
    heads: Annotated[tuple[Annotated[TotalHead, Passed.ON], ...], Most(MAX_PIECES)]


@dataclass(frozen=True, slots=True)
class AckVote(Signed):
    """6, signed: `sender` holds and has checked these totals, and will release for no others.

    `totals`: the digest of the chunks' digests.
    """

    label = b"ack"

    sid: Sid
    sender: Key
    included: MemberSet
    totals: Digest
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Ack:
    """6: a vote; `digests` of the total's chunks; without reducers, the heads of the added chunks."""

    vote: AckVote
    digests: Annotated[tuple[Digest, ...], Most(MAX_PIECES)]
    inputs: Annotated[tuple[Annotated[MaskedHead, Passed.ON], ...], Most(MAX_MEMBERS)] = ()


@dataclass(frozen=True, slots=True)
class ReleaseHead(Signed):
    """7, signed: the one release of `sender` in this session; `joins` binds the commitments to it."""

    label = b"release"

    sid: Sid
    sender: Key
    included: MemberSet
    totals: Digest
    joins: Digest
    shares: Digest
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Release:
    """7: n shares, in key order: of an included member's self mask secret, of another's mask key."""

    head: ReleaseHead
    shares: Annotated[tuple[Secret, ...], Most(MAX_MEMBERS)]


@dataclass(frozen=True, slots=True)
class ViewVote(Signed):
    """8, signed: `sender` votes for this view. `holds`: bit (member n_chunks + chunk): the chunks it holds.

    `locks`: its own AckVote, if it has acknowledged totals.
    """

    label = b"view-change"

    sid: Sid
    sender: Key
    view: Members
    holds: Annotated[bytes, Octets(0, MAX_BITMAP_BYTES)]
    locks: Annotated[tuple[AckVote, ...], Most(1)]
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof that totals are right: their chunks' digests, and the check votes of all included members."""

    digests: Annotated[tuple[Digest, ...], Most(MAX_PIECES)]
    checks: Annotated[tuple[CheckVote, ...], Most(MAX_MEMBERS)]


@dataclass(frozen=True, slots=True)
class ViewChange:
    """8: a vote, and the proof (none or one) of its lock."""

    vote: ViewVote
    proofs: Annotated[tuple[Proof, ...], Most(1)]


@dataclass(frozen=True, slots=True)
class ProposalHead(Signed):
    """9, signed by the leader of the view: the included set, and the reducer of each chunk.

    `votes`: the digest of the ViewVotes that justify it. `locks`: the lock that it proposes again, if any.
    """

    label = b"propose"

    sid: Sid
    sender: Key
    view: Members
    included: MemberSet
    reducers: Annotated[tuple[Annotated[int, Whole(0, MAX_MEMBERS - 1)], ...], Most(MAX_PIECES)]
    votes: Digest
    locks: Annotated[tuple[AckVote, ...], Most(1)]
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Propose:
    """9: a proposal, at least t ViewVotes of its view, and the proof (none or one) of the lock."""

    head: ProposalHead
    votes: Annotated[tuple[ViewVote, ...], Most(MAX_MEMBERS)]
    proofs: Annotated[tuple[Proof, ...], Most(1)]


@dataclass(frozen=True, slots=True)
class Dispute(Signed):
    """5', signed: the total of chunk `index` does not match the products: all must publish their part."""

    label = b"dispute"

    sid: Sid
    sender: Key
    included: MemberSet
    index: Index
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class TotalPiece:
    """10: chunk `index` of the total of a session, for the node that asked for it."""

    sid: Sid
    index: Index
    payload: bytes | memoryview = b""

    @property
    def owner(self) -> Key:
        """NOBODY: a total belongs to the whole group."""
        return NOBODY


@dataclass(frozen=True, slots=True)
class ResultCertificate:
    """10: with the total's chunks that it names, proof of a session's result.

    `dealt` (n, key order) hold the commitments; `secrets` (n) are the reconstructed ones: an included
    member's self mask secret, another's mask key; `releases`: at least t heads for these totals.
    """

    sid: Sid
    included: MemberSet
    digests: Annotated[tuple[Digest, ...], Most(MAX_PIECES)]
    dealt: Annotated[tuple[Dealt, ...], Most(MAX_MEMBERS)]
    secrets: Annotated[tuple[Secret, ...], Most(MAX_MEMBERS)]
    releases: Annotated[tuple[ReleaseHead, ...], Most(MAX_MEMBERS)]


SetupMessage = Join | Lacking | Joined | JoinCertificate
"""The messages until all members have joined."""
MaskedMessage = SetupMessage | Masked | Total | Check | Dispute | Ack | Release | ViewChange | Propose
"""The messages that a masked session's machine processes."""


def session_of(message: MaskedMessage | TotalPiece | ResultCertificate) -> Sid:
    """The session that a message belongs to."""
    match message:
        case Join() | Masked() | Total() | Release() | Propose():
            return message.head.sid
        case Joined() | Check() | Ack() | ViewChange():
            return message.vote.sid
        case _:
            return message.sid


def sender_of(message: MaskedMessage) -> Key | None:
    """The member that signed a message; None for a certificate, which any member may pass on."""
    match message:
        case Join() | Masked() | Total() | Release() | Propose():
            return message.head.sender
        case Joined() | Check() | Ack() | ViewChange():
            return message.vote.sender
        case Dispute() | Lacking():
            return message.sender
        case _:
            return None
