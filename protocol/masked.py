"""The masked machine: one member of one session that survives dropouts (protocol, Part II).

    start --n JOINs--> JOINED --n votes--> MASKS --totals, checked--> ACK --t--> RELEASE --t--> Completed
      |                  |                  |
      +-- T_join, loss   +-- T_join, grace  +-- a deadline, a loss: the next view, without who is silent
      v                  v                  v
    Failed (x still fresh)                Failed (x is spent): T_end, too many lost, somebody lied

What must stay true:
- nothing sent before `Spend` depends on the vector; `Spend` comes once, with the certificate of all joins;
- one acknowledgement and one release in a session, and no release before t acknowledgements of the same;
- after Failed or Completed nothing is ever sent, and nothing received changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import Enum, auto

from protocol import codec
from protocol.actions import Action, Completed, Evidence, Failed, Reason, Send, Spend
from protocol.early import Early
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.fixedpoint import FixedPoint
from protocol.joining import Joining
from protocol.layout import Layout
from protocol.masked_messages import (
    Ack,
    Check,
    Dispute,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    MaskedMessage,
    Proof,
    Propose,
    Release,
    ResultCertificate,
    Total,
    TotalPiece,
    ViewChange,
    sender_of,
    session_of,
)
from protocol.masked_vector import MaskedVector, masks_of
from protocol.masks import self_seed
from protocol.messages import Key, Message, Ready, Sum
from protocol.pulling import Result
from protocol.releasing import Releasing
from protocol.sealing import derive
from protocol.seat import Seat
from protocol.summing import Summing
from protocol.tolerance import Tolerance
from protocol.unmasking import mean_of, members_in
from protocol.vectors import Floats
from protocol.view import Choice, NotYet, View
from protocol.viewing import LEAST_INCLUDED, Viewing

GRACE_S = 2.0
MaskedReply = TotalPiece | ResultCertificate


class Phase(Enum):
    """Where a session is."""

    JOINING = auto()
    MASKS = auto()
    DONE = auto()


class DoubleMasked:
    """One member of one session. Vectors are (d,) float32; `rand` is 32 secret bytes, used once."""

    def __init__(self, seat: Seat, tolerance: Tolerance, point: FixedPoint, layout: Layout) -> None:
        self._seat = seat
        self._tolerance = tolerance
        self._point = point
        self._layout = layout
        self._viewing = Viewing(seat, tolerance, self._layout)
        self._early = Early(early_bytes(self._layout))
        self._x: Floats | None = None
        self._clipped = 0
        self._proofs: tuple[Proof, ...] = ()
        self._result = Result(seat, tolerance, layout)
        self._end_at = 0.0
        self.sid = seat.sid
        self.phase = Phase.JOINING
        self.shares_since = self.sums_since = 0.0
        self.deadline: float | None = None

    # -- what a session asks -----------------------------------------------------------------------

    @property
    def headers(self) -> Mapping[Key, Sum]:
        """There are no signed sums here."""
        return {}

    @property
    def stage(self) -> str:
        """The half of a session that this one is in, as a node's figures name them."""
        return "shares" if self.phase is Phase.JOINING else "sums"

    @property
    def round(self) -> int:
        """The number of this round."""
        return self._seat.round

    def ready_of(self, key: Key) -> Ready | None:
        """Another member's READY; None for oneself and for strangers."""
        return self._seat.ready_of(key)

    def takes(self, message: Message) -> bool:
        """Everything masked of this session; replies only where something was asked for."""
        if isinstance(message, MaskedReply):
            return message.sid == self.sid and self._result.expects
        return isinstance(message, MaskedMessage) and session_of(message) == self.sid

    def waiting_for(self) -> tuple[Key, ...]:
        """Who is waited for, at this step."""
        match self.phase:
            case Phase.JOINING:
                return self._joining.missing
            case Phase.MASKS:
                return self._awaited()
            case _:
                return ()

    def _awaited(self) -> tuple[Key, ...]:
        others = self._seat.others
        number = self._viewing.number
        if number > self._summing.view.number:
            voted = self._viewing.voted(number)
            return tuple(key for key in others if key not in voted) or (self._viewing.leader(number),)
        late = self._summing.waiting_for()
        if late or self._result.certificate is not None:
            return late
        here = self._releasing.released if self._releasing.quorum() else self._releasing.acknowledged
        return tuple(key for key in others if key not in here)

    # -- joining -----------------------------------------------------------------------------------

    def start(self, vector: Floats, rand: bytes, now: float) -> list[Action]:
        """A JOIN to every other member. NotFiniteError leaves nothing sent."""
        if self._x is not None or self.phase is not Phase.JOINING:
            raise LocalProtocolError("a session starts once")
        self._clipped = self._point.clipped(vector)
        self._x = vector
        self._rounding = derive(rand, b"rounding")
        self._joining = Joining(self._seat, self._tolerance, derive(rand, b"joining"))
        self.shares_since = now
        self.deadline = now + self._seat.shares_timeout_s
        return [Send(key, (self._joining.join(key),)) for key in self._seat.others]

    def _take_joining(self, message: Join | Joined | JoinCertificate, now: float) -> list[Action]:
        if self.phase is not Phase.JOINING:
            return []  # the last votes and the echoes come when the certificate is here
        vote, evidence = self._joining.take(message)
        sends = self._to_all(vote) if vote is not None else []
        if vote is not None:
            self.deadline = (self.deadline or now) + GRACE_S
        if evidence is not None:
            return [*sends, evidence, *self._fail(Reason.CAUGHT, (evidence.sender,))]
        return [*sends, *(self._mask(now) if self._joining.certificate is not None else [])]

    def _to_all(self, message: MaskedMessage) -> list[Action]:
        return [Send(key, (message,)) for key in self._seat.others]

    # -- masks -------------------------------------------------------------------------------------

    def _mask(self, now: float) -> list[Action]:
        """The certificate is here: the offer is spent, and goes out under its masks."""
        joining, seat, certificate, x = self._joining, self._seat, self._joining.certificate, self._x
        if certificate is None or x is None:
            raise LocalProtocolError("masks without a certificate")
        self.phase, self._x = Phase.MASKS, None
        own_seed = self_seed(joining.self_secret, self.sid, seat.me)
        pair_seeds = [joining.pair_seeds.get(key) for key in seat.members]
        masks = masks_of(seat.number, own_seed, pair_seeds, self._rounding)
        vector = MaskedVector(x, masks, self._point, self._layout, seat.key, self.sid)
        view_s = seat.sums_timeout_s / (self._viewing.last + 2)
        self._summing = Summing(seat, self._layout, vector, self._viewing.begin(now, view_s))
        self._releasing = Releasing(seat, self._tolerance, self._layout, joining)
        self.sums_since = now
        self._end_at = now + seat.sums_timeout_s
        spend = Spend(self.sid, seat.round, self._clipped)
        begun = [*self._to_all(certificate), spend, *self._summing.open()]
        return [*begun, *self._advance(now), *self._replay(now)]

    def _replay(self, now: float) -> list[Action]:
        """What came too early, now that something changed."""
        actions: list[Action] = []
        for message in self._early.take(self.sid):
            if self.phase is Phase.MASKS:
                with suppress(RemoteProtocolError):
                    actions += self.receive(message, now)
        return actions

    # -- messages ----------------------------------------------------------------------------------

    def receive(self, message: Message, now: float) -> list[Action]:
        """Take in one message; RemoteProtocolError, and nothing changed, if it does not belong here."""
        if self.phase is Phase.DONE or not self.takes(message):
            raise RemoteProtocolError(f"{type(message).__name__} for a session that is not running")
        if isinstance(message, MaskedReply):
            return self._take_reply(message, now)
        if not isinstance(message, MaskedMessage):
            raise RemoteProtocolError(f"a masked session takes no {type(message).__name__}")
        sender = sender_of(message)
        if sender is not None and sender not in self._seat.others:
            raise RemoteProtocolError(f"{type(message).__name__} of somebody who is not in this session")
        self._viewing.gone.discard(sender or b"")
        if isinstance(message, Join | Joined | JoinCertificate):
            return self._take_joining(message, now)
        if self.phase is Phase.JOINING:
            self._early.hold(message)
            return []
        return self._take_masked(message, now)

    def _take_masked(self, message: MaskedMessage, now: float) -> list[Action]:
        try:
            actions = self._of_masks(message, now)
        except NotYet:
            self._early.hold(message)
            return []
        return [*actions, *self._advance(now)]

    def _of_masks(self, message: MaskedMessage, now: float) -> list[Action]:
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
            case Propose():
                return self._take_proposal(message, now)
            case _:
                raise RemoteProtocolError(f"{type(message).__name__} in the wrong phase")

    def _take_reply(self, reply: MaskedReply, now: float) -> list[Action]:
        """Something that was asked for: a chunk of the total, or the certificate of who has finished."""
        if self.phase is not Phase.MASKS:
            raise RemoteProtocolError("a reply before anything was asked for")
        if isinstance(reply, ResultCertificate):
            self._result.take(reply)
            return self._advance(now)
        kept = self._summing.take_piece(reply)
        return [*kept, *self._result.got(reply.index, now), *self._advance(now)]

    # -- the end -----------------------------------------------------------------------------------

    def _advance(self, now: float) -> list[Action]:
        """Acknowledge, release, open, complete: whatever is possible by now."""
        if self.phase is not Phase.MASKS:
            return []
        if self._summing.caught is not None:
            return self._fail(Reason.CAUGHT, (self._summing.caught,))
        actions = [*self._acknowledge(), *self._release()]
        if self._result.certificate is None:
            match self._releasing.opened():
                case Evidence() as evidence:
                    return [*actions, evidence, *self._fail(Reason.CAUGHT, (evidence.sender,))]
                case ResultCertificate() as certificate:
                    self._result.certificate = certificate
        if self._result.certificate is not None:
            return [*actions, *self._complete(self._result.certificate, now)]
        self._arm()
        return [*actions, *self._give_up_if_hopeless()]

    def _acknowledge(self) -> list[Action]:
        totals = self._summing.totals
        enough = totals.included.bit_count() >= max(self._tolerance.threshold, LEAST_INCLUDED)
        if not self._summing.verified or self._releasing.lock is not None or not enough:
            return []
        choice = Choice(totals.included, totals.digest)
        members = members_in(totals.included, self._seat.members)
        checks = tuple(totals.checks[key] for key in members if key in totals.checks)
        self._proofs = (Proof(totals.digests, checks),)
        return self._to_all(self._releasing.acknowledge(choice, totals.digests, self._summing.inputs()))

    def _release(self) -> list[Action]:
        choice = self._releasing.quorum()
        if choice is None or self._releasing.own is not None:
            return []
        if choice.included.bit_count() < max(self._tolerance.threshold, LEAST_INCLUDED):
            return []
        return self._to_all(self._releasing.release(choice))

    def _complete(self, certificate: ResultCertificate, now: float) -> list[Action]:
        """The secrets are open: with the totals that they are for, that is the result."""
        totals = self._summing.totals
        if totals.missing or totals.included != certificate.included or totals.digests != certificate.digests:
            return self._fetch_totals(certificate, now)
        mean = mean_of(totals.words, certificate, self._point)
        if mean is None:
            return self._fail(Reason.WRONG_COUNT, ())
        self._close()
        contributors = members_in(certificate.included, self._seat.members)
        seat = self._seat
        return [Completed(seat.group, self.sid, seat.round, mean, contributors, certificate)]

    def _fetch_totals(self, certificate: ResultCertificate, now: float) -> list[Action]:
        if self._summing.totals.wanted == certificate.digests:
            self._arm()
            return []
        self._summing.want(certificate.included, certificate.digests, ())
        choice = Choice(certificate.included, certificate.releases[0].totals)
        known = self._releasing.digests_of(choice)
        return self._pull(known[1] if known else (), now)

    def _pull(self, sources: Iterable[Key], now: float) -> list[Action]:
        asked = self._result.pull(self._summing.totals.missing, sources, now)
        self._arm()
        return asked

    def finished(self, key: Key, now: float) -> list[Action]:
        """A member shows the base that this session made: ask it for the certificate."""
        return self._result.ask(key) if self.phase is Phase.MASKS else []

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
        return [*entered, *again, *self._take_lock(view, propose.proofs, now), *self._replay(now)]

    def _again(self, view: View) -> list[Action]:
        """Where what this member acknowledged is proposed again: what it said of it may have been lost."""
        lock, release = self._releasing.lock, self._releasing.own
        if lock is None or not any(other.totals == lock.vote.totals for other in view.locks):
            return []
        return [*self._to_all(lock), *(self._to_all(release) if release is not None else [])]

    def _take_lock(self, view: View, proofs: tuple[Proof, ...], now: float) -> list[Action]:
        """Totals that somebody acknowledged: fetch them, and check them by their proof."""
        if not view.locks or not view.reducers or self._summing.verified or not proofs:
            return []
        lock, proof = view.locks[0], proofs[0]
        if Choice(lock.included, lock.totals) != self._summing.choice_of(proof.digests):
            return []
        for vote in proof.checks:
            codec.verify(vote, vote.sender)
        actions = self._summing.want(lock.included, proof.digests, proof.checks)
        return [*actions, *self._pull((lock.sender,), now)]

    # -- time and loss -----------------------------------------------------------------------------

    def tick(self, now: float) -> list[Action]:
        """What is due."""
        if self.deadline is None or now < self.deadline:
            return []
        if self.phase is Phase.JOINING:
            return self._fail(Reason.JOINS_TIMEOUT, self._joining.missing)
        if now >= self._end_at:
            return self._fail(Reason.MASKS_TIMEOUT, self.waiting_for())
        actions = [*self._lead(now), *self._result.tick(now)]
        if now >= self._viewing.until:
            actions += self._change_view(self._viewing.number + 1, now)
        return [*actions, *self._advance(now)]

    def _arm(self) -> None:
        """The next time something is due."""
        self.deadline = min(self._end_at, self._viewing.deadline, self._result.deadline)

    def unreachable(self, key: Key, now: float) -> list[Action]:
        """A member can not be reached any more: the others go on without it, as far as that is possible."""
        return self._without(key, now)

    def gave_up(self, key: Key, now: float) -> list[Action]:
        """A member ended this session: nothing more comes from it."""
        return self._without(key, now)

    def _without(self, key: Key, now: float) -> list[Action]:
        if self.phase is Phase.DONE or key not in self._seat.others:
            return []
        self._viewing.gone.add(key)
        if self.phase is Phase.JOINING:
            return self._join_without(key, now)
        is_needed = key in self._awaited() and not self._summing.verified
        changed = self._change_view(self._viewing.number + 1, now) if is_needed else self._lead(now)
        return [*changed, *self._advance(now)]

    def _join_without(self, key: Key, now: float) -> list[Action]:
        """Without its JOIN nobody begins; with it, others may have the certificate, and pass it on."""
        if key in self._joining.lacks:
            return self._fail(Reason.JOINS_TIMEOUT, (key,))
        if key in self._joining.missing:
            self.deadline = min(self.deadline or now, now + GRACE_S)
        return []

    def _give_up_if_hopeless(self) -> list[Action]:
        """More are lost than this group tolerates."""
        releasing, there = self._releasing, frozenset(self._seat.members) - self._viewing.gone
        could_release = len(there | releasing.released)
        could_acknowledge = len(there | releasing.acknowledged)
        if min(could_release, could_acknowledge) >= self._tolerance.threshold or self._result.asked:
            return []
        return self._fail(Reason.MASKS_TIMEOUT, tuple(sorted(self._viewing.gone)))

    def _fail(self, reason: Reason, missing: tuple[Key, ...]) -> list[Action]:
        self._close()
        return [Failed(reason, self._seat.round, missing, self.sid)]

    def _close(self) -> None:
        self.phase = Phase.DONE
        self.deadline = None
        self._early.drop()


def early_bytes(layout: Layout) -> int:
    """How much may wait for its turn: a vector's worth from all, and the small messages of all."""
    return 8 * layout.words + 64 * 1024 * layout.members


def _listed(evidence: Evidence | None) -> list[Action]:
    return [] if evidence is None else [evidence]
