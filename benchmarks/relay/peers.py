"""Whole transports that do a round's traffic, directly and by a relay: what a relay costs a member in CPU.

All members are in this process, the relay is another one. A round of ten members with a million parameters is
72 MB: each sends each other a chunk of its vector and a chunk of the total, and a few small messages.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from benchmarks.relay.process import RelayProcess
from node.net.incoming.listening import DEFAULT, endpoint_of, listen
from node.net.relay.streams import RelayedStreams
from node.net.reply_path import Back
from node.net.tls import ON, make_tls
from node.net.transport import Callbacks, Transport
from node.system.errors import UserError
from node.system.system import SYSTEM, System
from protocol.crypto.node_key import NodeKey
from protocol.relay.admission import sign_members
from protocol.vectors.pieces import PIECE_BYTES
from protocol.wire.endpoints import of_key
from protocol.wire.masked_messages import Masked, MaskedHead
from protocol.wire.messages import Accepted, Message

_CHUNKS, _SMALL = 2, 4
"""What a member sends another in a round; a chunk goes in pieces."""
_WORD_BYTES = 4
_DIGEST, _SIGNATURE = bytes(32), bytes(64)


@dataclass(frozen=True)
class Traffic:
    """So many members, parameters and rounds."""

    members: int
    parameters: int
    rounds: int

    @property
    def bulk(self) -> tuple[Message, ...]:
        """The bulk that a member sends another in a round."""
        size = _WORD_BYTES * self.parameters // self.members
        pieces = -(-size // PIECE_BYTES)
        head = MaskedHead(_DIGEST, _DIGEST, 0, _DIGEST, _SIGNATURE)
        return (Masked(head, bytes(size // pieces)),) * (_CHUNKS * pieces)

    @property
    def small(self) -> tuple[Message, ...]:
        """The small messages beside it."""
        return (Accepted(bytes(16)),) * _SMALL


class Peer:
    """A transport, and how many messages it has received."""

    def __init__(self, key: NodeKey, endpoint: str, system: System) -> None:
        self.endpoint = endpoint
        self._received = 0
        self._lost = ""
        self._news = asyncio.Event()
        tls = make_tls(key, ON, endpoint, lambda _: frozenset())
        callbacks = Callbacks(self._receive, self._unreachable, _reconnected, print, lambda _: True)
        self.transport = Transport(callbacks, heavy=False, tls=tls, key=key, system=system)

    async def _receive(self, _message: Message, _back: Back) -> None:
        self._received += 1
        self._news.set()

    async def _unreachable(self, endpoint: str, why: str) -> None:
        self._lost = f"relay: the link to {endpoint} was lost: {why}"
        self._news.set()

    async def until(self, count: int) -> None:
        """Waits until so many messages have been received. Raises UserError if a link is lost."""
        while self._received < count:
            if self._lost:
                raise UserError(self._lost)
            self._news.clear()
            await self._news.wait()


async def _reconnected(_endpoint: str) -> None:
    """A link that breaks sends its messages again."""


def member_cpu_s(traffic: Traffic, relay: RelayProcess | None) -> float:
    """Returns the CPU seconds of a member in a round: by the relay, or directly without one."""
    return asyncio.run(_member_cpu_s(traffic, relay))


async def _member_cpu_s(traffic: Traffic, relay: RelayProcess | None) -> float:
    async with peers(traffic.members, relay) as swarm:
        await play_round(swarm, traffic, 1)  # opens the links
        begun_s = time.process_time()
        for number in range(traffic.rounds):
            await play_round(swarm, traffic, number + 2)
        return (time.process_time() - begun_s) / traffic.rounds / traffic.members


async def play_round(swarm: list[Peer], traffic: Traffic, number: int) -> None:
    """Each sends all others what it sends in the round of this number, counted from 1; ends with the last."""
    bulk, small = traffic.bulk, traffic.small
    for one in swarm:
        for other in swarm:
            if other is not one:
                one.transport.send(other.endpoint, bulk, bulk=True)
                one.transport.send(other.endpoint, small)
    each = (len(bulk) + len(small)) * (len(swarm) - 1)
    await asyncio.gather(*(peer.until(number * each) for peer in swarm))


@asynccontextmanager
async def peers(count: int, relay: RelayProcess | None) -> AsyncIterator[list[Peer]]:
    """Yields so many started transports."""
    keys = [NodeKey(number.to_bytes(32, "big")) for number in range(1, count + 1)]
    async with AsyncExitStack() as stack:
        yield [await _peer(key, keys, relay, stack) for key in keys]


async def _peer(key: NodeKey, keys: list[NodeKey], relay: RelayProcess | None, stack: AsyncExitStack) -> Peer:
    """Returns a started transport, whose endpoint is its key if there is a relay."""
    listener: socket.socket = stack.enter_context(listen(DEFAULT))
    endpoint, system = endpoint_of(listener, None), SYSTEM
    if relay is not None:
        members = sign_members(keys[0], _DIGEST, tuple(each.public for each in keys))
        streams = RelayedStreams(key, members, (relay.for_swarms_of(keys[0].public),))
        await streams.start()
        stack.push_async_callback(streams.close)
        endpoint, system = of_key(key.public), System(streams=streams)
    peer = Peer(key, endpoint, system)
    await peer.transport.start(listener, [])
    stack.push_async_callback(peer.transport.close)
    return peer
