"""Masked machines alone on a small seeded event queue: thousands of schedules in minutes.

There is no Session, codec or training around them, so loss, delay, duplication, crashes and lies reach the
machines directly (tests.simulation.schedules). The rules are checked during the run; the text of a Violation
names the seed.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from protocol.actions import Action, Completed, Evidence, Failed, Healed, Keep, Reason, Send, Spend
from protocol.aggregation.masked.machine import GRACE_S, DoubleMasked
from protocol.aggregation.participant import Participant, SessionTimeouts
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.swarm.recovery.fetch import Past, ResultFetch
from protocol.vectors.pieces import Floats
from protocol.vectors.shelf import MakeShelf, in_memory
from protocol.wire import signing
from protocol.wire.masked_messages import (
    Ack,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    Release,
    ResultCertificate,
    sender_of,
)
from protocol.wire.messages import CertificateRequest, Key, Message, PieceRequest
from scenarios.simulator.rules import opens_both
from tests import parts
from tests.simulation.schedules import (
    AGAIN_S,
    AGAIN_TRIES,
    DIMENSION,
    JOINS_S,
    MASKS_S,
    REFUSED_AFTER_S,
    SAID,
    SLACK_S,
    STEPS,
    Finished,
    GaveUp,
    Lie,
    MachineKind,
    Member,
    Schedule,
    Violation,
    group,
    offer,
    secret,
)


class Swarm:
    """The members of one session, the wires and the clock."""

    def __init__(
        self,
        schedule: Schedule,
        lies: dict[int, Lie] | None = None,
        kind: MachineKind | None = None,
        offers: Callable[[int], Floats] = offer,
        mute: tuple[type, ...] = (),
        shelf: MakeShelf = in_memory,
    ) -> None:
        """`lies`: who lies, and how. `kind`, `mute` (messages that nobody sends): faults of all machines."""
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
        self.members: list[Member] = []
        timeouts = SessionTimeouts(JOINS_S, MASKS_S)
        for number, key in enumerate(keys):
            participant = Participant(
                group(schedule.members, attempt),
                1,
                key,
                parts.ephemeral(key),
                DIMENSION,
                timeouts,
                shelf=shelf,
            )
            machine = (kind or DoubleMasked)(participant, schedule.scheme)
            self.members.append(
                Member(number, participant, secret(number, attempt), machine, schedule.scheme.layout)
            )
        self.numbers = {key.public: number for number, key in enumerate(keys)}

    def violated(self, what: str) -> NoReturn:
        raise Violation(f"{self.schedule}: {what}")

    # -- the clock ---------------------------------------------------------------------------------

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), call))

    def run(self) -> Swarm:
        """Runs until no event is left, or all living members have ended."""
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
        self._check_phases(member)
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
                news = (Finished if isinstance(action, Completed) else GaveUp)(member.participant.me)
                for key in member.participant.others:
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
            self._carry_out(member, member.machine.unreachable(other.participant.me, self.now))

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
        answer: Message | None = None
        if isinstance(request, PieceRequest):
            answer = member.forged.get(request.index) or member.pieces.get(request.index)
        elif isinstance(member.end, Completed):
            answer = member.end.certificate  # type: ignore[assignment]
        if answer is not None:
            self._send(member, request.sender, answer)

    # -- rules -------------------------------------------------------------------------------------

    def _check_phases(self, member: Member) -> None:
        """Checks that the member's phase is the one that its votes show."""
        if (rounds := member.machine._rounds) is not None:
            views, secret_release = rounds._views, rounds._secret_release
            said = (secret_release.lock is not None, secret_release.own is not None)
            is_changing = views.number > rounds.view.number
            if SAID[secret_release._course.phase] != said or views.changing != is_changing:
                self.violated(f"member {member.number} is in a phase that its votes do not show")

    def _is_liar(self, member: Member) -> bool:
        return member.number in self.lies

    def _accused(self, member: Member, evidence: Evidence) -> None:
        number = self.numbers.get(evidence.sender)
        if number not in self.lies:
            self.violated(f"member {member.number} accuses {number}, who is honest: {evidence.what}")
        for record in evidence.records:
            signing.verify(record, record.sender)  # type: ignore[union-attr]
        member.evidence.append(evidence)

    def _observe(self, member: Member, message: Any) -> None:
        """Checks one acknowledgement and release per honest member, and that it first spends its vector."""
        if isinstance(message, Ack) and self._is_liar(member):
            self._liars_acks.add((message.vote.sender, message.vote.included, message.vote.totals))
        if self._is_liar(member):
            return
        match message:
            case Masked() if sender_of(message) == member.participant.me and not member.spent:
                self.violated(f"member {member.number} sends its vector before it is spent")
            case Ack(vote=vote):
                choice = vote.included, vote.totals
                if self._acks.setdefault(vote.sender, choice) != choice:
                    self.violated(f"member {member.number} acknowledges two totals")
            case Release(head=head):
                choice = head.included, head.totals
                acknowledged = [other for other in self._acks.values() if other == choice]
                acknowledged += [other[1:] for other in self._liars_acks if other[1:] == choice]
                if len(acknowledged) < self.schedule.scheme.tolerance.threshold:
                    self.violated(f"member {member.number} releases what {len(acknowledged)} acknowledged")
                if self.releases.setdefault(head.sender, message).head != head:
                    self.violated(f"member {member.number} releases twice")
                self._check_secrets()

    def _check_secrets(self) -> None:
        """Checks that released shares and those of m colluders never open both secrets of a member."""
        schedule = self.schedule
        honest = [release.head.included for release in self.releases.values()]
        if opens_both(honest, schedule.scheme.tolerance):
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
        least = max(self.schedule.scheme.tolerance.threshold, 3)
        if len(completed.contributors) < least:
            self.violated(f"member {member.number} completes with {len(completed.contributors)}")
        for other in self.honest:
            if other is not member and isinstance(other.end, Completed):
                self._same(other.end, completed)
        self._right(completed)

    def _same(self, one: Completed | Healed, other: Completed | Healed) -> None:
        if one.contributors != other.contributors or one.result.tobytes() != other.result.tobytes():
            self.violated("two members end with different results")

    def _right(self, result: Completed | Healed) -> None:
        numbers = [self.numbers[key] for key in result.contributors]
        if set(numbers) & self.lies.keys():
            return  # a liar's offer is what it says it is
        exact = np.mean([self.offers(number).astype(np.float64) for number in numbers], axis=0)
        if np.abs(exact - result.result).max() > self.schedule.tolerance:
            self.violated("a mean that is not its contributors' mean")

    def _check_ends(self) -> None:
        stuck = [member.number for member in self.survivors if member.end is None]
        longest_s = JOINS_S + GRACE_S + MASKS_S + SLACK_S
        if stuck or self.now - parts.NOW > longest_s:
            self.violated(f"members {stuck} have not ended after {self.now - parts.NOW:.1f} s")
        open_still = [m.number for m in self.survivors if m.end is not None and not m.machine._over]
        if open_still:
            self.violated(f"members {open_still} have ended, and stand in another phase")
        self._heal()

    def _heal(self) -> None:
        """Lets members that failed while another completed fetch its certificate, with the same result."""
        sources = [m for m in self.survivors if isinstance(m.end, Completed)]
        for member in self.survivors if sources else []:
            if isinstance(member.end, Failed):
                self._same(sources[0].end, self._healed(member, sources[0]))  # type: ignore[arg-type]

    def _healed(self, member: Member, source: Member) -> Healed:
        participant, scheme = member.participant, self.schedule.scheme
        settings = parts.settings(participant.key, dimension=DIMENSION)
        past = Past(participant.group, participant.group.readys[0].announce.base, {})
        fetch = ResultFetch(past, participant.sid, source.participant.me, settings, scheme)
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
        return self.violated(f"member {member.number} cannot be healed")

    # -- results -----------------------------------------------------------------------------------

    @property
    def completed(self) -> list[Member]:
        return [member for member in self.survivors if isinstance(member.end, Completed)]

    @property
    def reasons(self) -> Counter[Reason | None]:
        ends = [member.end for member in self.survivors]
        return Counter(end.reason if isinstance(end, Failed) else None for end in ends)
