"""The state machine of one node in a swarm, over many rounds; the shell drives it.

The shell calls `receive`, `unreachable` and `tick`, carries out the actions in their order, re-arms one
timer at `deadline`, and calls `adopted` when it has stored a new base. Invariants, in addition to the
transition table (protocol.swarm.phases):
- a node has one offer at a time, and each vector enters at most one session;
- a node accepts a sid once: the GROUP that holds its READY uses this READY up;
- the base changes only through `adopted`, never while a session runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from protocol.actions import (
    Action,
    Adopted,
    Closed,
    Completed,
    Elector,
    Evidence,
    Failed,
    Healed,
    Reason,
    Send,
    Serve,
    Spend,
    Unbind,
    Vote,
    Waiting,
)
from protocol.adaptive_timeouts import PhasePaces
from protocol.aggregation.equivocation import proof, proven
from protocol.aggregation.masked.release import WRONG_SECRET
from protocol.aggregation.reorder_buffer import ReorderBuffer
from protocol.aggregation.session_machine import SessionMachine, is_light
from protocol.crypto.sealing import derive
from protocol.errors import LocalProtocolError, NotFiniteError, RemoteProtocolError, TooEarly
from protocol.quorum.electorate import Ballot
from protocol.quorum.lineage import Line, after, is_opened
from protocol.relay.streams import NO_RELAY
from protocol.swarm.addressing import Addresses
from protocol.swarm.inspection import KnownPeer, Picture, Status, known_peers_of, status_of
from protocol.swarm.last_rounds import Closing, Follower, SwarmEnd
from protocol.swarm.lateness import Awaited, Lateness
from protocol.swarm.meeting.charges import Charges
from protocol.swarm.meeting.coordination import Coordination
from protocol.swarm.meeting.discovery import Discovery
from protocol.swarm.meeting.passing_on import PassingOn
from protocol.swarm.meeting.patience import Patience
from protocol.swarm.meeting.suspicion import Suspicion, silent
from protocol.swarm.meeting.vouching import Vouching
from protocol.swarm.node_state import NodeState, Settings, Vouches
from protocol.swarm.phases import STEPS, Event, Phase
from protocol.swarm.recovery.catch_up import CatchUp
from protocol.swarm.recovery.fetch import Fetched, Past
from protocol.swarm.runs import Runs
from protocol.swarm.session_factory import farewell, machine_for, too_long
from protocol.swarm.votes.late_finish import LateFinishes
from protocol.swarm.votes.mixed import MixedVersions
from protocol.swarm.votes.obstacle import Obstacle, obstacle
from protocol.swarm.votes.rivals import Rivals, in_both
from protocol.swarm.votes.voting import Voting
from protocol.transitions import Course
from protocol.vectors.pieces import Floats, Vector
from protocol.wire import signing
from protocol.wire.limits import MAX_OPEN
from protocol.wire.masked_messages import (
    Join,
    MaskedMessage,
    Release,
    ResultCertificate,
    TotalPiece,
    ViewChange,
    session_of,
)
from protocol.wire.messages import (
    Accepted,
    Announce,
    Base,
    CertificateRequest,
    ChargeCount,
    Charged,
    Electors,
    Equivocation,
    Goodbye,
    Group,
    Head,
    Heard,
    Hello,
    Key,
    LeftOut,
    Link,
    Message,
    Parting,
    PieceRequest,
    Ready,
    Redirect,
    Refused,
    Reminder,
    Request,
    Roster,
    Share,
    Sid,
    Stalled,
    Sum,
    Vouch,
)


def sums_between(before: Base | None, base: Base) -> int:
    """How many sums the others have made while this node's offer waited for a group."""
    return 0 if before is None else max(0, base.generation - before.generation)


LONG_S = 10.0
"""An offer waits this long for a group before the owner learns what prevents one."""


class Node:
    """One node in one swarm. `rand` is 32 secret bytes, new at each start; times are Unix seconds."""

    def __init__(self, settings: Settings, state: NodeState, past: Mapping[Sid, Past], rand: bytes) -> None:
        self._settings = settings
        self._state = state
        self._discovery = Discovery(settings, state, derive(rand, b"introductions"))
        self._members = self._discovery.members
        self.addresses = Addresses(settings, state, self._members)
        self._charges = Charges(settings, state, self._members)
        self._patience = Patience(settings, state, self._members)
        self._mixed = MixedVersions(settings, state, self._discovery, self._patience)
        self._obstacle: Obstacle | None = None
        """What prevented a group at the last look. Any thread may read it: it is replaced, never changed."""
        self._hindered: Obstacle | None = None
        self._voting = Voting(settings, state, self._members, self._patience)
        self._rivals = Rivals(settings, state, self._members, self._voting)
        self._late = LateFinishes(settings, state.votes, self._voting.ballot)
        self._catch_up = CatchUp(settings, state, self._members, self._patience)
        for sid, known in past.items():
            self._catch_up.remember(sid, known)
        self._voting.adopted()
        for sid, vote in state.votes.items():  # of an earlier start: their sessions may still have a result
            if vote.group is not None:
                ballot = self._voting.ballot(vote.group)
                self._catch_up.remember(sid, Past(vote.group, vote.group.base, {}, ballot))
        self._line: Line = state.line
        """The line of the base that is being stored."""
        self._suspicion = Suspicion(settings)
        self._passing_on = PassingOn()
        self._vouching = Vouching(settings, state, self._members)
        self._coordination = Coordination(
            settings, state, self._discovery, self._patience, self._suspicion, self._vouching
        )
        self._seeker = self._coordination.seeker
        caps = settings.timeouts.session
        self._paces = PhasePaces(caps.shares_s, caps.sums_s)
        self._machine: SessionMachine | None = None
        self._runs = Runs(settings, state, self._voting)
        self._lateness = Lateness(settings, state, self._members)
        self._early = ReorderBuffer()
        self._storing = False
        self._result_of: Sid | None = None
        """The session whose result is being stored."""
        self._completed: Sid | None = None
        """The last session that this node ended with a result."""
        self._divided_sid: Sid | None = None
        """The last session whose coordinator told some of its members of another group."""
        self.swarm_end = SwarmEnd(settings, state, self._discovery)
        self._follower = Follower(settings, state, self._members, self.swarm_end)
        self._closing = Closing(settings, state, self._discovery)
        self._course = Course(STEPS, Phase.IDLE)

    # -- what the shell calls ----------------------------------------------------------------------

    def is_member(self, key: Key) -> bool:
        """Whether the allow-list has this key; without a list, whether it is known. Safe in any thread."""
        listed = self._state.allow is not None
        return self._state.allows(key, self._settings) if listed else self.addresses.is_known(key)

    def may_answer(self, endpoint: str) -> frozenset[Key]:
        """The keys that may answer at an endpoint; empty: any key may."""
        if endpoint == self._settings.contacts.tracker:
            return self._discovery.keys_of_tracker
        return self.addresses.may_answer(endpoint)

    @property
    def round(self) -> int:
        """How many rounds this node has ended, with others or alone."""
        return self._state.round

    @property
    def base(self) -> Base:
        """The base that this node holds."""
        return self._state.base

    @property
    def is_over(self) -> bool:
        """Whether this node has the run's last base."""
        return self._state.is_last(self._state.base, self._settings)

    def open(self, now: float) -> list[Action]:
        """Start: greet the configured endpoints."""
        self._coordination.announce(self._state.announce(self._settings), now)
        self._seeker.ended(now)
        return self._after(self._discovery.open(now), now)

    def offer(self, vector: Floats, rand: bytes, now: float, made_for: Base | None = None) -> list[Action]:
        """Seek a group for an offer (summed,); ends with Completed or Failed. `rand` is 32 secret bytes.

        `made_for`: the base that it belongs to, which this node may have replaced meanwhile; None: any.
        Raises NotFiniteError for a NaN or an infinity, LocalProtocolError for a node that follows.
        """
        if not np.isfinite(vector).all():
            raise NotFiniteError("the update holds a NaN or an infinity: nothing is offered")
        if self._state.following:
            raise LocalProtocolError("a node that follows offers nothing")
        if self._runs.between is not None:
            self._course.step(Event.STEP)
            return self._after(self._begin(self._runs.next(self._paces), vector, rand, now), now)
        self._course.step(Event.OFFER)
        self._seeker.begin(vector, rand, self._paces.shares_s + self._paces.sums_s, now)
        return self._after([] if made_for in (None, self.base) else self._outdated(now), now)

    def follow(self, now: float) -> list[Action]:
        """Begin a round without an offer; it ends with Failed(BUDGET_SPENT).

        From the first call on, the node follows for good.
        """
        self._course.step(Event.FOLLOW)
        is_first = not self._state.following
        self._follower.begin(now)
        self._coordination.retire()
        self._runs.end()
        resigned = self._vote(now)
        return self._after(self._broadcast(now) if is_first and not resigned else resigned, now)

    def receive(self, message: Message, by: Key | None, now: float) -> list[Action]:
        """Process a message. Raises RemoteProtocolError, and changes nothing, if the message is invalid here.

        `by`: the key that the peer proved on the link that brought the message; None: no key was proved.
        """
        self._lateness.heard(now, self._awaited)
        machine = self._machine
        actions = self._dispatch(message, by, now)
        if machine is not None and self._machine is machine and isinstance(message, MaskedMessage):
            return self.addresses.addressed(actions)  # the session continues: nothing else has changed
        return self._after(actions, now)

    def is_light(self, message: Message) -> bool:
        """Whether processing it costs a few signature checks and at most one chunk of a vector."""
        return is_light(message, self._machine)

    @property
    def bulk_s(self) -> float:
        """The longest time that a bulk message may take on its way."""
        return self._settings.bulk_s

    def runs(self, message: Message) -> bool:
        """Whether the message belongs to the session that runs here; may be called during an event."""
        machine = self._machine
        return machine is not None and machine.takes(message)

    def unreachable(self, endpoint: str, why: str, now: float) -> list[Action]:
        """Nobody answers at an endpoint: stop waiting for the peers there."""
        actions = self._discovery.unreachable(endpoint, now, why)
        if why == NO_RELAY:
            self._suspicion.cut_off(now)
        if endpoint == self._settings.contacts.tracker:
            self._seeker.void()
            self._discovery.forget_tracker()
        for key in sorted(self.addresses.at(endpoint)):
            actions += self._lost(key, now)
        return self._after(actions, now)

    def arriving(self, key: Key, now: float) -> list[Action]:
        """Bulk of a peer is on its way here, and slow."""
        if self._machine is not None:
            self._machine.arriving(key)
        self._catch_up.arriving(key, now)
        return []

    def reconnected(self, endpoint: str, now: float) -> list[Action]:
        """A link broke and was opened again: the peer there may have restarted and lost its state."""
        if endpoint in (self._settings.contacts.tracker, self.addresses.of(self._seeker.coordinator or b"")):
            self._seeker.void()
        for key in self.addresses.at(endpoint):
            self._charges.lost(key)
        return self._after(self._discovery.greet(endpoint, now), now)

    def look_again(self, now: float) -> list[Action]:
        """A node of another version or --tls has dialled: a named peer that left may be back with it."""
        return self._after(self._discovery.look_again(now), now)

    def tick(self, now: float) -> list[Action]:
        """Carry out what is due at `now`."""
        self._lateness.heard(now, self._awaited)
        actions = self._discovery.tick(now)
        self._discovery.compare_clocks()
        self._lateness.look()
        self._catch_up.tick(now)
        self._rivals.tick(now)
        actions += self._passing_on.tick(self._machine, now)
        if self._machine is not None:
            actions += self._of_machine(self._machine.tick(now), now)
        actions += self._coordination.tick(now)
        for_upgrade = bool(self._mixed.needed(now))
        if self._seeker.waits_on(now, for_upgrade):
            actions += self._waiting(now, is_anew=not for_upgrade)
        elif self._seeker.expired(now):
            self._course.step(Event.NO_GROUP)
            actions += self._alone(Reason.GROUP_TIMEOUT, now)
        if self._discovery.announcing_due(now):
            actions += self._broadcast(now)
        return self._after([*actions, *self._watched(now)], now)

    def _awaited(self) -> Awaited:
        """The peers that the running sum waits for; while none runs, those whose READYs are missing here."""
        if self._machine is not None:
            return Awaited(self._machine.waiting_for(), len(self._machine.participant.others))
        seeks = self._seeker.offer is not None
        return Awaited(self._coordination.unready if seeks else (), len(self._members.live))

    def _watched(self, now: float) -> list[Action]:
        """Look for the obstacle to a group; notify the owner of it while an offer waits for LONG_S."""
        if self._discovery.joining or self._course.phase in (Phase.CLOSING, Phase.CLOSED):
            self._obstacle = None
            return []
        offer = self._seeker.offer
        if offer is not None and now >= offer.wait.started + LONG_S:
            return self._waiting(now)
        self._look(now)
        return []

    def charged(self, count: ChargeCount) -> list[Action]:
        """The shell has stored charges: its ledger on disk has this count now."""
        others = () if self._machine is None else self._machine.participant.others
        return self.addresses.addressed(self._charges.rose(count, others))

    def clock(self, offset_s: float, asleep_s: float) -> list[Action]:
        """This machine's clock is `offset_s` ahead of the shell's times; it slept `asleep_s` of that."""
        self._discovery.clocks.step(offset_s, asleep_s)
        return []

    def change_members(self, allow: frozenset[Key], vouches: Vouches, now: float) -> list[Action]:
        """The owner of a node in an invited swarm learns with these keys from now on, and with no others."""
        gone = sorted((self._state.allow or frozenset()) - allow)
        left = [action for key in gone for action in self._lost(key, now)]
        met = self._discovery.change_allowed(allow, now)
        return self._after([*left, *met, *self._vouching.change(vouches)], now)

    def adopted(self, base: Base, now: float, over: bool = False) -> list[Action]:
        """The shell has stored a new base: continue on it and announce it.

        `over`: the run ends with it, however many sums it might have; all members find that alike.
        """
        state, freed = self._state, list[Action]()
        if base != state.base:
            was_anchored = base.anchor != state.base.anchor
            state.previous, state.base, state.line = state.base, base, self._line
            state.last = base.generation if over else None
            if was_anchored:
                state.gone = frozenset()
            self._follower.adopted(is_own=base.sid == self._completed)
            self._voting.adopted()
            self._rivals.adopted()
            self._coordination.adopted()
            self._patience.adopted(was_anchored, now)
            self._look(now)
            self._suspicion.healed(base.sid, is_opened(state.line), now)
            if self._seeker.offer is not None:
                self._suspicion.ended(now, sums_between(state.previous, base))
        elif self._result_of is not None:
            freed = self._voting.refused(self._result_of)
        self._result_of, self._storing = None, False
        self._seeker.rebased()
        goes_on = self._runs.adopted(state.base)
        told = self._followed(now) or self._outdated(now) or ([] if goes_on else self._broadcast(now))
        return self._after([*freed, *told], now)

    def _outdated(self, now: float) -> list[Action]:
        """Drop an offer that was made for another base than this node's new one, where that matters."""
        if not self._settings.task.by_steps or self._seeker.offer is None:
            return []
        self._course.step(Event.OUTDATED)
        self._seeker.give_up()
        return self._alone(Reason.OUTDATED, now)

    def close(self, now: float) -> list[Action]:
        """After the last round: serve certificates until all confirm this base or the time is over."""
        self._course.step(Event.CLOSE)
        self._runs.end()
        self._closing.begin(self._paces.sums_s, now)
        return self._after(self._broadcast(now), now)

    def _broadcast(self, now: float) -> list[Action]:
        self._coordination.announce(self._state.announce(self._settings), now)
        return [*self._discovery.broadcast(now), *self._coordination.repeated()]

    def leave(self, now: float, why: Parting | None = None) -> list[Action]:
        """Announce that this node leaves, so that no peer waits for it, and `why`."""
        self._runs.end()
        return self._discovery.broadcast(now, leaving=True, why=why)

    @property
    def deadline(self) -> float | None:
        """When tick should be called at the latest."""
        parts = (
            *(self._discovery, self._catch_up, self._coordination, self._rivals),
            *(self._follower, self._machine, self._passing_on),
        )
        times = [part.deadline for part in parts if part is not None]
        times += [self._closing.deadline] if self._course.phase is Phase.CLOSING else []
        return min((at for at in times if at is not None), default=None)

    @property
    def stays_for_the_absent(self) -> bool:
        """Whether its run is over, and it waits for nobody but members that are away."""
        return self._course.phase is Phase.CLOSING and self._closing.is_for_the_absent

    @property
    def phase(self) -> str:
        """The phase that `status` reports, without the peers that the node waits for."""
        return self.status.phase if self._machine is None else self._machine.stage

    @property
    def status(self) -> Status:
        """The current phase, the peers that the node waits for, and its deadline."""
        return status_of(
            machine=self._machine,
            catch_up=self._catch_up,
            discovery=self._discovery,
            offer=self._seeker.offer,
            following_until=self._follower.deadline,
            closing=self._closing,
            name=self.addresses.named,
        )

    def picture(self) -> Picture:
        """What people are told of, as of now. Safe in any thread."""
        return Picture(
            base=self._state.base,
            obstacle=self._obstacle,
            hindered=self._hindered,
            late=self._lateness.late,
            clocks=self._discovery.compared,
            set_s=self._discovery.clocks.set_s,
            left_out=self._suspicion.left_out,
            out_by=self._suspicion.out_by,
            led_by=self._led_by,
        )

    @property
    def _led_by(self) -> Key | None:
        """Who coordinated the group of the base, if it is removed or not accepted here."""
        led = {link.group.coordinator for link in self._state.line.whole[-1:]}
        return next(iter(led & self._vouching.strangers), None)

    @property
    def other_versions(self) -> dict[str, str]:
        """What the named peers of another version answered, by endpoint."""
        return self._discovery.other_versions

    @property
    def known_peers(self) -> tuple[KnownPeer, ...]:
        """The peers that this node knows or has greeted."""
        tracker = self._settings.contacts.tracker
        return known_peers_of(self._discovery, self._lateness, self._suspicion, tracker)

    # -- messages ----------------------------------------------------------------------------------

    def _dispatch(self, message: Message, by: Key | None, now: float) -> list[Action]:
        if isinstance(message, Share | MaskedMessage):
            return self._bulk(message, by, now)
        match message:
            case Hello():
                heard = [*self._hello(message, by, now), *self._gave_up(message.announce, False, now)]
                self._discovery.compare_clocks()
                return heard
            case Roster() | Refused() | Goodbye() | Vouch():
                return self._introduction(message, by, now)
            case Ready():
                taken = self._coordination.ready(message, by, now)
                return [*taken, *self._gave_up(message.announce, True, now)]
            case Accepted() | Redirect() | Electors() | LeftOut() | Stalled():
                return self._coordinating(message, by, now)
            case Group():
                return self._group(message, now)
            case Head() | Heard():
                return self._heads(message, by, now)
            case Charged() | Reminder():
                return self._charges.take(message, by)
            case Equivocation():
                return self._shown(message)
            case Sum():
                return self._sum(message, by, now)
            case CertificateRequest() | PieceRequest():
                return self._serve(message, by, now)
            case _:
                return self._fetched(message, now)

    def _coordinating(
        self, message: Accepted | Redirect | Electors | LeftOut | Stalled, by: Key | None, now: float
    ) -> list[Action]:
        match message:
            case Accepted():
                self._seeker.accepted(message.nonce, now)
                return []
            case Redirect():
                return self._coordination.redirect(message, now)
            case Electors():
                return self._coordination.electors(message, by)
            case LeftOut():
                return self._coordination.leave_out(message, by)
            case _:
                return self._coordination.stalled(message, by)

    def _introduction(
        self, message: Roster | Refused | Goodbye | Vouch, by: Key | None, now: float
    ) -> list[Action]:
        match message:
            case Roster():
                heard = self._discovery.roster(message, now)
                self._discovery.compare_clocks()
                return heard
            case Refused():
                return self._discovery.refused(message, now)
            case Vouch():
                return self._vouching.take(message, self._discovery.accepted(by, "a VOUCH").key)
            case _:
                return self._discovery.goodbye(message, by)

    def _hello(self, hello: Hello, by: Key | None, now: float) -> list[Action]:
        actions = self._discovery.hello(hello, by, now)
        announce = hello.announce
        if announce.key == self._settings.key.public or not self._discovery.accepts(announce):
            return actions
        self._coordination.announce(announce, now)
        self._coordination.heard(announce.key, now)
        self._catch_up.shows(announce, now)
        reminded = self._charges.met(announce, asks=hello.wants_reply)
        vouched = self._vouching.met(announce)
        running = self._machine.participant.sid if self._machine is not None else None
        return [*reminded, *actions, *vouched, *self._late.give(announce, running, now)]

    def _serve(self, request: Request, by: Key | None, now: float) -> list[Action]:
        """Answer a request: for a base that this node holds no more by showing the one that it holds."""
        answer = self._catch_up.serve(request, by, self._discovery.accepts)
        return [answer] if isinstance(answer, Serve) else self._discovery.show(answer.endpoint, (), now)

    def _gave_up(self, announce: Announce, is_ready: bool, now: float) -> list[Action]:
        """A member that finished, restarted, fell back or is READY again sends no more messages."""
        left = self._left_run(self._runs.heard(announce, is_ready, self._machine), now)
        event = farewell(self._machine, announce, is_ready) if self._machine else None
        return [*left, *(self._of_machine(event(announce.key, now), now) if event else [])]

    def _left_run(self, is_over: bool, now: float) -> list[Action]:
        """Announce that this node is no longer in a run that ended between two steps."""
        return self._broadcast(now) if is_over else []

    def _bulk(self, message: Share | Sum | MaskedMessage, by: Key | None, now: float) -> list[Action]:
        """Process a session's message.

        Raises TooEarly, so that the peer sends it again, while no key is proved on the link. Another member
        may pass on a signed message; a share is not signed, so it must come from its sender.
        """
        kind, machine = type(message).__name__, self._machine
        if by is None:
            raise TooEarly(f"{kind} on a link on which nobody proved a key yet")
        if isinstance(message, Share) and message.sender != by:
            raise RemoteProtocolError(f"{kind} in the name of another than brought it")
        if machine is not None and machine.takes(message):
            if by not in machine.participant.members:
                raise RemoteProtocolError(f"{kind} of this session, from somebody who is not in it")
            self._check_reminded(message)
            return self._of_machine(machine.receive(message, now), now)
        if isinstance(message, Release):
            if evidence := self._catch_up.equivocation(message):
                return [evidence, *self._ban(evidence)]
            if late := self._late.get(message.head.sid):
                return late.take_release(message)
        if isinstance(message, MaskedMessage) and session_of(message) in self._catch_up.past:
            # A member that asks for another view has no result. In a run, nothing but a greeting tells it
            # that this node has one.
            where = self.addresses.of(by) if self.base.sid == session_of(message) else None
            return self._discovery.greet(where, now) if where and isinstance(message, ViewChange) else []
        if self._runs.is_ahead(by, machine):
            self._early.hold(message, by, True)
            return [] if machine is None else self._of_machine(machine.finished(by, now), now)
        if self._seeker.offer is None or machine is not None:
            raise RemoteProtocolError(f"{type(message).__name__} of a session that is not this node's")
        self._check_reminded(message)
        self._early.hold(message, by, self._members.knows(by))
        return []

    def _check_reminded(self, message: Share | Sum | MaskedMessage) -> None:
        """Raises TooEarly for what a session begins with, from a member that has not reminded this node."""
        if isinstance(message, Share | Join):
            sender = message.sender if isinstance(message, Share) else message.head.sender
            if self._charges.lacks(sender):
                raise TooEarly(f"{type(message).__name__} of a member before its REMINDER")

    def _sum(self, message: Sum, by: Key | None, now: float) -> list[Action]:
        if self._machine is not None and self._machine.takes(message):
            return self._bulk(message, by, now)
        late = self._late.get(message.sid) if self._catch_up.has_base_of(message.sid) else None
        if late is not None and self._machine is None and not (self._catch_up.busy or self._storing):
            return self._took(late.take_sum(message))
        if self._catch_up.busy:
            return self._fetched(message, now)
        if evidence := self._catch_up.equivocation(message):
            return [evidence, *self._ban(evidence)]
        return self._bulk(message, by, now)

    def _fetched(self, message: Fetched, now: float) -> list[Action]:
        """Give an answer to the running session if it asked for it, else to the fetch."""
        if self._machine is not None and self._machine.takes(message):
            return self._of_machine(self._machine.receive(message, now), now)
        if (
            isinstance(message, ResultCertificate | TotalPiece)
            and not self._catch_up.busy
            and message.sid in self._catch_up.past
        ):
            return []  # a session asked for it that has ended in another way meanwhile
        return self._took(self._of_machine(self._catch_up.receive(message, now), now))

    def _took(self, actions: list[Action]) -> list[Action]:
        """Note that the shell stores a base first, if these actions bring one."""
        self._storing = self._storing or any(isinstance(action, Healed | Adopted) for action in actions)
        return self._lined(actions)

    def _lined(self, actions: list[Action]) -> list[Action]:
        """Add to each new base its line."""
        for adopted in (action for action in actions if isinstance(action, Adopted)):
            self._line = adopted.line
        return [self._with_line(each) if isinstance(each, Completed | Healed) else each for each in actions]

    def _with_line(self, action: Completed | Healed) -> Completed | Healed:
        past = self._catch_up.past[action.sid]
        is_masked = isinstance(action.certificate, ResultCertificate)
        proof = ((action.certificate,), ()) if is_masked else ((), (action.certificate,))
        link = Link(action.group, *proof)
        generation, is_strong = past.base.generation + 1, past.ballot is not None
        first = self._settings.quorum.electorate
        liars = self._settings.quorum.liars
        self._line = after(self._state.line, link, generation, is_strong, first, liars)
        self._result_of = action.sid
        return replace(action, line=self._line, without=self._without(past.ballot))

    def _without(self, ballot: Ballot | None) -> tuple[Elector, ...]:
        """The electors that counted as gone for good in the session of a strong base."""
        if ballot is None:
            return ()
        if self._state.line.electors is None and self._settings.quorum.electorate is not None:
            return tuple(Elector(one.decode("ascii", "replace")) for one in sorted(ballot.gone))
        return tuple(Elector(self.addresses.named(key), key) for key in sorted(ballot.gone))

    # -- rounds ------------------------------------------------------------------------------------

    def _lost(self, key: Key, now: float) -> list[Action]:
        self._members.suspect(key)
        self._charges.lost(key)
        self._vouching.lost(key)
        self._catch_up.unreachable(key, now)
        self._coordination.lost(key)
        left = self._left_run(self._runs.lost(key, self._machine), now)
        return [*left, *(self._of_machine(self._machine.unreachable(key, now), now) if self._machine else [])]

    def _group(self, group: Group, now: float) -> list[Action]:
        if self._rivals.asks_about(group) or (self._machine and self._machine.participant.group.run == group):
            return []  # another member passes it on
        if (told := self._divided(group, now)) is not None:
            return told
        if shown := self._exposed(group):
            return shown
        ballot = self._coordination.check(group)
        if self._storing:
            raise RemoteProtocolError("a GROUP on a base that is being replaced")
        self._coordination.learn(group, now)
        if (instead := self._coordination.turned_down(group)) is not None:
            return instead
        if refusal := too_long(self._settings, len(group.readys)):
            return refusal
        if ballot is not None and len(self._state.votes) >= MAX_OPEN:
            raise RemoteProtocolError("a GROUP that needs votes, and too many are open here")
        if ballot is not None and (asked := self._rivals.ask(group, ballot, now)):
            return asked
        return self._join(group, ballot, now)

    def _divided(self, group: Group, now: float) -> list[Action] | None:
        """What to do if the coordinator told some members of another group: blame it, and not them.

        None: it did not. Who keeps to the protocol makes one group with a READY. After a restart it may have
        forgotten it, so this proves nothing to others. A tracker is left alone: no other one takes its turn.

        Tells those of this session that are not in the other one: nobody passes it on to them. Raises
        RemoteProtocolError if the coordinator did not sign it.
        """
        if self._machine is None or group.on or self._settings.contacts.tracker:
            return None
        part = self._machine.participant
        mine = part.group.run
        if group.coordinator != mine.coordinator or set(mine.readys).isdisjoint(group.readys):
            return None
        signing.verify(group, group.coordinator)
        if self._divided_sid == part.sid:
            return []
        self._divided_sid = part.sid
        self._suspicion.in_two((group.coordinator,), now)
        there = {ready.key for ready in group.readys}
        return [Send(key, (group,)) for key in part.others if key not in there]

    def _heads(self, message: Head | Heard, by: Key | None, now: float) -> list[Action]:
        """Process a question or an answer about rivals.

        Raises RemoteProtocolError if this node does not accept the peer.
        """
        announce = self._discovery.accepted(by, "about a group")
        if isinstance(message, Heard):
            self._rivals.heard(message, announce.key, now)
            return []
        part = self._machine.participant if self._machine is not None else None
        running = part.group if part is not None and part.ballot is not None else None
        return [Send(announce.key, (self._rivals.answer(message, running),))]

    def _settled(self, now: float) -> list[Action]:
        """Join the group about which this node has asked, or, if it has rivals, seek another one."""
        found = self._rivals.settled(now)
        if found is None:
            return []
        group, rivals = found
        with suppress(RemoteProtocolError):  # the READY may be void by now
            ballot = self._coordination.check(group)
            if not rivals:
                return self._join(group, ballot, now)
            blamed = in_both(group, rivals) - {self._settings.key.public}
            self._suspicion.in_two(blamed, now)
            told = self._suspicion.news()
            if group.coordinator in blamed:
                return [*told, *self._coordination.pass_over(group)]
            self._seeker.void()
            return told
        return []

    def _join(self, group: Group, ballot: Ballot | None, now: float) -> list[Action]:
        """Begin the session of a group, the first step of its run."""
        offer, ephemeral = self._seeker.found(now)
        disputes = self._suspicion.disputes
        machine = machine_for(group, ephemeral, self._settings, self._paces, ballot, disputes)
        self.addresses.of_group(group)
        self._passing_on.begin(now)
        self._course.step(Event.GROUP)
        self._runs.begin(machine)
        actions = [*self._reminders(group, now), *self._begin(machine, offer.vector, offer.rand, now)]
        for announce in self._members.announced(machine.participant.others):
            actions += self._gave_up(announce, False, now)  # perhaps while the GROUP was on its way here
        return actions

    def _reminders(self, group: Group, now: float) -> list[Action]:
        """Remind the members that were not reminded yet, and ask those that have not reminded this node."""
        others = [ready.announce for ready in group.readys if ready.key != self._settings.key.public]
        told = [action for each in others for action in self._charges.met(each, asks=False)]
        lacking = [each.endpoint for each in others if self._charges.lacks(each.key)]
        return [*told, *(action for endpoint in lacking for action in self._discovery.greet(endpoint, now))]

    def _begin(self, machine: SessionMachine, vector: Vector, rand: bytes, now: float) -> list[Action]:
        """Begin a session on this node's base, of a new group or as the next step of a run."""
        part = machine.participant
        self._catch_up.abandon(now)
        self._catch_up.remember(part.sid, Past(part.group, self.base, machine.headers, part.ballot))
        started = machine.start(vector, derive(rand, b"session", part.sid), now)
        self._machine = machine  # from here on, status reports its stage
        actions = self._of_machine(started, now)
        for message in self._early.take(part.sid):  # what came before the GROUP
            with suppress(RemoteProtocolError):
                actions += self._of_machine(machine.receive(message, now), now)
        return actions

    def _of_machine(self, actions: list[Action], now: float) -> list[Action]:
        """Update this node's state by the actions of a session or of a fetch."""
        caught = [each for each in actions if isinstance(each, Evidence)]
        actions = [*self._lined(actions), *(shown for each in caught for shown in self._ban(each))]
        for action in actions:
            match action:
                case Spend():
                    self._seeker.spent()
                case Vote():
                    self._voting.cast(action.vote)
                case Completed() if self._machine is not None:
                    self._paces.observe(self._machine.shares_since, self._machine.sums_since, now)
                    self._runs.completed(self._machine)
                    machine, self._completed = self._machine, action.sid
                    self._end(now)
                    self._suspicion.completed(action.contributors, now)
                    others, cost_s = len(machine.participant.others), now - machine.sums_since
                    self._suspicion.delayed(action.withheld, others, cost_s, now)
                    self._storing = True
                case Failed() if self._waits_again(action, now):
                    return [*(other for other in actions if other is not action), *self._broadcast(now)]
                case Failed():
                    failing = self._machine
                    self._runs.end()
                    self._end(now)
                    self._blame(failing, action, now)
                    self._patience.failed(now)
                    return [
                        *actions,
                        *self._refused(action, actions),
                        *self._waiting(now),
                        *self._broadcast(now),
                    ]
                case Unbind():
                    self._voting.refused(action.sid)
        return actions

    def _refused(self, failed: Failed, actions: list[Action]) -> list[Action]:
        """Free the vote if the secrets were opened without a result: then no member has one.

        A member caught in another way may have lied to this node alone: the others may have a result that
        counts this node's vote.
        """
        is_unopenable = any(isinstance(each, Evidence) and each.what == WRONG_SECRET for each in actions)
        if failed.sid is None or not (failed.reason is Reason.WRONG_COUNT or is_unopenable):
            return []
        return self._voting.refused(failed.sid)

    def _waits_again(self, failed: Failed, now: float) -> bool:
        """Whether the offer waits for another group, because the session that failed has not spent it."""
        if not self._seeker.again(failed.reason, now):
            return False
        self._course.step(Event.NOT_BEGUN)
        if self._patience.waits(now):  # for longer than T_group, in which others' votes would stay bound:
            self._state.round += 1  # its announcements show that no vote of it comes in this session
        self._runs.end()
        self._blame(self._machine, failed, now)
        self._machine = None
        self._early.drop()
        return True

    def _blame(self, machine: SessionMachine | None, failed: Failed, now: float) -> None:
        """Note who withheld what from a session that failed.

        Nobody, if a member is banned by now, or the coordinator told some members of another group.
        """
        if machine is None or failed.withheld is None or machine.participant.sid == self._divided_sid:
            return
        if any(key in self._state.banned for key in machine.participant.members):
            return
        others, cost_s = len(machine.participant.others), now - machine.shares_since
        self._suspicion.failed(failed.withheld, others, cost_s, now)
        for key in silent(failed.withheld, others):
            self._discovery.miss(key, now)

    def _end(self, now: float) -> None:
        self._course.step(Event.ENDED)
        self._count(now)
        self._suspicion.ended(now)
        self._machine = None
        if self._runs.between is None:
            self._early.drop()
        else:
            self._members.skipped(1)  # nobody announces a step of a run: it makes no peer silent

    def _count(self, now: float) -> None:
        """Another round of this node's has ended."""
        self._state.round += 1
        self._seeker.ended(now)
        self._lateness.ended()
        self._follower.ended()

    def _alone(self, reason: Reason, now: float) -> list[Action]:
        """End the round with this node's own update: no group came, or none will."""
        self._count(now)
        if reason is Reason.GROUP_TIMEOUT:  # otherwise others made sums meanwhile, and those are counted
            self._suspicion.ended(now)
        self._patience.failed(now)
        self._early.drop()
        return [Failed(reason, self.round, (), None), *self._waiting(now), *self._broadcast(now)]

    def _look(self, now: float) -> None:
        """Find out what prevents a group."""
        who, needed = self.addresses.named, self._mixed.needed(now)
        self._obstacle = obstacle(
            self._settings, self._state, self._members, self._patience, who, needed, now
        )

    def _waiting(self, now: float, is_anew: bool = False) -> list[Action]:
        """No group came in time: notify the owner, if anything prevents one."""
        self._look(now)
        if self._obstacle is None:
            return []
        self._hindered = self._obstacle
        return [Waiting(is_anew)]

    def _too_late(self, now: float) -> list[Action]:
        """Drop an offer that finds no group because the run is over, or because no sum can come any more."""
        ends = self.swarm_end
        if self._seeker.offer is None or not (ends.is_over or ends.is_spent):
            return []
        self._course.step(Event.TOO_LATE)
        self._seeker.give_up()
        return self._alone(Reason.SWARM_FINISHED if ends.is_over else Reason.ALL_SPENT, now)

    def _followed(self, now: float) -> list[Action]:
        """End a round without an offer, if it is over, and announce the new state."""
        if self._follower.is_overdue(now) and (self._follower.is_patient(now) or self._mixed.needed(now)):
            self._follower.waits_on(now)
        expecting = self._storing or self._catch_up.expecting or self._discovery.joining
        reason = self._follower.end(expecting, now)
        if reason is None:
            return []
        self._course.step(Event.FOLLOWED)
        self._count(now)
        return [Failed(reason, self.round, (), None), *self._broadcast(now)]

    def _ban(self, evidence: Evidence) -> list[Action]:
        """Ban a member for good, and show the others why if it can be shown.

        Show it also to those in the running session that seem to be away: they may be in reach of the liar,
        and would blame this node for ending a session that the liar has spoiled.
        """
        liar, records = evidence.sender, tuple(signing.evidence(each) for each in evidence.records)
        self._state.banned[liar] = records
        self._members.forget(liar)
        self._coordination.matchmaker.void(liar)
        shown = proof(records)
        inside = () if self._machine is None else self._machine.participant.others
        others = dict.fromkeys((*self._members.live, *inside))
        return [Send(key, shown) for key in others if shown and key != liar]

    def _shown(self, message: Equivocation) -> list[Action]:
        """Ban the member that another one caught. Raises RemoteProtocolError if nothing is proved."""
        if (message.first, message.second) in self._state.banned.values():
            return []  # most members pass on the same proof
        evidence = proven(message)
        if evidence.sender in self._state.banned or self._members.get(evidence.sender) is None:
            return []
        return [evidence, *self._ban(evidence)]

    def _exposed(self, group: Group) -> list[Action]:
        """Show the others in a GROUP why one of its members is banned here: its coordinator has not heard."""
        members = [ready.key for ready in group.readys]
        banned = [key for key in members if key in self._state.banned]
        shown = tuple(one for key in banned for one in proof(self._state.banned[key]))
        if not shown:
            return []
        self._coordination.seeker.check(group, self._coordination.known)
        return [Send(key, shown) for key in members if key not in (self._settings.key.public, *banned)]

    # -- after every event -------------------------------------------------------------------------

    def _after(self, actions: list[Action], now: float) -> list[Action]:
        """What any event may make possible: free votes, heal, seek a group, close groups, end."""
        actions = [*actions, *self._suspicion.news(), *self._vote(now)]
        if self._machine is None and not self._storing:
            actions += self._catch_up.look(now)
            for certificate, sources in self._late.opened:
                actions += self._catch_up.finish(certificate, sources, now)
        if not (self._discovery.joining or self._catch_up.busy or self._storing):
            actions = [*actions, *self._too_late(now), *self._settled(now)]
            if not self._rivals.keeps_apart:
                actions += self._coordination.seek(now)
        actions = [*actions, *self._coordination.close_groups(now), *self._followed(now)]
        actions = self._to_myself(self.addresses.addressed(actions), now)
        self.addresses.publish()
        return [*actions, *self._closed(now)]

    def _vote(self, now: float) -> list[Action]:
        """Free the votes that can no longer count, or resign, and announce either."""
        actions = self._voting.look(now)
        self._late.forget_closed()
        if not actions:
            return []
        self._seeker.void()  # its READY lists the open votes
        return [*actions, *self._broadcast(now)]

    def _closed(self, now: float) -> list[Action]:
        """Closed, once: every live peer has this node's base, or the time to linger is over.

        A node that comes back with the last base first hears who is there, if anybody is: one may lack it.
        """
        is_back = self._discovery.joining and self.is_over
        greets = is_back and not self.swarm_end.is_deserted
        busy = self._catch_up.busy or self._storing or greets
        if self._course.phase is not Phase.CLOSING:
            return []
        told = self._closing.look(now)
        if not self._closing.is_over(busy, now):
            return told
        self._course.step(Event.CONFIRMED)
        return [*told, Closed()]

    def _to_myself(self, actions: list[Action], now: float) -> list[Action]:
        """Process what this node, as coordinator, sends to itself, after the messages to the others.

        In the other order, its shares would be queued ahead of the GROUP and delay it.
        """
        mine = [a for a in actions if isinstance(a, Send) and a.to == self._settings.endpoint]
        out = [action for action in actions if action not in mine] if mine else actions
        for message in (each for send in mine for each in send.messages if isinstance(each, Group | LeftOut)):
            with suppress(RemoteProtocolError):  # this node refuses a member: it waits until T_group
                out += self.addresses.addressed(self._dispatch(message, self._settings.key.public, now))
        return [*out, *self._suspicion.news()] if mine else out
