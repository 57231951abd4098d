"""The sources of the views of a node and of a tracker; they make a view only on request."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from mechanisms.accounting.ledger import Ledger
from mechanisms.mechanism import Mechanism
from node.net.relay import streams as relayed
from node.net.traffic import Counts
from node.observe.history_reader import Rounds
from node.observe.journal import KEPT, Journal, Remark
from node.observe.run_folder import MODEL, size_of
from node.observe.views import NodeView, Peer, Presence, Swarm, TrackerView, Visitor
from node.relay.relaying import RelayView
from node.runtime.clocks import skew_words
from node.runtime.notices import late_words, parting_words, strikes_words
from node.runtime.plan import Plan
from node.runtime.privacy.budget import facts, steps_charged
from node.runtime.shell import Shell
from node.runtime.snapshot import Inspector
from node.system.addresses import split_endpoint
from node.training.figures.column_curves import Curves
from protocol.swarm.inspection import KnownPeer
from protocol.swarm.meeting.clock_skew import TOLERANCE_S
from protocol.swarm.meeting.room import Waiting
from protocol.swarm.meeting.tracker import Tracker
from protocol.wire.endpoints import key_of
from protocol.wire.ids import Key
from protocol.wire.messages import Announce

KEY_DIGITS = 16
MAX_PEERS = 256
COUNTED_S = 0.75
"""Seconds between two computations of the privacy figures, each of which may take 50 ms."""


class NodeViewSource:
    """A node's view for its owner, with accuracy and loss, the privacy ledger and the remarks."""

    def __init__(
        self,
        inspector: Inspector,
        journal: Journal,
        rounds: Rounds,
        there: Callable[[], Mapping[Key, relayed.Presence]] = dict,
        carried: Callable[[], RelayView] | None = None,
        curves: Callable[[], Curves | None] = lambda: None,
        made: Callable[[], str] = str,
    ) -> None:
        """`there` returns whether members are there that are reached by their keys, with monotonic times.

        `carried` returns what the node carries for others; None: it is no relay. `curves` returns those of
        the agreed model, and `made` what it is made of, in a thread.
        """
        self._inspector = inspector
        self._there = there
        self._carried = carried
        self._journal = journal
        self._rounds = rounds
        self._ledger: Ledger | None = None
        self._privacy: Mapping[str, object] | None = None
        self._counted_at: float | None = None
        self._model_bytes: int | None = None
        self._waiting_since: float | None = None
        self._make_curves = curves
        self._curves: Curves | None = None
        self._make_words, self._made = made, ""
        self._curves_of: bytes | None = None
        self.ended = False

    def now(self) -> float:
        """Returns Unix seconds."""
        return self._inspector.shell.clock.now()

    async def view(self) -> NodeView:
        """Returns the current view. Reading the disk and computing run in threads."""
        if self._rounds.grown or self._model_bytes is None:
            await asyncio.to_thread(self._read)
        await self._count()
        return await self._inspector.shell.look(self._now)

    def _read(self) -> None:
        self._rounds.read()
        self._model_bytes = size_of(self._inspector.out / MODEL)
        digest = self._inspector.state.base.digest
        if digest != self._curves_of:
            self._curves_of, self._curves, self._made = digest, self._make_curves(), self._make_words()

    async def _count(self) -> None:
        """Computes what is spent, at most once in COUNTED_S: with steps the ledger changes more often."""
        ledger, now = self._inspector.state.ledger, self.now()
        is_due = self._counted_at is None or now - self._counted_at >= COUNTED_S or self.ended
        if ledger != self._ledger and is_due:
            self._privacy = await asyncio.to_thread(facts, self._inspector.mechanism, ledger)
            self._ledger, self._counted_at = ledger, now

    def _now(self) -> NodeView:
        parts = self._inspector
        status, found = parts.node.status, parts.node.picture().obstacle
        return NodeView(
            kind="node",
            about=self._journal.about,
            task=parts.plan.task.task.name,
            key=parts.state.owner.key.hex(),
            round=parts.plan.round(parts.state.base),
            rounds=parts.plan.rounds,
            phase=status.phase,
            phase_since=parts.shell.clock.at(parts.meter.since),
            spent_s=parts.meter.spent_s,
            waiting_for=parts.called(status.waiting_for),
            until=status.deadline,
            base_digest=parts.state.base.digest.hex(),
            generation=parts.state.base.generation,
            sent=dict(parts.meter.counts.sent),
            received=dict(parts.meter.counts.received),
            dropped=dict(parts.meter.counts.dropped),
            peers=_peers(parts.node.known_peers, status.waiting_for, parts.plan, self._presences()),
            privacy=_with_steps(self._privacy, parts.mechanism, parts.state.ledger),
            accuracy_of=parts.plan.accuracy_of,
            remarks=self._journal.remarks,
            history=self._rounds.latest,
            ended=self.ended,
            waiting="" if self.ended else parts.waiting,
            electors_missing=0 if found is None or self.ended else found.missing,
            report_every=parts.plan.report_every,
            steps=None if parts.plan.report_every is None else parts.plan.sums,
            model_bytes=self._model_bytes,
            own=parts.own.figures.open,
            own_here=parts.own.figures.secret,
            relay=None if self._carried is None else self._carried(),
            curves=self._curves,
            exact=parts.plan.cohort,
            over=parts.node.is_over,
            purpose=parts.plan.purpose(parts.state.base.generation) if parts.plan.purposes else "",
            sums=parts.plan.sums_for(parts.state.base.generation),
            made=self._made,
            waiting_since=self._since(bool(parts.waiting)),
        )

    def _since(self, waits: bool) -> float | None:
        """Returns since when the node waits for somebody, as its view was first made then."""
        self._waiting_since = (self._waiting_since or self.now()) if waits and not self.ended else None
        return self._waiting_since

    def _presences(self) -> Mapping[Key, Presence]:
        at = self._inspector.shell.clock.at
        return {
            key: Presence(
                relay="" if seen.relay is None else split_endpoint(seen.relay)[0],
                since=None if seen.since is None else at(seen.since),
                why=seen.why,
            )
            for key, seen in self._there().items()
        }


def _with_steps(
    privacy: Mapping[str, object] | None, mechanism: Mechanism, ledger: Ledger
) -> Mapping[str, object] | None:
    """Returns the privacy figures with the steps that are charged by now, where steps are counted."""
    if privacy is None or "steps_charged" not in privacy:
        return privacy
    return {**privacy, "steps_charged": steps_charged(mechanism, ledger)}


def _peers(
    known_peers: tuple[KnownPeer, ...],
    awaited: tuple[str, ...],
    plan: Plan,
    there: Mapping[Key, Presence],
) -> tuple[Peer, ...]:
    return tuple(
        Peer(
            endpoint=found.endpoint,
            key=None if key is None else key.hex()[:KEY_DIGITS],
            contact=str(found.contact),
            round=None if found.sums is None else plan.round_after(found.sums),
            follows=found.follows,
            is_tracker=found.is_tracker,
            is_awaited=found.endpoint in awaited,
            name="" if key is None else plan.nicknames.of(key.hex()),
            presence=None if key is None else there.get(key),
            why="; ".join(
                filter(
                    None,
                    (
                        found.remarks.why,
                        parting_words(found.remarks.parting),
                        strikes_words(found.remarks.strikes, found.remarks.rounds_out),
                        *map(late_words, found.remarks.late),
                        clock_words(found.remarks.ahead_s),
                    ),
                )
            ),
        )
        for found in known_peers[:MAX_PEERS]
        for key in (found.key or key_of(found.endpoint),)
    )


def clock_words(ahead_s: float | None) -> str:
    """Returns what is wrong with a peer's clock; empty if it is right."""
    if ahead_s is None or abs(ahead_s) < TOLERANCE_S:
        return ""
    return skew_words(ahead_s, "this machine's")


class TrackerViewSource:
    """A tracker's view for its owner: the announced peers, and what the next groups wait for."""

    def __init__(
        self,
        tracker: Tracker,
        shell: Shell,
        counts: Counts,
        key: str,
        about: Mapping[str, str],
        carried: Callable[[], RelayView] | None = None,
    ) -> None:
        """`key` is the tracker's public key in hex, `about` describes its task in words.

        `carried` returns what it carries; None: it is no relay.
        """
        self._introducer = tracker
        self._shell = shell
        self._counts = counts
        self._key = key
        self._about = about
        self._carried = carried
        self._remarks: deque[Remark] = deque(maxlen=KEPT)
        self.ended = False

    def remark(self, text: str) -> None:
        """Keeps a message to the owner."""
        self._remarks.append(Remark(self.now(), False, text))

    def now(self) -> float:
        """Returns Unix seconds."""
        return self._shell.clock.now()

    async def view(self) -> TrackerView:
        """Returns the current view."""
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
            relay=None if self._carried is None else self._carried(),
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
    return Visitor(announce.endpoint, announce.key.hex()[:KEY_DIGITS], announce.base.generation, state)
