"""One peer of a secure sum in a process of its own: session, shell and transport are a node's.

It trains nothing and has no database: a Store keeps what other peers may still request. A base has the digest
of its session, not of a model. The parent starts each round.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.secagg.cells import CLIP, RING, Cell
from benchmarks.secagg.meter import Meter, cpu_seconds, settle
from benchmarks.secagg.store import Store
from node.net.reply_path import Back
from node.net.tls import make_tls
from node.net.transport import Callbacks, Transport
from node.runtime.shell import Shell, is_heavy
from node.system.errors import UserError
from protocol.actions import Action, Completed, Evidence, Failed, Fatal, Healed, Keep, Send, Serve
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.aggregation.participant import SessionTimeouts
from protocol.crypto.node_key import NodeKey
from protocol.quorum.electorate import of_names
from protocol.swarm.node import Node
from protocol.swarm.node_state import (
    Aggregation,
    Contacts,
    NodeState,
    QuorumRules,
    Settings,
    SharedTask,
    Timeouts,
)
from protocol.vectors.pieces import Floats
from protocol.vectors.shelf import MakeShelf
from protocol.wire.masked_messages import ResultCertificate
from protocol.wire.messages import NO_SID, Base, Group, Message
from protocol.wire.signing import parameters_hash

PHASE_TIMEOUT_S = 900.0
_PARAMETERS = "{}"
_MAX_SHARE_VALUE = 100.0


@dataclass(frozen=True)
class Place:
    """Which member of which cell a process runs, the endpoints of all members, and whether links use TLS."""

    cell: Cell
    member: int
    endpoints: tuple[str, ...]
    tls: bool

    def settings(self, shelf: MakeShelf) -> Settings:
        """Return what a node would derive from its task and its options."""
        here, ring = self.endpoints[self.member], self.cell.ring
        kind = "ring" if self.cell.protocol == RING else "seed"
        return Settings(
            key=NodeKey(hashlib.sha256(f"benchmark key {self.member}".encode()).digest()),
            endpoint=here,
            instance=os.urandom(16),
            task=SharedTask("secagg", _PARAMETERS, self.cell.n, sums=2**31),  # the parent ends the run
            contacts=Contacts(
                seeds=tuple(endpoint for endpoint in self.endpoints if endpoint != here),
                tracker=None,
                pins={},
                allow=None,
            ),
            aggregation=Aggregation(
                dimension=self.cell.d,
                shares=ShareSettings(kind, CLIP, _MAX_SHARE_VALUE),
                masked=None if ring is None else MaskedSettings(CLIP, None, ring=ring),
            ),
            timeouts=Timeouts(PHASE_TIMEOUT_S, SessionTimeouts(PHASE_TIMEOUT_S, PHASE_TIMEOUT_S)),
            quorum=QuorumRules(of_names(self.endpoints)),
            shelf=shelf,
        )


def run(place: Place, folder: Path, listener: socket.socket, parent: Connection) -> int:
    """Run rounds until the parent ends them; return the exit status. `folder`: for the peer's files."""
    asyncio.run(_run_member(place, Store(folder), listener, parent))
    return 0


async def _run_member(place: Place, store: Store, listener: socket.socket, parent: Connection) -> None:
    member = Member(place, store)
    await member.transport.start(listener, [])
    timer = asyncio.create_task(member.shell.keep_time())
    rounds = asyncio.create_task(_run_rounds(member, place, store, parent))
    try:
        await asyncio.wait((rounds, member.shell.broken), return_when=asyncio.FIRST_COMPLETED)
        (member.shell.broken if member.shell.broken.done() else rounds).result()
    finally:
        for task in (timer, rounds):
            task.cancel()
        await asyncio.gather(timer, rounds, return_exceptions=True)
        await member.transport.close()


async def _run_rounds(member: Member, place: Place, store: Store, parent: Connection) -> None:
    """Run rounds in step with the parent, until it sends None."""
    begun = cpu_seconds()
    await member.meet()
    met_cpu_s = cpu_seconds() - begun
    rest = settle()
    parent.send(met_cpu_s)
    while (number := await receive_from(parent)) is not None:
        store.prune()
        meter = await asyncio.to_thread(Meter, place.cell, place.member, number, rest)
        parent.send(None)
        await receive_from(parent)
        meter.start(member.transport.counts.sent, store.shelves)
        mean, at = await member.run_round(meter)
        parent.send(at)
        await receive_from(parent)
        sent = member.transport.counts.sent
        parent.send(await asyncio.to_thread(meter.sample, mean, sent, at - member.grouped_at))
        del meter, mean


async def receive_from(parent: Connection) -> Any:
    """Wait for the parent's next message, without a thread, and return it."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[None] = loop.create_future()

    def note() -> None:
        if not arrived.done():
            arrived.set_result(None)

    loop.add_reader(parent.fileno(), note)
    try:
        await arrived
    finally:
        loop.remove_reader(parent.fileno())
    return parent.recv()


class Member:
    """A node without a model or training."""

    def __init__(self, place: Place, store: Store) -> None:
        self._cell = place.cell
        self._store = store
        self._met = asyncio.Event()
        self._outcome: asyncio.Future[tuple[Floats, float]] | None = None
        self.grouped_at = 0.0
        """When this peer received the last GROUP, or sent it, in monotonic seconds."""
        base = Base(0, parameters_hash(_PARAMETERS), 0, NO_SID)
        settings = place.settings(store.shelves)
        self._node = Node(settings, NodeState(0, base, None, {}), {}, os.urandom(32))
        heavy = is_heavy(place.cell.d)
        self.shell = Shell(self._node, self._send, self._perform, heavy, self._node.is_light)
        tls = (
            make_tls(
                key=settings.key,
                choice="on",
                endpoint=settings.endpoint,
                keys_at=self._node.addresses.may_answer,
            )
            if place.tls
            else None
        )
        callbacks = Callbacks(
            receive=self._receive,
            unreachable=self.shell.unreachable,
            reconnected=self.shell.reconnected,
            warn=lambda _: None,  # all members have the same version
            is_member=lambda _: True,
            is_wanted=self._node.runs,
        )
        self.transport = Transport(callbacks, heavy, tls, settings.key)

    async def meet(self) -> None:
        """Greet the other members; wait until all have answered."""
        await self.shell.feed(self._node.open)
        await self._met.wait()

    async def run_round(self, meter: Meter) -> tuple[Floats, float]:
        """Offer the meter's vector; return the mean (d,) float32, and its time in monotonic seconds."""
        self._outcome = asyncio.get_running_loop().create_future()
        await self._offer(meter)
        outcome, self._outcome = await self._outcome, None
        return outcome

    async def _offer(self, meter: Meter) -> None:
        """Offer the round's vector. When this returns, only the session holds it, as in a node."""
        vector, rand = meter.hand_over(), os.urandom(32)
        await self.shell.feed(lambda now: self._node.offer(vector, rand, now))

    async def _receive(self, message: Message, back: Back) -> None:
        if isinstance(message, Group):
            self.grouped_at = time.monotonic()
        await self.shell.receive(message, back)
        if not self._met.is_set() and not await self.shell.look(lambda: self._node.status.phase == "joining"):
            self._met.set()

    def _send(self, send: Send) -> None:
        if not send.bulk and isinstance(next(iter(send.messages)), Group):
            self.grouped_at = time.monotonic()  # this member is the coordinator
        if isinstance(send.to, str):
            self.transport.send(send.to, send.messages, send.bulk)

    async def _perform(self, action: Action) -> list[Action]:
        match action:
            case Keep():
                self._store.keep(action.parts)
            case Serve():
                message = await asyncio.to_thread(self._store.answer, action.request)
                if message is not None:
                    self.transport.send(action.to, (message,), bulk=True)
            case Completed():
                return self._adopt(action, time.monotonic())
            case Failed() | Fatal() | Healed() | Evidence():
                raise UserError(f"secagg: {self._cell} did not end well: {action!r:.300}")
        return []

    def _adopt(self, completed: Completed, at: float) -> list[Action]:
        is_masked = isinstance(completed.certificate, ResultCertificate)
        if is_masked != (self._cell.ring is not None):
            raise UserError(f"secagg: {self._cell} was summed up by another protocol")
        if len(completed.contributors) < self._cell.n:
            raise UserError(f"secagg: {self._cell}: {len(completed.contributors)} peers are in the mean")
        self._store.certify(completed.sid, completed.certificate)
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result((completed.result, at))
        return self._node.adopted(self._next_base(completed), self.shell.clock.now())

    def _next_base(self, completed: Completed) -> Base:
        generation = self._node.base.generation + 1
        digest = hashlib.sha256(completed.sid).digest()
        anchor = 0 if completed.line is None else completed.line.anchor
        return Base(generation, digest, self._cell.n, completed.sid, anchor)
