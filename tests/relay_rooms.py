"""A relay's rooms in memory: the relay's own machine, without sockets. Connections can be cut."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from node.invitation.rooms import Shut
from protocol.crypto.cpace import Run
from protocol.crypto.node_key import NodeKey
from protocol.relay.admission import Licences, Relay
from protocol.relay.room_messages import (
    Barred,
    OpenRooms,
    Rooms,
    WordShare,
    read_to_inviter,
    read_to_joiner,
    write_room_message,
)
from protocol.relay.rooms import Hang, Lobby, Output, Tell
from protocol.relay.word import INVITER, word_run
from protocol.wire.ids import Key

KEY = NodeKey(b"relay" + bytes(27))
ENDPOINT, WORD = "relay.example:443", "v8k2-qm4t"


def word_share(word: str, relay: Key, inviter: Key) -> tuple[Run, WordShare]:
    """How an inviter begins to prove a word."""
    run = word_run(INVITER, word, bytes(16), relay, inviter, os.urandom(32))
    return run, WordShare(bytes(16), run.share)


class Link:
    """One websocket's end at the relay."""

    def __init__(self, relay: MemoryRelay) -> None:
        self.relay = relay
        self.heard: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def receive(self) -> bytes:
        data = await self.heard.get()
        if data is None:
            self.heard.put_nowait(None)
            raise ConnectionResetError("cut")
        return data


class JoinersEnd(Link):
    async def say(self, message: bytes) -> None:
        if self not in self.relay.joiners:
            raise ConnectionResetError("cut")
        self.relay.do(self.relay.lobby.hear_joiner(self, message))

    async def hear(self) -> bytes:
        return await self.receive()


class InvitersEnd(Link):
    async def say(self, message) -> None:
        if self not in self.relay.inviters:
            raise ConnectionResetError("cut")
        packed = write_room_message(message)
        self.relay.do(self.relay.lobby.hear_inviter(self, packed, self.relay.random(), 0.0))

    async def hear(self):
        return read_to_inviter(await self.receive())


class MemoryRelay:
    """A relay. `seen`: all that passed through its rooms."""

    def __init__(self, endpoint: str = ENDPOINT) -> None:
        self.endpoint = endpoint
        self.lobby = Lobby(Licences(KEY, WORD), WORD, 0.0)
        self.inviters: set[InvitersEnd] = set()
        self.joiners: set[JoinersEnd] = set()
        self._drawn = 0
        self._now = 0.0

    def random(self) -> bytes:
        self._drawn += 1
        return b"".join((self._drawn * 1000 + place).to_bytes(4, "big") for place in range(64))

    def do(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Tell(Link() as link, message):
                    link.heard.put_nowait(message)
                case Hang(Link() as link):
                    link.heard.put_nowait(None)
                    self.joiners -= {link}

    def start_again(self, taken: dict[str, NodeKey]) -> None:
        """It has forgotten all rooms, and some are another inviter's before the first one is back."""
        self.cut_joiners()
        self.cut_inviters()
        self.lobby = Lobby(Licences(KEY, WORD), WORD, 0.0)
        for room, key in taken.items():
            link = InvitersEnd(self)
            self.lobby.meet_inviter(link, key.public, "10.0.0.2")
            licence = Licences(KEY, WORD).give(key.public)
            asked = write_room_message(OpenRooms(b"", licence, (room,), 0))
            self.do(self.lobby.hear_inviter(link, asked, self.random(), 0.0))

    def cut_joiners(self, *, is_noticed: bool = True) -> None:
        """Breaks the connections of all joiners; the relay may not notice it."""
        for link in list(self.joiners):
            self.joiners -= {link}
            link.heard.put_nowait(None)
            if is_noticed:
                self.do(self.lobby.lose_joiner(link))

    def cut_inviters(self) -> None:
        """Breaks the connections of all inviters."""
        for link in list(self.inviters):
            self.inviters -= {link}
            link.heard.put_nowait(None)
            self.do(self.lobby.lose_inviter(link))

    @asynccontextmanager
    async def opened(self, key: NodeKey, asked: OpenRooms) -> AsyncIterator:
        """An inviter's rooms."""
        link = InvitersEnd(self)
        self.inviters.add(link)
        self.lobby.meet_inviter(link, key.public, "10.0.0.1")
        if not (asked.licence or asked.credentials):
            exchange, share = word_share(WORD, KEY.public, key.public)
            await link.say(share)
            asked = replace(asked, proof=exchange.finish((await link.hear()).point).own)
        await link.say(asked)
        answer = await link.hear()
        assert isinstance(answer, Rooms)
        try:
            yield link, Relay(self.endpoint, KEY.public, answer.licence), answer.digits
        finally:
            self.inviters -= {link}
            self.do(self.lobby.lose_inviter(link))

    @asynccontextmanager
    async def entered(self, room: str) -> AsyncIterator[JoinersEnd]:
        """A joiner's room."""
        link = JoinersEnd(self)
        self.joiners.add(link)
        self._now += 60.0
        self.do(self.lobby.knock(link, room, f"10.0.1.{len(self.joiners)}", self._now))
        answer = read_to_joiner(await link.receive())
        if isinstance(answer, Barred):
            raise Shut(answer.bar)
        try:
            yield link
        finally:
            if link in self.joiners:
                self.joiners -= {link}
                self.do(self.lobby.lose_joiner(link))
