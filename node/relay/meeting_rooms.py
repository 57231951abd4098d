"""The rooms of a relay over websockets: GET /v1/rooms for inviters, GET /v1/room/{digits} for joiners.

An inviter proves its key, then shows the relay's word or a licence. A joiner proves nothing to the relay: the
lobby (protocol.relay.rooms) bounds what it can try, and the inviter finds out whether it knows the code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiohttp import WSCloseCode, WSMsgType, web

from node.net.incoming.doors import DOORS
from node.net.incoming.routes import Routes
from node.net.incoming.visits import NO_KEY, PROVE_S, welcome
from node.net.outbox import Budget
from node.net.traffic import Counts
from node.relay.websockets import Line, new_websocket
from node.system.system import System
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.relay.room_messages import DIGITS, MAX_JOINER_BYTES, MAX_ROOM_MESSAGE_BYTES, MAX_ROOMS
from protocol.relay.rooms import RANDOM_BYTES, Hang, Link, Lobby, Output
from protocol.wire.handshake import RELAY
from protocol.wire.ids import Key

INVITERS, JOINERS = "/v1/rooms", f"/v1/room/{{digits:[0-9]{{{DIGITS}}}}}"
ALL_BYTES = 64 << 20
"""What may wait in all rooms."""
UNPROVED_INVITERS = 16
"""So many inviters may be about to show the word: each may send a message of a megabyte."""
BROKEN_RULE = "a message in a room that broke a rule: closed"


class MeetingRooms:
    """All rooms of a relay, and their websockets."""

    def __init__(self, key: NodeKey, lobby: Lobby, counts: Counts, system: System) -> None:
        """`key`: the relay's own; `counts`: where what is refused is counted."""
        self._key = key
        self._lobby = lobby
        self._counts = counts
        self._system = system
        self._lines: dict[Link, Line] = {}
        self._budget = Budget(ALL_BYTES, None)
        self._unproved = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def routes(self) -> Routes:
        """The routes of inviters and of joiners."""
        return [web.get(INVITERS, self._invite), web.get(JOINERS, self._join)]

    async def close(self) -> None:
        """Says goodbye on every websocket."""
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*(line.say_goodbye() for line in self._lines.values()))

    # -- inviters ----------------------------------------------------------------------------------

    async def _invite(self, request: web.Request) -> web.StreamResponse:
        if self._unproved >= UNPROVED_INVITERS:
            raise web.HTTPServiceUnavailable(text="too many inviters at once: try again\n")
        ws, guest = new_websocket(MAX_ROOM_MESSAGE_BYTES), request.app[DOORS].guest_of(request)
        guest.link()
        self._unproved += 1
        is_unproved = True
        try:
            await ws.prepare(request)
            key = await self._proved_key(ws)
            if key is None:
                return ws
            self._lobby.meet_inviter(ws, key, guest.origin)
            line = self._lines[ws] = Line(ws, guest, self._budget)
            try:
                async for message in ws:
                    self._hear_inviter(ws, message.type, message.data)
                    if is_unproved and self._lobby.is_inviter(ws):
                        guest.prove(key)
                        self._unproved -= 1
                        is_unproved = False
            except RemoteProtocolError:
                self._counts.drop(BROKEN_RULE)
                await ws.close(code=WSCloseCode.POLICY_VIOLATION)
            finally:
                self._perform(self._lobby.lose_inviter(ws))
                del self._lines[ws]
                await line.end()
        finally:
            self._unproved -= is_unproved
        return ws

    async def _proved_key(self, ws: web.WebSocketResponse) -> Key | None:
        """Returns the key that an inviter has proved; None if it has gone or proves none."""
        try:
            async with asyncio.timeout(PROVE_S):
                return await welcome(ws, self._key, self._system.entropy, RELAY)
        except ConnectionError:
            return None
        except (TimeoutError, RemoteProtocolError):
            self._counts.drop(NO_KEY)
            await ws.close(code=WSCloseCode.POLICY_VIOLATION)
            return None

    def _hear_inviter(self, ws: web.WebSocketResponse, kind: WSMsgType, data: bytes) -> None:
        random = self._system.entropy(RANDOM_BYTES * MAX_ROOMS)
        self._perform(self._lobby.hear_inviter(ws, _binary(kind, data), random, _now_s()))

    # -- joiners -----------------------------------------------------------------------------------

    async def _join(self, request: web.Request) -> web.StreamResponse:
        ws, guest = new_websocket(MAX_JOINER_BYTES), request.app[DOORS].guest_of(request)
        guest.link()
        await ws.prepare(request)
        digits = request.match_info["digits"]
        line = self._lines[ws] = Line(ws, guest, self._budget)
        try:
            self._perform(self._lobby.knock(ws, digits, guest.origin, _now_s()))
            if self._lobby.is_inside(ws):
                guest.prove(f"room {digits}".encode())  # its place is the room, which holds two
            async for message in ws:
                self._perform(self._lobby.hear_joiner(ws, _binary(message.type, message.data)))
        except RemoteProtocolError:
            self._counts.drop(BROKEN_RULE)
            await ws.close(code=WSCloseCode.POLICY_VIOLATION)
        finally:
            self._perform(self._lobby.lose_joiner(ws))
            del self._lines[ws]
            await line.end()
        return ws

    # -- what the lobby asks for -------------------------------------------------------------------

    def _perform(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            line = self._lines.get(output.link)
            if line is None:
                continue  # it has just gone
            if isinstance(output, Hang):
                line.hang()
            else:
                line.say(output.message)
        self._schedule()

    def _schedule(self) -> None:
        """Sets the timer to the lobby's next deadline."""
        due_s = self._lobby.deadline
        if due_s is None or (self._timer is not None and self._timer.when() <= due_s):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._perform(self._lobby.tick(_now_s()))


def _binary(kind: WSMsgType, data: bytes) -> bytes:
    if kind is not WSMsgType.BINARY:
        raise RemoteProtocolError(BROKEN_RULE)
    return data


def _now_s() -> float:
    return asyncio.get_running_loop().time()
