"""The second half of a masked session: from the certificate of all joins to the result.

Three tables say where it stands: those of `phases`, `release` and `view_change`.

`Spend` comes before anything else. One acknowledgement and one release, and no release before t
acknowledgements of the same; where votes count, `Vote` comes before it. Failed at the end of the time, when
too many are lost, when somebody lied.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.actions import Action, Completed, Evidence, Failed, Keep, OpenVote, Reason, Send, Spend, Vote
from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.masked.fetching import Result
from protocol.aggregation.masked.key_setup import Joining
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.phases import Event, Phase
from protocol.aggregation.masked.reduction import Summing
from protocol.aggregation.masked.release import Releasing
from protocol.aggregation.masked.thresholds import Tolerance
from protocol.aggregation.masked.totals import Totals
from protocol.aggregation.masked.unmasking import mean_of
from protocol.aggregation.masked.vector import MaskedVector
from protocol.aggregation.masked.view import Choice, View
from protocol.aggregation.masked.view_change import Viewing
from protocol.aggregation.participant import Seat
from protocol.errors import RemoteProtocolError
from protocol.transitions import Course
from protocol.wire.ids import Key
from protocol.wire.masked_messages import (
    Ack,
    Check,
    Dispute,
    Masked,
    MaskedMessage,
    Proof,
    Propose,
    Release,
    ResultCertificate,
    Total,
    TotalPiece,
    ViewChange,
)
from protocol.wire.member_sets import members_in
from protocol.wire.messages import Message

MaskedReply = TotalPiece | ResultCertificate
SummedMessage = Masked | Total | Check | Dispute | Ack | Release | ViewChange | Propose
"""What comes once all have joined."""


class Masking:
    """One member's part. `point` decodes what comes out; `course` is its session's."""

    def __init__(
        self,
        seat: Seat,
        tolerance: Tolerance,
        layout: Layout,
        point: FixedPoint,
        joining: Joining,
        vector: MaskedVector,
        course: Course[Phase, Event],
        now: float,
    ) -> None:
        self._seat = seat
        self._tolerance = tolerance
        self._point = point
        self._course = course
        self._viewing = Viewing(seat, tolerance, layout)
        self._summing = Summing(seat, layout, vector, self._viewing.begin(now, seat.sums_timeout_s))
        self._releasing = Releasing(seat, tolerance, layout, joining)
        self._result = Result(seat, tolerance, layout)
        self._proofs: tuple[Proof, ...] = ()
        self._kept = b""
        self._end_at = now + seat.sums_timeout_s

    def open(self, clipped: int, now: float) -> list[Action]:
        """Spend the offer, and send it under its masks."""
        spend = Spend(self._seat.sid, self._seat.round, clipped)
        return [spend, *self._summing.open(), *self._advance(now)]

    @property
    def view(self) -> View:
        """What is summed now."""
        return self._summing.view

    @property
    def takes_in(self) -> tuple[View, int]:
        """Where this changes, what came too early before may count now."""
        return self._summing.view, len(self._summing.disputed)

    @property
    def expects(self) -> bool:
        """Whether anything was asked for."""
        return self._result.expects

    @property
    def deadline(self) -> float:
        """When something is due."""
        return min(self._end_at, self._viewing.deadline, self._result.deadline)

    def waiting_for(self) -> tuple[Key, ...]:
        """Who is waited for, at this step."""
        others = self._seat.others
        number = self._viewing.number
        if self._viewing.changing:
            voted = self._viewing.voted(number)
            return tuple(key for key in others if key not in voted) or (self._viewing.leader(number),)
        late = self._summing.waiting_for()
        if late or self._result.certificate is not None:
            return late
        here = self._releasing.released if self._releasing.quorum() else self._releasing.acknowledged
        return tuple(key for key in others if key not in here)

    def awaits_only(self, message: Message) -> bool:
        """Whether this is the last total, or the last release that it takes to open the secrets."""
        if isinstance(message, Total):
            return len(self._summing.totals.missing) <= 1
        return len(self._releasing.released) + 1 >= self._tolerance.threshold  # opens, if votes suffice

    def _to_all(self, message: MaskedMessage) -> list[Action]:
        return [Send(key, (message,)) for key in self._seat.others]

    # -- messages ----------------------------------------------------------------------------------

    def receive(self, message: SummedMessage, now: float) -> list[Action]:
        """A message of another member; NotYet, and nothing changed, for what belongs to another view."""
        return [*self._taken(message, now), *self._advance(now)]

    def _taken(self, message: SummedMessage, now: float) -> list[Action]:
        match message:
            case Masked():
                return self._summing.take_chunk(message)
            case Total():
                return self._summing.take_total(message)
            case Check():
                return self._summing.take_check(message)
            case Dispute():
                return self._summing.take_dispute(message)
            case Ack():
                evidence = self._releasing.take_ack(message)
                return _listed(evidence) or self._summing.compare_inputs(message.inputs)
            case Release():
                return _listed(self._releasing.take_release(message))
            case ViewChange():
                return self._take_vote(message, now)
            case _:
                return self._take_proposal(message, now)

    def reply(self, reply: MaskedReply, now: float) -> list[Action]:
        """Something that was asked for: a chunk of the total, or the certificate of who has finished."""
        if isinstance(reply, ResultCertificate):
            self._result.take(reply)
            return self._advance(now)
        return [*self._summing.take_piece(reply), *self._advance(now)]

    # -- the end -----------------------------------------------------------------------------------

    def _advance(self, now: float) -> list[Action]:
        """Acknowledge, release, open, complete: whatever is possible by now."""
        if self._summing.caught is not None:
            return self._fail(Reason.CAUGHT, (self._summing.caught,))
        still = self._result.left(self._summing.totals.missing, now)
        actions = [*still, *self._acknowledge(), *self._release()]
        if self._result.certificate is None:
            match self._releasing.opened():
                case Evidence() as evidence:
                    return [*actions, evidence, *self._fail(Reason.CAUGHT, (evidence.sender,))]
                case ResultCertificate() as certificate:
                    self._result.certificate = certificate
        if self._result.certificate is not None:
            return [*actions, *self._complete(self._result.certificate, now)]
        return [*actions, *self._give_up_if_hopeless()]

    def _acknowledge(self) -> list[Action]:
        """Once, and not between a vote and its proposal: a leader would not know of the lock."""
        if self._viewing.changing:
            return []
        totals = self._summing.totals
        enough = totals.included.bit_count() >= self._tolerance.least_included
        if not self._summing.verified or not self._releasing.may_acknowledge or not enough:
            return []
        choice = Choice(totals.included, totals.digest)
        members = members_in(totals.included, self._seat.members)
        checks = tuple(totals.checks[key] for key in members if key in totals.checks)
        self._proofs = (Proof(totals.digests, checks),)
        ack = self._releasing.acknowledge(choice, totals.digests, self._summing.inputs())
        return [*self._keep(totals), *self._to_all(ack)]

    def _keep(self, totals: Totals) -> list[Action]:
        """Others may ask for them: as soon as this member says that it has them, and afterwards."""
        if self._kept == totals.digest:
            return []
        self._kept = totals.digest
        return [Keep(totals.pieces())]

    def _release(self) -> list[Action]:
        choice = self._releasing.quorum()
        if choice is None or not self._releasing.may_release:
            return []
        if choice.included.bit_count() < self._tolerance.least_included:
            return []
        release = self._releasing.release(choice)
        return [*self._bound(choice, release), *self._to_all(release)]

    def _bound(self, choice: Choice, release: Release) -> list[Action]:
        """A release is a vote, where votes count."""
        seat = self._seat
        if seat.ballot is None:
            return []
        proof = self._releasing.unopened(choice)
        return [Vote(OpenVote(seat.sid, seat.group.base.anchor, seat.group, proof, release))]

    def _complete(self, certificate: ResultCertificate, now: float) -> list[Action]:
        """The secrets are open: with the totals that they are for, that is the result."""
        if self._course.phase is Phase.MASKS:
            self._course.step(Event.SECRETS)
        totals = self._summing.totals
        if totals.missing or totals.included != certificate.included or totals.digests != certificate.digests:
            return self._fetch_totals(certificate, now)
        kept = self._keep(totals)
        mean = mean_of(totals.joined(), certificate, self._point)
        if mean is None:
            return self._fail(Reason.WRONG_COUNT, ())
        self._course.step(Event.TOTALS)
        contributors = members_in(certificate.included, self._seat.members)
        seat = self._seat
        return [*kept, Completed(seat.group, seat.sid, seat.round, mean, contributors, certificate)]

    def _fetch_totals(self, certificate: ResultCertificate, now: float) -> list[Action]:
        if self._summing.totals.wanted == certificate.digests:
            return []
        self._summing.want(certificate.included, certificate.digests, ())
        return self._pull(Choice(certificate.included, certificate.releases[0].totals), (), now)

    def _pull(self, choice: Choice, first: tuple[Key, ...], now: float) -> list[Action]:
        """Ask for what is missing of these totals: these members `first`, then who said that it has them."""
        known = self._releasing.digests_of(choice)
        sources = dict.fromkeys((*first, *(known[1] if known else ())))
        return self._result.pull(self._summing.totals.missing, sources, now)

    def finished(self, key: Key) -> list[Action]:
        """A member shows the base that this session made: ask it for the certificate."""
        return self._result.ask(key)

    # -- views -------------------------------------------------------------------------------------

    def _change_view(self, number: int, now: float) -> list[Action]:
        """Vote for a later view."""
        lock = self._releasing.lock
        locks = () if lock is None else (lock.vote,)
        votes = self._viewing.change(number, self._summing.chunks.holds, locks, self._proofs, now)
        return [*(send for vote in votes for send in self._to_all(vote)), *self._lead(now)]

    def _take_vote(self, change: ViewChange, now: float) -> list[Action]:
        evidence = self._viewing.take_vote(change)
        return [*_listed(evidence), *self._change_view(change.vote.view, now)]

    def _lead(self, now: float) -> list[Action]:
        propose = self._viewing.lead(now)
        return [] if propose is None else [*self._to_all(propose), *self._accept(propose, now)]

    def _take_proposal(self, propose: Propose, now: float) -> list[Action]:
        if propose.head.view < max(self._viewing.number, self._summing.view.number + 1):
            raise RemoteProtocolError("a proposal for a view that is over")
        return self._accept(propose, now)

    def _accept(self, propose: Propose, now: float) -> list[Action]:
        view = self._viewing.take_proposal(propose)
        if isinstance(view, Evidence):
            return [view]
        self._viewing.entered(view.number, now)
        holds = self._viewing.holds
        entered = self._summing.enter(view, lambda key, owner, index: holds(view.number, key, owner, index))
        again = self._again(view)
        return [*entered, *again, *self._fetch_locked(view, now)]

    def _again(self, view: View) -> list[Action]:
        """Where what this member acknowledged is proposed again: what it said of it may have been lost."""
        lock, release = self._releasing.lock, self._releasing.own
        if lock is None or not any(other.totals == lock.vote.totals for other in view.locks):
            return []
        return [*self._to_all(lock), *(self._to_all(release) if release is not None else [])]

    def _fetch_locked(self, view: View, now: float) -> list[Action]:
        """What is missing of totals that somebody acknowledged, from who has them."""
        if not view.proofs or not self._summing.totals.missing:
            return []
        lock = view.locks[0]
        return self._pull(Choice(lock.included, lock.totals), (lock.sender,), now)

    # -- time and loss -----------------------------------------------------------------------------

    def tick(self, now: float) -> list[Action]:
        """What is due."""
        if now >= self._end_at:
            return self._fail(Reason.MASKS_TIMEOUT, self.waiting_for())
        actions = [*self._lead(now), *self._result.tick(now)]
        if now >= self._viewing.until:
            actions += self._change_view(self._viewing.number + 1, now)
        return [*actions, *self._advance(now)]

    def heard(self, key: Key) -> None:
        """A member is there, whatever was said of it."""
        self._viewing.gone.discard(key)

    def lost(self, keys: Iterable[Key], now: float) -> list[Action]:
        """Nothing more comes from these: the others go on without them, as far as that is possible."""
        self._viewing.gone.update(keys)
        late, gone = self.waiting_for(), self._viewing.gone
        leader = self._viewing.leader(self._viewing.number)
        if self._viewing.changing:
            is_needed = leader in gone  # who is gone votes for no view: that it is said again ends none
        else:
            is_needed = not self._summing.verified and any(key in gone for key in late)
        changed = self._change_view(self._viewing.number + 1, now) if is_needed else self._lead(now)
        return [*changed, *self._advance(now)]

    def _give_up_if_hopeless(self) -> list[Action]:
        """More are lost than this group tolerates."""
        if not self._viewing.gone:
            return []
        releasing, there = self._releasing, frozenset(self._seat.members) - self._viewing.gone
        could_release = len(there | releasing.released)
        could_acknowledge = len(there | releasing.acknowledged)
        is_enough = min(could_release, could_acknowledge) >= self._tolerance.threshold
        if (is_enough and self._seat.suffices(there | releasing.released)) or self._result.asked:
            return []
        return self._fail(Reason.MASKS_TIMEOUT, tuple(sorted(self._viewing.gone)))

    def _fail(self, reason: Reason, missing: tuple[Key, ...]) -> list[Action]:
        self._course.step(Event.ENDED)
        return [Failed(reason, self._seat.round, missing, self._seat.sid)]


def _listed(evidence: Evidence | None) -> list[Action]:
    return [] if evidence is None else [evidence]
