"""The second half of a masked session: from the certificate of all joins to the result.

Three transition tables describe its state: the one below, and those of `release` and `view_change`.

`Spend` comes before anything else. A member sends one acknowledgement and one release, and no release before
t acknowledgements of the same totals; if the group has a ballot, `Vote` comes before the release. The rounds
fail when the time is over, when too many members are lost, or when a member lied.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from protocol.actions import (
    Action,
    Completed,
    Evidence,
    Failed,
    Keep,
    OpenVote,
    Reason,
    Send,
    Spend,
    Vote,
    Withheld,
)
from protocol.aggregation.lacking import check_lacking, complaint, owed
from protocol.aggregation.masked.bodies import Bodies
from protocol.aggregation.masked.chunks import MaskedVector
from protocol.aggregation.masked.fetching import Result
from protocol.aggregation.masked.owing import withheld
from protocol.aggregation.masked.reduction import Reduction
from protocol.aggregation.masked.release import SecretRelease
from protocol.aggregation.masked.step_keys import StepKeys
from protocol.aggregation.masked.thresholds import Scheme
from protocol.aggregation.masked.totals import Totals
from protocol.aggregation.masked.unmasking import result_of
from protocol.aggregation.masked.view_change import Choice, View, ViewChanges
from protocol.aggregation.participant import Participant
from protocol.aggregation.transfer import transfer_s
from protocol.errors import RemoteProtocolError
from protocol.transitions import Course, Step, Table
from protocol.vectors.shelf import Shelf
from protocol.wire.ids import Key
from protocol.wire.masked_messages import (
    Ack,
    Check,
    Dispute,
    Lacking,
    Masked,
    MaskedMessage,
    Proof,
    Propose,
    Release,
    ReleaseHead,
    ResultCertificate,
    Total,
    TotalPiece,
    ViewChange,
)
from protocol.wire.member_sets import members_in
from protocol.wire.messages import Message

MaskedReply = TotalPiece | ResultCertificate
SummedMessage = Masked | Total | Check | Dispute | Ack | Release | Lacking | ViewChange | Propose
"""The messages after all members have joined."""


class Phase(Enum):
    """How far the rounds are: before the secrets are open, after, or at the end."""

    MASKS = "masks"
    OPEN = "open"
    DONE = "done"


class Event(Enum):
    """What moves the rounds from one phase to the next."""

    SECRETS = "t Releases"
    TOTALS = "the totals, whole"
    ENDED = "time, loss, a lie"


STEPS: Table[Phase, Event] = {
    (Phase.MASKS, Event.SECRETS): Step(
        Phase.OPEN, "the secrets are open, here or by the ResultCertificate of who has finished"
    ),
    (Phase.MASKS, Event.ENDED): Step(Phase.DONE, "Failed, the offer spent; Evidence of who lied"),
    (Phase.OPEN, Event.TOTALS): Step(Phase.DONE, "Keep the totals; Completed with the ResultCertificate"),
    (Phase.OPEN, Event.ENDED): Step(Phase.DONE, "Failed, the offer spent"),
}
"""There are no other steps. In the phase `open`, a PieceRequest asks for each TotalPiece that is missing."""


class MaskedRounds:
    """One member's part. `goes_on`: another step of its run may follow it.

    `heads`: filled with the signed heads of the others' releases.
    """

    def __init__(
        self,
        participant: Participant,
        scheme: Scheme,
        keys: StepKeys,
        vector: MaskedVector,
        shelf: Shelf,
        heads: dict[Key, ReleaseHead],
        goes_on: bool,
        now: float,
    ) -> None:
        self._participant = participant
        self._goes_on = goes_on
        self._tolerance, self._encoding, self._layout = scheme.tolerance, scheme.encoding, scheme.layout
        self._course = Course(STEPS, Phase.MASKS)
        self._views = ViewChanges(participant, scheme)
        self._reduction = Reduction(
            participant, self._layout, vector, self._views.begin(now, participant.timeouts.sums_s), shelf
        )
        self._secret_release = SecretRelease(participant, scheme, keys, heads)
        self._result = Result(participant, scheme)
        self._proofs: tuple[Proof, ...] = ()
        self._kept = b""
        self._waited_for: Withheld | None = None
        """Who had not sent what when the first view came for which this member's time was over."""
        self._overdue: set[Key] = set()
        """From whom something was still missing when this member left a view of which half was over."""
        self._complaints: dict[Key, Lacking] = {}
        """What each member, this one too, has said last of the messages without which it cannot go on."""
        self._is_late = False
        self._end_at = now + participant.timeouts.sums_s
        self._bodies = Bodies(transfer_s(self._layout.sent_bytes, participant.timeouts.least_rate))

    def open(self, clipped: int, now: float) -> list[Action]:
        """Spend the offer and send it under its masks. `clipped`: the number of clipped coordinates."""
        spend = Spend(self._participant.sid, self._participant.round, clipped)
        return [spend, *self._reduction.open(), *self._advance(now)]

    @property
    def over(self) -> bool:
        """Whether the rounds have completed or failed."""
        return self._course.phase is Phase.DONE

    @property
    def view(self) -> View:
        """The current view."""
        return self._reduction.view

    @property
    def takes_in(self) -> tuple[View, int]:
        """(view, number of disputes); when this changes, messages that came too early may count."""
        return self._reduction.view, len(self._reduction.disputed)

    @property
    def expects(self) -> bool:
        """Whether this member expects replies to its requests."""
        return self._result.expects

    @property
    def deadline(self) -> float:
        """When tick should be called at the latest."""
        return min(self._end_at, self._views.deadline, self._result.deadline)

    def waiting_for(self) -> tuple[Key, ...]:
        """The members that this step waits for."""
        others = self._participant.others
        number = self._views.number
        if self._views.changing:
            voted = self._views.voted(number)
            return tuple(key for key in others if key not in voted) or (self._views.leader(number),)
        late = self._reduction.waiting_for()
        if late or self._result.certificate is not None:
            return late
        answered = self._secret_release.answered
        return tuple(key for key in others if key not in answered)

    def awaits_only(self, message: Message) -> bool:
        """Whether this is the last total, or the last release that opening the secrets needs."""
        if isinstance(message, Total):
            return len(self._reduction.totals.missing) <= 1
        return len(self._secret_release.released) + 1 >= self._tolerance.threshold  # opens, with a quorum

    def _to_all(self, message: MaskedMessage) -> list[Action]:
        return [Send(key, (message,)) for key in self._participant.others]

    # -- messages ----------------------------------------------------------------------------------

    def receive(self, message: SummedMessage, now: float) -> list[Action]:
        """Process a member's message. Raises NotYet, and changes nothing, if it is for another view."""
        return [*self._taken(message, now), *self._advance(now)]

    def _taken(self, message: SummedMessage, now: float) -> list[Action]:
        match message:
            case Masked():
                return self._came(message.head.sender, self._reduction.take_chunk(message))
            case Total():
                return self._came(message.head.sender, self._reduction.take_total(message))
            case Check():
                return self._reduction.take_check(message)
            case Dispute():
                return self._reduction.take_dispute(message)
            case Ack():
                evidence = self._secret_release.take_ack(message)
                return _listed(evidence) or self._reduction.compare_inputs(message.inputs)
            case Release():
                evidence = self._secret_release.take_release(message)
                if evidence is None or len(evidence.records) > 1:
                    return _listed(evidence)
                # Shares that were not dealt: others may have a different release of its sender.
                others = (key for key in self._participant.others if key != evidence.sender)
                return [evidence, *(Send(key, (message,)) for key in others)]
            case Lacking():
                check_lacking(message, self._participant)
                self._complaints[message.sender] = message
                return []
            case ViewChange():
                evidence = self._views.take_vote(message)
                return [*_listed(evidence), *self._change_view(message.vote.view, now)]
            case _:
                if message.head.view < max(self._views.number, self._reduction.view.number + 1):
                    raise RemoteProtocolError("a proposal for a view that is over")
                return self._accept(message, now)

    def _came(self, sender: Key, actions: list[Action]) -> list[Action]:
        """Note that bulk of a member was taken in; returns the actions that follow."""
        self.arriving(sender)
        return actions

    def arriving(self, key: Key) -> None:
        """Bulk of a member has come, or is on its way."""
        self._bodies.arriving(key)
        self._result.arriving(key)

    def reply(self, reply: MaskedReply, now: float) -> list[Action]:
        """Process a reply: a chunk of the total, or the certificate of a member that has finished."""
        if isinstance(reply, ResultCertificate):
            self._result.take(reply)
            return self._advance(now)
        return [*self._reduction.take_piece(reply), *self._advance(now)]

    # -- the end -----------------------------------------------------------------------------------

    def _advance(self, now: float) -> list[Action]:
        """Acknowledge, release, open, complete or give up, as far as possible."""
        if self._reduction.caught is not None:
            return self._fail(Reason.CAUGHT, (self._reduction.caught,))
        still = self._result.left(self._reduction.totals.missing, now)
        actions = [*still, *self._acknowledge(), *self._release()]
        if self._result.certificate is None:
            match self._secret_release.opened():
                case Evidence() as evidence:
                    return [*actions, evidence, *self._fail(Reason.CAUGHT, (evidence.sender,))]
                case ResultCertificate() as certificate:
                    self._result.opened(certificate)
        if self._result.certificate is not None:
            return [*actions, *self._complete(self._result.certificate, now)]
        return [*actions, *self._give_up_if_hopeless()]

    def _acknowledge(self) -> list[Action]:
        """Acknowledge once, and not between a vote and its proposal: the leader must know the lock."""
        if self._views.changing:
            return []
        totals = self._reduction.totals
        enough = totals.included.bit_count() >= self._tolerance.least_included
        if not self._reduction.verified or not self._secret_release.may_acknowledge or not enough:
            return []
        choice = Choice(totals.included, totals.digest)
        members = members_in(totals.included, self._participant.members)
        checks = tuple(totals.checks[key] for key in members if key in totals.checks)
        self._proofs = (Proof(totals.digests, checks),)
        ack = self._secret_release.acknowledge(choice, totals.digests, self._reduction.inputs())
        return [*self._keep(totals), *self._to_all(ack)]

    def _keep(self, totals: Totals) -> list[Action]:
        """Keep the totals: once this member has acknowledged them, others may ask for them."""
        if self._kept == totals.digest:
            return []
        self._kept = totals.digest
        return [Keep(totals.pieces())]

    def _release(self) -> list[Action]:
        choice = self._secret_release.quorum()
        if choice is None or not self._secret_release.may_release:
            return []
        if choice.included.bit_count() < self._tolerance.least_included:
            return []
        release = self._secret_release.release(choice)
        return [*self._bound(choice, release), *self._to_all(release)]

    def _bound(self, choice: Choice, release: Release) -> list[Action]:
        """The Vote that a release is, if the group has a ballot."""
        participant = self._participant
        if participant.ballot is None:
            return []
        proof = self._secret_release.unopened(choice)
        anchor = participant.group.base.anchor
        vote = OpenVote(participant.sid, anchor, participant.group, proof, release)
        return [Vote(vote, self._goes_on)]

    def _complete(self, certificate: ResultCertificate, now: float) -> list[Action]:
        """Complete: the secrets are open; with their totals they give the result. Fetch missing totals."""
        if self._course.phase is Phase.MASKS:
            self._course.step(Event.SECRETS)
        totals = self._reduction.totals
        if totals.missing or totals.included != certificate.included or totals.digests != certificate.digests:
            if totals.wanted == certificate.digests:
                return []
            self._reduction.want(certificate.included, certificate.digests, ())
            return self._pull(Choice(certificate.included, certificate.releases[0].totals), (), now)
        kept = self._keep(totals)
        result = result_of(totals.chunks(), self._layout.dimension, certificate, self._encoding)
        if result is None:
            return self._fail(Reason.WRONG_COUNT, ())
        self._course.step(Event.TOTALS)
        contributors = members_in(certificate.included, self._participant.members)
        participant = self._participant
        return [
            *kept,
            Completed(
                participant.group,
                participant.round,
                result,
                contributors,
                certificate,
                withheld=owed(self._waited_for, self._complaints, participant),
            ),
        ]

    def _pull(self, choice: Choice, first: tuple[Key, ...], now: float) -> list[Action]:
        """Ask for the missing chunks of these totals: members in `first`, then those that acknowledged."""
        known = self._secret_release.digests_of(choice)
        sources = dict.fromkeys((*first, *(known[1] if known else ())))
        return self._result.pull(self._reduction.totals.missing, sources, now)

    def finished(self, key: Key) -> list[Action]:
        """A member shows the base that this session made: ask it for the certificate."""
        return self._result.ask(key)

    # -- views -------------------------------------------------------------------------------------

    def _change_view(self, number: int, now: float) -> list[Action]:
        """Vote for a later view; say first what was missing in this one, if half of its time is over."""
        said: list[Action] = []
        if not self._views.changing and number > self._views.number:
            found = self._withheld(self._participant.others)
            late = () if found is None else found.keys
            self._bodies.left(self._views.number, late, now)
            if now >= self._views.half:
                self._overdue.update(late)
                said = self._complain(found)
        lock = self._secret_release.lock
        locks = () if lock is None else (lock.vote,)
        votes = self._views.change(number, self._reduction.chunks.holds, locks, self._proofs, now)
        return [*said, *(send for vote in votes for send in self._to_all(vote)), *self._lead(now)]

    def _lead(self, now: float) -> list[Action]:
        propose = self._views.lead(now)
        return [] if propose is None else [*self._to_all(propose), *self._accept(propose, now)]

    def _accept(self, propose: Propose, now: float) -> list[Action]:
        if self._is_late and self._waited_for is None:
            self._waited_for = self._withheld(self._participant.others)
        view = self._views.take_proposal(propose)
        if isinstance(view, Evidence):
            return [view]
        self._views.entered(view.number, now)
        holds = self._views.holds
        entered = self._reduction.enter(view, lambda key, owner, index: holds(view.number, key, owner, index))
        actions = [*entered, *self._again(view)]
        if not view.proofs or not self._reduction.totals.missing:
            return actions
        lock = view.locks[0]  # its sender holds the locked totals
        return [*actions, *self._pull(Choice(lock.included, lock.totals), (lock.sender,), now)]

    def _again(self, view: View) -> list[Action]:
        """Repeat this member's Ack and Release if the view proposes them again: they may have been lost."""
        lock, release = self._secret_release.lock, self._secret_release.own
        if lock is None or not any(other.totals == lock.vote.totals for other in view.locks):
            return []
        return [*self._to_all(lock), *(self._to_all(release) if release is not None else [])]

    # -- time and loss -----------------------------------------------------------------------------

    def tick(self, now: float) -> list[Action]:
        """Act on what is due."""
        if now >= self._end_at:
            return self._fail(Reason.MASKS_TIMEOUT, self.waiting_for(), self._participant.others)
        actions = [*self._lead(now), *self._result.tick(now)]
        if now >= self._views.until and not self._takes_longer():
            self._is_late = True
            actions += self._change_view(self._views.number + 1, now)
        return [*actions, *self._advance(now)]

    def _complain(self, found: Withheld | None) -> list[Action]:
        """Tell all, once, without whose messages this member cannot go on; one that has released need not."""
        part = self._participant
        due = owed(found, self._complaints, part)
        if due is None or not due.keys or part.me in self._complaints or not self._secret_release.may_release:
            return []
        self._complaints[part.me] = mine = complaint(part, due.keys)
        return self._to_all(mine)

    def _takes_longer(self) -> bool:
        """Whether this view goes on, once, for bulk that is on its way."""
        if self._views.changing or not self._reduction.totals.missing:
            return False
        late = self._reduction.waiting_for()
        if not self._bodies.give(self._views.number, late, self._views.until):
            return False
        self._views.until += self._bodies.seconds
        self._end_at += self._bodies.seconds
        return True

    def heard(self, key: Key) -> None:
        """A member sent a message: it is not gone."""
        self._views.gone.discard(key)

    def lost(self, keys: Iterable[Key], now: float) -> list[Action]:
        """Nothing more comes from these members: change the view if it depends on one of them."""
        self._views.gone.update(keys)
        late, gone = self.waiting_for(), self._views.gone
        leader = self._views.leader(self._views.number)
        if self._views.changing:
            is_needed = leader in gone  # a lost voter ends no view; only a lost leader does
        else:
            is_needed = not self._reduction.verified and any(key in gone for key in late)
        changed = self._change_view(self._views.number + 1, now) if is_needed else self._lead(now)
        return [*changed, *self._advance(now)]

    def _give_up_if_hopeless(self) -> list[Action]:
        """Fail if the group cannot tolerate the losses."""
        if not self._views.gone:
            return []
        if self._views.is_hopeless:
            return self._lost_too_many()
        secret_release, there = self._secret_release, frozenset(self._participant.members) - self._views.gone
        could_release = len(there | secret_release.released)
        could_acknowledge = len(there | secret_release.acknowledged)
        is_enough = min(could_release, could_acknowledge) >= self._tolerance.threshold
        if (is_enough and self._participant.suffices(there | secret_release.released)) or self._result.asked:
            return []
        return self._lost_too_many()

    def _lost_too_many(self) -> list[Action]:
        gone = self._views.gone
        return self._fail(Reason.MASKS_TIMEOUT, tuple(sorted(gone)), among=tuple(gone | self._overdue))

    def _fail(self, reason: Reason, missing: tuple[Key, ...], among: tuple[Key, ...] = ()) -> list[Action]:
        """Fail. `among`: the members that may have withheld something."""
        self._course.step(Event.ENDED)
        part = self._participant
        found = owed(self._withheld(among) if among else None, self._complaints, part)
        return [Failed(reason, part.round, missing, part.sid, found)]

    def _withheld(self, among: tuple[Key, ...]) -> Withheld | None:
        """What did not arrive here from these members."""
        answered = self._secret_release.answered
        return withheld(self._participant, self._views, self._reduction, answered, among)


def _listed(evidence: Evidence | None) -> list[Action]:
    return [] if evidence is None else [evidence]
