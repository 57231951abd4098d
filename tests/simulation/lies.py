"""Lies of a member of a masked session, for tests.simulation.bare: what it sends instead of the truth."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from protocol.aggregation.masked.carries import pack, unpack
from protocol.aggregation.masked.key_setup import joins_digest
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.release import release_digest
from protocol.aggregation.masked.step_keys import StepKeys, deals_root
from protocol.aggregation.masked.totals import payload_bytes
from protocol.aggregation.masked.unmasking import totals_digest
from protocol.crypto import shamir
from protocol.crypto.bulk_digest import bulk_digest
from protocol.wire import signing
from protocol.wire.masked_messages import (
    Ack,
    AckVote,
    Check,
    Dispute,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    Proof,
    Propose,
    Release,
    ReleaseHead,
    Total,
    TotalPiece,
    ViewChange,
    ViewVote,
)
from protocol.wire.member_sets import everybody
from protocol.wire.messages import Key
from tests.simulation.schedules import Finished, GaveUp, Lie, Member

LIAR = 3
VICTIM = 0


def resigned(member: Member, record: Any, **changes: Any) -> Any:
    return signing.sign(replace(record, **changes), member.participant.key)


def to_victim(lie: Lie) -> Lie:
    """Lies to one member only."""
    return lambda member, to, message: lie(member, to, message) if is_victim(member, to) else (message,)


def is_victim(member: Member, to: Key) -> bool:
    return member.participant.numbers[to] == VICTIM


def of_kind(kind: type, change: Callable[[Member, Any], Any]) -> Lie:
    """Changes messages of one kind."""

    def lie(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
        return (change(member, message),) if isinstance(message, kind) else (message,)

    return lie


def silent(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    """Sends nothing, not even that it has ended."""
    return ()


def flipped(payload: Any, at: int = 0) -> bytes:
    data = bytearray(payload)
    data[at] ^= 1
    return bytes(data)


# -- joining ------------------------------------------------------------------------------------------------


def _other_join(member: Member, join: Join) -> Join:
    return _dealt(member, join, commitment=b"\7" * 32)


def _dealt(member: Member, join: Join, **changes: bytes) -> Join:
    """Deals something else in the first step, and signs that."""
    deals = (replace(join.deals[0], **changes), *join.deals[1:])
    head = resigned(member, join.head, deals=deals_root(deals))
    channel = member.participant.channel(member.participant.me, join.recipient)
    about, other = (b"join" + h.sid + h.sender + join.recipient + h.deals for h in (join.head, head))
    payload = channel.seal(0, other, channel.open(0, about, join.payload))
    return replace(join, head=head, deals=deals, payload=payload)


def _unsealed(member: Member, join: Join) -> Join:
    return replace(join, payload=flipped(join.payload))


def _wrong_share(member: Member, join: Join) -> Join:
    participant, head = member.participant, join.head
    about = b"join" + head.sid + head.sender + join.recipient + head.deals
    channel = participant.channel(participant.me, join.recipient)
    return replace(join, payload=channel.seal(0, about, b"\1" * 64))


def _other_hashes(member: Member, join: Join) -> Join:
    return replace(join, hashes=(b"\1" * 32, *join.hashes[1:]))


def _small_order(member: Member, join: Join) -> Join:
    return _dealt(member, join, mask_key=bytes(32))


def _other_list(member: Member, joined: Joined) -> Joined:
    """Makes a vote about a JOIN that its sender never sent."""
    heads = (replace(joined.heads[0], deals=b"\7" * 32), *joined.heads[1:])
    return Joined(resigned(member, joined.vote, joins=joins_digest(heads)), heads)


two_joins = to_victim(of_kind(Join, _other_join))
unsealed_share = to_victim(of_kind(Join, _unsealed))
wrong_share = to_victim(of_kind(Join, _wrong_share))
other_hashes = of_kind(Join, _other_hashes)
small_order = of_kind(Join, _small_order)


def other_list(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    """Also keeps the certificate, which has its other vote, to itself."""
    if isinstance(message, JoinCertificate):
        return ()
    return (_other_list(member, message),) if isinstance(message, Joined) else (message,)


# -- vectors ------------------------------------------------------------------------------------------------


def _other_vector(member: Member, masked: Masked) -> Masked:
    payload = flipped(masked.payload)
    digest = bulk_digest(payload)
    return Masked(resigned(member, masked.head, digest=digest), payload)


def _wrong_hash(member: Member, masked: Masked) -> Masked:
    return replace(masked, payload=flipped(masked.payload))


two_vectors = to_victim(of_kind(Masked, _other_vector))
wrong_hash = of_kind(Masked, _wrong_hash)


def both_vectors(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    """Sends both vectors to the same member, one after the other."""
    if isinstance(message, Masked):
        return message, _other_vector(member, message)
    return (message,)


# -- totals and checks --------------------------------------------------------------------------------------


def _other_total(member: Member, total: Total) -> Total:
    payload = flipped(total.payload)
    digest = bulk_digest(payload)
    return replace(total, head=resigned(member, total.head, digest=digest), payload=payload)


def _other_products(member: Member, check: Check) -> Check:
    return replace(check, vote=resigned(member, check.vote, products=flipped(check.vote.products)))


two_totals = to_victim(of_kind(Total, _other_total))
wrong_products = of_kind(Check, _other_products)
wrong_products_to_one = to_victim(wrong_products)


def two_checks(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    if isinstance(message, Check):
        return message, _other_products(member, message)
    return (message,)


def wrong_check_and_other_vector(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    """Provokes a dispute, and then shows another vector than the one that was summed."""
    if isinstance(message, Masked) and any(isinstance(sent, Check) for sent in member.said):
        return (_other_vector(member, message),)
    return wrong_products(member, to, message)  # type: ignore[return-value]


def wrong_check_and_no_vector(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    """Provokes a dispute, and then shows nothing."""
    if isinstance(message, Masked) and any(isinstance(sent, Check) for sent in member.said):
        return ()
    return wrong_products(member, to, message)  # type: ignore[return-value]


def disputes(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    """Disputes every total, with every message."""
    participant, whole = member.participant, everybody(len(member.participant.members))
    if not isinstance(message, Masked | Check | Ack):
        return (message,)
    spam = (
        signing.sign(Dispute(participant.sid, participant.me, whole, index), participant.key)
        for index in range(8)
    )
    return (*spam, message)


def plus(words: int, at: int) -> Callable[..., bytes]:
    """What to add to 32 bits of a total."""

    def lie(payload: bytes, *_: object) -> bytes:
        data = bytearray(payload)
        word = int.from_bytes(data[4 * at : 4 * at + 4], "little")
        data[4 * at : 4 * at + 4] = (word + words & 0xFFFFFFFF).to_bytes(4, "little")
        return bytes(data)

    return lie


def random_words(payload: bytes, layout: Layout, index: int) -> bytes:
    size = layout.chunk_bytes(index)
    return (hashlib.sha256(payload).digest() * size)[:size] + payload[size:]


def other_carry(payload: bytes, layout: Layout, index: int) -> bytes:
    at = layout.chunk_bytes(index)
    carries = unpack(payload[at:], layout.length(index), layout.members).copy()
    carries[0] = carries[0] - 1 if carries[0] else 1
    return payload[:at] + pack(carries, layout.members)


# -- the end ------------------------------------------------------------------------------------------------


def _other_ack(member: Member, ack: Ack) -> Ack:
    digests = (b"\7" * 32, *ack.digests[1:])
    vote = ack.vote
    totals = totals_digest(vote.sid, vote.included, digests)
    return Ack(resigned(member, vote, totals=totals), digests)


def keys_of(member: Member) -> StepKeys:
    """Returns the member's keys of the step that its machine is in."""
    return member.machine._joining.keys(member.machine.participant.group.step)


def _wrong_release(member: Member, release: Release) -> Release:
    shares = (shamir.to_bytes(12345), *release.shares[1:])
    return Release(resigned(member, release.head, shares=release_digest(shares)), shares)


def _other_release(member: Member, release: Release) -> Release:
    """Makes a release for another set: the mask key of a member that is in the sum."""
    included = release.head.included & ~1
    share = keys_of(member).shares[member.participant.members[0]][1]
    shares = (share, *release.shares[1:])
    head = resigned(member, release.head, included=included, shares=release_digest(shares))
    return Release(head, shares)


other_ack = of_kind(Ack, _other_ack)
two_acks_apart = to_victim(other_ack)
wrong_release = of_kind(Release, _wrong_release)
other_release = of_kind(Release, _other_release)


def both_acks(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    return (message, _other_ack(member, message)) if isinstance(message, Ack) else (message,)


def both_releases(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    return (message, _other_release(member, message)) if isinstance(message, Release) else (message,)


def release_before_acks(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    """Releases its shares before anybody has acknowledged."""
    if not isinstance(message, Masked):
        return (message,)
    keys, participant = keys_of(member), member.participant
    shares = tuple(keys.shares[key][0] for key in participant.members)
    head = ReleaseHead(
        participant.sid,
        participant.me,
        everybody(len(participant.members)),
        b"\7" * 32,
        keys.joins,
        release_digest(shares),
    )
    return message, Release(signing.sign(head, participant.key), shares)


# -- views --------------------------------------------------------------------------------------------------


def forged_lock(included: int, view: int, proof: str) -> Lie:
    """Sends its vector together with a vote for a view, locked on totals that nobody made.

    `proof`: none; one that "fits" the lock, but has no checks; one of "other" totals.
    """

    def lie(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
        if not isinstance(message, Masked):
            return (message,)
        return message, forged_vote(member, included, view, proof)

    return lie


def zeros(member: Member) -> list[bytes]:
    """Makes totals that are all 0, chunk by chunk."""
    layout = member.layout
    return [bytes(payload_bytes(layout, index)) for index in range(layout.chunks)]


def forged_vote(member: Member, included: int, view: int, proof: str) -> ViewChange:
    participant = member.participant
    for index, payload in enumerate(zeros(member)):
        member.forged[index] = TotalPiece(participant.sid, index, payload)
    digests = tuple(bulk_digest(payload) for payload in zeros(member))
    lock = AckVote(
        participant.sid, participant.me, included, totals_digest(participant.sid, included, digests)
    )
    vote = ViewVote(participant.sid, participant.me, view, b"", (signing.sign(lock, participant.key),))
    shown = {"none": (), "fits": (Proof(digests, ()),), "other": (Proof(digests[::-1][1:], ()),)}[proof]
    return ViewChange(signing.sign(vote, participant.key), shown)


def proposes_in_every_view(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    """Acts as the leader of views that others lead."""
    if not isinstance(message, Propose):
        return (message,)
    return tuple(replace(message, head=resigned(member, message.head, view=view)) for view in range(1, 4))


def replays(member: Member, to: Key, message: Any) -> tuple[Any, ...]:
    """Sends everything twice, and everything that others sent to it once more."""
    if isinstance(message, Finished | GaveUp):
        return (message,)
    return (*member.heard[-20:], message, message)
