"""The longest vector that a group can sum: the entries for all its chunks must fit one message header.

    masked      a lock that is proposed again: n products for each chunk, and a bit for each member and
                chunk in n votes
                a check: the signed head of each chunk's total
    additive    a link of the line: a certificate, with a digest for each piece in every member's sum, and
                the GROUP of its session

A longer vector could be summed only as long as no member falls silent: the messages of a view change or of
healing would exceed the limit, and all nodes would refuse them. So nodes refuse it before a session begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES, Layout
from protocol.vectors.pieces import PIECE_WORDS, piece_count
from protocol.vectors.ring import WIDE, Ring
from protocol.wire import codec
from protocol.wire.limits import CHECKS, MAX_HEADER_BYTES, MAX_PIECES
from protocol.wire.masked_messages import (
    AckVote,
    Check,
    CheckVote,
    Proof,
    ProposalHead,
    Propose,
    TotalHead,
    ViewVote,
)
from protocol.wire.member_sets import everybody
from protocol.wire.messages import Announce, Base, Certificate, Group, LineagePiece, Link, Message, Ready, Sum

_32 = bytes(32)
"""A digest, a key, a session's id."""
_64 = bytes(64)
"""A signature."""
_TASK, _ENDPOINT = "x" * 64, "x" * 58 + ":65535"
"""Texts of the length that the limits assume."""
_BIG = 2**31 - 1

Named = Callable[[int, int], Message]
"""(members, chunks) -> the longest message of its kind, without a payload."""


def fits_masked(dimension: int, members: int, ring: Ring = WIDE) -> bool:
    """Whether a group of 4 or more can sum (dimension,) vectors with masks."""
    layout = Layout(dimension, members, ALL_TO_ALL_BYTES, ring)
    return layout.everybody_adds or all(_fits(kind, members, layout.chunks) for kind in (_proposal, _check))


def fits_additive(dimension: int, members: int) -> bool:
    """Whether a group of 3 or more can sum (dimension,) vectors with shares."""
    return _fits(_link, members, piece_count(dimension))


def most_masked(members: int, ring: Ring = WIDE) -> int:
    """The longest vector that fits, up to a few words: a layout rounds up to a multiple of n chunks."""
    fitting = min(_most(_proposal, members), _most(_check, members))
    return fitting // members * members * PIECE_WORDS - ring.counts


def most_additive(members: int) -> int:
    """The longest vector that fits, in words."""
    return _most(_link, members) * PIECE_WORDS


def _fits(kind: Named, members: int, chunks: int) -> bool:
    return _header_bytes(kind, members, chunks) <= MAX_HEADER_BYTES


def _most(kind: Named, members: int) -> int:
    """The largest number of chunks that a message of this kind can hold."""
    counts = range(1, MAX_PIECES + 1)
    return bisect_right(counts, MAX_HEADER_BYTES, key=lambda chunks: _header_bytes(kind, members, chunks))


def _header_bytes(kind: Named, members: int, chunks: int) -> int:
    return codec.frame_bytes(kind(members, chunks)) - 4


def _check(members: int, chunks: int) -> Check:
    return Check(
        _check_vote(members, chunks),
        tuple(TotalHead(_32, _32, everybody(members), index, _32, _32, _64) for index in range(chunks)),
    )


def _check_vote(members: int, chunks: int) -> CheckVote:
    return CheckVote(_32, _32, everybody(members), _32, bytes(4 * CHECKS * chunks), _64)


def _proposal(members: int, chunks: int) -> Propose:
    """A proposal after all members voted, each with the same lock."""
    locks = (AckVote(_32, _32, everybody(members), _32, _64),)
    vote = ViewVote(_32, _32, members, bytes(-(-members * chunks // 8)), locks, _64)
    reducers = tuple(index % members for index in range(chunks))
    head = ProposalHead(_32, _32, members, everybody(members), reducers, _32, locks, _64)
    proof = Proof((_32,) * chunks, (_check_vote(members, chunks),) * members)
    return Propose(head, (vote,) * members, (proof,))


def _link(members: int, pieces: int) -> LineagePiece:
    """A link of a session in which no member has open votes or declares electors gone."""
    certificate = Certificate(_32, (Sum(_32, _32, _32, (_32,) * pieces, _64, 0),) * members)
    base = Base(_BIG, _32, members, _32, _BIG)
    announce = Announce(
        key=_32,
        endpoint=_ENDPOINT,
        task=_TASK,
        parameters=_32,
        min_participants=members,
        instance=_32[:16],
        epoch=_BIG,
        counter=_BIG,
        round=_BIG,
        base=base,
        leaving=False,
        following=False,
        open=(),
        signature=_64,
    )
    ready = Ready(announce, _32, _32[:16], _32, _32, False, (), _64)
    return LineagePiece(
        _32, 0, 1, (Link(Group((ready,) * members, _BIG, _32, (), (), _64), (), (certificate,)),)
    )
