"""What must hold in a box after every event, whatever happened before. Each rule is one watcher."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from math import isinf

from mechanisms.accounting.ledger import event_from_text
from mechanisms.updates.distributed import DistributedDP
from node.runtime.contributions.jobs import JobSums
from node.runtime.engine import Engine
from node.storage.records import count_of
from protocol.actions import Reason
from protocol.quorum.lineage import Line
from protocol.wire.ids import Key
from protocol.wire.masked_messages import Masked, Release
from protocol.wire.messages import ChargeCount, Charged, Message, Sum
from tests.box.box import Box, BoxNode, Watcher

Sids = frozenset[bytes]
FREE = frozenset({Reason.SWARM_FINISHED, Reason.ALL_SPENT, Reason.BUDGET_SPENT, Reason.OUTDATED})
"""Why a round ends without an offer that nobody failed to take."""


class OneChain(Watcher):
    """Strong bases form one chain: no two of them stand on the same one (docs/quorum.md).

    The base of a folder of before has no links that tell on which one it stands.
    """

    def __init__(self) -> None:
        self._after: dict[int, bytes] = {}
        """The digest of the strong base that was made on the anchor of a generation."""

    def look(self, box: Box) -> None:
        for node in box.honest:
            if node.engine is not None:
                state = node.engine.inspector.state
                if state.base.anchor == state.base.generation > 0 and state.line.links:
                    self._check(box, node, state.line, state.base.digest)

    def _check(self, box: Box, node: BoxNode, line: Line, digest: bytes) -> None:
        before = line.links[-1].group.base.anchor
        if self._after.setdefault(before, digest) != digest:
            box.broken(f"node {node.number} has another strong base after the anchor {before}")


class NothingTwice(Watcher):
    """No vector is offered in two sessions: the step that charges an offer takes it out of `fresh`.

    Only a training puts one there again. Where noise has left a model dead, two trainings may compute the
    same bits; that is no vector offered twice. At a start a node may also charge what only the file beside
    its key knew of; that was never offered.
    """

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, object, Sids]] = {}
        """By node: its life, `fresh` and the ledger, as its last transaction left them."""
        self._offered: defaultdict[int, set[object]] = defaultdict(set)

    def committed(self, box: Box, node: BoxNode, connection: sqlite3.Connection, durable: bool) -> None:
        fresh, charged = _fact(connection, "fresh"), sids(connection, "ledger")
        life, was_fresh, were = self._before.get(node.number, (0, None, frozenset()))
        offered = self._offered[node.number]
        if life == node.lives and fresh != was_fresh:
            offered.discard(fresh)  # trained just now; after a start, `fresh` is what the disk has kept
        if was_fresh is not None and charged - were and node.engine is not None:
            if fresh is not None or was_fresh in offered:
                box.broken(f"node {node.number} offered a vector twice")
            offered.add(was_fresh)
        self._before[node.number] = node.lives, fresh, charged


class ChargedFirst(Watcher):
    """What left a node is charged on disk: in its ledger and, with a privacy budget, beside its key.

    In an additive session that is due before its sum leaves: its shares alone determine nothing. A charge of
    a job is on disk in one of the two places. In a run of steps it may bear the name of the vote before it:
    there the numbers count, and each step has a vector of its own, with new noise.
    """

    def __init__(self) -> None:
        self.offered: defaultdict[int, set[bytes]] = defaultdict(set)
        """By node: the sessions in which something left it, over all lives."""
        self._steps: defaultdict[int, set[bytes]] = defaultdict(set)
        """By node: the digests of the steps that it offered."""

    def saw(self, box: Box, node: BoxNode, way: str, message: Message) -> None:
        if way == "out" and isinstance(message, Sum | Masked) and node.engine is not None:
            sid, offered = _sid(message), self.offered[node.number]
            if sid not in offered:
                offered.add(sid)
                self._must_be_charged(box, node, node.engine, sid)

    def _must_be_charged(self, box: Box, node: BoxNode, engine: Engine, sid: bytes) -> None:
        booked, beside = charged_on_disk(node)
        spending = None if engine.inspector.mechanism.guarantee is None else engine._state._spending
        sums = engine._contribution
        if isinstance(sums, JobSums) and isinstance(engine.inspector.mechanism, DistributedDP):
            digest, known = _digest(sums), self._steps[node.number]
            if digest in known:
                box.broken(f"node {node.number} offered a step twice")
            known.add(digest)
            charged = max(len(booked | beside), _count_on_disk(node).sampled)  # spent before: one row for all
            if charged < len(self.offered[node.number]):
                box.broken(f"node {node.number} sent of an offer whose charge is not on disk")
        elif sid not in booked and not (isinstance(sums, JobSums) and sid in beside):
            box.broken(f"node {node.number} sent of an offer that its ledger on disk does not charge")
        elif spending is not None and spending.path.parent == node.folder and sid not in beside:
            box.broken(f"node {node.number} sent of an offer that the file beside its key does not charge")


def charged_on_disk(node: BoxNode) -> tuple[Sids, Sids]:
    """Returns the sessions that a power failure would leave charged: in the ledger, and beside the key.

    Beside a key that lies in the node's folder, that is; the box has no disk for others.
    """
    database = node.disk.database()
    booked: Sids = frozenset() if database is None else sids(database, "ledger")
    lines = node.disk.synced_content("node.key.spent").splitlines()
    return booked, frozenset(bytes.fromhex(json.loads(line.partition(b" ")[2])["sid"]) for line in lines)


def _digest(sums: JobSums) -> bytes:
    return hashlib.sha256(sums.offer().tobytes()).digest()


class CountedFirst(Watcher):
    """No count of charges leaves a node that its disk does not have, and no offer before the count of it.

    Without a guarantee there is no budget, and nobody is told of the mark that an offer without noise leaves.
    """

    def __init__(self) -> None:
        self.told: dict[int, ChargeCount] = {}
        """By node: the newest count that it told."""
        self._offered: set[tuple[int, bytes]] = set()

    def saw(self, box: Box, node: BoxNode, way: str, message: Message) -> None:
        if way != "out" or node.engine is None or node.engine.inspector.mechanism.guarantee is None:
            return
        told = self.told.get(node.number, ChargeCount())
        if isinstance(message, Charged) and message.count.exceeds(told):
            self.told[node.number] = message.count
            if message.count.exceeds(_count_on_disk(node)):
                box.broken(f"node {node.number} told of charges that are not on disk")
        if isinstance(message, Sum | Masked) and (node.number, _sid(message)) not in self._offered:
            self._offered.add((node.number, _sid(message)))
            if _count_on_disk(node).exceeds(told):
                box.broken(f"node {node.number} sent of an offer before it told of its charge")


def _count_on_disk(node: BoxNode) -> ChargeCount:
    """Returns the count of the charges that a power failure would leave, in the ledger or beside the key."""
    database = node.disk.database()
    booked = [] if database is None else database.execute("select sid, events from ledger").fetchall()
    lines = node.disk.synced_content("node.key.spent").splitlines()
    beside = [json.loads(line.partition(b" ")[2]) for line in lines]
    found = {bytes.fromhex(line["sid"]): map(json.dumps, line["events"]) for line in beside}
    found |= {sid: events.splitlines() for sid, events in booked}
    return count_of(event_from_text(event) for events in found.values() for event in events)


class VotesKept(Watcher):
    """A vote was on disk before it leaves; so was, later, the session that it decided.

    A vote that can never count any more is freed, perhaps before it has left. In a weak group, which has no
    quorum, nobody votes.
    """

    def __init__(self) -> None:
        self._on_disk: defaultdict[int, Sids] = defaultdict(frozenset)
        self._seen: set[tuple[int, bytes]] = set()

    def committed(self, box: Box, node: BoxNode, connection: sqlite3.Connection, durable: bool) -> None:
        if durable:
            self._on_disk[node.number] |= sids(connection, "vote") | sids(connection, "session")

    def saw(self, box: Box, node: BoxNode, way: str, message: Message) -> None:
        if way != "out" or not isinstance(message, Sum | Release) or _voter(message) != node.key.public:
            return  # a release of shares that were not dealt is passed on: it is another's vote
        if not _is_weak(node, _sid(message)):
            seen = node.number, _sid(message)
            if seen not in self._seen and seen[1] not in self._on_disk[node.number]:
                box.broken(f"node {node.number} sent a vote, {type(message).__name__}, that was not on disk")
            self._seen.add(seen)


def _voter(message: Sum | Release) -> Key:
    return message.sender if isinstance(message, Sum) else message.head.sender


def _is_weak(node: BoxNode, sid: bytes) -> bool:
    """Returns whether a session's group has no quorum."""
    if node.engine is None:
        return False
    past = node.engine.inspector.node._catch_up.past.get(sid)
    return past is not None and past.ballot is None


class EndsInWords(Watcher):
    """Every life that ends by itself has an exit status, and one line if it failed."""

    def look(self, box: Box) -> None:
        for node in box.honest:
            if node.is_over and node.lives and node.status is not None:
                is_told = node.lines[-1].startswith("error: ") and "\n" not in node.lines[-1]
                if node.status not in (0, 130) and not is_told:
                    box.broken(f"node {node.number} ended with status {node.status} without a line")


class NoRoundSpent(Watcher):
    """Where nodes wait for ever, who cannot reach a quorum spends no round.

    A round that ends without a result was spent by an offer that had left: its session had a quorum. And no
    sum is made without one.
    """

    def __init__(self) -> None:
        self._charged: dict[int, int] = {}
        """The offers that each node's ledger holds."""
        self._seen: dict[int, tuple[int, int]] = {}
        """By node: the rounds that were looked at, and the offers charged by then."""

    def committed(self, box: Box, node: BoxNode, connection: sqlite3.Connection, durable: bool) -> None:
        self._charged[node.number] = len(sids(connection, "ledger"))

    def look(self, box: Box) -> None:
        for node in box.honest:
            if node.engine is None or node.prepared is None or not isinf(node.prepared.options.wait_s):
                continue
            if not node.engine.inspector.state.base.is_strong:
                box.broken(f"node {node.number} has a base that no quorum made")
            seen, before = self._seen.get(node.number, (0, 0))
            charged, records = self._charged.get(node.number, 0), node.records
            for record in records[seen:]:
                if record.reason is not None and record.reason not in FREE and charged <= before:
                    box.broken(f"node {node.number} spent a round that offered nothing: {record.reason}")
            if len(records) > seen:
                self._seen[node.number] = len(records), charged


def _sid(message: Sum | Masked | Release) -> bytes:
    return message.sid if isinstance(message, Sum) else message.head.sid


def _fact(connection: sqlite3.Connection, name: str) -> object:
    row = connection.execute("select value from fact where name = ?", (name,)).fetchone()
    return row[0] if row else None


def sids(connection: sqlite3.Connection, table: str) -> Sids:
    """Returns the sessions in a table of a node's database."""
    return frozenset(sid for (sid,) in connection.execute(f"select sid from {table}"))


def all_rules() -> list[Watcher]:
    """Returns a new watcher for each rule."""
    each = (OneChain, NothingTwice, ChargedFirst, CountedFirst, VotesKept, NoRoundSpent, EndsInWords)
    return [rule() for rule in each]


def nothing_left(box: Box) -> None:
    """After the end of all nodes: no task, no stream, no listener and no half-written file is left."""
    for stream in box.network.streams:
        box.broken(f"a stream from {stream.here} to {stream.there} is left open")
    for number in box.network.listeners:
        box.broken(f"node {number} still listens")
    for node in box.nodes:
        if node.status is not None:
            left = [path.name for path in node.folder.rglob(".*")]
            if left:
                box.broken(f"node {node.number} left {left}")
