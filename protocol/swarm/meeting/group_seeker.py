"""Finding a group for an offer: a node sends READY to the coordinator whose turn it is, and again if need be.

Each try has a new ephemeral key and nonce. Only a GROUP that holds the READY of the current try counts. If
the coordinator may not know the electors that this node counts with, the node sends Electors first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum

from protocol.actions import Reason
from protocol.adaptive_timeouts import Pace
from protocol.crypto.sealing import Ephemeral, check_public, derive
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import Ballot, weak_allowed
from protocol.swarm.meeting.patience import Patience
from protocol.swarm.meeting.room import APART_S
from protocol.swarm.node_state import NodeState, Settings
from protocol.transitions import Course, Step, Table
from protocol.vectors.pieces import Floats
from protocol.wire import signing
from protocol.wire.ids import NO_ELECTORS
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Group, Key, Ready

ACK_FLOOR_S = 2.0
ACK_CAP_S = 5.0
GROUP_FLOOR_S = 10.0
STALLED_S = 8.0
"""How long a node that was accepted waits for a group in the first turn; in each further one twice as long.

A coordinator that could close a group waits LINGER_CAP_S for others, or APART_S to keep two apart.
"""
_MOST_DOUBLINGS = 6
TRAINS_LONGER = 2.0
"""For how many times as long as this node others may train, and meet it for certain."""
MAX_TRIES = 64
MAX_REGROUPED = 2
"""How often an offer whose session never began seeks another group within one T_group."""


class Phase(Enum):
    """How far an offer has come on its way to a group."""

    IDLE = "idle"
    WAITING = "waiting"
    ASKED = "asked"
    ACCEPTED = "accepted"


class Event(Enum):
    """What can happen to an offer."""

    OFFER = "an offer"
    ASK = "a coordinator"
    ACCEPTED = "Accepted"
    VOID = "void, or no answer"
    GROUP = "a Group with it"
    EXPIRED = "T_group is over, or the swarm"


_OWN = "the round ends with one's own update"
STEPS: Table[Phase, Event] = {
    (Phase.IDLE, Event.OFFER): Step(
        Phase.WAITING, "T_group begins; for an offer whose session never began it goes on"
    ),
    (Phase.WAITING, Event.ASK): Step(
        Phase.ASKED,
        "Ready to it, and to the one before, from which that takes it back",
    ),
    (Phase.WAITING, Event.EXPIRED): Step(Phase.IDLE, _OWN),
    (Phase.ASKED, Event.ACCEPTED): Step(Phase.ACCEPTED, "the coordinator holds the Ready"),
    (Phase.ASKED, Event.ASK): Step(Phase.ASKED, "it is another's turn: Ready to it, and to the one before"),
    (Phase.ASKED, Event.VOID): Step(
        Phase.WAITING,
        "another base, a new T_group of a wait, a coordinator that is lost, or a Group turned down",
    ),
    (Phase.ASKED, Event.GROUP): Step(Phase.IDLE, "a session starts: the Group overtook the Accepted"),
    (Phase.ASKED, Event.EXPIRED): Step(Phase.IDLE, _OWN),
    (Phase.ACCEPTED, Event.ASK): Step(
        Phase.ASKED, "it is another's turn, perhaps by a Redirect: Ready to it, and to the one before"
    ),
    (Phase.ACCEPTED, Event.VOID): Step(
        Phase.WAITING, "another base, a new T_group of a wait, or a coordinator that is lost"
    ),
    (Phase.ACCEPTED, Event.GROUP): Step(Phase.IDLE, "a session starts: the Ready is used up"),
    (Phase.ACCEPTED, Event.EXPIRED): Step(Phase.IDLE, _OWN),
}
"""There are no other steps."""


@dataclass
class Try:
    """One READY, its ephemeral key, and the time by which the coordinator must answer.

    `apart`: whom the node asks its coordinator to leave out, by now.
    `refused`: with whom the node joins no group: it has asked so since the READY.
    """

    ready: Ready
    ephemeral: Ephemeral
    sent_at: float
    ack_until: float
    apart: tuple[Key, ...] = ()
    refused: tuple[Key, ...] = ()
    accepted_at: float | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """T_group, from `started` to `deadline`; `until`: when the owner's wait ends, if that is later."""

    started: float
    deadline: float
    until: float


@dataclass
class Offer:
    """A vector (d,) float32 that waits for a group; the node has sent nothing that depends on it."""

    vector: Floats
    rand: bytes
    wait: Wait
    turned_down: set[Key] = field(default_factory=set)
    """The coordinators of groups that this node turned down, on this base."""
    tries: int = 0
    most_tries: int = MAX_TRIES
    current: Try | None = None
    regrouped: int = 0


class GroupSeeker:
    """The member's side of matchmaking."""

    def __init__(self, settings: Settings, state: NodeState, patience: Patience) -> None:
        self._settings = settings
        self._state = state
        self._patience = patience
        self._group_pace = Pace(GROUP_FLOOR_S, settings.timeouts.group_s)
        self._ack_pace = Pace(ACK_FLOOR_S, ACK_CAP_S)
        self._course = Course(STEPS, Phase.IDLE)
        self._ended_at = math.inf
        """When this node's last round ended, or it started (s)."""
        self._others_train_s = 0.0
        """How long the others may train for a round, as this node's own training took."""
        self.offer: Offer | None = None
        self._in_session: Offer | None = None
        """The running session's offer until it is spent; if the session never begins, it waits again."""

    def begin(self, vector: Floats, rand: bytes, others_need_s: float, now: float) -> None:
        """Begin a new offer; its T_group runs from now.

        `others_need_s`: how long the others may still be in a session that this node has ended. T_group is at
        least that long, and as long as the others may train, within its cap.
        """
        self._course.step(Event.OFFER)
        self._others_train_s = TRAINS_LONGER * (now - self._ended_at)
        least_s = min(max(others_need_s, self._others_train_s), self._settings.timeouts.group_s)
        deadline = now + max(least_s, self._group_pace.allowed_s)
        wait = Wait(now, deadline, max(deadline, self._patience.offered(now)))
        self.offer = Offer(vector, rand, wait)

    def ended(self, now: float) -> None:
        """A round of this node's is over, or it starts: it trains for the next one."""
        self._ended_at = now

    def waits_in_vain(self, others_since: float) -> float | None:
        """When this T_group began, if others that ended a round then, in it, may come back too late for it.

        None if they come in time, or its owner has this node wait longer.
        """
        offer = self.offer
        if offer is None or others_since < offer.wait.started or offer.wait.deadline < offer.wait.until:
            return None
        return offer.wait.started if offer.wait.deadline < others_since + self._others_train_s else None

    def ask(self, coordinator: Key, now: float, apart: tuple[Key, ...] = ()) -> Ready:
        """A new READY for this coordinator; it voids the one before. `apart`: as in `Try`."""
        offer = self._current_offer()
        self._course.step(Event.ASK)
        offer.tries += 1
        root = derive(offer.rand, b"ready", offer.tries.to_bytes(4, "big"))
        ephemeral = Ephemeral(derive(root, b"ephemeral"))
        announce = self._state.announce(self._settings)
        electorate = self._state.electorate(self._settings)
        unsigned = Ready(
            announce=announce,
            ephemeral=ephemeral.public,
            nonce=derive(root, b"nonce")[:16],
            coordinator=coordinator,
            electors=NO_ELECTORS if electorate is None else electorate.digest,
            weak=self._patience.is_willing(now),
            gone=self._patience.gone(now),
        )
        ready = signing.sign(unsigned, self._settings.key)
        offer.current = Try(ready, ephemeral, now, now + self._ack_pace.allowed_s, apart, apart)
        return ready

    def asks_anew(self, apart: tuple[Key, ...]) -> bytes | None:
        """The nonce of the current READY, if its coordinator is to leave out others than it was asked to."""
        current = self.offer.current if self.offer else None
        if current is None or current.apart == apart:
            return None
        current.apart = apart
        current.refused = tuple(key for key in current.refused if key in apart)
        return current.ready.nonce

    def _current_offer(self) -> Offer:
        if self.offer is None:
            raise RemoteProtocolError("no offer is waiting for a group")
        return self.offer

    @property
    def coordinator(self) -> Key | None:
        """The coordinator of the current READY, whether it has answered or not."""
        current = self.offer.current if self.offer else None
        return current.ready.coordinator if current else None

    @property
    def is_accepted(self) -> bool:
        """Whether a coordinator holds the current READY, as far as this node knows."""
        current = self.offer.current if self.offer else None
        return current is not None and current.accepted_at is not None

    def accepted(self, nonce: bytes, now: float) -> None:
        """The coordinator holds the READY. Raises RemoteProtocolError if it names another READY."""
        current = self._current_offer().current
        if current is None or current.ready.nonce != nonce:
            raise RemoteProtocolError("an answer to a READY that is not the current one")
        if self._course.phase is Phase.ASKED:
            self._ack_pace.observe(now - current.sent_at)
            current.accepted_at = now
            self._course.step(Event.ACCEPTED)

    def holds(self, nonce: bytes) -> bool:
        """Whether the current READY has this nonce."""
        current = self.offer.current if self.offer else None
        return current is not None and current.ready.nonce == nonce

    def void(self) -> None:
        """Drop the current READY, which is no longer true (such as after a new base)."""
        if self.offer is not None and self.offer.current is not None:
            self._course.step(Event.VOID)
            self.offer.current = None

    def could_do_without(self, group: Group) -> bool:
        """Whether the GROUP has a member that this node asked to leave out, and could do without it.

        An honest coordinator that had the request makes no such group.
        """
        current = self._current_offer().current
        electorate = self._state.electorate(self._settings)
        apart = set() if current is None or electorate is None else set(current.refused)
        return any(
            len(rest.readys) >= max(ready.announce.min_participants for ready in group.readys)
            and self._state.ballot(rest, self._settings) is not None
            for rest in (_without(group, key) for key in apart.intersection(_keys(group)))
        )

    def turn_down(self, coordinator: Key) -> None:
        """This coordinator did not listen: do not ask it again for this offer on this base."""
        self._current_offer().turned_down.add(coordinator)
        self.void()

    def has_turned_down(self, coordinator: Key) -> bool:
        """Whether this node turned down a group of this coordinator, and asks it no more."""
        return self.offer is not None and coordinator in self.offer.turned_down

    def rebased(self) -> None:
        """The node has another base: the READY is void, and who coordinates is another question."""
        self.void()
        if self.offer is not None:
            self.offer.turned_down.clear()

    def overdue_at(self, turn: int, is_over: bool = False) -> float | None:
        """When the coordinator's answer, or its group, takes too long in this turn; None without a READY.

        That is after STALLED_S or longer, but no later than the end of T_group: else a coordinator that makes
        no group would keep its turn. `is_over`: whether this node waits for nothing in this turn.
        """
        offer = self.offer
        current = offer.current if offer else None
        if offer is None or current is None or current.ready.coordinator == self._settings.key.public:
            return None
        if is_over:
            return offer.wait.started
        if current.accepted_at is None:
            return current.ack_until
        longer = APART_S if current.apart else 0.0
        allowed_s = (STALLED_S + longer) * (1 << min(turn, _MOST_DOUBLINGS))
        return max(current.accepted_at + STALLED_S, min(offer.wait.deadline, current.accepted_at + allowed_s))

    def unanswered(self, now: float) -> Ready | None:
        """The READY whose coordinator's answer is overdue, to be sent once more; None if none is."""
        current = self.offer.current if self.offer else None
        if current is None or self.silent(now) is None:
            return None
        current.ack_until = now + self._ack_pace.allowed_s
        return current.ready

    def silent(self, now: float) -> Key | None:
        """The coordinator whose answer is overdue; None if none is."""
        current = self.offer.current if self.offer else None
        if current is None or self._course.phase is not Phase.ASKED or now < current.ack_until:
            return None
        return current.ready.coordinator

    def found(self, now: float) -> tuple[Offer, Ephemeral]:
        """Use up the READY of an accepted group; returns the offer and the READY's ephemeral key."""
        offer = self._current_offer()
        if offer.current is None:
            raise RemoteProtocolError("a GROUP without a READY")
        self._course.step(Event.GROUP)
        self._group_pace.observe(now - offer.wait.started)
        offer.wait = replace(offer.wait, until=max(offer.wait.deadline, self._patience.grouped()))
        self.offer, self._in_session = None, offer
        return offer, offer.current.ephemeral

    def spent(self) -> None:
        """The session sends the offer, so it cannot come back: forget it."""
        self._in_session = None

    def again(self, reason: Reason, now: float) -> bool:
        """Let an unspent offer, whose session failed, wait for another group; False if it may not.

        Within its T_group it may, twice, if the session never began. If its owner has it wait for longer, it
        may until then. Before an offer is spent, nothing that was sent depends on it: not even its shares,
        while its own sum is not sent.
        """
        offer = self._in_session
        if offer is None or now >= offer.wait.until:
            return False
        never_began = reason is Reason.JOINS_TIMEOUT and offer.regrouped < MAX_REGROUPED
        if not never_began and offer.wait.until <= offer.wait.deadline:
            return False
        self._course.step(Event.OFFER)
        offer.regrouped += 1
        offer.current = None
        self.offer = offer
        return True

    def waits_on(self, now: float, for_upgrade: bool) -> bool:
        """Whether T_group is over and this node's wait is not; if so, another T_group begins.

        `for_upgrade`: as in `Patience.waits`.
        """
        offer = self.offer
        if offer is None or now < offer.wait.deadline or not self._patience.waits(now, for_upgrade):
            return False
        self._patience.failed(now)
        ends = now + self._group_pace.allowed_s
        until = offer.wait.until if now < offer.wait.until else ends
        offer.wait = Wait(now, min(ends, until), until)
        offer.most_tries = offer.tries + MAX_TRIES
        offer.turned_down.clear()
        self.void()  # the next READY says that this node would join a weak group, if it would by now
        return True

    def expired(self, now: float) -> bool:
        """Whether T_group is over; if so, drop the offer."""
        if self.offer is None or now < self.offer.wait.deadline:
            return False
        self.give_up()
        return True

    def cut_short(self, now: float) -> None:
        """Others come back too late for this T_group: it is over now."""
        offer = self._current_offer()
        offer.wait = Wait(offer.wait.started, now, now)

    def give_up(self) -> None:
        """No group will come: drop the offer."""
        self._course.step(Event.EXPIRED)
        self.offer = None

    @property
    def deadline(self) -> float | None:
        """When the coordinator's answer or the group is overdue; None without an offer."""
        if self.offer is None:
            return None
        current = self.offer.current if self._course.phase is Phase.ASKED else None
        deadline = self.offer.wait.deadline
        return min(current.ack_until, deadline) if current else deadline

    def check(self, group: Group, known: int) -> Ballot | None:
        """How a GROUP counts votes that this node may join with its READY; None: it makes a weak base.

        Raises RemoteProtocolError for any other GROUP.

        `known`: the number of known members that offer, this node included; a group without a quorum of
        electors needs more than half of them.
        """
        current = self._current_offer().current
        if current is None or group.coordinator != current.ready.coordinator:
            raise RemoteProtocolError("a GROUP of a coordinator that was not asked")
        if group.on:
            raise RemoteProtocolError("a GROUP for a later step: only its members make that")
        signing.verify(group, group.coordinator)
        if current.ready not in group.readys:
            raise RemoteProtocolError("a GROUP without this node's current READY")
        check_group(group, current.ready)
        if not all(self._settings.may_be_at(ready.key, ready.announce.endpoint) for ready in group.readys):
            raise RemoteProtocolError("a GROUP with a member that announces an endpoint that is not its own")
        ballot = self._state.ballot(group, self._settings)
        cohort = self._state.cohort(self._settings)
        if cohort and cohort != _keys(group):
            raise RemoteProtocolError("a GROUP of other members than those of the first sum")
        if ballot is None and not (self._settings.quorum.weak and weak_allowed(group, known)):
            raise RemoteProtocolError(
                f"a GROUP of {len(group.readys)} of {known} known members that offer: no quorum of electors"
            )
        return ballot


def check_group(group: Group, mine: Ready) -> None:
    """RemoteProtocolError unless the READYs are signed, distinct, for one swarm, base and coordinator."""
    keys = [ready.key for ready in group.readys]
    if len(set(keys)) != len(keys) or keys != sorted(keys):
        raise RemoteProtocolError("a GROUP whose members are not distinct or not in key order")
    if not mine.announce.min_participants <= len(keys) <= MAX_MEMBERS:
        raise RemoteProtocolError(
            f"a GROUP of {len(keys)}; {mine.announce.min_participants} to {MAX_MEMBERS} are allowed"
        )
    for ready in group.readys:
        theirs, ours = ready.announce, mine.announce
        if theirs.swarm != ours.swarm or theirs.base != ours.base or ready.coordinator != mine.coordinator:
            raise RemoteProtocolError("a GROUP of different tasks, parameters, bases or coordinators")
        if theirs.leaving:
            raise RemoteProtocolError("a GROUP with a member that has left")
        if theirs.following:
            raise RemoteProtocolError("a GROUP with a member that follows: it offers nothing")
        check_public(ready.ephemeral)
        signing.verify(theirs, theirs.key)
        signing.verify(ready, ready.key)
    for excused in group.excused:
        if excused.swarm != mine.announce.swarm or excused.base.anchor != mine.announce.base.anchor:
            raise RemoteProtocolError("a GROUP that excuses somebody of another swarm or anchor")
        signing.verify(excused, excused.key)


def _keys(group: Group) -> set[Key]:
    return {ready.key for ready in group.readys}


def _without(group: Group, key: Key) -> Group:
    return replace(group, readys=tuple(ready for ready in group.readys if ready.key != key))


def check_step(group: Group) -> None:
    """RemoteProtocolError if the group is in a later step that no run can have."""
    for base in group.on:
        is_later = base.is_strong and group.step > 0 and base.members == len(group.readys)
        if not is_later or any(ready.announce.open for ready in group.readys):
            raise RemoteProtocolError("a later step of a run on a base that its members did not make")
