"""What a running node and a tracker look like from outside: made when somebody looks, and not before."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mechanisms.accounting.ledger import Ledger
from mechanisms.mechanism import Mechanism
from node.net.traffic import Counts
from node.observe.history_reader import Rounds
from node.observe.journal import KEPT, Journal, Remark
from node.observe.views import NodeView, Peer, Swarm, TrackerView, Visitor
from node.observe.waiting import waiting_text
from node.runtime.meter import Meter
from node.runtime.plan import Plan
from node.runtime.privacy_budget import facts
from node.runtime.shell import Shell
from node.storage.state import State
from protocol.swarm.inspection import KnownPeer
from protocol.swarm.meeting.clock_skew import skew_words
from protocol.swarm.meeting.matchmaker import Waiting
from protocol.swarm.meeting.tracker import Tracker
from protocol.swarm.node import Node
from protocol.wire.messages import Announce

KEY_DIGITS = 16
MAX_PEERS = 256


@dataclass(frozen=True)
class Sight:
    """The parts of a node that can be looked at."""

    plan: Plan
    session: Node
    state: State
    mechanism: Mechanism
    shell: Shell
    meter: Meter
    counts: Counts
    out: Path
    """The node's folder."""

    @property
    def waiting(self) -> str:
        """Why no group forms; empty where nothing is in the way. It may be asked at any time."""
        return waiting_text(self.session.obstacle, self.out)

    @property
    def waiting_nameless(self) -> str:
        """The same for whoever asks. It may be asked at any time."""
        found = self.session.obstacle
        return "" if found is None else found.nameless

    async def status(self) -> dict[str, object]:
        """What the live view shows: nothing that came from data."""
        return await self.shell.look(self._status)

    def _status(self) -> dict[str, object]:
        status = self.session.status
        return {
            "task": self.plan.task,
            "key": self.plan.key,
            "round": self.session.round,
            "rounds": self.plan.rounds,
            "phase": status.phase,
            "waiting_for": list(status.waiting_for),
            "left_s": left_s(status.deadline, self.shell.clock.now()),
            "base_digest": self.state.base.digest.hex(),
            "generation": self.state.base.generation,
            "dropped": dict(self.counts.dropped),
            "waiting": self.waiting,
        }


def left_s(until: float | None, now: float) -> float | None:
    """Seconds until a deadline, at least 0."""
    return None if until is None else max(0.0, until - now)


class NodeSight:
    """A node as its owner sees it: with accuracy and loss, the privacy ledger and what was told."""

    def __init__(self, sight: Sight, journal: Journal, rounds: Rounds) -> None:
        self._sight = sight
        self._journal = journal
        self._rounds = rounds
        self._ledger: Ledger | None = None
        self._privacy: Mapping[str, object] | None = None
        self.ended = False

    def now(self) -> float:
        """Unix seconds."""
        return self._sight.shell.clock.now()

    async def view(self) -> NodeView:
        """As it stands now. What waits for the disk or calculates leaves the event loop."""
        if self._rounds.grown:
            await asyncio.to_thread(self._rounds.read)
        ledger = self._sight.state.ledger
        if ledger != self._ledger:
            self._privacy = await asyncio.to_thread(facts, self._sight.mechanism, ledger)
            self._ledger = ledger
        return await self._sight.shell.look(self._now)

    def _now(self) -> NodeView:
        sight, status, found = self._sight, self._sight.session.status, self._sight.session.obstacle
        return NodeView(
            kind="node",
            about=self._journal.about,
            task=sight.plan.task,
            key=sight.plan.key,
            round=sight.session.round,
            rounds=sight.plan.rounds,
            phase=status.phase,
            phase_since=sight.shell.clock.at(sight.meter.since),
            spent_s=sight.meter.spent_s,
            waiting_for=status.waiting_for,
            until=status.deadline,
            base_digest=sight.state.base.digest.hex(),
            generation=sight.state.base.generation,
            sent=dict(sight.counts.sent),
            received=dict(sight.counts.received),
            dropped=dict(sight.counts.dropped),
            peers=_peers(sight.session.known_peers, status.waiting_for),
            privacy=self._privacy,
            accuracy_of=sight.plan.accuracy_of,
            remarks=self._journal.remarks,
            history=self._rounds.latest,
            ended=self.ended,
            waiting="" if self.ended else sight.waiting,
            electors_missing=0 if found is None or self.ended else found.missing,
        )


def _peers(known_peers: tuple[KnownPeer, ...], awaited: tuple[str, ...]) -> tuple[Peer, ...]:
    return tuple(
        Peer(
            endpoint=found.endpoint,
            key=None if found.key is None else found.key.hex()[:KEY_DIGITS],
            contact=str(found.contact),
            round=found.round,
            follows=found.follows,
            is_tracker=found.is_tracker,
            is_awaited=found.endpoint in awaited,
            why="; ".join(part for part in (found.why, clock_words(found.ahead_s)) if part),
        )
        for found in known_peers[:MAX_PEERS]
    )


def clock_words(ahead_s: float | None) -> str:
    """What is wrong with a peer's clock; nothing where it is not."""
    if ahead_s is None:
        return ""
    return skew_words(ahead_s, "this machine's")


class TrackerSight:
    """A tracker as its owner sees it: who is here, and what the next groups wait for."""

    def __init__(
        self, tracker: Tracker, shell: Shell, counts: Counts, key: str, about: Mapping[str, str]
    ) -> None:
        """`key`: the tracker's public one, in hex; `about`: what it was asked to do, in words."""
        self._introducer = tracker
        self._shell = shell
        self._counts = counts
        self._key = key
        self._about = about
        self._remarks: deque[Remark] = deque(maxlen=KEPT)
        self.ended = False

    def remark(self, text: str) -> None:
        """Keep what was told."""
        self._remarks.append(Remark(self.now(), False, text))

    def now(self) -> float:
        """Unix seconds."""
        return self._shell.clock.now()

    async def view(self) -> TrackerView:
        """As it stands now."""
        return await self._shell.look(self._now)

    def _now(self) -> TrackerView:
        return TrackerView(
            kind="tracker",
            about=self._about,
            key=self._key,
            phase="idle",
            swarms=tuple(_swarm(waiting) for waiting in self._introducer.waiting),
            peers=self._introducer.peers,
            dropped=dict(self._counts.dropped),
            remarks=tuple(self._remarks),
            ended=self.ended,
        )


def _swarm(waiting: Waiting) -> Swarm:
    return Swarm(
        task=waiting.task,
        parameters=waiting.parameters.hex()[:KEY_DIGITS],
        peers=tuple(_visitor(announce, waiting) for announce in waiting.announced[:MAX_PEERS]),
        ready=len(waiting.ready),
        needed=waiting.needed,
        groups=waiting.groups,
    )


def _visitor(announce: Announce, waiting: Waiting) -> Visitor:
    state = "here"
    if announce.key in waiting.unreachable:
        state = "unreachable"
    elif announce.following:
        state = "follows"
    elif announce.key in waiting.ready:
        state = "ready"
    return Visitor(announce.endpoint, announce.key.hex()[:KEY_DIGITS], announce.round, state)
