"""The inviter's side of one code: it lets in whoever knows the code, once, and counts wrong tries.

A Seat is what the inviter keeps of a code. Each connection of the code's room gets a Host, which moves by the
table below. After each call, keep the host's seat before you send its messages: then a crash gives nobody a
try more, and nobody who was told that it joined is forgotten.

A wrong proof costs one of three tries. An accepted seat knows the joiner's key and the secret of their
session; only who has this secret may come back to it. Who knows the code of a taken seat is told so, as the
person for whom the code was made must learn that somebody else used it. Two may be in the room at once: the
seat is that of the first who accepts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated

from protocol.crypto.node_key import verify
from protocol.errors import RemoteProtocolError
from protocol.invitation.messages import (
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
from protocol.invitation.roster import Roster
from protocol.invitation.sealed import (
    ACCEPT_LABEL,
    NO_SECRET,
    End,
    Exchange,
    Session,
    accepted_bytes,
    password_of,
)
from protocol.transitions import Course, Step, Table
from protocol.wire.dialect import Dialect
from protocol.wire.fields import Count, Digest, Name, Text, Whole
from protocol.wire.ids import NOBODY, Key

LIFE_S = 24 * 3600
"""How long a code is good."""


@dataclass(frozen=True)
class Seat:
    """What an inviter keeps of a code. `secret`: the words; `until`: Unix time (s); `tries`: wrong ones left.

    `key` is NOBODY until somebody accepted; then `resumption` is the secret by which it comes back.
    """

    name: Name
    room: Annotated[str, Text(5)]
    secret: Annotated[str, Text(40)]
    until: Count
    tries: Annotated[int, Whole(0, MOST_TRIES)] = MOST_TRIES
    key: Key = NOBODY
    resumption: Digest = NO_SECRET
    standing: Standing = Standing.OUTSIDE

    @property
    def is_taken(self) -> bool:
        """Whether somebody accepted."""
        return self.key != NOBODY


SEATS: Dialect[Seat] = Dialect("an inviter's seat", 1, (Seat,), 1024)
"""How an inviter keeps a seat."""


class News(Enum):
    """What a host tells the inviter's owner."""

    WRONG = "somebody used a wrong code"
    REUSED = "somebody used the right code of a seat that is taken"
    INVITED = "somebody with the right code reads the invitation"
    MISFIT = "its data do not fit yet"
    JOINED = "it accepted"
    BACK = "it came back"
    ANSWERED = "it confirmed or declined the list"


class Phase(Enum):
    """What a host waits for."""

    KNOCK = "knock"
    SHARE = "share"
    PROOF = "proof"
    REPLY = "reply"
    """To the invitation."""
    RETURN = "state"
    """Of one who is back."""
    LIST = "closed list"
    ANSWER = "answer"
    """To the list."""
    OVER = "over"


class Event(Enum):
    """What happens to a host."""

    KNOCKED = "knock"
    TURNED_AWAY = "knock, and nobody may come in"
    SHARED = "share"
    FAILED = "wrong proof"
    PROVED = "right proof"
    PROVED_LATE = "right proof, and the seat is taken"
    PROVED_BACK = "right proof of one who is back"
    UNFIT = "state: outside"
    ACCEPTED = "accept"
    ACCEPTED_LATE = "accept, and the seat is taken or the list is closed"
    RETURNED = "state of one who is back"
    CLOSED = "the list is closed"
    SETTLED = "nothing is left to say"
    ANSWERED = "state: confirmed or declined"


STEPS: Table[Phase, Event] = {
    (Phase.KNOCK, Event.KNOCKED): Step(Phase.SHARE, "answer"),
    (Phase.KNOCK, Event.TURNED_AWAY): Step(Phase.OVER, "refusal: burnt, used, expired or unknown"),
    (Phase.SHARE, Event.SHARED): Step(Phase.PROOF, "share"),
    (Phase.PROOF, Event.FAILED): Step(Phase.OVER, "a try is gone, unless one is back; refusal: wrong"),
    (Phase.PROOF, Event.PROVED): Step(Phase.REPLY, "proof, invitation"),
    (Phase.PROOF, Event.PROVED_LATE): Step(Phase.OVER, "refusal: used"),
    (Phase.PROOF, Event.PROVED_BACK): Step(Phase.RETURN, "proof"),
    (Phase.REPLY, Event.UNFIT): Step(Phase.OVER, "nothing; the code stays good"),
    (Phase.REPLY, Event.ACCEPTED): Step(Phase.LIST, "keeps key and secret; state"),
    (Phase.REPLY, Event.ACCEPTED_LATE): Step(Phase.OVER, "refusal: used or expired"),
    (Phase.RETURN, Event.RETURNED): Step(Phase.LIST, "keeps the standing; state"),
    (Phase.LIST, Event.CLOSED): Step(Phase.ANSWER, "roster"),
    (Phase.LIST, Event.SETTLED): Step(Phase.OVER, "nothing"),
    (Phase.ANSWER, Event.ANSWERED): Step(Phase.OVER, "keeps the standing; state"),
}


@dataclass(frozen=True)
class Turn:
    """What follows: messages to send, in their order, and what to tell the owner."""

    send: tuple[bytes, ...] = ()
    news: News | None = None


class Host:
    """One connection of the room of a code. It ends with Phase.OVER, or with the first error."""

    def __init__(
        self, seat: Seat, invitation: Invitation, roster: Roster | None, nonce: bytes, scalar: bytes
    ) -> None:
        """`roster`: the list, once closed. `nonce` (16 bytes), `scalar` (32): random, for this connection.

        `seat`: as it is kept; set it again before each message if another connection may have changed it.
        """
        self.seat = seat
        self._invitation, self._roster = invitation, roster
        self._nonce, self._scalar = nonce, scalar
        self._course = Course(STEPS, Phase.KNOCK)
        self._is_back = False
        self._held: Exchange | Session | None = None

    @property
    def phase(self) -> Phase:
        """What it waits for."""
        return self._course.phase

    def receive(self, message: bytes, now: int) -> Turn:
        """What follows from the joiner's next message. `now`: Unix time (s). Raises RemoteProtocolError."""
        said = OPEN.read(message)
        match self.phase, self._held, said:
            case Phase.KNOCK, _, Knock(nonce, is_back):
                return self._knocked(nonce, is_back, now)
            case Phase.SHARE, Exchange() as exchange, Share(point):
                self._held = exchange.finish(point)
                self._course.step(Event.SHARED)
                return Turn((OPEN.write(Share(exchange.share)),))
            case Phase.PROOF, Session() as session, Proof() as proof:
                return self._proved(session, session.is_proved(proof))
            case ((Phase.REPLY | Phase.RETURN | Phase.ANSWER), Session() as session, Sealed() as sealed):
                return self._told(session, session.open(sealed))
            case _:
                raise self._unexpected(said)

    def close_list(self, roster: Roster) -> Turn:
        """The list is closed: nobody accepts from now on, and who accepted gets it."""
        self._roster = roster
        match self.phase, self._held:
            case Phase.LIST, Session() as session:
                return Turn(self._show_list(session))
            case _:
                return Turn()

    def _knocked(self, nonce: bytes, is_back: bool, now: int) -> Turn:
        reason = self._refusal(is_back, now)
        if reason is not None:
            return self._refuse(Event.TURNED_AWAY, reason)
        self._is_back = is_back
        password = password_of(self.seat.secret, self.seat.resumption if is_back else NO_SECRET)
        self._held = Exchange(End.INVITER, self._scalar, password, self.seat.room, nonce + self._nonce)
        self._course.step(Event.KNOCKED)
        return Turn((OPEN.write(Answer(self._nonce)),))

    def _refusal(self, is_back: bool, now: int) -> Reason | None:
        seat = self.seat
        if seat.is_taken:
            return None if is_back or seat.tries else Reason.USED
        if not seat.tries:
            return Reason.BURNT
        if now >= seat.until or self._roster is not None:
            return Reason.EXPIRED
        return Reason.UNKNOWN if is_back else None

    def _refuse(self, event: Event, reason: Reason, news: News | None = None) -> Turn:
        self._course.step(event)
        return Turn((OPEN.write(Refusal(reason, self.seat.tries)),), news)

    def _proved(self, session: Session, is_right: bool) -> Turn:
        if not is_right:
            if self._is_back:
                return self._refuse(Event.FAILED, Reason.WRONG)
            self.seat = replace(self.seat, tries=self.seat.tries - 1)
            return self._refuse(Event.FAILED, Reason.WRONG, News.WRONG)
        if self._is_back:
            self._course.step(Event.PROVED_BACK)
            return Turn((session.proof,))
        if self.seat.is_taken:
            return self._refuse(Event.PROVED_LATE, Reason.USED, News.REUSED)
        self._course.step(Event.PROVED)
        return Turn((session.proof, session.seal(self._invitation)), News.INVITED)

    def _unexpected(self, said: object) -> RemoteProtocolError:
        return RemoteProtocolError(f"{type(said).__name__} from a joiner, instead of {self.phase.value}")

    def _told(self, session: Session, message: object) -> Turn:
        match self.phase, message:
            case Phase.REPLY, State(Standing.OUTSIDE):
                self._course.step(Event.UNFIT)
                return Turn((), News.MISFIT)
            case Phase.REPLY, Accept() as accept:
                return self._accepted(session, accept)
            case Phase.RETURN, State(standing) if self._may_be(standing):
                self._course.step(Event.RETURNED)
                return Turn((self._kept(session, standing), *self._show_list(session)), News.BACK)
            case Phase.ANSWER, State(Standing.CONFIRMED | Standing.DECLINED as standing):
                self._course.step(Event.ANSWERED)
                return Turn((self._kept(session, standing),), News.ANSWERED)
            case _:
                raise self._unexpected(message)

    def _may_be(self, standing: Standing) -> bool:
        """Whether one who is back may stand there: it accepted, and has seen no list but a closed one."""
        return standing is Standing.ACCEPTED or (standing > Standing.ACCEPTED and self._roster is not None)

    def _accepted(self, session: Session, accept: Accept) -> Turn:
        verify(accept.key, ACCEPT_LABEL, accepted_bytes(session, self._invitation), accept.signature)
        if self.seat.is_taken:
            return self._refuse(Event.ACCEPTED_LATE, Reason.USED, News.REUSED)
        if self._roster is not None:
            return self._refuse(Event.ACCEPTED_LATE, Reason.EXPIRED)
        self._course.step(Event.ACCEPTED)
        self.seat = replace(self.seat, key=accept.key, resumption=session.resumption)
        return Turn((self._kept(session, Standing.ACCEPTED),), News.JOINED)

    def _kept(self, session: Session, standing: Standing) -> bytes:
        """Keeps the standing; an answer to the list is final. Returns the message that says what is kept."""
        if self.seat.standing <= Standing.ACCEPTED:
            self.seat = replace(self.seat, standing=standing)
        return session.seal(State(self.seat.standing))

    def _show_list(self, session: Session) -> tuple[bytes, ...]:
        """The list, if it is closed and the joiner has not answered it."""
        if self.seat.standing > Standing.ACCEPTED:
            self._course.step(Event.SETTLED)
            return ()
        if self._roster is None:
            return ()
        self._course.step(Event.CLOSED)
        return (session.seal(self._roster),)
