"""The masked machine: one member of one session that survives dropouts (protocol, Part II).

The member agrees with the others on all members' keys, then continues with `rounds`, which has its own
transition table. In a run of steps, each later step is a session of its own that begins with the rounds: its
keys were agreed on in the first one.

Invariants, in addition to the transition table:
- nothing sent before `Spend` depends on the vector; `Spend` comes once, with the certificate of all joins;
- after Failed or Completed the machine sends nothing, and nothing that it receives changes anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import Enum

from protocol.actions import Action, Due, Failed, Reason, Send, Withheld
from protocol.aggregation.lacking import GRACE_S
from protocol.aggregation.masked.chunks import MaskedVector, masks_of
from protocol.aggregation.masked.key_setup import KeySetup
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.mask_keys import self_seed
from protocol.aggregation.masked.rounds import MaskedReply, MaskedRounds, SummedMessage
from protocol.aggregation.masked.step_keys import StepKeys
from protocol.aggregation.masked.thresholds import Scheme
from protocol.aggregation.masked.view_change import NotYet
from protocol.aggregation.participant import Participant
from protocol.aggregation.reorder_buffer import ReorderBuffer
from protocol.crypto.sealing import derive
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.transitions import Course, Step, Table
from protocol.vectors.pieces import Vector
from protocol.vectors.shelf import Shelf
from protocol.wire.ids import NOBODY, Key
from protocol.wire.masked_messages import (
    Joined,
    Lacking,
    MaskedMessage,
    ReleaseHead,
    SetupMessage,
    sender_of,
    session_of,
)
from protocol.wire.messages import Message


class Phase(Enum):
    """The phase of a session."""

    NEW = "new"
    JOINS = "joins"
    VOTES = "votes"
    ROUNDS = "rounds"
    DONE = "done"


class Event(Enum):
    """What moves a session from one phase to the next."""

    START = "start"
    CONTINUED = "a later step of a run"
    ALL_JOINS = "all n Joins"
    CERTIFICATE = "all n votes"
    OVER = "the rounds are over"
    ENDED = "time, loss, a lie"


STEPS: Table[Phase, Event] = {
    (Phase.NEW, Event.START): Step(Phase.JOINS, "a Join to each other member"),
    (Phase.NEW, Event.CONTINUED): Step(Phase.ROUNDS, "Spend; Masked chunks to who adds them up"),
    (Phase.JOINS, Event.ALL_JOINS): Step(Phase.VOTES, "Joined to all; there is a grace of 2 s for the votes"),
    (Phase.JOINS, Event.ENDED): Step(Phase.DONE, "Failed, the offer still fresh; Evidence of who lied"),
    (Phase.VOTES, Event.CERTIFICATE): Step(
        Phase.ROUNDS,
        "JoinCertificate to all, be it one's own or another's; Spend; Masked chunks to who adds them up",
    ),
    (Phase.VOTES, Event.ENDED): Step(Phase.DONE, "Failed, the offer still fresh; Evidence of who lied"),
    (Phase.ROUNDS, Event.OVER): Step(Phase.DONE, "Completed or Failed, as the rounds ended"),
}
"""There are no other steps."""


class DoubleMasked:
    """One member of one session. Vectors are (d,) as the encoding takes them; `rand` is 32 secret bytes.

    `steps`: those of the run that the session begins. `setup`: the keys of the run that it continues.
    """

    def __init__(
        self, participant: Participant, scheme: Scheme, steps: int = 1, setup: KeySetup | None = None
    ) -> None:
        self._steps = steps
        self._setup = setup
        self._scheme = scheme
        self._early = ReorderBuffer(early_bytes(scheme.layout) // scheme.layout.members)
        self._gone: set[Key] = set()
        self._heads: dict[Key, ReleaseHead] = {}
        self._offer: tuple[Vector, bytes] | None = None
        self._clipped = 0
        self._fails_at = math.inf
        """When the session fails here unless all have joined."""
        self._arriving: set[Key] = set()
        """The members whose JOINs are on their way here, and slow."""
        self._rounds: MaskedRounds | None = None
        self._course = Course(STEPS, Phase.NEW)
        self.participant = participant
        self.shares_since = self.sums_since = 0.0
        self.deadline: float | None = None

    @property
    def _over(self) -> bool:
        return self._course.phase is Phase.DONE

    @property
    def steps_left(self) -> int:
        """The steps that the run has after this one."""
        return self._steps - self.participant.group.step - 1

    def following(self, participant: Participant) -> DoubleMasked:
        """The machine of the run's next step, in which this member is `participant`; it has not started."""
        if self._setup is None or self.steps_left < 1:
            raise LocalProtocolError("a run that has no further step")
        layout = replace(self._scheme.layout, dimension=participant.dimension)
        return DoubleMasked(participant, replace(self._scheme, layout=layout), self._steps, self._setup)

    @property
    def headers(self) -> Mapping[Key, ReleaseHead]:
        """The signed head of the first release of each other member."""
        return self._heads

    @property
    def stage(self) -> str:
        """The half of the session, "shares" or "sums", as a node's figures name it."""
        return "shares" if self._rounds is None else "sums"

    def takes(self, message: Message) -> bool:
        """Whether it is a masked message of this session, or a reply while this member expects one."""
        if isinstance(message, MaskedReply):
            return message.sid == self.participant.sid and self._rounds is not None and self._rounds.expects
        return isinstance(message, MaskedMessage) and session_of(message) == self.participant.sid

    def awaits_only(self, message: Message) -> bool:
        """Whether this is the last total, which starts the check, or the last release, which opens all."""
        return self._rounds is not None and self._rounds.awaits_only(message)

    def waiting_for(self) -> tuple[Key, ...]:
        """The members that this step waits for."""
        if self._over:
            return ()
        return self._joining.missing if self._rounds is None else self._rounds.waiting_for()

    # -- joining -----------------------------------------------------------------------------------

    def start(self, vector: Vector, rand: bytes, now: float) -> list[Action]:
        """Send a JOIN to every other member; in a later step of a run, Spend and send the vector at once.

        Raises NotFiniteError, and sends nothing, if the vector holds a NaN or an infinity.
        """
        if self._course.phase is not Phase.NEW:
            raise LocalProtocolError("a session starts once")
        self._clipped = self._scheme.encoding.clipped(vector)
        self._offer = vector, derive(rand, b"rounding")
        self.shares_since = now
        if self._setup is not None:
            self._course.step(Event.CONTINUED)
            return self._mask(self._setup, [], now)
        joining = derive(rand, b"joining")
        self._setup = KeySetup(self.participant, self._scheme.tolerance, joining, self._steps)
        self._course.step(Event.START)
        self.deadline = self._fails_at = now + self.participant.timeouts.shares_s
        return [Send(key, (self._setup.join(key),)) for key in self.participant.others]

    @property
    def _joining(self) -> KeySetup:
        if self._setup is None:
            raise LocalProtocolError("a session that has not started")
        return self._setup

    def _take_key_setup(self, message: SetupMessage, now: float) -> list[Action]:
        if self._rounds is not None:
            return []  # late votes and echoes: the certificate is here already
        setup = self._joining
        vote, evidence = setup.take(message)
        self._heard(message)
        sends = self._to_all(vote) if vote is not None else []
        if vote is not None:
            self._course.step(Event.ALL_JOINS)
            self.deadline = self._fails_at = self._fails_at + GRACE_S
        elif isinstance(message, Joined) and setup.lacks and not setup.has_complained:
            self.deadline = min(self.deadline or now, now + GRACE_S, self._fails_at)
        if evidence is not None:
            return [*sends, evidence, *self._fail(Reason.CAUGHT, (evidence.sender,))]
        if setup.parted:
            return self._part(setup)
        if setup.certificate is None:
            return sends
        self._course.step(Event.CERTIFICATE)
        return [*sends, *self._mask(setup, self._to_all(setup.certificate), now)]

    def _to_all(self, message: MaskedMessage) -> list[Action]:
        return [Send(key, (message,)) for key in self.participant.others]

    def _mask(self, setup: KeySetup, begun: list[Action], now: float) -> list[Action]:
        """After `begun`, spend the offer, and send it under its masks."""
        keys = setup.keys(self.participant.group.step)
        shelf = self.participant.shelf(self._scheme.layout.kept_bytes)
        self._rounds = rounds = MaskedRounds(
            participant=self.participant,
            scheme=self._scheme,
            keys=keys,
            vector=self._masked(keys, shelf),
            shelf=shelf,
            heads=self._heads,
            goes_on=self.steps_left > 0,
            now=now,
        )
        self.sums_since = now
        begun = [*begun, *rounds.open(self._clipped, now)]
        gone = rounds.lost(self._gone, now) if self._gone else []
        return self._replayed(rounds, [*begun, *gone], now)

    def _masked(self, keys: StepKeys, shelf: Shelf) -> MaskedVector:
        participant, scheme, offer = self.participant, self._scheme, self._offer
        if offer is None:
            raise LocalProtocolError("masks without an offer")
        own_seed = self_seed(keys.self_secret, keys.sid, participant.me)
        pair_seeds = [keys.pair_seeds.get(key) for key in participant.members]
        x, rounding = offer
        self._offer = None
        masks = masks_of(participant.number, own_seed, pair_seeds, rounding)
        signer = participant.key, participant.sid
        return MaskedVector(x, masks, scheme.encoding, scheme.layout, *signer, shelf)

    # -- messages ----------------------------------------------------------------------------------

    def receive(self, message: Message, now: float) -> list[Action]:
        """Process a message. Raises RemoteProtocolError, and changes nothing, if it is invalid here."""
        if not isinstance(message, MaskedMessage | MaskedReply) or self._over or not self.takes(message):
            raise RemoteProtocolError(f"{type(message).__name__} for a session that is not running")
        rounds = self._rounds
        if isinstance(message, MaskedReply):
            return [] if rounds is None else self._settled(rounds, rounds.reply(message, now))
        sender = sender_of(message)
        if sender is not None and sender not in self.participant.others:
            raise RemoteProtocolError(f"{type(message).__name__} of somebody who is not in this session")
        if isinstance(message, Lacking) and (rounds is not None or self._joining.has_all(message.sender)):
            return self._take_masked(message, rounds, now)  # its sender has all JOINs: it lacks other things
        if isinstance(message, SetupMessage):
            return self._take_key_setup(message, now)
        return self._take_masked(message, rounds, now)

    def _heard(self, message: MaskedMessage) -> None:
        """Note that the sender is present; called only once its message is verified."""
        sender = sender_of(message)
        if sender is not None:
            self._gone.discard(sender)
            if self._rounds is not None:
                self._rounds.heard(sender)

    def _take_masked(self, message: SummedMessage, rounds: MaskedRounds | None, now: float) -> list[Action]:
        if rounds is None:
            self._early.hold(message, sender_of(message) or NOBODY, is_expected=True)
            return []
        try:
            actions = self._changed(rounds, lambda: rounds.receive(message, now), now)
        except NotYet:
            self._early.hold(message, sender_of(message) or NOBODY, is_expected=True)
            return []
        self._heard(message)
        return actions

    def _changed(self, rounds: MaskedRounds, event: Callable[[], list[Action]], now: float) -> list[Action]:
        """Handle an event; if it changed the view or the disputes, replay the early messages."""
        before = rounds.takes_in
        actions = event()
        if rounds.takes_in == before:
            return self._settled(rounds, actions)
        return self._replayed(rounds, actions, now)

    def _replayed(self, rounds: MaskedRounds, actions: list[Action], now: float) -> list[Action]:
        """Replay the messages that came too early."""
        settled = self._settled(rounds, actions)
        for message in self._early.take(self.participant.sid):
            if not self._over:
                with suppress(RemoteProtocolError):
                    settled += self.receive(message, now)
        return settled

    def _settled(self, rounds: MaskedRounds, actions: list[Action]) -> list[Action]:
        """Update the deadline, and end with the rounds."""
        self.deadline = rounds.deadline
        if rounds.over:
            self._end(Event.OVER)
        return actions

    # -- time and loss -----------------------------------------------------------------------------

    def tick(self, now: float) -> list[Action]:
        """Act on the deadline, if it is over."""
        if self.deadline is None or now < self.deadline:
            return []
        rounds = self._rounds
        if rounds is not None:
            return self._changed(rounds, lambda: rounds.tick(now), now)
        setup = self._joining
        is_over = now >= self._fails_at
        complaint = self._complain(tuple(key for key in setup.lacks if is_over or key not in self._arriving))
        if setup.parted:
            return [*complaint, *self._part(setup)]
        if not is_over:
            self.deadline = self._fails_at
            return complaint
        return [*complaint, *self._fail(Reason.JOINS_TIMEOUT, setup.missing, setup.withheld)]

    def _complain(self, lacks: tuple[Key, ...]) -> list[Action]:
        """Tell all, once, whose JOINs are missing here: that is why this member does not vote."""
        if not lacks or self._joining.has_complained:
            return []
        return self._to_all(self._joining.lacking(lacks))

    def _part(self, setup: KeySetup) -> list[Action]:
        """Fail at once, as two members lack each other's JOINs; each of them learns it from the others."""
        told = [Send(key, (said,)) for key, said in setup.told_apart()]
        return [*told, *self._fail(Reason.JOINS_TIMEOUT, setup.missing, setup.withheld_apart)]

    def unreachable(self, key: Key, now: float) -> list[Action]:
        """A member cannot be reached any more: continue without it if possible.

        While joining, fail without its JOIN; with it, wait briefly for the certificate. Other members may
        have that and pass it on, but only soon. A member that did not get the lost member's messages has
        joined another group, and announces this only to its coordinator.
        """
        if self._over or key not in self.participant.others:
            return []
        self._gone.add(key)
        rounds = self._rounds
        if rounds is not None:
            return self._changed(rounds, lambda: rounds.lost((key,), now), now)
        if key in self._joining.lacks:
            withheld = Withheld(self.participant.sid, Due.JOIN, (key,))
            return [*self._complain((key,)), *self._fail(Reason.JOINS_TIMEOUT, (key,), withheld)]
        self._fails_at = min(self._fails_at, now + GRACE_S)
        self.deadline = min(self.deadline or now, self._fails_at)
        return []

    def arriving(self, key: Key) -> None:
        """Bulk of a member is on its way here, and slow."""
        if self._rounds is None:
            self._arriving.add(key)
        else:
            self._rounds.arriving(key)

    def gave_up(self, key: Key, now: float) -> list[Action]:
        """A member ended this session: nothing more comes from it."""
        return self.unreachable(key, now)

    def finished(self, key: Key, now: float) -> list[Action]:
        """A member shows the base that this session made: ask it for the certificate."""
        return self._rounds.finished(key) if self._rounds is not None and not self._over else []

    def _fail(
        self, reason: Reason, missing: tuple[Key, ...], withheld: Withheld | None = None
    ) -> list[Action]:
        """Fail, the offer unused."""
        self._end(Event.ENDED)
        return [Failed(reason, self.participant.round, missing, self.participant.sid, withheld)]

    def _end(self, event: Event) -> None:
        self._course.step(event)
        self.deadline = None
        self._early.drop()


def early_bytes(layout: Layout) -> int:
    """Room for early messages in bytes, for all members together: chunks and small messages."""
    return 2 * layout.vector_bytes + 64 * 1024 * layout.members
