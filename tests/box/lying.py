"""A run of a box from one seed in which one member lies, at whatever step the seed has drawn.

    start ──▶ each of the others is in two sums, whatever the liar does

    python -m tests.box 4711 --lying

Nothing else goes wrong. The seed decides the swarm, the liar's place in the order of keys, what it sends in
place of which message, to whom, and how often. All rules hold for the others (tests/box/invariants.py), and
nobody bans one of them.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.wire import codec
from protocol.wire import masked_messages as masked
from protocol.wire import messages as wire
from protocol.wire.fields import Signed
from protocol.wire.ids import Key
from protocol.wire.messages import Message, Sum
from protocol.wire.signing import sign
from scenarios.simulator.plans import Liar
from tests.box.box import Box, BoxNode, Watcher
from tests.box.invariants import all_rules, sids
from tests.box.seeds import DEADLINES

SUMS = 2
WITHIN_S = 300.0
"""Within this time each of the others is in that many sums."""
EARLIER = 8
"""How many messages of a kind a liar keeps, to send one of them again."""
LARGE = "model.args.sizes=[64,256,10]"
"""A model of which each member adds up a part; all add up the whole of a smaller one."""
MEETING = {"coordinator": (wire.Accepted, wire.Group), "member": (wire.Ready,)}
MASKED = (masked.Join, masked.Joined, masked.JoinCertificate, masked.Masked, masked.Ack, masked.Release)
STEPS = {
    "additive": (wire.Share, Sum),
    "masked": MASKED,
    "masked, large": (*MASKED, masked.Total, masked.Check),
}
"""What is sent in every sum, by its kind."""
SELDOM = (
    *(wire.Announce, wire.Redirect, wire.Head, wire.Heard, wire.Charged, wire.Reminder, wire.Certificate),
    *(masked.ViewChange, masked.Propose, masked.TotalPiece),
)
COMPLAINTS = (masked.Lacking, masked.Dispute)


@dataclass(frozen=True)
class Swarm:
    """What a seed makes."""

    count: int
    kind: str
    liar: int
    what: str
    """The lies in words."""
    lies: tuple[Liar, ...]

    @property
    def overrides(self) -> tuple[str, ...]:
        protocol, _, is_large = self.kind.partition(", ")
        return (
            f"aggregation.protocol={protocol}",
            "train.rounds=1000",
            *DEADLINES,
            *[LARGE] * bool(is_large),
        )


def swarm_of(rng: random.Random) -> Swarm:
    """Draws a swarm, its liar, and one lie or several."""
    count, kind = rng.choice((4, 5, 5, 6, 7)), rng.choice(sorted(STEPS))
    liar = rng.choice((0, rng.randrange(1, count)))
    usual = (*MEETING["member" if liar else "coordinator"], *STEPS[kind])
    drawn = [_a_lie(rng, usual)]
    if rng.random() < 0.3:
        drawn.append(_a_lie(rng, SELDOM))
    if kind != "additive" and rng.random() < 0.2:
        drawn.append(_a_complaint(rng))
    return Swarm(count, kind, liar, "; ".join(what for what, _ in drawn), tuple(lie for _, lie in drawn))


# -- lies --------------------------------------------------------------------------------------------


def _a_lie(rng: random.Random, kinds: tuple[type[Message], ...]) -> tuple[str, Liar]:
    """Draws a kind of message, what is sent in place of it, who gets that, and how often."""
    kind, way = rng.choice(kinds), rng.choice(sorted(WAYS))
    to, share = rng.choice(("all", "all", "some", "one")), rng.choice((1.0, 1.0, 0.5))
    instead = partial(WAYS[way], rng, [])

    def lie(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
        number = int(endpoint.rpartition(":")[2])
        is_told = to == "all" or number % {"some": 2, "one": 4}[to] == 0
        is_due = isinstance(message, kind) and is_told and rng.random() < share
        return tuple(filter(_can_be_sent, instead(key, message))) if is_due else (message,)

    return f"{kind.__name__} {way} to {to}, {share:.0%}", lie


def _a_complaint(rng: random.Random) -> tuple[str, Liar]:
    """Draws a complaint that comes with another message of a sum, about somebody else each time."""
    complaint, before = rng.choice(COMPLAINTS), rng.choice(MASKED[1:])

    def lie(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
        if not isinstance(message, before):
            return (message,)
        sid = masked.session_of(message)
        numbers = (1 << rng.randrange(7),) if complaint is masked.Lacking else (0b1111, rng.randrange(4))
        return sign(complaint(sid, key.public, *numbers), key), message  # type: ignore[arg-type]

    return f"{complaint.__name__} before {before.__name__}", lie


def _can_be_sent(message: Message) -> bool:
    try:
        codec.encode(message)
    except (TypeError, ValueError, OverflowError, RemoteProtocolError):
        return False
    return True


def _earlier(rng: random.Random, kept: list[Message], key: NodeKey, message: Message) -> list[Message]:
    kept.append(message)
    del kept[:-EARLIER]
    return [rng.choice(kept)]


WAYS: dict[str, Callable[[random.Random, list[Message], NodeKey, Message], list[Message]]] = {
    "nothing": lambda rng, kept, key, message: [],
    "an earlier one": _earlier,
    "twice": lambda rng, kept, key, message: [message, message],
    "another, signed": lambda rng, kept, key, message: [_bent(rng, key, message)],
    "both, signed": lambda rng, kept, key, message: rng.sample([message, _bent(rng, key, message)], 2),
    "another, unsigned": lambda rng, kept, key, message: [_bent(rng, None, message)],
}


def _bent(rng: random.Random, key: NodeKey | None, value: Any) -> Any:
    """Returns a value with one thing changed in it; with a key, what is signed is signed again."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice((value + 1, max(value - 1, 0), 0, value ^ 1 << rng.randrange(8)))
        case float():
            return rng.choice((-value, value + 1.0, 0.0))
        case bytes() | memoryview():
            data = bytearray(value)
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(data)
        case str():
            return value + "x"
        case tuple() if value:
            at = rng.randrange(len(value))
            part = rng.choice(((), (value[at], value[at]), (_bent(rng, key, value[at]),)))
            return (*value[:at], *part, *value[at + 1 :])
    return _bent_record(rng, key, value) if is_dataclass(value) else value


def _bent_record(rng: random.Random, key: NodeKey | None, record: Any) -> Any:
    names = [field.name for field in fields(record) if field.name != "signature"]
    name = rng.choice(names)
    other = replace(record, **{name: _bent(rng, key, getattr(record, name))})
    if key is None or not isinstance(other, Signed) or key.public not in _holders(record):
        return other
    signed = sign(other.header if isinstance(other, Sum) else other, key)
    return replace(other, signature=signed.signature)


def _holders(record: Signed) -> list[object]:
    """Returns the keys that a record names: its signer is one of them."""
    return [getattr(record, field.name) for field in fields(record)]


class Lies(Watcher):
    """Makes one node lie, from the start of its engine on."""

    def __init__(self, node: BoxNode, lies: tuple[Liar, ...]) -> None:
        self._node, self._lies, self._is_lying = node, lies, False
        self.told = 0
        """How many messages were not what they should have been."""

    def look(self, box: Box) -> None:
        if self._node.engine is not None and not self._is_lying:
            self._is_lying = True
            self._begin(box, self._node.engine)

    def _instead(self, endpoint: str, message: Message) -> tuple[Message, ...]:
        """Returns what it sends to an endpoint in place of a message."""
        sent: tuple[Message, ...] = (message,)
        for lie in self._lies:
            sent = tuple(other for one in sent for other in lie(self._node.key, endpoint, one))
        self.told += sent != (message,)
        return sent

    def _begin(self, box: Box, engine: Any) -> None:
        lie = self._instead
        at = {node.key.public: node.endpoint for node in box.nodes}
        transport, intake = engine.transport, engine.transport.intake
        send, receive = transport.send, intake._receive

        def sending(endpoint: str, messages: Any, bulk: bool = False) -> None:
            told = [one for message in messages for one in lie(endpoint, message)]
            if told:
                send(endpoint, told, bulk)

        async def receiving(message: Message, back: Any) -> None:
            await receive(message, Answers(back, partial(lie, at.get(back.key, self._node.endpoint))))

        transport.send, intake._receive = sending, receiving


@dataclass(frozen=True)
class Answers:
    """The way back of a node that lies."""

    back: Any
    lie: Callable[[Message], tuple[Message, ...]]

    @property
    def key(self) -> Key | None:
        return self.back.key  # type: ignore[no-any-return]

    def send(self, messages: tuple[Message, ...]) -> None:
        told = tuple(one for message in messages for one in self.lie(message))
        if told:
            self.back.send(told)


# -- runs --------------------------------------------------------------------------------------------


class NobodyBanned(Watcher):
    """Nobody bans a node that keeps to the protocol."""

    def look(self, box: Box) -> None:
        keys = {node.key.public for node in box.honest}
        for node in box.honest:
            if node.engine is not None and keys & node.engine.inspector.state.banned.keys():
                box.broken(f"node {node.number} has banned one that does not lie")


class Included(Watcher):
    """In how many of the bases that are known each node's offers are."""

    def __init__(self) -> None:
        self._made: set[bytes] = set()
        self._offered: dict[int, frozenset[bytes]] = {}

    def look(self, box: Box) -> None:
        self._made |= {node.engine.inspector.state.base.sid for node in box.honest if node.engine is not None}

    def committed(self, box: Box, node: BoxNode, connection: sqlite3.Connection, durable: bool) -> None:
        self._offered[node.number] = sids(connection, "ledger")

    def least(self, box: Box) -> int:
        """The number of sums that the node is in that is in the fewest."""
        return min(len(self._made & self._offered.get(node.number, frozenset())) for node in box.honest)


class LyingRun:
    """One run."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(f"{seed} lying")
        self.swarm = swarm = swarm_of(self.rng)
        self.box = box = Box(seed, folder, swarm.count, 1000, *swarm.overrides)
        liar = box.nodes[swarm.liar]
        box.honest = [node for node in box.nodes if node is not liar]
        self._included = Included()
        box.watchers = [*all_rules(), NobodyBanned(), Lies(liar, swarm.lies), self._included]
        box.note(liar.number, "lies", swarm.what)
        pace = random.Random(f"{seed} training")
        box.loop.lasts_s = lambda name: pace.uniform(1.0, 3.0) if name == "_train" else 0.0

    def go(self) -> Box:
        """Runs it to its end; AssertionError, with the trace, if anything is as it must not be."""
        box = self.box
        with box:
            for node in box.nodes:
                box.at(self.rng.uniform(0.0, 1.0), node.start)
            box.run(lambda: bool(box.faults) or self._included.least(box) >= SUMS, WITHIN_S)
        assert not box.faults, box.told()
        return box
