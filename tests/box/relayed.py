"""Transports in a box whose peers are keys, and the relay between them: all in memory, under virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

from node.net.relay.streams import RelayedStreams
from node.net.tls import make_tls
from node.net.transport import Callbacks, Transport
from node.relay.relaying import Relaying
from node.system.clock import Clock
from node.system.system import System
from protocol.crypto.node_key import NodeKey
from protocol.relay.admission import Licences, Relay, sign_members
from protocol.relay.switch import Passed
from protocol.wire.endpoints import of_key
from tests.box.loop import Life, VirtualLoop
from tests.box.network import FIRST_PORT, HOST, MemoryStreams, Network

WORD = "v8k2-qm4t"
RELAY_KEY = NodeKey(bytes([99]) * 32)


class Process:
    """A process of the box, over all its lives."""

    def __init__(self, box: RelayedBox, number: int, key: NodeKey) -> None:
        self.box, self.number, self.key = box, number, key
        self.life: Life | None = None
        self._lives = 0

    def begin(self) -> Life:
        self._lives += 1
        self.life = Life(self.box.loop, f"process {self.number}, life {self._lives}")
        return self.life

    def system(self) -> System:
        loop, chances = self.box.loop, random.Random(f"{self.box.seed} {self.number} {self._lives}")
        streams = MemoryStreams(self.box.network, self.number)
        return System(Clock(loop.clock, loop.clock, loop.clock), streams=streams, entropy=chances.randbytes)

    def kill(self, *, silently: bool = False) -> None:
        assert self.life is not None
        self.box.network.reset(self.life, silently=silently)
        self.life.cancel()


class RelayProcess(Process):
    """The relay."""

    def start(self) -> None:
        self.begin().begin(self._live())

    async def _live(self) -> None:
        system = self.system()
        told: Any = (None, None, None, print, lambda _: False)
        tls = make_tls(self.key, "on", f"{HOST}:{FIRST_PORT + self.number}", lambda _: frozenset())
        transport = Transport(Callbacks(*told), False, tls, self.key, system=system)
        self.relaying = Relaying(self.key, WORD, transport.counts, system=system)
        await transport.start(self.box.network.bind(self.number), self.relaying.routes)
        try:
            await asyncio.Event().wait()
        finally:
            await transport.close()

    def go_mute(self) -> None:
        """It takes frames, and passes on none."""
        self.relaying._switch.pass_on = lambda *_: Passed()


class MemberProcess(Process):
    """A member: what it received, and what it says of others."""

    def __init__(self, box: RelayedBox, number: int, key: NodeKey) -> None:
        super().__init__(box, number, key)
        self.endpoint = of_key(key.public)
        self.got: list[Any] = []
        self.lost: list[tuple[float, str]] = []
        self.again: list[str] = []
        self.is_up = False

    def start(self) -> None:
        self.begin().begin(self._live())

    async def _live(self) -> None:
        base, box = self.system(), self.box
        self.streams = RelayedStreams(
            self.key, box.members, box.relays, base.streams, base.entropy, warn=lambda _: None
        )
        await self.streams.start()
        system = System(base.clock, streams=self.streams, entropy=base.entropy)
        tls = make_tls(self.key, "auto", self.endpoint, lambda _: frozenset())
        told = (self._receive, self._unreachable, self._reconnected, print, lambda _: True)
        self.transport = Transport(Callbacks(*told), False, tls, self.key, system=system)
        await self.transport.start(box.network.bind(self.number), [])
        self.is_up = True
        try:
            await asyncio.Event().wait()
        finally:
            await self.transport.close()
            await self.streams.close()

    async def _receive(self, message: Any, _: Any) -> None:
        self.got.append(message)

    async def _unreachable(self, _: str, why: str) -> None:
        self.lost.append((self.box.loop.time(), why))

    async def _reconnected(self, endpoint: str) -> None:
        self.again.append(endpoint)

    def send(self, other: MemberProcess, messages: Iterable[Any]) -> None:
        assert self.life is not None
        context = self.life.context.copy()
        self.box.loop.call_soon(self.transport.send, other.endpoint, messages, context=context)


class RelayedBox:
    """`members` members, and `relays` relays behind them in number."""

    def __init__(self, seed: int, members: int = 2, relays: int = 1) -> None:
        self.seed, self.loop = seed, VirtualLoop()
        self.network = Network(self.loop, seed)
        keys = tuple(NodeKey(bytes([number + 1]) * 32) for number in range(members))
        self.members = sign_members(keys[0], bytes(32), tuple(key.public for key in keys))
        licence = Licences(RELAY_KEY, WORD).give(keys[0].public)
        self.nodes = [MemberProcess(self, number, key) for number, key in enumerate(keys)]
        self.relay_nodes = [RelayProcess(self, members + number, RELAY_KEY) for number in range(relays)]
        self.relays = tuple(
            Relay(f"{HOST}:{FIRST_PORT + relay.number}", RELAY_KEY.public, licence)
            for relay in self.relay_nodes
        )

    def start(self) -> None:
        for process in (*self.relay_nodes, *self.nodes):
            process.start()
        self.loop.run_until(lambda: all(node.is_up for node in self.nodes))

    def run_for(self, seconds: float) -> None:
        end = self.loop.time() + seconds
        self.loop.call_at(end, lambda: None)
        self.loop.run_until(lambda: self.loop.time() >= end)

    def close(self) -> None:
        for process in (*self.nodes, *self.relay_nodes):
            process.kill()
        self.run_for(5.0)
        self.loop.close()
        assert not [what for life, what in self.loop.errors if life is None or not life.is_dead]
