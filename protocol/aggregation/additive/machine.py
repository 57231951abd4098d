"""The additive machine: two rounds of all-to-all, for one session (protocol, Part I, steps 2.1 to 3.4).

Invariants, in addition to the transition table `STEPS`:
- nothing sent before `Spend` depends on the vector; `Spend` comes once, before the first SUM;
- a SUM is a vote: if the group has a ballot, `Vote` comes before the first SUM, and `Keep` before `Vote`;
- after Failed or Completed the machine sends nothing, and nothing that it receives changes anything;
- `Completed` comes only when every member's sum is whole, signed, and over the same contributors.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from protocol.actions import (
    Action,
    Completed,
    Due,
    Failed,
    Keep,
    OpenVote,
    Reason,
    Send,
    Spend,
    Vote,
)
from protocol.aggregation.additive.shares import Shares
from protocol.aggregation.additive.total import Total
from protocol.aggregation.equivocation import caught
from protocol.aggregation.lacking import GRACE_S, check_lacking, complaint, lacked, withheld
from protocol.aggregation.participant import Participant
from protocol.aggregation.transfer import additive_bytes, transfer_s
from protocol.crypto.bulk_digest import bulk_digest
from protocol.crypto.sealing import Channel, derive
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.transitions import Course, Step, Table
from protocol.vectors.pieces import Vector, piece, piece_count, pieces, raw
from protocol.wire import signing
from protocol.wire.bulk import Bulk
from protocol.wire.masked_messages import Lacking
from protocol.wire.messages import Certificate, Key, Message, Share, Sid, Sum


class Phase(Enum):
    """The phase of a session."""

    NEW = "new"
    SHARES = "shares"
    SUMS = "sums"
    DONE = "done"


class Event(Enum):
    """What moves a session from one phase to the next."""

    START = "start"
    ALL_SHARES = "all n shares"
    ALL_SUMS = "all n sums"
    ENDED = "time, loss"


STEPS: Table[Phase, Event] = {
    (Phase.NEW, Event.START): Step(Phase.SHARES, "a Share, sealed, to each other member"),
    (Phase.SHARES, Event.ALL_SHARES): Step(Phase.SUMS, "Spend; one's Sum to all; Keep it"),
    (Phase.SHARES, Event.ENDED): Step(
        Phase.DONE, "Failed, the offer still fresh: T_shares is over (a Lacking to all), or somebody was lost"
    ),
    (Phase.SUMS, Event.ALL_SUMS): Step(Phase.DONE, "Completed with the Certificate"),
    (Phase.SUMS, Event.ENDED): Step(
        Phase.DONE, "Failed, the offer spent: T_sums is over, somebody was lost, or contributors differ"
    ),
}
"""The transition table. There are no other steps; the documentation draws these."""


def _header(sid: Sid, sender: Key, recipient: Key, index: int) -> bytes:
    return b"share" + sid + sender + recipient + index.to_bytes(4, "big")


@dataclass(frozen=True, slots=True, eq=False)
class SealedShare(Bulk[Share]):
    """The pieces of the share of `seed`, for one recipient."""

    sid: Sid
    sender: Key
    recipient: Key
    shares: Shares
    dimension: int
    channel: Channel
    seed: bytes = field(repr=False)

    def __len__(self) -> int:
        """The number of messages."""
        return self.shares.payload_count(self.dimension)

    def at(self, index: int) -> Share:
        """Message `index`."""
        header = _header(self.sid, self.sender, self.recipient, index)
        sealed = self.channel.seal(index, header, self.shares.payload(self.seed, self.dimension, index))
        return Share(self.sid, self.sender, self.recipient, index, sealed)


@dataclass(frozen=True, slots=True, eq=False)
class WholeSum(Bulk[Sum]):
    """The pieces of a partial sum, without a copy of the vector, which no longer changes."""

    header: Sum
    partial: Vector = field(repr=False)

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.header.pieces)

    def at(self, index: int) -> Sum:
        """Message `index`."""
        return replace(self.header, index=index, payload=raw(self.partial, piece(len(self.partial), index)))


class Additive:
    """One member of one session. Vectors are (d,) float32; `rand` is 32 secret bytes, used once.

    `first`: the members after whose sums this one sends its own. If the link between two is cut, neither can
    send one, and whoever has all shares would spend its offer for nothing.
    """

    def __init__(self, participant: Participant, shares: Shares, first: frozenset[Key] = frozenset()) -> None:
        self.participant = participant
        self._shares = shares
        self._me = participant.me
        self.sid = participant.sid
        self.members: tuple[Key, ...] = participant.members
        self._contributors = signing.contributors_hash(self.members)
        self._others = participant.others
        self._first = first
        self._got: dict[Key, set[int]] = {key: set() for key in self._others}
        self._headers: dict[Key, Sum] = {}
        self._total = Total(shares, participant.dimension, self.members)
        self._accumulator: Vector | None = None
        self.shares_since = self.sums_since = 0.0
        self._clipped = 0
        self._arriving: set[Key] = set()
        """The members of which something has come, or is on its way, in this half."""
        self._goes_on = False
        """Whether this half goes on for what is on its way."""
        self._complaints: dict[Key, Lacking] = {}
        """What each member, this one too, has said of the shares that it lacks: it cannot send a sum."""
        self._course = Course(STEPS, Phase.NEW)
        self._fails_at = 0.0
        """When this half is over; `deadline` may come before."""
        self.deadline: float | None = None

    @property
    def phase(self) -> Phase:
        """The phase of this session."""
        return self._course.phase

    @property
    def headers(self) -> Mapping[Key, Sum]:
        """The signed headers of the sums seen so far, by member."""
        return self._headers

    @property
    def stage(self) -> str:
        """The half of the session, "shares" or "sums", as a node's figures name it."""
        return "shares" if self.phase in (Phase.NEW, Phase.SHARES) else "sums"

    def start(self, vector: Vector, rand: bytes, now: float) -> list[Action]:
        """Send one sealed share to every other member (round 2).

        Raises NotFiniteError, and sends nothing, if the vector holds a NaN or an infinity.
        """
        if self.phase is not Phase.NEW:
            raise LocalProtocolError("a session starts once")
        shares = self._shares
        accumulator, self._clipped = shares.encode(vector, derive(rand, b"rounding"))
        sends: list[Action] = []
        for key in self._others:
            seed = derive(rand, b"mask", key)
            shares.subtract(accumulator, seed)
            channel, dimension = self.participant.channel(self._me, key), self.participant.dimension
            sealed = SealedShare(self.sid, self._me, key, shares, dimension, channel, seed=seed)
            sends.append(Send(key, sealed, bulk=True))
        self._accumulator = accumulator
        self._course.step(Event.START)
        self.shares_since = now
        self._await(now + self.participant.timeouts.shares_s)
        return sends

    def _await(self, until: float) -> None:
        self._arriving, self._goes_on = set(), False
        self.deadline = self._fails_at = until

    def takes(self, message: Message) -> bool:
        """Whether the message is one of this session."""
        return isinstance(message, Share | Sum | Lacking) and message.sid == self.sid

    def receive(self, message: Message, now: float) -> list[Action]:
        """Process a message. Raises RemoteProtocolError, and changes nothing, if it is invalid."""
        if self.phase is Phase.DONE or self._accumulator is None:
            raise RemoteProtocolError(f"{type(message).__name__} for a session that is not running")
        if (
            not isinstance(message, Share | Sum | Lacking)
            or message.sid != self.sid
            or message.sender not in self._got
        ):
            raise RemoteProtocolError(f"{type(message).__name__} of another session or sender")
        match message:
            case Share():
                return self._receive_share(message, self._accumulator, now)
            case Sum():
                return self._receive_sum(message, self._accumulator, now)
            case _:  # whose shares its sender lacks: until they reach it, it owes no sum
                if message.sender in self._complaints:
                    raise RemoteProtocolError("a LACKING that is here already")
                check_lacking(message, self.participant)
                self._complaints[message.sender] = message
                return []

    def _receive_share(self, share: Share, accumulator: Vector, now: float) -> list[Action]:
        got = self._got[share.sender]
        count = self._shares.payload_count(self.participant.dimension)
        if self.phase is not Phase.SHARES or share.recipient != self._me:
            raise RemoteProtocolError("a share in the wrong phase or for another member")
        if share.index >= count or share.index in got:
            raise RemoteProtocolError(f"share piece {share.index} is out of range or here already")
        header = _header(self.sid, share.sender, self._me, share.index)
        plain = self.participant.channel(share.sender, self._me).open(share.index, header, share.payload)
        self._shares.absorb(accumulator, share.index, plain)
        self._arriving.add(share.sender)
        got.add(share.index)
        if self._lacking:
            return []
        self._await(now + self.participant.timeouts.shares_s + self.participant.timeouts.sums_s)
        return self._go_on(accumulator, now)

    def _go_on(self, accumulator: Vector, now: float) -> list[Action]:
        """Send this member's sum if it has waited for all shares, and for the sums of those that go first."""
        waits = self.phase is not Phase.SHARES or self.waiting_for()
        return [] if waits else self._send_sums(accumulator, now)

    @property
    def _lacking(self) -> tuple[Key, ...]:
        """The members whose share is not whole yet."""
        count = self._shares.payload_count(self.participant.dimension)
        return tuple(key for key in self._others if len(self._got[key]) < count)

    def _send_sums(self, partial: Vector, now: float) -> list[Action]:
        """Send this member's partial sum: from here on nothing may change the vector."""
        partial.flags.writeable = False
        self._step(Event.ALL_SHARES)
        self.sums_since = now
        self._await(now + self.participant.timeouts.sums_s)
        digests = tuple(bulk_digest(raw(partial, part)) for _, part in pieces(len(partial)))
        unsigned = Sum(self.sid, self._me, self._contributors, digests, b"")
        self._headers[self._me] = header = signing.sign(unsigned, self.participant.key)
        for index, part in pieces(len(partial)):
            self._total.add(self._me, index, raw(partial, part))
        spend = Spend(self.sid, self.participant.round, self._clipped)
        whole = WholeSum(header, partial)
        sends = [Send(key, whole, bulk=True) for key in self._others]
        if self.participant.ballot is None:
            return [spend, *sends, Keep(whole), *self._result()]
        group, own = self.participant.group, Certificate(self.sid, (header,))
        vote = Vote(OpenVote(self.sid, group.base.anchor, group, own, parts=whole))
        return [spend, Keep(whole), vote, *sends, *self._result()]

    def _receive_sum(self, message: Sum, accumulator: Vector, now: float) -> list[Action]:
        header = message.header
        known = self._headers.get(message.sender)
        if header != known:
            signing.verify(message, message.sender)
            if known is not None:
                return [caught(known, header)]
            if message.contributors != self._contributors:
                return self._fail(Reason.CONTRIBUTORS_DIFFER, (message.sender,))
        check_piece(message, self.participant.dimension)
        self._total.add(message.sender, message.index, message.payload)
        self._headers[message.sender] = header
        if not self._lacking:
            self._arriving.add(message.sender)
        if self.phase is Phase.SHARES and self._me not in self._complaints:
            self.deadline = min(self.deadline or now, now + GRACE_S)  # its sender has all shares
        return [Keep((message,)), *self._go_on(accumulator, now), *self._result()]

    def _result(self) -> list[Action]:
        if self.phase is not Phase.SUMS or self._total.missing():
            return []
        self._step(Event.ALL_SUMS)
        result = self._total.result()
        certificate = Certificate(self.sid, tuple(self._headers[key] for key in self.members))
        participant = self.participant
        return [Completed(participant.group, participant.round, result, self.members, certificate)]

    def awaits_only(self, message: Message) -> bool:
        """False: each share and sum carries a part of the vector itself."""
        return False

    def waiting_for(self) -> tuple[Key, ...]:
        """The members whose share, or in the second half or before one's own whose sum, is not whole yet."""
        match self.phase:
            case Phase.SHARES:
                return self._lacking or tuple(key for key in self._total.missing() if key in self._first)
            case Phase.SUMS:
                return self._total.missing()
            case _:
                return ()

    def unreachable(self, key: Key, now: float) -> list[Action]:
        """A member cannot be reached: the session fails at once unless its whole sum is here.

        Of three, say so: the third cannot do without either. Of more, all may say it of one that has died,
        which would then seem to contradict them.
        """
        owing = (key,) if key in self.waiting_for() else ()
        said = self._complain(owing) if len(self._others) == 2 else []
        return [*said, *self._without(key, (key,), owing)]

    def arriving(self, key: Key) -> None:
        """Bulk of a member is on its way here, and slow."""
        self._arriving.add(key)

    def gave_up(self, key: Key, now: float) -> list[Action]:
        """A member ended this session: so does this one, naming the other members that it waited for.

        Before it has all shares, a member may end because another withheld one from it: it owes nothing yet.
        Whose share is missing there and here owes it.
        """
        late = tuple(each for each in self.waiting_for() if each != key)
        if not self._lacking:
            return self._without(key, late or (key,), (key,))
        lacks = lacked(self._complaints, self.participant).get(key, ())
        owing = tuple(each for each in late if each in lacks)
        return [*self._complain(owing), *self._without(key, late or (key,), owing)]

    def finished(self, key: Key, now: float) -> list[Action]:
        """Nothing to do: only the certificate replaces a missing sum, and the node fetches it afterwards."""
        return []

    def _without(self, key: Key, missing: tuple[Key, ...], owing: tuple[Key, ...]) -> list[Action]:
        if self.phase in (Phase.NEW, Phase.DONE) or key not in self._total.missing():
            return []
        return self._fail(self._late, missing, owing)

    def tick(self, now: float) -> list[Action]:
        """Say which shares are missing; end the session if its time is over.

        That moves once, for what is on its way.
        """
        if self.deadline is None or now < self.deadline:
            return []
        late, participant = self.waiting_for(), self.participant
        silent = tuple(key for key in late if key not in self._arriving)
        if now < self._fails_at:
            self.deadline = self._fails_at
            return self._complain(silent)
        size = additive_bytes(participant.dimension, len(self.members))
        takes_s = transfer_s(size, participant.timeouts.least_rate)
        if self._goes_on or silent or not takes_s:
            return [*self._complain(late), *self._fail(self._late, late, silent or late)]
        self._goes_on = True
        self._fails_at += takes_s
        self.deadline = self._fails_at
        return []

    def _complain(self, late: tuple[Key, ...]) -> list[Action]:
        """Tell the others, once, whose shares are missing here: until they come, it owes nobody a sum."""
        if self.phase is not Phase.SHARES or not late or self._me in self._complaints:
            return []
        self._complaints[self._me] = mine = complaint(self.participant, late)
        return [Send(key, (mine,)) for key in self._others]

    @property
    def _late(self) -> Reason:
        return Reason.SHARES_TIMEOUT if self.phase is Phase.SHARES else Reason.SUMS_TIMEOUT

    def _fail(self, reason: Reason, missing: tuple[Key, ...], owing: tuple[Key, ...] = ()) -> list[Action]:
        due = Due.SHARE if self._lacking else Due.SUM
        found = withheld(self.participant, due, owing, self._complaints)
        self._step(Event.ENDED)
        return [Failed(reason, self.participant.round, missing, self.sid, found)]

    def _step(self, event: Event) -> None:
        self._course.step(event)
        if self.phase is Phase.DONE:
            self.deadline = None


def check_piece(message: Sum, dimension: int) -> None:
    """Raises RemoteProtocolError unless the piece is the one that its signed header names."""
    if len(message.pieces) != piece_count(dimension) or message.index >= len(message.pieces):
        raise RemoteProtocolError(f"a sum of {len(message.pieces)} pieces, piece {message.index}")
    digest = bulk_digest(message.payload)
    if not hmac.compare_digest(digest, message.pieces[message.index]):
        raise RemoteProtocolError(f"piece {message.index} of a sum is not what its header names")
