"""Changing the view: the remaining members vote, and a rotating leader proposes whom the sum includes.

A member that has voted for a view enters it only with the leader's PROPOSE: see the table `STEPS`.

An honest member acknowledges one (members, totals) in a session and never another. Its vote carries what it
acknowledged as a lock, and a leader that sees a lock must propose exactly that again: others may have
released for it already (protocol, Part II, R5). After two different locks, no leader proposes, and the
session fails.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from protocol.actions import Evidence
from protocol.adaptive_timeouts import FIRST_VIEW
from protocol.aggregation.equivocation import caught
from protocol.aggregation.masked.thresholds import Scheme
from protocol.aggregation.masked.totals import product_bytes
from protocol.aggregation.masked.unmasking import totals_digest
from protocol.aggregation.participant import Participant
from protocol.errors import RemoteProtocolError
from protocol.transitions import Course, Step, Table
from protocol.wire import signing
from protocol.wire.ids import Key
from protocol.wire.masked_messages import (
    AckVote,
    Proof,
    ProposalHead,
    Propose,
    ViewChange,
    ViewVote,
)
from protocol.wire.member_sets import everybody, members_in, set_of

Holds = Callable[[Key, int], bool]


@dataclass(frozen=True)
class Choice:
    """What a member acknowledges and releases: the set that the sum includes, and its totals' digest."""

    included: int
    totals: bytes


@dataclass(frozen=True)
class View:
    """The included set, the reducer of each chunk (empty: every member adds up), and the locks."""

    number: int
    included: int
    reducers: tuple[int, ...]
    locks: tuple[AckVote, ...]
    proofs: tuple[Proof, ...] = ()
    """The proofs of the locks, if chunks have reducers: in such a view members only fetch totals."""


class NotYet(RemoteProtocolError):
    """A valid message of a view that this member is not in: the machine holds it for later."""


class Phase(Enum):
    """Whether a member is in a view or between two."""

    IN_VIEW = "in a view"
    VOTED = "voted"


class Event(Enum):
    """What leads from one view to the next."""

    VOTE = "time, a loss, a vote"
    PROPOSAL = "the Propose of its leader"


STEPS: Table[Phase, Event] = {
    (Phase.IN_VIEW, Event.VOTE): Step(
        Phase.VOTED,
        "Lacking to all, once, after half of the view; ViewChange to all, with what is here and, as a lock, "
        "what was acknowledged",
    ),
    (Phase.IN_VIEW, Event.PROPOSAL): Step(Phase.IN_VIEW, "a proposal that overtook its votes: as below"),
    (Phase.VOTED, Event.VOTE): Step(Phase.VOTED, "ViewChange to all, for the view after that"),
    (Phase.VOTED, Event.PROPOSAL): Step(
        Phase.IN_VIEW,
        "by the leader: Propose to all; then Masked chunks to who lacks them; PieceRequest for locked totals",
    ),
}


def votes_digest(votes: Iterable[ViewVote]) -> bytes:
    """The digest by which a proposal names its votes."""
    digest = hashlib.sha256(b"murmuration/1/votes")
    for vote in votes:
        digest.update(vote.sender + vote.signature)
    return digest.digest()


class ViewChanges:
    """The votes and proposals of a session that this member knows."""

    def __init__(self, participant: Participant, scheme: Scheme) -> None:
        self._participant = participant
        self._tolerance, self._layout = scheme.tolerance, scheme.layout
        self._votes: dict[int, dict[Key, ViewChange]] = {}
        self._proposals: dict[int, Propose] = {}
        self.gone: set[Key] = set()
        """The members that cannot be expected to vote."""
        self._course = Course(STEPS, Phase.IN_VIEW)
        self.number = 0
        """The view that this member is in, or votes for."""
        self.until = self.half = self._lead_at = math.inf
        """When the time of a view is over; and when half of it is, in the view that was entered last."""

    @property
    def changing(self) -> bool:
        """Whether this member has voted for a view that it has not entered."""
        return self._course.phase is Phase.VOTED

    @property
    def last(self) -> int:
        """The number of the last view that a session may have."""
        return self._tolerance.dropouts + 2

    def leader(self, number: int) -> Key:
        """The member that proposes in a view; it differs from view to view, and from session to session."""
        members = self._participant.members
        return members[(number + int.from_bytes(self._participant.sid[:8], "big")) % len(members)]

    def begin(self, now: float, seconds: float) -> View:
        """Begin view 0, which includes all members. All views together may take `seconds`."""
        self._view_s = seconds * (1 - FIRST_VIEW) / (self.last + 1)
        self.until, self.half = now + seconds * FIRST_VIEW, now + seconds * FIRST_VIEW / 2
        return View(0, everybody(len(self._participant.members)), self._layout.reducers, ())

    def entered(self, number: int, now: float) -> None:
        """Enter a view whose proposal was accepted."""
        self._course.step(Event.PROPOSAL)
        self.number, self._lead_at = number, math.inf
        self.until, self.half = now + self._view_s, now + self._view_s / 2

    @property
    def deadline(self) -> float:
        """When this view is over, or its leader must propose with the votes that it has."""
        lead_at = self._lead_at if self._lead_at > -math.inf else math.inf
        return min(self.until, lead_at)

    # -- votes -------------------------------------------------------------------------------------

    def change(
        self, number: int, holds: Holds, locks: tuple[AckVote, ...], proofs: tuple[Proof, ...], now: float
    ) -> list[ViewChange]:
        """This member's votes for a later view and, while that view's leader is gone, for the one after it.

        `holds`: returns whether this member has a chunk.
        """
        participant, votes = self._participant, list[ViewChange]()
        if number > self.last:
            self.until = math.inf
        while self.number < number <= self.last:
            self._course.step(Event.VOTE)
            self.number = number
            vote = ViewVote(participant.sid, participant.me, number, self._bitmap(holds), locks)
            change = ViewChange(signing.sign(vote, participant.key), proofs)
            self._votes.setdefault(number, {})[participant.me] = change
            votes.append(change)
            self.until = now + self._view_s
            self._lead_at = now + self._view_s / 2 if self._leads else math.inf
            number += self.leader(number) in self.gone
        return votes

    @property
    def _leads(self) -> bool:
        return self.leader(self.number) == self._participant.me

    def _bitmap(self, holds: Holds) -> bytes:
        chunks = self._layout.chunks
        bits = 0
        for number, key in enumerate(self._participant.members):
            for index in range(chunks):
                bits |= holds(key, index) << (number * chunks + index)
        return bits.to_bytes(-(-len(self._participant.members) * chunks // 8), "little")

    def take_vote(self, change: ViewChange) -> Evidence | None:
        """Process another member's vote; returns evidence if it voted differently in the same view.

        Raises RemoteProtocolError if the vote is invalid.
        """
        vote = change.vote
        if not 1 <= vote.view <= self.last:
            raise RemoteProtocolError(f"a vote for view {vote.view}; 1 to {self.last} are allowed")
        signing.verify(vote, vote.sender)
        self._check_lock(vote)
        self._check_proofs(vote.locks, change.proofs)
        known = self._votes.setdefault(vote.view, {}).get(vote.sender)
        if known is not None and known.vote != vote:
            return caught(known.vote, vote)
        self._votes[vote.view][vote.sender] = change
        return None

    def _check_lock(self, vote: ViewVote) -> None:
        for lock in vote.locks:
            if lock.sender != vote.sender or lock.sid != vote.sid:
                raise RemoteProtocolError("a vote with another member's lock")
            least = self._tolerance.least_included
            if lock.included > everybody(len(self._participant.members)) or lock.included.bit_count() < least:
                raise RemoteProtocolError("a vote with a lock on too few members, or strangers")
            signing.verify(lock, lock.sender)

    def voted(self, number: int) -> Collection[Key]:
        """The members that have voted for a view."""
        return self._votes.get(number, {}).keys()

    def says_it_lacks(self, key: Key, owner: Key, index: int) -> bool:
        """Whether a member, by its latest vote, lacks chunk `index` of `owner`; False if it has not voted."""
        votes = [
            self._votes[number][key].vote for number in sorted(self._votes) if key in self._votes[number]
        ]
        return bool(votes) and not self._has(votes[-1], owner, index)

    @property
    def is_hopeless(self) -> bool:
        """Whether no view can have a sum: each needs a member that is gone, and no vote is locked.

        Only a sum that is all or none can be hopeless with so few losses: any other goes on without them.
        """
        votes = self._votes.get(self.number, {})
        silent = [key for key in self._participant.members if key not in votes]
        if not self._tolerance.all_or_none or not self.changing or not silent:
            return False
        return self.gone.issuperset(silent) and not _locks_of(change.vote for change in votes.values())

    # -- proposals ---------------------------------------------------------------------------------

    def lead(self, now: float) -> Propose | None:
        """The leader's proposal, once all members not gone have voted, or half the view's time is over.

        None for other members, before that, after it has proposed, or if the votes allow no proposal.
        """
        if self.number == 0 or not self._leads or self.number in self._proposals:
            return None
        voted = self._votes.get(self.number, {})
        if now >= self._lead_at:
            self._lead_at = -math.inf  # from now on t votes are enough, whenever they arrive
        elif not all(key in voted or key in self.gone for key in self._participant.others):
            return None
        return self._propose(self.number)

    def _propose(self, number: int) -> Propose | None:
        changes = self._votes.get(number, {})
        if len(changes) < self._tolerance.threshold:
            return None
        votes = tuple(changes[key].vote for key in sorted(changes))
        locks = _locks_of(votes)
        if len(locks) > 1:
            return None
        lock = tuple(locks.values())
        proofs = tuple(proof for one in lock for proof in changes[one.sender].proofs)
        included = lock[0].included if lock else set_of(changes, self._participant.members)
        if included.bit_count() < self._tolerance.least_included:
            return None
        participant = self._participant
        head = ProposalHead(
            sid=participant.sid,
            sender=participant.me,
            view=number,
            included=included,
            reducers=self._reducers(included),
            votes=votes_digest(votes),
            locks=lock,
        )
        propose = Propose(signing.sign(head, participant.key), votes, proofs)
        self._proposals[number] = propose
        return propose

    def _reducers(self, included: int) -> tuple[int, ...]:
        """Included reducers keep their chunks; the others' chunks go to the included members in turn."""
        there = [number for number in range(len(self._participant.members)) if included >> number & 1]
        first = self._layout.reducers
        return tuple(r if r in there else there[index % len(there)] for index, r in enumerate(first))

    def take_proposal(self, propose: Propose) -> Evidence | View:
        """The view that a leader proposes; evidence if it proposed two.

        Raises RemoteProtocolError unless the proposal's votes justify it.
        """
        head = propose.head
        if not 1 <= head.view <= self.last or head.sender != self.leader(head.view):
            raise RemoteProtocolError(f"a proposal for view {head.view} of somebody who does not lead it")
        signing.verify(head, head.sender)
        known = self._proposals.get(head.view)
        if known is not None and known.head != head:
            return caught(known.head, head)
        self._check_votes(propose)
        self._check_included(propose)
        self._check_proofs(head.locks, propose.proofs)
        self._proposals[head.view] = propose
        proofs = propose.proofs if self._layout.reducers else ()
        return View(head.view, head.included, head.reducers, head.locks, proofs)

    def _check_votes(self, propose: Propose) -> None:
        head, votes = propose.head, propose.votes
        senders = [vote.sender for vote in votes]
        if senders != sorted(set(senders)) or len(senders) < self._tolerance.threshold:
            raise RemoteProtocolError("a proposal on too few votes")
        if votes_digest(votes) != head.votes or not set(senders) <= set(self._participant.members):
            raise RemoteProtocolError("a proposal on other votes than it names")
        for vote in votes:
            known = self._votes.get(head.view, {}).get(vote.sender)
            if known is None or known.vote != vote:
                if (vote.sid, vote.view) != (head.sid, head.view):
                    raise RemoteProtocolError("a proposal on votes for another view")
                signing.verify(vote, vote.sender)
                self._check_lock(vote)

    def _check_included(self, propose: Propose) -> None:
        head = propose.head
        locks = _locks_of(propose.votes)
        fits = len(locks) == len(head.locks) <= 1 and all(lock in locks.values() for lock in head.locks)
        if not fits or any(lock.included != head.included for lock in head.locks):
            raise RemoteProtocolError("a proposal that passes over a lock")
        voted = set_of((vote.sender for vote in propose.votes), self._participant.members)
        least = self._tolerance.least_included
        if head.included.bit_count() < least or not (head.locks or head.included & ~voted == 0):
            raise RemoteProtocolError("a proposal that includes too few, or members that are silent")
        if len(head.reducers) != len(self._layout.reducers) or any(
            not head.included >> reducer & 1 for reducer in head.reducers
        ):
            raise RemoteProtocolError("a proposal with chunks that nobody adds up")

    def _check_proofs(self, locks: tuple[AckVote, ...], proofs: tuple[Proof, ...]) -> None:
        """If chunks have reducers, check that each lock comes with the products of all that it includes.

        Votes, too, carry this proof: a leader must propose a lock again, and others refuse one without proof.
        """
        if not self._layout.reducers:
            return
        if len(proofs) != len(locks):
            raise RemoteProtocolError("a lock without its proof")
        for lock, proof in zip(locks, proofs, strict=True):
            if totals_digest(lock.sid, lock.included, proof.digests) != lock.totals:
                raise RemoteProtocolError("a proof of other totals than the lock names")
            if len(proof.digests) != self._layout.chunks:
                raise RemoteProtocolError("a proof of totals of another length")
            if tuple(vote.sender for vote in proof.checks) != members_in(
                lock.included, self._participant.members
            ):
                raise RemoteProtocolError("a proof without the checks of all that are included")
            for vote in proof.checks:
                if (vote.sid, vote.included, vote.totals) != (lock.sid, lock.included, lock.totals):
                    raise RemoteProtocolError("a proof with a check of something else")
                if len(vote.products) != product_bytes(self._layout):
                    raise RemoteProtocolError(f"a check of {len(vote.products)} bytes of products")
                signing.verify(vote, vote.sender)

    def holds(self, number: int, key: Key, owner: Key, index: int) -> bool:
        """Whether member `key`, by its vote for this view, has chunk `index` of `owner`."""
        propose = self._proposals.get(number)
        votes: Iterator[ViewVote] = iter(propose.votes if propose else ())
        vote = next((vote for vote in votes if vote.sender == key), None)
        return vote is not None and self._has(vote, owner, index)

    def _has(self, vote: ViewVote, owner: Key, index: int) -> bool:
        bit = self._participant.numbers[owner] * self._layout.chunks + index
        return bit < 8 * len(vote.holds) and bool(vote.holds[bit // 8] >> bit % 8 & 1)


def _locks_of(votes: Iterable[ViewVote]) -> dict[tuple[int, bytes], AckVote]:
    """The voters' locks: one vote for each (members, totals)."""
    locks: dict[tuple[int, bytes], AckVote] = {}
    for vote in votes:
        for lock in vote.locks:
            locks.setdefault((lock.included, lock.totals), lock)
    return locks
