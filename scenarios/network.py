"""The session machines under seeded virtual time: delay, loss, duplication, reordering, crashes, restarts.

No socket, no clock, no thread: a heap of events. One seed gives one schedule, so a failure is its seed.
Every message goes through the codec; every rule that must hold whatever the schedule is checked as it runs
(`Violation` names the seed).

    python -m scenarios.network --first 0 --count 200
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from protocol import codec
from protocol.actions import (
    Action,
    Adopted,
    Closed,
    Completed,
    Evidence,
    Failed,
    Fatal,
    Healed,
    Keep,
    Notice,
    Send,
    Serve,
    Spend,
)
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.identity import NodeKey
from protocol.messages import (
    NO_SID,
    Base,
    BasePiece,
    Certificate,
    CertificateRequest,
    Group,
    Key,
    Message,
    PieceRequest,
    Sid,
    Sum,
)
from protocol.recovery import Past
from protocol.session import Session
from protocol.shares import ShareSettings
from protocol.standing import Settings, Standing
from protocol.vectors import Floats, base_digest, piece, raw

START_S = 1_000_000.0
REFUSED_AFTER_S = 0.01
TOO_EARLY_AGAIN_S = 0.05


class Violation(AssertionError):
    """A rule was broken; the text names the seed and the rule."""


@dataclass(frozen=True)
class Crash:
    """Peer `peer` stops at its `at_send`-th message and comes back after `back_after_s` (None: never)."""

    peer: int
    at_send: int
    back_after_s: float | None


@dataclass(frozen=True)
class Conditions:
    """What the network does to messages, and who crashes when."""

    delay_s: tuple[float, float] = (0.001, 0.05)
    loss: float = 0.0
    duplication: float = 0.0
    notices_loss: bool = True
    crashes: tuple[Crash, ...] = ()


@dataclass(frozen=True)
class Plan:
    """One run: how many peers, how many rounds, which shares, under which conditions."""

    peers: int
    rounds: int
    conditions: Conditions = Conditions()
    shares: ShareSettings = ShareSettings("seed", 4.0, 100.0)
    dimension: int = 6
    train_s: tuple[float, float] = (0.2, 0.6)
    step_budget: int = 400_000
    reuse_offers: bool = False
    """A planted fault, for the tests of the tests: an offer that failed is offered again."""


@dataclass
class Disk:
    """What survives a crash."""

    standing: Standing
    bases: dict[bytes, Floats]
    sums: dict[tuple[Sid, Key, int], bytes] = field(default_factory=dict)
    certificates: dict[Sid, tuple[Group, Base, Certificate]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sent:
    """A line of the transcript: an omniscient observer sees all of them."""

    at: float
    sender: int
    to: str
    message: Message


@dataclass
class Outcome:
    """What one peer saw of one session or round."""

    peer: int
    round: int
    sid: Sid | None
    reason: str | None


class Peer:
    """One simulated node: a Session, its disk, and the vectors it offers."""

    def __init__(self, index: int, network: Network) -> None:
        self.index = index
        self.network = network
        self.key = NodeKey(network.random.randbytes(32))
        self.endpoint = f"127.0.0.1:{7000 + index}"
        vector = np.zeros(network.plan.dimension, dtype="<f4")
        base = Base(0, base_digest(codec.parameters_hash(network.parameters), 0, vector), 0, NO_SID)
        self.disk = Disk(Standing(0, base, None, set()), {base.digest: vector})
        self.offers = itertools.count()
        self.offer: int | None = None
        self.alive = False
        self.done = False
        self.sends = 0
        self.life = 0
        self.armed: float | None = None

    def start(self) -> None:
        """Boot, for the first time or after a crash."""
        plan, now = self.network.plan, self.network.now
        self.alive, self.life, self.offer, self.armed = True, self.life + 1, None, None
        standing = self.disk.standing
        seeds = tuple(peer.endpoint for peer in self.network.peers)
        settings = Settings(
            key=self.key,
            endpoint=self.endpoint,
            task="simulated",
            parameters=self.network.parameters,
            dimension=plan.dimension,
            shares=plan.shares,
            min_participants=3,
            seeds=seeds,
            tracker=None,
            pins={},
            allow=None,
            group_timeout_s=20.0,
            shares_timeout_s=15.0,
            sums_timeout_s=15.0,
            instance=self.network.random.randbytes(16),
            started_ms=int(now * 1000),
        )
        past = {sid: Past(group, base, {}) for sid, (group, base, _) in self.disk.certificates.items()}
        self.session = Session(settings, standing, past, self.network.random.randbytes(32))
        self.carry_out(self.session.open(now))
        self.train()

    def train(self) -> None:
        """Spend some time, then offer what was learned; or close after the last round."""
        if not self.alive:
            return
        if self.session.round >= self.network.plan.rounds:
            self.carry_out(self.session.close(self.network.now))
            return
        self.network.after(self.network.random.uniform(*self.network.plan.train_s), self, self.make_offer)

    def make_offer(self) -> None:
        """Offer a fresh vector (or, with the planted fault, the last one again)."""
        if self.offer is None or not self.network.plan.reuse_offers:
            self.offer = next(self.offers)
        vector = self.network.vector(self.index, self.offer)
        self.carry_out(self.session.offer(vector, self.network.random.randbytes(32), self.network.now))

    def carry_out(self, actions: Iterable[Action]) -> None:
        """What the shell of a real node does, on the simulated disk and network."""
        life = self.life
        for action in actions:
            if not self.alive or self.life != life:
                return
            self.one(action)
        self.arm()

    def one(self, action: Action) -> None:
        now = self.network.now
        match action:
            case Send(to=str() as endpoint):
                for message in action.messages:
                    if self.alive:
                        self.network.send(self, endpoint, message)
            case Spend():
                self.network.spent(self, action)
            case Keep():
                for part in action.sums:
                    self.disk.sums[part.sid, part.sender, part.index] = bytes(part.payload)
            case Completed():
                base = self.take(action.group, action.sid, action.mean, action.certificate)
                self.network.completed(self, action)
                self.carry_out(self.session.adopted(base, now))
                self.finish_round(action.round, action.sid, None)
            case Healed():
                base = self.take(action.group, action.sid, action.mean, action.certificate)
                self.carry_out(self.session.adopted(base, now))
            case Adopted():
                self.disk.bases[action.base.digest] = action.vector
                self.carry_out(self.session.adopted(action.base, now))
            case Failed():
                self.finish_round(action.round, action.sid, action.reason)
            case Serve():
                self.serve(action)
            case Closed():
                self.done = True
                self.carry_out(self.session.leave(now))
            case Fatal():
                self.network.violated(f"peer {self.index} gave up: {action.text}")
            case Evidence():
                self.network.violated(f"peer {self.index} accuses an honest peer")
            case Notice():
                pass

    def finish_round(self, round: int, sid: Sid | None, reason: str | None) -> None:
        self.network.outcomes.append(Outcome(self.index, round, sid, reason))
        if reason is None:
            self.offer = None
        self.train()

    def take(self, group: Group, sid: Sid, mean: Floats, certificate: Certificate) -> Base:
        """The base that a session's mean leads to, stored with its certificate."""
        before = group.readys[0].announce.base
        vector = self.disk.bases[before.digest] + mean
        digest = base_digest(codec.parameters_hash(self.network.parameters), before.generation + 1, vector)
        base = Base(before.generation + 1, digest, len(group.readys), sid)
        self.disk.bases[digest] = vector
        self.disk.certificates[sid] = (group, before, certificate)
        return base

    def serve(self, action: Serve) -> None:
        match action.request:
            case CertificateRequest(sid=sid) if sid in self.disk.certificates:
                self.network.send(self, action.to, self.disk.certificates[sid][2])
            case PieceRequest(of=b"", sid=digest, index=index) if digest in self.disk.bases:
                vector = self.disk.bases[digest]
                part = piece(len(vector), index)
                self.network.send(self, action.to, BasePiece(digest, index, raw(vector, part)))
            case PieceRequest(sid=sid, of=of, index=index) if sid in self.disk.certificates:
                payload = self.disk.sums.get((sid, of, index))
                header = next((h for h in self.disk.certificates[sid][2].sums if h.sender == of), None)
                if payload is not None and header is not None:
                    message = Sum(
                        sid, of, header.contributors, header.pieces, header.signature, index, payload
                    )
                    self.network.send(self, action.to, message)

    def arm(self) -> None:
        """One timer at the session's deadline."""
        deadline = self.session.deadline
        if deadline is None or not self.alive or (self.armed is not None and self.armed <= deadline):
            return
        self.armed = deadline
        self.network.after(max(0.0, deadline - self.network.now), self, self.tick)

    def tick(self) -> None:
        self.armed = None
        self.carry_out(self.session.tick(self.network.now))

    def crash(self) -> None:
        """The process is gone, with everything it had in mind."""
        self.alive, self.life = False, self.life + 1


class Network:
    """The peers, the wires between them, the clock, and the rules that are checked."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.seed = seed
        self.random = random.Random(seed)  # noqa: S311 - a schedule, not a secret
        self.parameters = '{"simulated":true}'
        self.now = START_S
        self.transcript: list[Sent] = []
        self.outcomes: list[Outcome] = []
        self.spends: dict[tuple[Sid, Key], tuple[int, int]] = {}
        self.offered: dict[tuple[int, int], Sid] = {}
        self.means: dict[Sid, bytes] = {}
        self.groups: dict[Sid, tuple[Key, ...]] = {}
        self._events: list[tuple[float, int, Peer, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._links: set[tuple[int, int]] = set()
        self.peers: list[Peer] = []
        self.peers = [Peer(index, self) for index in range(plan.peers)]
        self._by_endpoint = {peer.endpoint: peer for peer in self.peers}
        self._by_key = {peer.key.public: peer for peer in self.peers}

    def vector(self, peer: int, offer: int) -> Floats:
        """(d,) float32: every offer of every peer is unlike every other."""
        rng = np.random.default_rng([peer, offer])
        return rng.uniform(-1, 1, self.plan.dimension).astype("<f4")

    # -- events ------------------------------------------------------------------------------------

    def after(self, seconds: float, peer: Peer, call: Callable[[], None]) -> None:
        """Call later, if the peer still lives the same life."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), peer, peer.life, call))

    def run(self) -> Network:
        """Until every peer is done or dead; Violation if a rule breaks or nothing ends."""
        for peer in self.peers:
            self.after(self.random.uniform(0, 0.2), peer, peer.start)
        for step in itertools.count():
            if step > self.plan.step_budget:
                self.violated(f"not over after {step} steps and {self.now - START_S:.0f} virtual seconds")
            if not self._events or all(peer.done or self.dead_for_good(peer) for peer in self.peers):
                break
            self.now, _, peer, life, call = heapq.heappop(self._events)
            if peer.life == life:
                call()
        self.check_end()
        return self

    def dead_for_good(self, peer: Peer) -> bool:
        """Whether the plan does not bring this peer back."""
        crash = self._crash(peer)
        return not peer.alive and peer.life > 0 and (crash is None or crash.back_after_s is None)

    def _crash(self, peer: Peer) -> Crash | None:
        return next((crash for crash in self.plan.conditions.crashes if crash.peer == peer.index), None)

    def send(self, sender: Peer, endpoint: str, message: Message) -> None:
        """One message on the wire; the sender may crash instead of sending it."""
        sender.sends += 1
        crash = self._crash(sender)
        if crash is not None and sender.sends == crash.at_send:
            self.crash(sender, crash)
            return
        frame = codec.encode(message).join()
        self.transcript.append(Sent(self.now, sender.index, endpoint, codec.decode(frame)))
        receiver = self._by_endpoint.get(endpoint)
        if receiver is None or not receiver.alive:
            self.after(REFUSED_AFTER_S, sender, lambda: self.refused(sender, endpoint))
            return
        self._links.add((sender.index, receiver.index))
        conditions = self.plan.conditions
        copies = 1 + (self.random.random() < conditions.duplication)
        for _ in range(copies):
            if self.random.random() >= conditions.loss:
                delay = self.random.uniform(*conditions.delay_s)
                self.after(delay, receiver, lambda: self.deliver(receiver, frame))

    def deliver(self, receiver: Peer, frame: bytes) -> None:
        """A frame arrives."""
        if not receiver.alive:
            return
        try:
            actions = receiver.session.receive(codec.decode(frame), self.now)
        except TooEarly:
            self.after(TOO_EARLY_AGAIN_S, receiver, lambda: self.deliver(receiver, frame))
        except RemoteProtocolError:
            receiver.arm()
        else:
            receiver.carry_out(actions)

    def refused(self, sender: Peer, endpoint: str) -> None:
        """Nobody listens there: unless somebody does again by now."""
        receiver = self._by_endpoint.get(endpoint)
        if sender.alive and (receiver is None or not receiver.alive):
            sender.carry_out(sender.session.unreachable(endpoint, "connection refused", self.now))

    def crash(self, peer: Peer, crash: Crash) -> None:
        """The process is gone: its links break, and it comes back if the plan says so."""
        peer.crash()
        if crash.back_after_s is not None:
            self.after(crash.back_after_s, peer, peer.start)
        if self.plan.conditions.notices_loss:
            for sender, receiver in sorted(self._links):
                if receiver == peer.index and self.peers[sender].alive:
                    other = self.peers[sender]
                    self.after(REFUSED_AFTER_S, other, lambda other=other: self.refused(other, peer.endpoint))

    # -- rules -------------------------------------------------------------------------------------

    def violated(self, what: str) -> None:
        raise Violation(f"seed {self.seed}: {what}")

    def spent(self, peer: Peer, spend: Spend) -> None:
        """No vector is offered twice."""
        if peer.offer is None:
            self.violated(f"peer {peer.index} spends nothing")
            return
        offer = (peer.index, peer.offer)
        if offer in self.offered and not self.plan.reuse_offers:
            self.violated(f"peer {peer.index} offers vector {peer.offer} twice")
        self.offered[offer] = spend.sid
        self.spends[spend.sid, peer.key.public] = offer

    def completed(self, peer: Peer, completed: Completed) -> None:
        """All who complete a session hold the same, right mean of the same members."""
        members = tuple(sorted(ready.key for ready in completed.group.readys))
        mean = completed.mean.tobytes()
        if self.means.setdefault(completed.sid, mean) != mean:
            self.violated("two members hold different means of one session")
        if self.groups.setdefault(completed.sid, members) != members:
            self.violated("two members hold different groups of one session")
        offers = [self.spends.get((completed.sid, key)) for key in members]
        if None in offers:
            self.violated("a session completed without every member's offer")
        exact = np.mean([self.vector(*offer).astype(np.float64) for offer in offers if offer], axis=0)
        if np.abs(exact - completed.mean).max() > 1e-3:
            self.violated("a mean that is not the members' mean")

    def check_end(self) -> None:
        """Everyone alive is done, and all that are have one base, where the network lost nothing."""
        alive = [peer for peer in self.peers if peer.alive]
        if not all(peer.done for peer in alive):
            self.violated("the schedule ran dry before everyone was done")

    def digests(self) -> set[bytes]:
        """The bases that the living hold."""
        return {peer.session.base.digest for peer in self.peers if peer.alive}


def random_plan(seed: int) -> Plan:
    """A plan drawn from a seed: size, shares, network, crashes."""
    rng = random.Random(seed ^ 0x5EED)  # noqa: S311
    peers = rng.randint(3, 7)
    crashes = tuple(
        Crash(peer, rng.randint(1, 120), rng.choice([None, rng.uniform(0.5, 20.0)]))
        for peer in rng.sample(range(peers), rng.randint(0, peers - 1))
    )
    harsh = rng.random() < 0.5
    conditions = Conditions(
        delay_s=(0.001, rng.choice([0.02, 0.2, 2.0])),
        loss=rng.choice([0.0, 0.05, 0.2]) if harsh else 0.0,
        duplication=rng.choice([0.0, 0.2]) if harsh else 0.0,
        notices_loss=rng.random() < 0.7,
        crashes=crashes,
    )
    shares = ShareSettings(rng.choice(["seed", "ring", "float"]), 4.0, 100.0)
    return Plan(peers, rng.randint(2, 6), conditions, shares)


def main(argv: Sequence[str] | None = None) -> int:
    """Run seeds one after another; exit status 1 and the seed at the first violation."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.network", description=main.__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--count", type=int, default=200, help="how many seeds (default 200)")
    options = parser.parse_args(argv)
    aggregated = fallbacks = 0
    for seed in range(options.first, options.first + options.count):
        try:
            network = Network(random_plan(seed), seed).run()
        except Violation as violation:
            print(f"VIOLATION {violation}; run it again: --first {seed} --count 1")
            return 1
        aggregated += sum(outcome.reason is None for outcome in network.outcomes)
        fallbacks += sum(outcome.reason is not None for outcome in network.outcomes)
    print(f"{options.count} schedules, {aggregated} aggregated and {fallbacks} fallback rounds, no violation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
