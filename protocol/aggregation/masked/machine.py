"""The masked machine: one member of one session that survives dropouts (protocol, Part II).

What must stay true, beside the table of its steps (protocol.aggregation.masked.phases):
- nothing sent before `Spend` depends on the vector; `Spend` comes once, with the certificate of all joins;
- after Failed or Completed nothing is ever sent, and nothing received changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from protocol.actions import Action, Failed, Reason, Send
from protocol.aggregation.early_buffer import Early
from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.masked.key_setup import Joining
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.mask_keys import self_seed
from protocol.aggregation.masked.phases import STEPS, Event, Phase
from protocol.aggregation.masked.rounds import MaskedReply, Masking, SummedMessage
from protocol.aggregation.masked.thresholds import Tolerance
from protocol.aggregation.masked.vector import MaskedVector, masks_of
from protocol.aggregation.masked.view import NotYet
from protocol.aggregation.participant import Seat
from protocol.crypto.sealing import derive
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.transitions import Course
from protocol.vectors.pieces import Floats
from protocol.wire.ids import NOBODY, Key
from protocol.wire.masked_messages import Join, JoinCertificate, Joined, MaskedMessage, sender_of, session_of
from protocol.wire.messages import Message, Sum

GRACE_S = 2.0


class DoubleMasked:
    """One member of one session. Vectors are (d,) float32; `rand` is 32 secret bytes, used once."""

    def __init__(self, seat: Seat, tolerance: Tolerance, point: FixedPoint, layout: Layout) -> None:
        self._tolerance = tolerance
        self._point = point
        self._layout = layout
        self._early = Early(early_bytes(layout) // layout.members)
        self._gone: set[Key] = set()
        self._offer: tuple[Floats, bytes] | None = None
        self._clipped = 0
        self._masking: Masking | None = None
        self._course = Course(STEPS, Phase.NEW)
        self.seat = seat
        self.shares_since = self.sums_since = 0.0
        self.deadline: float | None = None

    @property
    def _over(self) -> bool:
        return self._course.phase is Phase.DONE

    @property
    def headers(self) -> Mapping[Key, Sum]:
        """There are no signed sums here."""
        return {}

    @property
    def stage(self) -> str:
        """The half of a session that this one is in, as a node's figures name them."""
        return "shares" if self._masking is None else "sums"

    def takes(self, message: Message) -> bool:
        """Everything masked of this session; replies only where something was asked for."""
        if isinstance(message, MaskedReply):
            return message.sid == self.seat.sid and self._masking is not None and self._masking.expects
        return isinstance(message, MaskedMessage) and session_of(message) == self.seat.sid

    def awaits_only(self, message: Message) -> bool:
        """Whether this is the last total, which has the check behind it, or the last release, which opens."""
        return self._masking is not None and self._masking.awaits_only(message)

    def waiting_for(self) -> tuple[Key, ...]:
        """Who is waited for, at this step."""
        if self._over:
            return ()
        return self._joining.missing if self._masking is None else self._masking.waiting_for()

    # -- joining -----------------------------------------------------------------------------------

    def start(self, vector: Floats, rand: bytes, now: float) -> list[Action]:
        """A JOIN to every other member. NotFiniteError leaves nothing sent."""
        if self._course.phase is not Phase.NEW:
            raise LocalProtocolError("a session starts once")
        self._clipped = self._point.clipped(vector)
        self._offer = vector, derive(rand, b"rounding")
        self._joining = Joining(self.seat, self._tolerance, derive(rand, b"joining"))
        self._course.step(Event.START)
        self.shares_since = now
        self.deadline = now + self.seat.shares_timeout_s
        return [Send(key, (self._joining.join(key),)) for key in self.seat.others]

    def _take_joining(self, message: Join | Joined | JoinCertificate, now: float) -> list[Action]:
        if self._masking is not None:
            return []  # the last votes and the echoes come when the certificate is here
        vote, evidence = self._joining.take(message)
        self._heard(message)
        sends = self._to_all(vote) if vote is not None else []
        if vote is not None:
            self._course.step(Event.ALL_JOINS)
            self.deadline = (self.deadline or now) + GRACE_S
        if evidence is not None:
            return [*sends, evidence, *self._fail(Reason.CAUGHT, (evidence.sender,))]
        certificate = self._joining.certificate
        return [*sends, *(self._mask(certificate, now) if certificate is not None else [])]

    def _to_all(self, message: MaskedMessage) -> list[Action]:
        return [Send(key, (message,)) for key in self.seat.others]

    def _mask(self, certificate: JoinCertificate, now: float) -> list[Action]:
        """The certificate is passed on; then the offer is spent, and goes out under its masks."""
        begun = self._to_all(certificate)
        self._course.step(Event.CERTIFICATE)
        parts = (self.seat, self._tolerance, self._layout, self._point, self._joining)
        self._masking = masking = Masking(*parts, vector=self._masked(), course=self._course, now=now)
        self.sums_since = now
        begun += masking.open(self._clipped, now)
        gone = masking.lost(self._gone, now) if self._gone else []
        return self._replayed([*begun, *gone], now)

    def _masked(self) -> MaskedVector:
        seat, joining, offer = self.seat, self._joining, self._offer
        if offer is None:
            raise LocalProtocolError("masks without an offer")
        own_seed = self_seed(joining.self_secret, seat.sid, seat.me)
        pair_seeds = [joining.pair_seeds.get(key) for key in seat.members]
        x, rounding = offer
        self._offer = None
        masks = masks_of(seat.number, own_seed, pair_seeds, rounding)
        return MaskedVector(x, masks, self._point, self._layout, seat.key, seat.sid)

    # -- messages ----------------------------------------------------------------------------------

    def receive(self, message: Message, now: float) -> list[Action]:
        """Take in one message; RemoteProtocolError, and nothing changed, if it does not belong here."""
        if not isinstance(message, MaskedMessage | MaskedReply) or self._over or not self.takes(message):
            raise RemoteProtocolError(f"{type(message).__name__} for a session that is not running")
        masking = self._masking
        if isinstance(message, MaskedReply):
            return [] if masking is None else self._settled(masking.reply(message, now))
        sender = sender_of(message)
        if sender is not None and sender not in self.seat.others:
            raise RemoteProtocolError(f"{type(message).__name__} of somebody who is not in this session")
        if isinstance(message, Join | Joined | JoinCertificate):
            return self._take_joining(message, now)
        return self._take_masked(message, masking, now)

    def _heard(self, message: MaskedMessage) -> None:
        """Its sender is there, whatever was said of it: told once a message is verified, not before."""
        sender = sender_of(message)
        if sender is not None:
            self._gone.discard(sender)
            if self._masking is not None:
                self._masking.heard(sender)

    def _take_masked(self, message: SummedMessage, masking: Masking | None, now: float) -> list[Action]:
        if masking is None:
            self._early.hold(message, sender_of(message) or NOBODY, is_expected=True)
            return []
        try:
            actions = self._changed(masking, lambda: masking.receive(message, now), now)
        except NotYet:
            self._early.hold(message, sender_of(message) or NOBODY, is_expected=True)
            return []
        self._heard(message)
        return actions

    def _changed(self, masking: Masking, event: Callable[[], list[Action]], now: float) -> list[Action]:
        """After an event: in another view, or once a chunk is disputed, what came too early may count."""
        before = masking.takes_in
        actions = event()
        return self._settled(actions) if masking.takes_in == before else self._replayed(actions, now)

    def _replayed(self, actions: list[Action], now: float) -> list[Action]:
        """After a change: what came too early is taken in now."""
        settled = self._settled(actions)
        for message in self._early.take(self.seat.sid):
            if not self._over:
                with suppress(RemoteProtocolError):
                    settled += self.receive(message, now)
        return settled

    def _settled(self, actions: list[Action]) -> list[Action]:
        """Take note of how it ends, or of when something is due."""
        masking = self._masking
        if masking is None or self._over:
            self._close()
        else:
            self.deadline = masking.deadline
        return actions

    # -- time and loss -----------------------------------------------------------------------------

    def tick(self, now: float) -> list[Action]:
        """What is due."""
        if self.deadline is None or now < self.deadline:
            return []
        masking = self._masking
        if masking is None:
            return self._fail(Reason.JOINS_TIMEOUT, self._joining.missing)
        return self._changed(masking, lambda: masking.tick(now), now)

    def unreachable(self, key: Key, now: float) -> list[Action]:
        """A member can not be reached any more: the others go on without it, as far as that is possible."""
        if self._over or key not in self.seat.others:
            return []
        self._gone.add(key)
        masking = self._masking
        if masking is None:
            return self._join_without(key, now)
        return self._changed(masking, lambda: masking.lost((key,), now), now)

    def gave_up(self, key: Key, now: float) -> list[Action]:
        """A member ended this session: nothing more comes from it."""
        return self.unreachable(key, now)

    def finished(self, key: Key, now: float) -> list[Action]:
        """A member shows the base that this session made: ask it for the certificate."""
        return self._masking.finished(key) if self._masking is not None and not self._over else []

    def _join_without(self, key: Key, now: float) -> list[Action]:
        """Without its JOIN nobody begins; with it, others may have the certificate, and pass it on.

        That soon, or not at all: who lacks what the lost one sent to this member has gone to another group,
        and says so to its coordinator alone.
        """
        if key in self._joining.lacks:
            return self._fail(Reason.JOINS_TIMEOUT, (key,))
        self.deadline = min(self.deadline or now, now + GRACE_S)
        return []

    def _fail(self, reason: Reason, missing: tuple[Key, ...]) -> list[Action]:
        self._course.step(Event.ENDED)
        self._close()
        return [Failed(reason, self.seat.round, missing, self.seat.sid)]

    def _close(self) -> None:
        self.deadline = None
        self._early.drop()


def early_bytes(layout: Layout) -> int:
    """How much may wait for its turn: a vector's worth from all, and the small messages of all."""
    return 8 * layout.words + 64 * 1024 * layout.members
