"""Links that other nodes open here: their handshake, the messages on them, and the replies.

    handshake (in limited time) ──▶ key proved, ticket issued ──▶ messages, in order ──▶ end, ticket invalid

One task reads a websocket, another writes it. Replies wait in a bounded queue.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from itertools import count

from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from node.net.incoming.doors import Doors
from node.net.intake import HEARTBEAT_S, MAX_CONTROL_BYTES, RELAYED_OPEN_S, SMALL_BYTES, Intake, log
from node.net.outbox import Budget, Outbox
from node.net.reply_path import NO_WAY_BACK, Back, Nowhere
from node.net.traffic import Counts, phase_of
from node.net.versions import subprotocol
from node.system.errors import reason
from node.system.system import SYSTEM, Entropy, System, Tap
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.wire import codec, handshake
from protocol.wire.handshake import LINK, NONCE_BYTES, Labels
from protocol.wire.ids import Key
from protocol.wire.messages import Message

PROVE_S = 5.0
"""The node closes a websocket on which no key was proved within this time."""
CLOSE_S = 1.0
BACK_FRAMES = 256
BACK_BYTES = 1 << 20
"""Bytes of replies that may wait on one link."""
ALL_BACK_BYTES = 64 << 20
NO_KEY = "a link on which no key was proved"
_TOO_LARGE = "a reply too large for a link"
_FULL = "queue back to a peer is full"
_BEARER = re.compile(r"Bearer ([0-9a-f]{64})")

Heard = Callable[[Key], None]


Said = tuple[bytes, str]
"""A frame, and the phase to which its bytes count; "" for a frame that is no message."""


class Visits:
    """The incoming links of a node. From the handshake on, a key identifies each end of a link."""

    def __init__(self, key: NodeKey, intake: Intake, system: System = SYSTEM) -> None:
        """`key` is this node's own; the node shows it to every dialler."""
        self._key = key
        self._intake = intake
        self._system = system
        self._budget = Budget(ALL_BACK_BYTES, None)
        self._visitors: dict[Key, Visitor] = {}
        """The latest link of each key."""

    async def host(self, request: web.Request, ws: web.WebSocketResponse, doors: Doors, heard: Heard) -> None:
        """Serves one link from its handshake to its end.

        It calls `heard` with the far end's key, at the proof and after each message.
        """
        await ws.prepare(request)
        try:
            async with asyncio.timeout(RELAYED_OPEN_S if doors.guest_of(request).is_relayed else PROVE_S):
                key = await welcome(ws, self._key, self._system.entropy)
        except ConnectionError:
            return  # the dialler has gone
        except (TimeoutError, RemoteProtocolError):
            self._intake.drop(NO_KEY)
            await ws.close(code=WSCloseCode.POLICY_VIOLATION)
            return
        heard(key)
        ticket = doors.ticket(key)
        visitor = self._visitors[key] = Visitor(ws, key, self._intake.counts, self._budget, self._system.tap)
        try:
            visitor.say(handshake.ticket(ticket))
            await self._read(ws, visitor, partial(heard, key))
        finally:
            doors.forget(ticket)
            if self._visitors.get(key) is visitor:
                del self._visitors[key]
            await visitor.close()

    def back_to(self, key: Key | None) -> Back:
        """Returns the way back for a POST beside a link: the open link of its key, else `Nowhere`."""
        visitor = self._visitors.get(key) if key is not None else None
        return visitor or Nowhere(key, self._intake.counts)

    async def _read(self, ws: web.WebSocketResponse, visitor: Visitor, heard: Callable[[], None]) -> None:
        """Handles incoming frames until the far side closes; numbers messages in their order."""
        numbers = count()
        async for frame in ws:
            if frame.type is WSMsgType.BINARY:
                await self._take(frame.data, visitor, next(numbers))
                heard()
            elif frame.type is WSMsgType.ERROR:
                self._intake.drop("a frame over the limit, or no frame")
            else:
                self._intake.drop("not a binary frame")

    async def _take(self, frame: bytes, visitor: Visitor, number: int) -> None:
        """Handles a frame; requests one that is too early again, as what it needs may follow on this link."""
        try:
            await self._intake.take(frame, visitor)
        except TooEarly:
            visitor.say(handshake.again(number))
        except RemoteProtocolError:
            return  # counted


class Visitor:
    """An incoming link whose key was proved: the way back to its far end."""

    def __init__(self, ws: web.WebSocketResponse, key: Key, counts: Counts, budget: Budget, tap: Tap) -> None:
        self._ws = ws
        self._tap = tap
        self.key: Key | None = key
        self._counts = counts
        self._outbox: Outbox[Said] = Outbox(BACK_FRAMES, Budget(BACK_BYTES, budget))
        self._writing = asyncio.create_task(self._write(), name="a link's way back")

    def send(self, messages: tuple[Message, ...]) -> None:
        """Sends messages back on this link; counts those that are too large or have no room."""
        for message in messages:
            frame = codec.encode(message)
            if len(frame) > SMALL_BYTES:
                self._counts.drop(_TOO_LARGE)
            else:
                self._tap("out", message)
                self._put(frame.join(), phase_of(message))

    def say(self, frame: bytes) -> None:
        """Sends a frame that is no message."""
        self._put(frame, "")

    def _put(self, frame: bytes, phase: str) -> None:
        if self._writing.done():
            self._counts.drop(NO_WAY_BACK)
        elif not self._outbox.put((frame, phase), len(frame)):
            self._counts.drop(_FULL)

    async def _write(self) -> None:
        """The one task that writes this websocket; when it ends, so does the link."""
        try:
            while True:
                frame, phase = await self._outbox.head()
                await self._ws.send_bytes(frame)
                if phase:
                    self._counts.sent[phase] += len(frame)
                self._outbox.done()
        except Exception as error:  # noqa: BLE001 - any error ends this link
            log.debug("link-ended", why=reason(error))
            await self._ws.close()
        finally:
            self._counts.drop_all(NO_WAY_BACK, len(self._outbox.clear()))

    async def close(self) -> None:
        """Stops writing; nothing more is sent back."""
        self._writing.cancel()
        await asyncio.gather(self._writing, return_exceptions=True)


async def welcome(ws: web.WebSocketResponse, key: NodeKey, entropy: Entropy, labels: Labels = LINK) -> Key:
    """Runs the acceptor's part of a handshake except for the ticket. Returns the dialler's key.

    The caller limits its time. Raises ConnectionError if the dialler has gone, RemoteProtocolError if it
    proves no key.
    """
    theirs, mine = handshake.read_knock(data_of(await ws.receive())), entropy(NONCE_BYTES)
    await ws.send_bytes(handshake.challenge(key, theirs, mine, labels))
    return handshake.read_proof(data_of(await ws.receive()), theirs, mine, key.public, labels)


def data_of(frame: WSMessage) -> bytes:
    """Returns the bytes of a binary frame.

    Raises ConnectionError at the end of the websocket, RemoteProtocolError for anything else.
    """
    if frame.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED):
        raise ConnectionResetError(NO_KEY)
    if frame.type is not WSMsgType.BINARY:
        raise RemoteProtocolError(NO_KEY)
    return bytes(frame.data)


def new_websocket(version: int, *, relayed: bool) -> web.WebSocketResponse:
    """Returns a websocket response with the settings of this version of the protocol.

    A relayed one is not asked whether it lives: the stream below does that, and outlives outages.
    """
    return web.WebSocketResponse(
        protocols=(subprotocol(version),),
        timeout=CLOSE_S,
        max_msg_size=MAX_CONTROL_BYTES,
        heartbeat=None if relayed else HEARTBEAT_S,
        compress=False,
    )


def ticket_of(request: web.BaseRequest) -> bytes | None:
    """Returns the ticket that a request shows; None if it shows none."""
    shown = _BEARER.fullmatch(request.headers.get("Authorization", ""))
    return bytes.fromhex(shown[1]) if shown else None
