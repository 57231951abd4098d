"""Masked machines alone under a small seeded heap of events: thousands of schedules in minutes.

No Session, no codec, no training: what one session says is all there is, so that loss, delay, duplication,
crashes and lies meet the machine itself. Groups, keys and each member's secrets are the same in all
schedules of a size, and what follows from them by pure functions (signatures above all) is worked out once.
The rules are checked while it runs; the text of a Violation names the seed.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Any, NoReturn

import numpy as np

from protocol import codec, masks
from protocol.actions import Action, Completed, Evidence, Failed, Healed, Keep, Reason, Send, Spend
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.fixedpoint import FixedPoint
from protocol.identity import NodeKey
from protocol.layout import Layout
from protocol.masked import GRACE_S, DoubleMasked
from protocol.masked_messages import (
    Ack,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    Release,
    ResultCertificate,
    TotalPiece,
    sender_of,
)
from protocol.messages import CertificateRequest, Group, Key, Message, PieceRequest
from protocol.recovery import Past, ResultFetch
from protocol.seat import Seat
from protocol.tolerance import MaskedSettings, Tolerance, tolerance
from protocol.vectors import Floats
from scenarios.rules import opens_both
from tests import parts

CLIP = 4.0
DIMENSION = 39
"""So that nearly every member of up to ten has a chunk to add up."""
JOINS_S, MASKS_S = 15.0, 15.0
REFUSED_AFTER_S = 0.01
AGAIN_S, AGAIN_TRIES = 0.05, 20
GROUPS = 4
MEAN_TOLERANCE = 1e-6
STEPS = 40_000
SLACK_S = 0.5

EVERYBODY_ADDS, REDUCERS = 1 << 16, 0
"""The two layouts, as `all_to_all_bytes`."""


class Violation(AssertionError):
    """A rule was broken; the text names the schedule."""


@dataclass(frozen=True)
class Crash:
    """Member `member` stops instead of sending its `at_send`-th message, for good."""

    member: int
    at_send: int


@dataclass(frozen=True)
class Schedule:
    """One session: who is in it, what the wires do, who dies. All of it follows from these values."""

    seed: int
    members: int
    all_to_all_bytes: int
    dropouts: int | None = None
    delay_s: tuple[float, float] = (0.001, 0.05)
    loss: float = 0.0
    duplication: float = 0.0
    notices: bool = True
    """Whether who is connected to a member that dies is told so."""
    cuts: float = 0.0
    """How many sends are lost, with a word to the sender that its link broke, although both ends live."""
    spares_joins: bool = False
    """Whether what comes before the masks is never lost: else few sessions of a lossy network begin."""
    crashes: tuple[Crash, ...] = ()
    groups: int = GROUPS

    @property
    def tolerance(self) -> Tolerance:
        return tolerance(self.members, self.dropouts)

    @property
    def layout(self) -> Layout:
        return Layout(DIMENSION, self.members, self.all_to_all_bytes)


@dataclass
class Member:
    """One machine, and what its shell keeps."""

    number: int
    seat: Seat
    rand: bytes
    machine: DoubleMasked
    layout: Layout
    sends: int = 0
    alive: bool = True
    spent: bool = False
    end: Completed | Failed | None = None
    pieces: dict[int, TotalPiece] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)
    early: list[Any] = field(default_factory=list)
    """What came before it was told of its group: a Session holds that."""
    started: bool = False
    said: list[Any] = field(default_factory=list)
    """By a liar: what it sent, as it should have sent it."""
    forged: dict[int, TotalPiece] = field(default_factory=dict)
    """By a liar: what it serves as chunks of the total."""
    heard: list[Any] = field(default_factory=list)
    """By a liar: what came."""
    armed: float = math.inf


Lie = Callable[[Member, Key, Any], Iterable[Message]]
"""(the liar, whom it writes to, what it should send there) -> what it sends there."""

MachineKind = Callable[[Seat, Tolerance, FixedPoint, Layout], DoubleMasked]


@dataclass(frozen=True)
class Finished:
    """What a node's announcement tells a machine: the sender holds the base that this session made."""

    sender: Key


@dataclass(frozen=True)
class GaveUp:
    """What a node's announcement tells a machine: the sender ended this session without a result."""

    sender: Key


@cache
def group(members: int, attempt: int) -> Group:
    return parts.group(parts.members(members), attempt)


@cache
def secret(member: int, attempt: int) -> bytes:
    return bytes([member + 1, attempt]) * 16


@cache
def offer(member: int) -> Floats:
    """(d,) float32: what a member offers."""
    return np.random.default_rng(member).uniform(-1, 1, DIMENSION).astype("<f4")


@contextmanager
def remembered() -> Iterator[None]:
    """Pure functions of keys and records are worked out once for all the schedules in here.

    A good signature stays good, and is looked up by record, key and signature; a bad one is tried each time.
    """
    before = (codec.verify, codec.sign, codec.canonical, masks.pair_seed, masks.public_key, Seat.channel)
    seats: dict[Any, Any] = {}

    def channel(seat: Seat, sender: Key, recipient: Key) -> Any:
        place = seat.sid, sender, recipient
        if place not in seats:
            seats[place] = before[5](seat, sender, recipient)
        return seats[place]

    verify, canonical = lru_cache(1 << 15)(before[0]), lru_cache(1 << 15)(before[2])
    signed: dict[Any, Any] = {}

    def sign(record: Any, key: NodeKey) -> Any:
        place = record, key.public
        if place not in signed:
            signed[place] = before[1](record, key)
        return signed[place]

    codec.verify, codec.sign, codec.canonical = verify, sign, canonical
    masks.pair_seed, masks.public_key = lru_cache(1 << 12)(before[3]), lru_cache(1 << 12)(before[4])
    Seat.channel = channel  # type: ignore[method-assign]
    try:
        yield
    finally:
        codec.verify, codec.sign, codec.canonical, masks.pair_seed, masks.public_key = before[:5]
        Seat.channel = before[5]  # type: ignore[method-assign]


class Swarm:
    """The members of one session, the wires and the clock."""

    def __init__(
        self,
        schedule: Schedule,
        lies: dict[int, Lie] | None = None,
        kind: MachineKind | None = None,
        offers: Callable[[int], Floats] = offer,
        mute: tuple[type, ...] = (),
    ) -> None:
        """`lies`: who lies, and how. `kind`, `mute` (what nobody sends): planted faults of all machines."""
        self.schedule = schedule
        self.random = random.Random(schedule.seed)
        self.now = parts.NOW
        self.transcript: list[tuple[int, Key, Any]] = []
        self.lies = lies or {}
        self.offers = offers
        self._mute = mute
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._links: set[tuple[int, int]] = set()
        self._crashes = {(crash.member, crash.at_send) for crash in schedule.crashes}
        self._acks: dict[Key, tuple[Any, Any]] = {}
        self._liars_acks: set[tuple[Key, Any, Any]] = set()
        self.releases: dict[Key, Release] = {}
        attempt = self.random.randrange(schedule.groups)
        keys = parts.members(schedule.members)
        point = FixedPoint(CLIP, schedule.members)
        self.members: list[Member] = []
        for number, key in enumerate(keys):
            seat = Seat(
                group(schedule.members, attempt), 1, key, parts.ephemeral(key), DIMENSION, JOINS_S, MASKS_S
            )
            machine = (kind or DoubleMasked)(seat, schedule.tolerance, point, schedule.layout)
            self.members.append(Member(number, seat, secret(number, attempt), machine, schedule.layout))
        self.numbers = {key.public: number for number, key in enumerate(keys)}

    def violated(self, what: str) -> NoReturn:
        raise Violation(f"{self.schedule}: {what}")

    # -- the clock ---------------------------------------------------------------------------------

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), call))

    def run(self) -> Swarm:
        """Until nothing is under way, and everybody who lives has ended."""
        for member in self.members:
            self._after(self.random.uniform(0, 0.01), partial(self._start, member))
        for _ in range(STEPS):
            if not self._events or all(m.end or not m.alive for m in self.members):
                break
            self.now, _, call = heapq.heappop(self._events)
            call()
        self._check_ends()
        return self

    def _start(self, member: Member) -> None:
        if not member.alive:
            return
        member.started = True
        self._carry_out(member, member.machine.start(self.offers(member.number), member.rand, self.now))
        for message in member.early:
            self._deliver(member, message)

    def _arm(self, member: Member) -> None:
        deadline = member.machine.deadline
        if deadline is None or member.end or deadline >= member.armed > self.now:
            return
        member.armed = deadline
        self._after(max(0.0, deadline - self.now), partial(self._tick, member))

    def _tick(self, member: Member) -> None:
        if self.now >= member.armed:
            member.armed = math.inf
        if member.alive and not member.end:
            self._carry_out(member, member.machine.tick(self.now))

    # -- what a shell does -------------------------------------------------------------------------

    def _carry_out(self, member: Member, actions: Iterable[Action]) -> None:
        for action in actions:
            if not member.alive:
                return
            if member.end is not None and not self._is_liar(member):
                self.violated(f"member {member.number} does something after its end: {action}")
            self._perform(member, action)
        self._arm(member)

    def _perform(self, member: Member, action: Action) -> None:
        match action:
            case Send(to=bytes() as key):
                for message in action.messages:
                    self._send(member, key, message)
            case Spend():
                if member.spent:
                    self.violated(f"member {member.number} spends twice")
                member.spent = True
            case Keep():
                for part in action.parts:
                    member.pieces[part.index] = part  # type: ignore[assignment]
            case Evidence():
                if not self._is_liar(member):
                    self._accused(member, action)
            case Completed() | Failed():
                member.end = action
                if isinstance(action, Completed):
                    self._completed(member, action)
                news = (Finished if isinstance(action, Completed) else GaveUp)(member.seat.me)
                for key in member.seat.others:
                    self._send(member, key, news)

    def _send(self, member: Member, to: Key, message: Any) -> None:
        if not member.alive or isinstance(message, self._mute):
            return
        member.sends += 1
        if (member.number, member.sends) in self._crashes:
            self._crash(member)
            return
        lie = self.lies.get(member.number)
        if lie is not None:
            member.said.append(message)
        for each in lie(member, to, message) if lie else (message,):
            self._transmit(member, to, each)

    def _transmit(self, member: Member, to: Key, message: Any) -> None:
        receiver = self.members[self.numbers[to]]
        self.transcript.append((member.number, to, message))
        self._observe(member, message)
        if not receiver.alive:
            self._after(REFUSED_AFTER_S, partial(self._lost, member, receiver))
            return
        self._links.add((member.number, receiver.number))
        schedule, draw = self.schedule, self.random.random
        is_safe = schedule.spares_joins and isinstance(message, Join | Joined | JoinCertificate)
        if not is_safe and draw() < schedule.cuts:
            self._after(REFUSED_AFTER_S, partial(self._lost, member, receiver))
            return
        for _ in range(1 + (draw() < schedule.duplication)):
            if is_safe or draw() >= schedule.loss:
                self._after(self.random.uniform(*schedule.delay_s), partial(self._deliver, receiver, message))

    def _crash(self, member: Member) -> None:
        member.alive = False
        if not self.schedule.notices:
            return
        for sender, receiver in sorted(self._links):
            if receiver == member.number and self.members[sender].alive:
                self._after(REFUSED_AFTER_S, partial(self._lost, self.members[sender], member))

    def _lost(self, member: Member, other: Member) -> None:
        if member.alive and not member.end:
            self._carry_out(member, member.machine.unreachable(other.seat.me, self.now))

    def _deliver(self, receiver: Member, message: Any, tries: int = 0) -> None:
        if not receiver.alive:
            return
        if isinstance(message, CertificateRequest | PieceRequest):
            self._serve(receiver, message)
            return
        if receiver.end is not None:
            return
        if not receiver.started:
            receiver.early.append(message)
            return
        if self._is_liar(receiver):
            receiver.heard.append(message)
        machine = receiver.machine
        try:
            match message:
                case Finished():
                    actions = machine.finished(message.sender, self.now)
                case GaveUp():
                    actions = machine.gave_up(message.sender, self.now)
                case _:
                    actions = machine.receive(message, self.now)
        except TooEarly:
            if tries < AGAIN_TRIES:
                self._after(AGAIN_S, partial(self._deliver, receiver, message, tries + 1))
            return
        except RemoteProtocolError:
            actions = []
        self._carry_out(receiver, actions)

    def _serve(self, member: Member, request: CertificateRequest | PieceRequest) -> None:
        codec.verify(request, request.sender)
        answer: Message | None = None
        if isinstance(request, PieceRequest):
            answer = member.forged.get(request.index) or member.pieces.get(request.index)
        elif isinstance(member.end, Completed):
            answer = member.end.certificate  # type: ignore[assignment]
        if answer is not None:
            self._send(member, request.sender, answer)

    # -- rules -------------------------------------------------------------------------------------

    def _is_liar(self, member: Member) -> bool:
        return member.number in self.lies

    def _accused(self, member: Member, evidence: Evidence) -> None:
        number = self.numbers.get(evidence.sender)
        if number not in self.lies:
            self.violated(f"member {member.number} accuses {number}, who is honest: {evidence.what}")
        for record in evidence.records:
            codec.verify(record, record.sender)  # type: ignore[union-attr]
        member.evidence.append(evidence)

    def _observe(self, member: Member, message: Any) -> None:
        """One acknowledgement and one release of each honest member; nothing masked before it is spent."""
        if isinstance(message, Ack) and self._is_liar(member):
            self._liars_acks.add((message.vote.sender, message.vote.included, message.vote.totals))
        if self._is_liar(member):
            return
        match message:
            case Masked() if sender_of(message) == member.seat.me and not member.spent:
                self.violated(f"member {member.number} sends its vector before it is spent")
            case Ack(vote=vote):
                choice = vote.included, vote.totals
                if self._acks.setdefault(vote.sender, choice) != choice:
                    self.violated(f"member {member.number} acknowledges two totals")
            case Release(head=head):
                choice = head.included, head.totals
                acknowledged = [other for other in self._acks.values() if other == choice]
                acknowledged += [other[1:] for other in self._liars_acks if other[1:] == choice]
                if len(acknowledged) < self.schedule.tolerance.threshold:
                    self.violated(f"member {member.number} releases what {len(acknowledged)} acknowledged")
                if self.releases.setdefault(head.sender, message).head != head:
                    self.violated(f"member {member.number} releases twice")
                self._check_secrets()

    def _check_secrets(self) -> None:
        """Of no member both secrets can be opened by what was released and what m colluders hold."""
        schedule = self.schedule
        honest = [release.head.included for release in self.releases.values()]
        if opens_both(honest, schedule.tolerance):
            self.violated("both secrets of a member are open")

    @property
    def honest(self) -> list[Member]:
        return [member for member in self.members if not self._is_liar(member)]

    @property
    def survivors(self) -> list[Member]:
        return [member for member in self.honest if member.alive]

    def _completed(self, member: Member, completed: Completed) -> None:
        if self._is_liar(member):
            return
        least = max(self.schedule.tolerance.threshold, 3)
        if len(completed.contributors) < least:
            self.violated(f"member {member.number} completes with {len(completed.contributors)}")
        for other in self.honest:
            if other is not member and isinstance(other.end, Completed):
                self._same(other.end, completed)
        self._right(completed)

    def _same(self, one: Completed | Healed, other: Completed | Healed) -> None:
        if one.contributors != other.contributors or one.mean.tobytes() != other.mean.tobytes():
            self.violated("two members end with different results")

    def _right(self, result: Completed | Healed) -> None:
        numbers = [self.numbers[key] for key in result.contributors]
        if set(numbers) & self.lies.keys():
            return  # a liar's offer is what it says it is
        exact = np.mean([self.offers(number).astype(np.float64) for number in numbers], axis=0)
        if np.abs(exact - result.mean).max() > MEAN_TOLERANCE:
            self.violated("a mean that is not its contributors' mean")

    def _check_ends(self) -> None:
        stuck = [member.number for member in self.survivors if member.end is None]
        longest_s = JOINS_S + GRACE_S + MASKS_S + SLACK_S
        if stuck or self.now - parts.NOW > longest_s:
            self.violated(f"members {stuck} have not ended after {self.now - parts.NOW:.1f} s")
        self._heal()

    def _heal(self) -> None:
        """Who failed while another completed fetches its certificate, and comes to the same."""
        sources = [m for m in self.survivors if isinstance(m.end, Completed)]
        for member in self.survivors if sources else []:
            if isinstance(member.end, Failed):
                self._same(sources[0].end, self._healed(member, sources[0]))  # type: ignore[arg-type]

    def _healed(self, member: Member, source: Member) -> Healed:
        seat, schedule = member.seat, self.schedule
        settings = parts.settings(seat.key, dimension=DIMENSION)
        past = Past(seat.group, seat.group.readys[0].announce.base, {})
        masked = MaskedSettings(CLIP, schedule.dropouts, schedule.all_to_all_bytes)
        fetch = ResultFetch(past, seat.sid, source.seat.me, settings, masked)
        certificate = source.end.certificate  # type: ignore[union-attr]
        assert isinstance(certificate, ResultCertificate)
        fetch.start(self.now)
        waiting = fetch.receive(certificate, self.now)
        while waiting:
            action = waiting.pop(0)
            match action:
                case Send():
                    for request in action.messages:
                        waiting += fetch.receive(source.pieces[request.index], self.now)  # type: ignore[index]
                case Healed():
                    return action
        return self.violated(f"member {member.number} can not be healed")

    # -- results -----------------------------------------------------------------------------------

    @property
    def completed(self) -> list[Member]:
        return [member for member in self.survivors if isinstance(member.end, Completed)]

    @property
    def all_or_nothing(self) -> bool:
        """Whether all survivors completed, or nobody released anything."""
        return len(self.completed) == len(self.survivors) or not self.releases

    @property
    def reasons(self) -> Counter[Reason | None]:
        ends = [member.end for member in self.survivors]
        return Counter(end.reason if isinstance(end, Failed) else None for end in ends)


def chaos(seed: int) -> Schedule:
    """A schedule drawn from a seed: up to 20 % loss, slow links, up to n - 1 crashes."""
    rng = random.Random(seed ^ 0xC4A05)
    members = rng.choice([4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 7, 8, 9, 10])
    crashes = rng.choice([0, 1, 1, 1, 2, 2, rng.randint(0, members - 1)])
    positions = rng.choice([4, 12, 30]) * members
    return Schedule(
        seed=seed,
        members=members,
        all_to_all_bytes=rng.choice([EVERYBODY_ADDS, REDUCERS]),
        dropouts=rng.choice([None, 1, 1]),
        delay_s=(0.001, rng.choice([0.02, 0.02, 0.5, 4.0])),
        loss=rng.choice([0.0, 0.0, 0.02, 0.1, 0.2]),
        duplication=rng.choice([0.0, 0.2]),
        notices=rng.random() < 0.6,
        cuts=rng.choice([0.0, 0.0, 0.02]),
        spares_joins=rng.random() < 0.8,
        crashes=tuple(
            Crash(member, rng.randint(1, positions)) for member in rng.sample(range(members), crashes)
        ),
    )
