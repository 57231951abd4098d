"""The session machines under seeded virtual time: delay, loss, duplication, reordering, partitions, crashes.

The network is a heap of events, without a socket, a clock or a thread. One seed gives one schedule, so the
seed reproduces a failure. Every message passes through the codec; `rules` must hold for every schedule.

    python -m scenarios.simulator --first 0 --count 200
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from protocol.actions import Action, Reply, Send
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.wire import codec
from protocol.wire.messages import Key, Message
from scenarios.simulator.hosts import Host
from scenarios.simulator.peer import SimulatedPeer
from scenarios.simulator.plans import Plan
from scenarios.simulator.rules import Rules
from scenarios.simulator.tracker import SimulatedTracker

START_S = 1_000_000.0
REFUSED_AFTER_S = 0.01
CUT_AFTER_S = 5.0
TOO_EARLY_AGAIN_S = 0.05
TOO_EARLY_TRIES = 200
STEP_BUDGET = 400_000
"""The most events of a run, which is stuck if it needs more."""


def by_key(peers: int, seed: int) -> list[int]:
    """The numbers of so many peers in the order of the keys that a seed gives them."""
    keys = [peer.key.public for peer in Network(Plan(peers, 1), seed).peers]
    return sorted(range(peers), key=lambda index: keys[index])


@dataclass(frozen=True)
class Sent:
    """A line of the transcript, which lists all sent messages, lost ones too."""

    at_s: float
    sender: int
    to: str
    message: Message


class Network:
    """The hosts, the wires between them and the clock. `seed` determines every delay, key and training."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.random = random.Random(seed)  # noqa: S311 - a schedule, not a secret
        self.now = START_S
        self.rules = Rules(plan, seed)
        self.transcript: list[Sent] = []
        self._events: list[tuple[float, int, Host, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._links: set[tuple[int, int]] = set()
        self._last_arrival: dict[tuple[int, int], float] = {}
        self._lies = dict(plan.conditions.lies)
        self.peers = [self._peer(index) for index in range(plan.peers)]
        self.tracker = SimulatedTracker(plan.peers, self) if plan.tracker else None
        self.hosts: list[Host] = [*self.peers, *([self.tracker] if self.tracker else [])]
        self._by_endpoint = {host.endpoint: host for host in self.hosts}
        self._faces = self._two_faces()
        """By honest peer: the one of a two-faced peer's nodes that it meets."""

    def _peer(self, index: int) -> SimulatedPeer:
        return SimulatedPeer(index, self)

    def _two_faces(self) -> dict[int, Host]:
        two_faced = self.plan.conditions.two_faced
        if two_faced is None:
            return {}
        one, other = self.peers[two_faced], self._peer(self.plan.faces)
        other.key, other.endpoint = one.key, one.endpoint
        self.hosts.append(other)
        rest = [host.index for host in self.hosts if host not in (one, other)]
        met = self.random.sample(rest, len(rest) // 2)
        return {index: one if index in met else other for index in rest}

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the start."""
        return self.now - START_S

    def index_of(self, key: Key) -> int | None:
        """The index of the peer with this key; None if there is none."""
        return next((peer.index for peer in self.peers if peer.key.public == key), None)

    # -- events ------------------------------------------------------------------------------------

    def after(self, seconds: float, host: Host, call: Callable[[], None]) -> None:
        """Call `call` after `seconds` if the host is still in the same life."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), host, host.life, call))

    def run(self, step_budget: int = STEP_BUDGET) -> Network:
        """Run until every peer is done or gone. Raises Violation if a rule is broken or peers do not end."""
        self._start()
        for _ in range(step_budget):
            if not self._events or all(peer.done or peer.gone for peer in self.peers):
                break
            self._step()
        stuck = [peer.index for peer in self.peers if not (peer.done or peer.gone)]
        if stuck:
            self.rules.violated(f"peers {stuck} are not done after {self.elapsed_s:.0f} virtual seconds")
        return self

    def run_for(self, seconds: float) -> Network:
        """Run for `seconds` virtual seconds, whether or not the peers are done."""
        self._start()
        while self._events and self._events[0][0] < START_S + seconds:
            self._step()
        return self

    def _start(self) -> None:
        for host in self.hosts:
            self.after(self.random.uniform(0, 0.2), host, host.start)

    def _step(self) -> None:
        """Process the next event; postpone an event of a hung host until the host resumes."""
        at, _, host, life, call = heapq.heappop(self._events)
        self.now = at
        if host.life != life:
            return
        if host.hung_until <= at:
            call()
        elif host.hung_until < math.inf:
            self.after(host.hung_until - at, host, call)

    # -- ends --------------------------------------------------------------------------------------

    def _ends_here(self, sender: Host) -> bool:
        """Whether the sender crashes instead of sending its next message; if so, crash it."""
        sender.sends += 1
        for crash in self.plan.conditions.crashes:
            if crash.peer == sender.index and crash.at_send == sender.sends:
                self.end(sender)
                if crash.back_after_s is None:
                    sender.gone = True
                else:
                    self.after(crash.back_after_s, sender, sender.start)
                return True
        return False

    def end(self, host: Host) -> None:
        """End a process and break its links; the peers at the other ends notice it if the plan allows."""
        host.die()
        if not self.plan.conditions.links.notices_loss:
            return
        for sender, receiver in sorted(self._links):
            other = self.hosts[sender]
            if receiver == host.index and other.alive:
                self.after(REFUSED_AFTER_S, other, partial(self._link_broke, other, host))

    def _link_broke(self, other: Host, host: Host) -> None:
        """Report a broken link: the connection is refused, or opened again if the host has restarted."""
        if not host.alive:
            self._tell_unreachable(other, host.endpoint, "connection refused")
        else:
            other.carry_out(other.machine.reconnected(host.endpoint, self.now))

    def _hang(self, sender: Host) -> None:
        """Hang the sender after this send if the plan says so."""
        for hang in self.plan.conditions.hangs:
            if hang.peer == sender.index and hang.at_send == sender.sends:
                sender.hung_until = math.inf if hang.for_s is None else self.now + hang.for_s
                sender.gone = hang.for_s is None
                if hang.for_s is not None and isinstance(sender, SimulatedPeer):
                    self.after(hang.for_s, sender, lambda: sender.resumed(self.now))

    # -- wires -------------------------------------------------------------------------------------

    def send(self, sender: Host, endpoint: str, message: Message) -> None:
        """Send one message; the sender may crash instead, hang afterwards, or lie."""
        if self._ends_here(sender):
            return
        lie = self._lies.get(sender.index)
        told = lie(self.peers[sender.index].key, endpoint, message) if lie else (message,)
        for each in told:
            self._transmit(sender, endpoint, each)
        self._hang(sender)

    def _transmit(self, sender: Host, endpoint: str, message: Message) -> None:
        sent = codec.decode(codec.encode(message).join())
        self.transcript.append(Sent(self.elapsed_s, sender.index, endpoint, sent))
        self.rules.saw(sender.index, sent)
        receiver = self._by_endpoint.get(endpoint)
        if receiver is not None and self._faces:
            receiver = self._faces.get(sender.index, receiver) if self._is_face(receiver) else receiver
            if self._is_face(sender) and self._faces.get(receiver.index) is not sender:
                return
        if receiver is None or not receiver.alive:
            why = "connection refused"
            self.after(REFUSED_AFTER_S, sender, lambda: self._tell_unreachable(sender, endpoint, why))
            return
        self._links.add((sender.index, receiver.index))
        links = self.plan.conditions.links
        if self._is_cut(sender, receiver):
            if links.notices_loss:
                self.after(CUT_AFTER_S, sender, lambda: self._timed_out(sender, receiver))
            return
        copies = 1 + (self.random.random() < links.duplication)
        for _ in range(copies):
            if self.random.random() >= links.loss:
                delay = self._delay(sender, receiver, sent)
                if delay < math.inf:
                    self.after(delay, receiver, lambda: self._deliver(sender, receiver, sent, 0))

    def _is_face(self, host: Host) -> bool:
        return host.index in (self.plan.conditions.two_faced, self.plan.faces)

    def _delay(self, sender: Host, receiver: Host, message: Message) -> float:
        """The seconds that this message takes to arrive."""
        links = self.plan.conditions.links
        seconds = self.random.uniform(*links.delay_s) + max(0.0, sender.hung_until - self.now)
        for late in self.plan.conditions.lates:
            is_late = late.peer == sender.index and self.elapsed_s < late.until_s
            seconds += late.by_s if is_late and isinstance(message, late.kinds) else 0.0
        arrival, link = self.now + seconds, (sender.index, receiver.index)
        if self.random.random() >= links.reordering:
            arrival = max(arrival, self._last_arrival.get(link, arrival))
        self._last_arrival[link] = max(arrival, self._last_arrival.get(link, arrival))
        return arrival - self.now

    def _is_cut(self, one: Host, other: Host) -> bool:
        partitions = self.plan.conditions.partitions
        return any(partition.cuts(one.index, other.index, self.elapsed_s) for partition in partitions)

    def _deliver(self, sender: Host, receiver: Host, message: Message, tries: int) -> None:
        """Deliver a message. Bulk data that arrives too early is sent again shortly, as by a real node."""
        try:
            actions = receiver.machine.receive(message, sender.key.public, self.now)
        except TooEarly:
            if tries < TOO_EARLY_TRIES:
                again = lambda: self._deliver(sender, receiver, message, tries + 1)  # noqa: E731
                self.after(TOO_EARLY_AGAIN_S, receiver, again)
        except RemoteProtocolError:
            receiver.arm()
        else:
            receiver.carry_out(_addressed(actions, sender.endpoint))

    def _timed_out(self, sender: Host, receiver: Host) -> None:
        if self._is_cut(sender, receiver):
            self._tell_unreachable(sender, receiver.endpoint, "no answer")

    def _tell_unreachable(self, host: Host, endpoint: str, why: str) -> None:
        host.carry_out(host.machine.unreachable(endpoint, why, self.now))

    # -- results -----------------------------------------------------------------------------------

    def present(self) -> frozenset[Key]:
        """The keys of the peers that are running."""
        return frozenset(peer.key.public for peer in self.peers if peer.alive)

    def finishers(self) -> list[SimulatedPeer]:
        """The peers that have ended, but for those that gave up for want of others."""
        return [peer for peer in self.peers if peer.done and not peer.gave_up]

    def digests(self) -> set[bytes]:
        """The digests of the finishers' bases."""
        return {peer.base.digest for peer in self.finishers()}


def _addressed(actions: Sequence[Action], endpoint: str) -> list[Action]:
    """Turn replies into sends to `endpoint`, the sender of the message that they answer."""
    return [Send(endpoint, action.messages) if isinstance(action, Reply) else action for action in actions]
