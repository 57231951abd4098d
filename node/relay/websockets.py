"""The websockets of a relay: their settings, and a bounded queue of what waits to be sent on one."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import WSCloseCode, web

from node.net.incoming.doors import Guest
from node.net.outbox import Budget, Outbox
from protocol.relay.admission import SUBPROTOCOL

PING_S = 20.0
"""A websocket that does not answer a ping within half of it is silent."""
CLOSE_S = 1.0
MOST_FRAMES = 256
LINK_BYTES = 4 << 20
"""What may wait on one websocket of an inviter or a joiner."""
TOO_SLOW = "a room whose other end reads too slowly: closed"


def new_websocket(most_bytes: int) -> web.WebSocketResponse:
    """Returns a websocket response of a relay, for messages of at most `most_bytes`."""
    return web.WebSocketResponse(
        protocols=(SUBPROTOCOL,),
        timeout=CLOSE_S,
        max_msg_size=most_bytes + 1,  # aiohttp refuses a message of its limit
        heartbeat=PING_S,
        compress=False,
    )


class Line:
    """A websocket of an inviter or a joiner, whose one writer sends what waits in a bounded queue."""

    def __init__(self, ws: web.WebSocketResponse, guest: Guest, whole: Budget) -> None:
        self._ws = ws
        self.guest = guest
        self._outbox: Outbox[bytes | None] = Outbox(MOST_FRAMES, Budget(LINK_BYTES, whole))
        self._writing = asyncio.create_task(self._write(), name="a room's websocket")

    def say(self, message: bytes) -> None:
        """Sends a message; closes the connection at once if too much waits."""
        if not self._outbox.put(message, len(message)):
            self.guest.close(TOO_SLOW)

    def hang(self) -> None:
        """Closes the websocket, after what waits."""
        if not self._outbox.put(None, 0):
            self.guest.close(TOO_SLOW)

    async def _write(self) -> None:
        try:
            while (message := await self._outbox.head()) is not None:
                await self._ws.send_bytes(message)
                self._outbox.done()
            await self._ws.close()
        except ConnectionError:
            return  # who reads this websocket notices, too

    async def say_goodbye(self) -> None:
        """Closes the websocket, as the relay ends."""
        with suppress(ConnectionError, TimeoutError, RuntimeError):
            await asyncio.wait_for(self._ws.close(code=WSCloseCode.GOING_AWAY), CLOSE_S)

    async def end(self) -> None:
        """Stops writing."""
        self._writing.cancel()
        await asyncio.gather(self._writing, return_exceptions=True)
        self._outbox.clear()
