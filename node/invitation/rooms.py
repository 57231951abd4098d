"""The rooms of a relay, as an inviter and a joiner use them: a websocket each, outgoing only.

The inviter knows the relay by its key, which the relay proves; the first time, by its word, which both prove
to know. A joiner needs no such proof: what it says is
for the inviter alone, and whoever stands in between learns no more than the relay may.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Protocol, TypeVar

from aiohttp import ClientError, ClientWebSocketResponse, WSMsgType

from node.net.relay.client import NoWay, RelayClient, next_message, prove
from node.system.errors import UserError
from node.system.streams import KERNEL
from node.system.system import SYSTEM, System
from protocol.crypto.cpace import SCALAR_BYTES, Agreed
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import Refused, Relay
from protocol.relay.room_messages import (
    MAX_ROOM_MESSAGE_BYTES,
    Bar,
    Barred,
    FromInviter,
    OpenRooms,
    Rooms,
    ToInviter,
    WordShare,
    read_to_inviter,
    read_to_joiner,
    write_room_message,
)
from protocol.relay.word import INVITER, NONCE_BYTES, word_run
from protocol.wire.ids import Key

_ANSWER_S = 30.0
_MOST_UNREAD = 16
"""Messages that wait for their reader."""


class Shut(UserError):
    """A room lets nobody in now. `bar` says why."""

    def __init__(self, bar: Bar) -> None:
        super().__init__(_BARS[bar])
        self.bar = bar


_BARS = {
    Bar.NO_ROOM: "nobody waits for this code: it is over, used or mistyped; ask for a new one",
    Bar.NOBODY: "the inviter is not there now: keep this running, or ask the inviter to open the window",
    Bar.TAKEN: "somebody is about to use this code (if that is not you, tell the inviter)",
    Bar.TOO_OFTEN: "too many came to the room of this code, or from this network, in the last minute",
}


class JoinersRoom(Protocol):
    """A room, from inside."""

    async def say(self, message: bytes) -> None:
        """Sends a message to the inviter. Raises ConnectionError."""

    async def hear(self) -> bytes:
        """Returns the inviter's next message. Raises ConnectionError once the room is left."""


class InvitersRooms(Protocol):
    """All rooms of an inviter."""

    async def say(self, message: FromInviter) -> None:
        """Sends a message to the relay. Raises ConnectionError."""

    async def hear(self) -> ToInviter:
        """Returns the relay's next message. Raises ConnectionError."""


class _Socket:
    """A websocket that is read all the time: else nobody would notice pings while its owner thinks."""

    def __init__(self, ws: ClientWebSocketResponse) -> None:
        self._ws = ws
        self._heard: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_UNREAD)

    async def read(self) -> None:
        """Reads until the connection ends."""
        while (frame := await self._ws.receive()).type is WSMsgType.BINARY:
            await self._heard.put(bytes(frame.data))
        await self._heard.put(None)

    async def send(self, data: bytes) -> None:
        await self._ws.send_bytes(data)

    async def receive(self) -> bytes:
        data = await self._heard.get()
        if data is None:
            self._heard.put_nowait(None)
            raise ConnectionResetError("the relay ended the connection")
        return data


class _Room(_Socket):
    async def say(self, message: bytes) -> None:
        """See JoinersRoom."""
        await self.send(message)

    async def hear(self) -> bytes:
        """See JoinersRoom."""
        return await self.receive()


class _Rooms(_Socket):
    async def say(self, message: FromInviter) -> None:
        """See InvitersRooms."""
        await self.send(write_room_message(message))

    async def hear(self) -> ToInviter:
        """See InvitersRooms. A message that breaks a rule ends the connection, too."""
        try:
            return read_to_inviter(await self.receive())
        except RemoteProtocolError as error:
            raise ConnectionResetError(f"the relay breaks a rule: {error}") from error


_End = TypeVar("_End", bound=_Socket)


@asynccontextmanager
async def entered(relay: str, room: str) -> AsyncIterator[JoinersRoom]:
    """Enters a room of the relay at HOST:PORT, and leaves it at the end. Raises Shut, ConnectionError."""
    async with _websocket(relay, f"/v1/room/{room}") as ws:
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = read_to_joiner(await next_message(ws))
        except (OSError, RemoteProtocolError) as error:
            raise _silent(relay, error) from error
        if isinstance(answer, Barred):
            raise Shut(answer.bar)
        async with _reading(_Room(ws)) as room_inside:
            yield room_inside


@asynccontextmanager
async def opened_rooms(
    relay: str, knows: Key | str, key: NodeKey, asked: OpenRooms, system: System = SYSTEM
) -> AsyncIterator[tuple[InvitersRooms, Relay, tuple[str, ...]]]:
    """Opens or resumes an inviter's rooms; yields them, the relay and its licence, and the rooms' digits.

    `knows`: the key that the relay must have; its word if it is met for the first time. Raises UserError if
    it has another key, does not know its word, or refuses; ConnectionError if there is no way to it.
    """
    async with _websocket(relay, "/v1/rooms") as ws:
        try:
            async with asyncio.timeout(_ANSWER_S):
                shown = await prove(ws, key, system.entropy)
                agreed = None
                if isinstance(knows, str):
                    agreed = await _exchange(ws, knows, shown, key, system)
                    asked = replace(asked, proof=agreed.own)
                else:
                    _check_key(relay, shown, knows)
                await ws.send_bytes(write_room_message(asked))
                answer = read_to_inviter(await next_message(ws))
        except (OSError, RemoteProtocolError) as error:
            raise _silent(relay, error) from error
        match answer:
            case Rooms(licence, digits, proof):
                if agreed is not None and not agreed.is_proved(proof):
                    raise _stranger(relay)
                async with _reading(_Rooms(ws)) as rooms:
                    yield rooms, Relay(relay, shown, licence), digits
            case Refused(why, is_final) if is_final:
                raise UserError(f"the relay {relay} refuses: {why}", status=2)
            case Refused(why):
                raise ConnectionError(f"the relay {relay} refuses: {why}")
            case _:
                raise ConnectionError(f"no relay answers at {relay}: it says {type(answer).__name__}")


async def _exchange(
    ws: ClientWebSocketResponse, word: str, relay: Key, key: NodeKey, system: System
) -> Agreed:
    """Runs CPace by the relay's word."""
    nonce, scalar = system.entropy(NONCE_BYTES), system.entropy(SCALAR_BYTES)
    run = word_run(INVITER, word, nonce, relay, key.public, scalar)
    await ws.send_bytes(write_room_message(WordShare(nonce, run.share)))
    answer = read_to_inviter(await next_message(ws))
    if not isinstance(answer, WordShare):
        raise RemoteProtocolError(f"it says {type(answer).__name__}")
    return run.finish(answer.point)


def _stranger(relay: str) -> UserError:
    return UserError(
        f"{relay} does not know the word of the relay: another machine answers there, which learned nothing "
        "of the word; ask who runs the relay",
        status=2,
    )


def _silent(relay: str, error: Exception) -> ConnectionError:
    return ConnectionError(f"no relay answers at {relay}: {str(error) or 'no answer in time'}")


def _check_key(relay: str, shown: Key, pinned: Key) -> None:
    """Raises UserError if the relay has another key than it must have."""
    if shown != pinned:
        raise UserError(
            f"the relay {relay} holds the key {shown.hex()[:16]}..., not {pinned.hex()[:16]}...: another "
            "machine answers there; ask who runs it",
            status=2,
        )


@asynccontextmanager
async def _websocket(relay: str, path: str) -> AsyncIterator[ClientWebSocketResponse]:
    """Opens a websocket, and closes it at the end. Raises ConnectionError."""
    client = RelayClient(KERNEL)
    try:
        ws = await client.open(relay, path, MAX_ROOM_MESSAGE_BYTES)
    except NoWay as error:
        await client.close()
        raise ConnectionError(str(error)) from error
    try:
        yield ws
    finally:
        with suppress(ClientError, OSError):
            await ws.close()
        await client.close()


@asynccontextmanager
async def _reading(end: _End) -> AsyncIterator[_End]:
    """Reads all the time."""
    reading = asyncio.create_task(end.read())
    try:
        yield end
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
