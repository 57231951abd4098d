"""A link: one direction to one endpoint, opened with the first message and again when it breaks.

Small messages go on one websocket, bulk as POST bodies: bulk that waits for its reader holds up no small one.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import ClientError, ClientWebSocketResponse, WSMsgType

from node.errors import one_line
from node.posting import Poster
from node.server import SMALL_BYTES, TOO_EARLY
from protocol import codec
from protocol.introductions import NOBODY_LISTENS
from protocol.messages import Message

if TYPE_CHECKING:
    from node.transport import Transport

QUEUED_SENDS = 4096
CONNECT_CAP_S = 5.0
BULK_TIMEOUT_S = 30.0
TOO_EARLY_AGAIN_S = 0.05
TOO_EARLY_TRIES = 200
AHEAD = 2


@dataclass(frozen=True, slots=True)
class Queued:
    """What waits to be sent. `end`: whether it went, once that is known; None: nobody wants to know."""

    messages: Iterable[Message]
    end: asyncio.Future[bool] | None

    def ended(self, went: bool) -> None:
        """It went, or never will."""
        if self.end is not None and not self.end.done():
            self.end.set_result(went)


Queue = asyncio.Queue[Queued]


class Link:
    """One direction to one endpoint: two queues, the tasks that empty them, one that watches the socket."""

    def __init__(self, transport: Transport, endpoint: str) -> None:
        self._transport = transport
        self._endpoint = endpoint
        self._control: Queue = asyncio.Queue(QUEUED_SENDS)
        self._bulk: Queue = asyncio.Queue(QUEUED_SENDS)
        self._ws: ClientWebSocketResponse | None = None
        self._poster = Poster(endpoint, CONNECT_CAP_S, BULK_TIMEOUT_S, transport.tls)
        self._task = asyncio.create_task(self._run(), name=f"link {endpoint}")

    def put(self, messages: Iterable[Message], end: asyncio.Future[bool] | None = None) -> bool:
        """Queue; bulk that waits for its reader holds up no control message. False if there is no room."""
        queue = self._control if isinstance(messages, tuple) else self._bulk
        try:
            queue.put_nowait(Queued(messages, end))
        except asyncio.QueueFull:
            return False
        return True

    async def close(self) -> None:
        """Send what is queued, for at most a second, and close."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(self._control.join(), self._bulk.join()), 1.0)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._poster.close()
        if self._ws is not None:
            with suppress(ConnectionError, ClientError, asyncio.TimeoutError):
                await asyncio.wait_for(self._ws.close(), 1.0)

    async def _run(self) -> None:
        try:
            await self._work()
        except (TimeoutError, ClientError, OSError, ConnectionError) as error:
            self._transport.forget(self._endpoint, self)
            self._drain()
            await self._transport.lost(self._endpoint, _why(error))
        finally:
            self._drain()

    def _drain(self) -> None:
        for queue in (self._control, self._bulk):
            while not queue.empty():
                queue.get_nowait().ended(went=False)
                queue.task_done()

    async def _work(self) -> None:
        """Send until the link breaks and can not be opened again."""
        for attempt in itertools.count():
            self._ws = await self._transport.connect(self._endpoint)
            if attempt > 0:
                await self._transport.reconnected(self._endpoint)
            watch = asyncio.create_task(self._watch(self._ws))
            sends = [asyncio.create_task(self._send_queued(queue)) for queue in (self._control, self._bulk)]
            try:
                await asyncio.wait((watch, *sends), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (watch, *sends):
                    task.cancel()
            for send in sends:
                if send.done() and not send.cancelled():
                    send.result()

    async def _send_queued(self, queue: Queue) -> None:
        while True:
            queued, went = await queue.get(), False
            try:
                await self._send_all(queued.messages)
                went = True
            finally:
                queue.task_done()
                queued.ended(went)
                del queued  # while nothing is to be sent, nothing is held

    async def _watch(self, ws: ClientWebSocketResponse) -> None:
        """Returns when the far side is gone; nothing is expected on this direction."""
        while (await ws.receive()).type not in (
            WSMsgType.CLOSE,
            WSMsgType.CLOSED,
            WSMsgType.CLOSING,
            WSMsgType.ERROR,
        ):
            continue

    async def _send_all(self, messages: Iterable[Message]) -> None:
        if isinstance(messages, Sequence):  # nothing is to be built
            for message in messages:
                await self._send(message)
            return
        being_built = iter(messages)
        is_over = False
        while not is_over:
            built = await self._transport.built(being_built)
            for message in built:
                await self._send(message)
            is_over = len(built) < AHEAD

    async def _send(self, message: Message) -> None:
        frame = self._transport.encoded(message)
        self._transport.sent(message, len(frame))
        if len(frame) <= SMALL_BYTES and self._ws is not None:
            await self._ws.send_bytes(frame.join())
        else:
            await self._post(frame)

    async def _post(self, frame: codec.Frame) -> None:
        for _ in range(TOO_EARLY_TRIES):
            if await self._poster.post(frame) != TOO_EARLY:
                return
            await asyncio.sleep(TOO_EARLY_AGAIN_S)


def _why(error: BaseException) -> str:
    """Why a link is down, as the system says it."""
    if isinstance(error, asyncio.TimeoutError):
        return "does not answer in time"
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    if number == errno.ECONNREFUSED:
        return NOBODY_LISTENS
    return os.strerror(number).lower() if isinstance(number, int) and number > 0 else one_line(str(cause))
