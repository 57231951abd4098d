"""The joiner's side of a code: it proves the code, reads the invitation, accepts, and confirms the list.

A Place is what the joiner keeps. Each connection to the code's room gets a Guest, which moves by the table
below. After each call, keep the guest's place before you send its messages.

The guest proves the code first, so each run lets whoever answers test one guess. The place counts runs whose
proof nobody answered, and after three the code is used no more. Who accepted comes back by the secret of that
session, which nobody guesses; that costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated

from protocol.crypto.node_key import NodeKey
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.invitation.messages import (
    MAX_MESSAGE_BYTES,
    MOST_TRIES,
    OPEN,
    Accept,
    Answer,
    Invitation,
    Knock,
    Proof,
    Reason,
    Refusal,
    Sealed,
    Share,
    Standing,
    State,
)
from protocol.invitation.roster import Member, Roster, check_roster, task_digest
from protocol.invitation.sealed import (
    ACCEPT_LABEL,
    NO_SECRET,
    End,
    Exchange,
    Session,
    accepted_bytes,
    password_of,
)
from protocol.invitation.words import Code
from protocol.transitions import Course, Step, Table
from protocol.wire.dialect import Dialect
from protocol.wire.fields import Digest, Endpoint, Most, Text, Whole


@dataclass(frozen=True)
class Place:
    """What a joiner keeps. `relay`, `room`, `secret`: the code; `unanswered`: proofs that nobody answered.

    `invitation`: the one that it saw last, if any; `resumption`: the secret by which it comes back, once it
    accepted; `roster`: the closed list, once it has it.
    """

    relay: Endpoint
    room: Annotated[str, Text(5)]
    secret: Annotated[str, Text(40)]
    unanswered: Annotated[int, Whole(0, MOST_TRIES)] = 0
    invitation: Annotated[tuple[Invitation, ...], Most(1)] = ()
    resumption: Digest = NO_SECRET
    roster: Annotated[tuple[Roster, ...], Most(1)] = ()
    standing: Standing = Standing.OUTSIDE

    @property
    def may_try(self) -> bool:
        """Whether the code may be proved once more."""
        return self.standing is not Standing.OUTSIDE or self.unanswered < MOST_TRIES


PLACES: Dialect[Place] = Dialect("a joiner's place", 1, (Place,), MAX_MESSAGE_BYTES + 64 * 1024)
"""How a joiner keeps its place: an invitation, and a list, whose 64 later members take 26 kB."""


def place_of(code: Code) -> Place:
    """The place of somebody who has a code and nothing else."""
    return Place(code.relay, code.room, code.secret)


class Phase(Enum):
    """What a guest waits for."""

    ANSWER = "answer"
    SHARE = "share"
    PROOF = "proof"
    INVITATION = "invitation"
    DECISION = "decision"
    """Of its owner."""
    RECEIPT = "receipt"
    """That the inviter has its acceptance, or its answer."""
    LIST = "closed list"
    CHOICE = "choice"
    """Its owner's answer to the list."""
    END = "end"
    """The receipt of that answer."""
    OVER = "over"


class Event(Enum):
    """What happens to a guest."""

    ANSWERED = "answer"
    SHARED = "share"
    PROVED = "right proof"
    PROVED_BACK = "right proof, and this one is back"
    REFUSED = "refusal"
    INVITED = "invitation"
    UNFIT = "the data do not fit"
    ACCEPTED = "the owner accepts"
    KEPT = "state"
    KEPT_ANSWER = "state: the answer to the list"
    LISTED = "roster"
    CHOSEN = "the owner confirms or declines"


_REFUSABLE = (Phase.ANSWER, Phase.PROOF, Phase.RECEIPT)
STEPS: Table[Phase, Event] = {
    (Phase.ANSWER, Event.ANSWERED): Step(Phase.SHARE, "share"),
    (Phase.SHARE, Event.SHARED): Step(Phase.PROOF, "counts the proof; proof"),
    (Phase.PROOF, Event.PROVED): Step(Phase.INVITATION, "counts no proof any more"),
    (Phase.PROOF, Event.PROVED_BACK): Step(Phase.RECEIPT, "state"),
    (Phase.INVITATION, Event.INVITED): Step(Phase.DECISION, "keeps it"),
    (Phase.DECISION, Event.UNFIT): Step(Phase.OVER, "state: outside"),
    (Phase.DECISION, Event.ACCEPTED): Step(Phase.RECEIPT, "keeps the secret; accept"),
    (Phase.RECEIPT, Event.KEPT): Step(Phase.LIST, "nothing"),
    (Phase.RECEIPT, Event.KEPT_ANSWER): Step(Phase.OVER, "nothing"),
    (Phase.LIST, Event.LISTED): Step(Phase.CHOICE, "keeps it"),
    (Phase.CHOICE, Event.CHOSEN): Step(Phase.END, "keeps the answer; state: confirmed or declined"),
    (Phase.END, Event.KEPT_ANSWER): Step(Phase.OVER, "nothing"),
    **{(phase, Event.REFUSED): Step(Phase.OVER, "may forget its place") for phase in _REFUSABLE},
}


class Guest:
    """One connection to the room of a code. It ends with Phase.OVER, or with the first error."""

    def __init__(self, place: Place, key: NodeKey, nonce: bytes, scalar: bytes) -> None:
        """`nonce` (16 bytes), `scalar` (32): random, for this connection. The place must allow a try."""
        if not place.may_try:
            raise LocalProtocolError("a guest with a code that was proved too often without an answer")
        self.place = place
        self.refusal: Refusal | None = None
        self._key, self._nonce, self._scalar = key, nonce, scalar
        self._is_back = place.standing is not Standing.OUTSIDE
        self._course = Course(STEPS, Phase.ANSWER)
        self._held: Exchange | Session | None = None

    @property
    def phase(self) -> Phase:
        """What it waits for."""
        return self._course.phase

    def knock(self) -> bytes:
        """The first message of the connection."""
        return OPEN.write(Knock(self._nonce, self._is_back))

    def receive(self, message: bytes) -> tuple[bytes, ...]:
        """The messages that follow from the inviter's next one. Raises RemoteProtocolError."""
        said = OPEN.read(message)
        match self.phase, self._held, said:
            case Phase.ANSWER, _, Answer(nonce):
                return self._answered(nonce)
            case Phase.SHARE, Exchange() as exchange, Share(point):
                return self._shared(exchange.finish(point))
            case Phase.PROOF, Session() as session, Proof() as proof:
                return self._proved(session, session.is_proved(proof))
            case _, _, Refusal() as refusal if self._course.allows(Event.REFUSED):
                return self._refused(refusal)
            case (
                (Phase.INVITATION | Phase.RECEIPT | Phase.LIST | Phase.END),
                Session() as session,
                Sealed() as sealed,
            ):
                self._told(session.open(sealed))
                return ()
            case _:
                raise self._unexpected(said)

    def decline_to_join(self) -> tuple[bytes, ...]:
        """The data do not fit: nothing else is said, and the code stays good."""
        session = self._session(Event.UNFIT)
        return (session.seal(State(Standing.OUTSIDE)),)

    def accept(self) -> tuple[bytes, ...]:
        """The owner joins with this node's key."""
        session, invitation = self._session(Event.ACCEPTED), self.place.invitation[0]
        self.place = replace(self.place, resumption=session.resumption, standing=Standing.ACCEPTED)
        signature = self._key.sign(ACCEPT_LABEL, accepted_bytes(session, invitation))
        return (session.seal(Accept(self._key.public, signature)),)

    def answer_list(self, standing: Standing) -> tuple[bytes, ...]:
        """The owner answers the list: CONFIRMED or DECLINED."""
        session = self._session(Event.CHOSEN)
        self.place = replace(self.place, standing=standing)
        return (session.seal(State(standing)),)

    def _session(self, event: Event) -> Session:
        """The session, after a step that the owner decided."""
        if not isinstance(self._held, Session):
            raise LocalProtocolError(f"{event.name} before there is a session")
        self._course.step(event)
        return self._held

    def _answered(self, nonce: bytes) -> tuple[bytes, ...]:
        place = self.place
        password = password_of(place.secret, place.resumption)
        exchange = Exchange(End.JOINER, self._scalar, password, place.room, self._nonce + nonce)
        self._held = exchange
        self._course.step(Event.ANSWERED)
        return (OPEN.write(Share(exchange.share)),)

    def _shared(self, session: Session) -> tuple[bytes, ...]:
        self._held = session
        self._course.step(Event.SHARED)
        if not self._is_back:
            self.place = replace(self.place, unanswered=self.place.unanswered + 1)
        return (session.proof,)

    def _proved(self, session: Session, is_right: bool) -> tuple[bytes, ...]:
        if not is_right:
            raise RemoteProtocolError("whoever answers in this room does not know the code")
        if self._is_back:
            self._course.step(Event.PROVED_BACK)
            return (session.seal(State(self.place.standing)),)
        self._course.step(Event.PROVED)
        self.place = replace(self.place, unanswered=0)
        return ()

    def _refused(self, refusal: Refusal) -> tuple[bytes, ...]:
        """A refusal proves nothing. It changes nothing, but that one unknown to the inviter begins again."""
        self._course.step(Event.REFUSED)
        self.refusal = refusal
        if refusal.reason is Reason.UNKNOWN and not self.place.roster:
            self.place = replace(self.place, resumption=NO_SECRET, standing=Standing.OUTSIDE)
        return ()

    def _unexpected(self, said: object) -> RemoteProtocolError:
        return RemoteProtocolError(f"{type(said).__name__} from an inviter, instead of {self.phase.value}")

    def _told(self, message: object) -> None:
        match self.phase, message:
            case Phase.INVITATION, Invitation() as invitation:
                self._course.step(Event.INVITED)
                self.place = replace(self.place, invitation=(invitation,))
            case Phase.RECEIPT, State(Standing.ACCEPTED):
                self._course.step(Event.KEPT)
            case ((Phase.RECEIPT | Phase.END), State(standing)) if standing is self.place.standing:
                self._course.step(Event.KEPT_ANSWER)
            case Phase.LIST, Roster() as roster:
                self._listed(roster)
            case _:
                raise self._unexpected(message)

    def _listed(self, roster: Roster) -> None:
        invitation = self.place.invitation[0]
        check_roster(roster)
        check_promise(roster, invitation, Member(invitation.you, self._key.public))
        self._course.step(Event.LISTED)
        self.place = replace(self.place, roster=(roster,))


def check_promise(roster: Roster, invitation: Invitation, me: Member) -> None:
    """Raises RemoteProtocolError unless a list is the one that an invitation promised to `me`.

    Whoever invited the first members signed their list; a later member's inviter gave its word for it.
    """
    inviter, everyone = Member(invitation.inviter, invitation.inviter_key), roster.everyone
    names = {member.name for member in everyone}
    if roster.sponsor(me.key) != inviter.key or not {inviter, me} <= {*everyone}:
        raise RemoteProtocolError(
            "a list without its inviter or this node, under the names of the invitation"
        )
    if not names <= {inviter.name, me.name, *invitation.others}:
        raise RemoteProtocolError("a list with a name that the invitation does not have")
    if roster.task != task_digest(invitation.task) or roster.relays != invitation.relays:
        raise RemoteProtocolError("a list for another task or other relays than those of the invitation")
