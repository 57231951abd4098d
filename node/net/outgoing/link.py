"""A link: the outgoing direction to one endpoint, opened for the first message and reopened when it breaks.

    control queue ──▶ one task writes the websocket          (small frames)
    bulk queue    ──▶ one task owns the POST connection      (large frames, so that they delay no small one)
                      one task reads the websocket: the messages that the peer sends back on it

An error in any of these tasks ends the link, and the machine learns the reason; so does a message that finds
no room, as nobody would ask for it again. A link that sent nothing for a while closes silently.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from aiohttp import ClientError, ClientWebSocketResponse, WSMsgType

from node.net.intake import RELAYED_OPEN_S, SMALL_BYTES, Intake, log
from node.net.outbox import Budget, Outbox
from node.net.outgoing.bulk_client import Answer, BulkClient, Kind
from node.net.outgoing.dialling import CLOSE_S, CONNECT_CAP_S, Opened
from node.net.outgoing.resending import AGAIN_FOR_S, KEPT_FRAMES, Kept, Outgoing
from node.net.reply_path import NO_WAY_BACK
from node.net.tls import Tls
from node.net.traffic import Counts, Uploads
from node.system.clock import Clock
from node.system.errors import one_line
from node.system.streams import Streams
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.swarm.meeting.discovery import NOBODY_LISTENS
from protocol.wire.bulk import Held
from protocol.wire.codec import Frame
from protocol.wire.endpoints import key_of
from protocol.wire.handshake import read_again
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_FRAME_BYTES
from protocol.wire.messages import Message

QUEUED_SENDS = 4096
BULK_TIMEOUT_S = 30.0
"""The time limit for a bulk frame and its answer, unless the node sets a longer one."""
RELAYED_BULK_S = 120.0
"""The same, at least, for a frame by a relay: it shares a slow line with those to all others."""
AHEAD = 2
"""How many messages of a lazily built sequence are in memory at once."""
EARLY_POSTS = 4
"""How many bulk frames that came too early may wait for a retry; at that number the bulk queue waits too."""
BUSY_FIRST_S = 0.25
BUSY_CAP_S = 5.0
BUSY_FOR_S = 15.0
REOPEN_S = 1.0
REOPENINGS = 3
"""A link that breaks this many times in a row, each within REOPEN_S of opening, ends."""

NO_WAY = "no way there: a relay or a proxy refuses connections"

FULL = "queue to a peer is full"
EVICTED = "a link was closed for want of room before they were sent"
ODD = "a link ended by how bulk was answered"
FAULT = "a fault of this node ended a link"
REFUSED = "refused by a peer"
EARLY = "came too early at a peer, again and again"
FORGOTTEN = "came too early at a peer, and was kept no longer"


@dataclass(frozen=True)
class Limits:
    """Limits on the links of one node. Bytes count messages that are queued and not yet sent."""

    idle_s: float
    """A link that has sent nothing for this long closes."""
    links: int
    """How many links may be open; one more closes the link that has been idle longest."""
    control_bytes: int
    bulk_bytes: int
    all_control_bytes: int
    all_bulk_bytes: int
    all_kept_bytes: int
    """Messages that were sent on websockets and are kept in case the peer asks for them again."""


LIMITS = Limits(
    idle_s=45.0,  # live members are announced to every 10 s
    links=2048,
    control_bytes=4 << 20,
    bulk_bytes=64 << 20,
    all_control_bytes=64 << 20,
    all_bulk_bytes=512 << 20,
    all_kept_bytes=64 << 20,
)


class _OddAnswer(ConnectionError):
    """An answer to bulk that no node of this version gives, or only one that can take no more."""


class _Lost(ConnectionError):
    """A message was lost on its way, and the far end does not know of it."""


class Hub(Protocol):
    """What the links of one node share, and where they report their state."""

    limits: Limits
    bulk_s: float
    tls: Tls | None
    clock: Clock
    streams: Streams
    control_budget: Budget
    bulk_budget: Budget
    kept_budget: Budget
    counts: Counts
    uploads: Uploads
    intake: Intake

    def encoded(self, message: Message) -> Frame:
        """Returns a message as bytes, encoded once for all links."""

    def is_wanted(self, message: Message) -> bool:
        """Whether the session of a message runs here."""

    def sent(self, message: Message, count: int) -> None:
        """Counts the bytes of a message that was sent."""

    async def connect(self, endpoint: str) -> Opened:
        """Opens a new connection. Raises OSError."""

    async def built(self, messages: Iterator[Message]) -> list[Message]:
        """Builds and returns the next messages of a lazily built sequence."""

    async def lost(self, endpoint: str, why: str) -> None:
        """Reports that an endpoint cannot be reached."""

    async def reconnected(self, endpoint: str) -> None:
        """Reports that a broken link is open again."""

    def forget(self, endpoint: str, link: Link) -> None:
        """Reports that a link takes no more messages."""


class Link:
    """The outgoing direction to one endpoint: two queues, and the tasks that own its two connections."""

    def __init__(self, hub: Hub, endpoint: str) -> None:
        self._hub = hub
        self._endpoint = endpoint
        limits, loop = hub.limits, asyncio.get_running_loop()
        control, bulk = hub.control_budget, hub.bulk_budget
        self._control: Outbox[Outgoing] = Outbox(QUEUED_SENDS, Budget(limits.control_bytes, control))
        self._bulk: Outbox[Outgoing | Iterable[Message]] = Outbox(
            QUEUED_SENDS, Budget(limits.bulk_bytes, bulk)
        )
        self._early: list[tuple[float, Outgoing]] = []
        """Bulk frames that came too early, each with the time of its retry."""
        self._later: set[asyncio.TimerHandle] = set()
        """Timers of the small messages that will be sent again."""
        self._gave_up_s = -math.inf
        """When this link last gave up a bulk frame that the peer kept refusing as too early."""
        connect_s, bulk_s = CONNECT_CAP_S, hub.bulk_s
        if key_of(endpoint) is not None:
            connect_s, bulk_s = RELAYED_OPEN_S, max(bulk_s, RELAYED_BULK_S)
        self._bulk_client = BulkClient(endpoint, connect_s, bulk_s, hub.tls, hub.streams)
        self._opened: Opened | None = None
        self._fault: asyncio.Future[None] = loop.create_future()
        self._is_over = False
        self.used_s = hub.clock.monotonic()  # finer than the time of some event loops
        """When something was last sent."""
        self.task = asyncio.create_task(self._run(), name=f"link {endpoint}")
        self.task.add_done_callback(self._ended)

    # -- queueing ----------------------------------------------------------------------------------

    def put(self, messages: Iterable[Message], bulk: bool) -> None:
        """Queues messages; if one finds no room, the link ends and the machine learns of it.

        A lazily built sequence always goes to the bulk queue, and stays unbuilt there.
        """
        if self._is_over:
            self._drop(NO_WAY_BACK, len(messages) if isinstance(messages, Sequence) else 1)
        elif not isinstance(messages, Sequence):
            built_at_once = 0 if isinstance(messages, Held) else AHEAD * MAX_FRAME_BYTES
            if not self._bulk.put(messages, built_at_once):
                self._fail(_Lost(FULL))
        else:
            for message in messages:
                if not self._is_over:
                    self._put_one(message, bulk, None)

    def hand(self, message: Message, end: asyncio.Future[bool]) -> None:
        """Queues a large message; `end` receives whether it was sent, as soon as that is certain."""
        if self._is_over:
            self._drop(NO_WAY_BACK, 1)
            end.set_result(False)
        else:
            self._put_one(message, True, end)

    def _put_one(self, message: Message, bulk: bool, end: asyncio.Future[bool] | None) -> None:
        try:
            outgoing = Outgoing(message, self._hub.encoded(message), end=end)
        except Exception as error:  # noqa: BLE001 - a fault of this node ends the link, not the node
            self._fail(error)
            if end is not None:
                end.set_result(False)
            return
        size = len(outgoing.frame)
        has_room = (
            self._bulk.put(outgoing, size)
            if bulk or size > SMALL_BYTES
            else self._control.put(outgoing, size)
        )
        if has_room:
            return
        if end is None:
            self._fail(_Lost(FULL))
        else:
            self._drop(FULL, 1)
            outgoing.ended(False)

    def _fail(self, error: Exception) -> None:
        """Ends the link, of which the machine learns: a message was lost that nobody would ask for again."""
        self._over()
        if not self._fault.done():
            self._fault.set_exception(error)

    def _drop(self, why: str, count: int) -> None:
        if count:
            log.debug("dropped", why=why)
            self._hub.counts.drop_all(why, count)

    # -- life cycle --------------------------------------------------------------------------------

    async def close(self) -> None:
        """Sends what is queued, for at most a second, and closes."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(self._control.drained(), self._bulk.drained()), 1.0)
        self._cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def evict(self) -> None:
        """Ends at once to make room: counts what is queued as dropped and reports no loss."""
        self._drop(EVICTED, len(self._control) + len(self._bulk))
        self._cancel()

    def _cancel(self) -> None:
        self._over()
        self.task.cancel()

    def _over(self) -> None:
        """Takes no more messages from now on; the next message to this endpoint opens a new link."""
        self._is_over = True
        self._hub.forget(self._endpoint, self)

    async def _run(self) -> None:
        try:
            await self._work()
        except Exception as error:  # noqa: BLE001 - any error ends the link, and the machine learns of it
            why = _why(error, self._endpoint)
            self._over()
            if isinstance(error, _OddAnswer | _Lost):
                self._drop(ODD if isinstance(error, _OddAnswer) else str(error), 1)
            elif not isinstance(error, TimeoutError | ClientError | OSError):
                self._drop(FAULT, 1)
                log.warning("link-ended", endpoint=self._endpoint, why=why)
            await self._hub.lost(self._endpoint, why)
        finally:
            self._over()
            self._bulk_client.close()
            if self._opened is not None:
                with suppress(ConnectionError, ClientError, asyncio.TimeoutError):
                    await asyncio.wait_for(self._opened.ws.close(), CLOSE_S)

    def _ended(self, _: asyncio.Task[None]) -> None:
        """Frees what the link still holds; may run before the link's task has begun."""
        for waiting in (*self._control.clear(), *self._bulk.clear()):
            if isinstance(waiting, Outgoing):
                waiting.ended(False)
        for _due_s, outgoing in self._early:
            self._hub.bulk_budget.give(len(outgoing.frame))
            outgoing.ended(False)
        self._early.clear()
        if not self._fault.cancel() and not self._fault.cancelled():
            self._fault.exception()  # marks it as retrieved: it was reported

    async def _work(self) -> None:
        """Sends until the link has been idle for `idle_s`; raises if it cannot be opened again."""
        clock = asyncio.get_running_loop().time
        self._opened = await self._hub.connect(self._endpoint)
        bulk = asyncio.create_task(self._send_bulk(), name=f"bulk to {self._endpoint}")
        broken_early = 0
        try:
            opened_s = clock()
            while not await self._on(self._opened, bulk):
                broken_early = broken_early + 1 if clock() - opened_s < REOPEN_S else 0
                if broken_early >= REOPENINGS:
                    raise ConnectionResetError("the far end ends every link at once")
                self._opened = await self._hub.connect(self._endpoint)
                opened_s = clock()
                await self._hub.reconnected(self._endpoint)
        finally:
            bulk.cancel()
            await asyncio.gather(bulk, return_exceptions=True)

    async def _on(self, opened: Opened, bulk: asyncio.Task[None]) -> bool:
        """Sends and receives over one websocket: returns True once idle, False if it broke."""
        kept = Kept(self._hub.kept_budget)
        sending = asyncio.create_task(self._send_control(opened.ws, kept))
        reading = asyncio.create_task(self._read(opened, kept))
        tasks = (sending, reading, bulk, self._fault)
        try:
            while not any(task.done() for task in tasks):
                if self._idle_in_s() <= 0:
                    self._over()
                    return True
                await asyncio.wait(tasks, timeout=self._idle_in_s(), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            return False
        finally:
            for task in (sending, reading):
                task.cancel()
            await asyncio.gather(sending, reading, return_exceptions=True)
            for handle in self._later:
                handle.cancel()
            self._later.clear()
            kept.clear()

    def _idle_in_s(self) -> float:
        """Returns the seconds until the link counts as idle if nothing is sent meanwhile."""
        now_s = self._hub.clock.monotonic()
        if len(self._control) or len(self._bulk) or self._early or self._later:
            self.used_s = now_s
        return self.used_s + self._hub.limits.idle_s - now_s

    # -- the websocket -----------------------------------------------------------------------------

    async def _send_control(self, ws: ClientWebSocketResponse, kept: Kept) -> None:
        """Runs as the only task that writes the websocket; returns when it breaks."""
        while True:
            outgoing = await self._control.head()
            self._sent(outgoing)
            kept.sent(outgoing)
            try:
                await ws.send_bytes(outgoing.frame.join())
            except ConnectionError:
                return  # the message is still at the head of the queue
            self._control.done()
            outgoing.ended(True)

    async def _read(self, opened: Opened, kept: Kept) -> None:
        """Runs as the only task that reads the websocket; returns when the peer is gone."""
        back = _Reply(self, opened.link.key)
        async for frame in opened.ws:
            if frame.type is not WSMsgType.BINARY:
                self._hub.intake.drop("not a binary frame")
            elif (number := read_again(frame.data)) is not None:
                self._send_again(kept.take(number))
            else:
                await self._take(frame.data, back)

    async def _take(self, frame: bytes, back: _Reply) -> None:
        try:
            await self._hub.intake.take(frame, back)
        except TooEarly as error:
            self._hub.intake.drop(str(error))  # peers do not resend what they send back on a link
        except RemoteProtocolError:
            return  # the intake has counted it

    def _send_again(self, outgoing: Outgoing | None) -> None:
        """Schedules the retry of a small message that came too early at the peer."""
        loop = asyncio.get_running_loop()
        if outgoing is None or len(self._later) >= KEPT_FRAMES:
            raise _Lost(FORGOTTEN)
        wait_s = outgoing.again_in_s(loop.time(), self._hub.is_wanted(outgoing.message))
        if wait_s is None:
            self._drop(EARLY, 1)
            return

        def again() -> None:
            self._later.discard(handle)
            if not self._control.put(outgoing, len(outgoing.frame)):
                self._fail(_Lost(FULL))

        handle = loop.call_later(wait_s, again)
        self._later.add(handle)

    # -- bulk --------------------------------------------------------------------------------------

    async def _send_bulk(self) -> None:
        """Runs as the only task that owns the connection for bulk."""
        while True:
            waiting = await self._next_bulk()
            if isinstance(waiting, Outgoing):
                await self._send_large(waiting)
            else:
                await self._build(waiting)
            self._bulk.done()
            del waiting  # it may hold a vector, and the next item may take long to come

    async def _next_bulk(self) -> Outgoing | Iterable[Message]:
        """Waits for the next item of the queue; meanwhile resends frames that came too early."""
        while self._early:
            try:
                async with asyncio.timeout_at(self._due_s):
                    return await self._bulk.head()
            except TimeoutError:
                await self._send_due()
        return await self._bulk.head()

    async def _build(self, messages: Iterable[Message]) -> None:
        being_built, is_over = iter(messages), False
        while not is_over:
            built = await self._hub.built(being_built)
            for message in built:
                await self._send_large(Outgoing(message, self._hub.encoded(message)))
            is_over = len(built) < AHEAD

    async def _send_large(self, outgoing: Outgoing) -> None:
        """POSTs a frame after the retries that are due; a small frame goes to the control queue instead."""
        size = len(outgoing.frame)
        if size <= SMALL_BYTES:
            while not self._control.put(outgoing, size):
                if not len(self._control):
                    raise _Lost(FULL)
                await self._control.drained()
            return
        if self._early:
            await self._send_due()
        while len(self._early) >= EARLY_POSTS:
            await asyncio.sleep(max(0.0, (self._due_s or 0.0) - asyncio.get_running_loop().time()))
            await self._send_due()
        await self._post(outgoing)

    @property
    def _due_s(self) -> float | None:
        """When the first retry of a frame that came too early is due."""
        return min((due_s for due_s, _ in self._early), default=None)

    async def _send_due(self) -> None:
        """Resends the frames that came too early and are due."""
        now_s = asyncio.get_running_loop().time()
        for entry in [entry for entry in self._early if entry[0] <= now_s]:
            await self._post(entry[1])
            self._early.remove(entry)
            self._hub.bulk_budget.give(len(entry[1].frame))

    async def _post(self, outgoing: Outgoing) -> None:
        """POSTs one frame and acts on the answer."""
        answer = await self._answer_to(outgoing)
        match answer.kind:
            case Kind.TAKEN:
                self._gave_up_s = -math.inf
                outgoing.ended(True)
            case Kind.REFUSED:
                self._drop(REFUSED, 1)
                outgoing.ended(True)
            case Kind.EARLY:
                self._came_early(outgoing)
            case Kind.UNFIT:
                size = len(outgoing.frame)
                raise _OddAnswer(f"the far end takes no bulk of {size} bytes (status {answer.status})")
            case _:
                raise _OddAnswer(f"the far end is no node: it answers bulk with status {answer.status}")

    async def _answer_to(self, outgoing: Outgoing) -> Answer:
        """Returns the peer's answer; asks a busy peer again, at growing intervals, for at most BUSY_FOR_S."""
        clock = asyncio.get_running_loop().time
        begun_s, backoff_s = clock(), BUSY_FIRST_S
        while True:
            if self._opened is None:
                raise ConnectionResetError("the link is closed")
            self._sent(outgoing)
            self._hub.uploads.begin(self._endpoint, len(outgoing.frame), clock())
            try:
                answer = await self._bulk_client.post(outgoing.frame, self._opened.link)
            finally:
                self._hub.uploads.end(self._endpoint, clock())
            if answer.kind is not Kind.BUSY:
                return answer
            wait_s = backoff_s if answer.retry_after_s is None else answer.retry_after_s
            if clock() + wait_s - begun_s > BUSY_FOR_S:
                raise _OddAnswer(f"the far end takes no more bulk for now (status {answer.status})")
            await asyncio.sleep(wait_s)
            backoff_s = min(BUSY_CAP_S, 2 * backoff_s)

    def _came_early(self, outgoing: Outgoing) -> None:
        """Schedules a retry, except for new frames within AGAIN_FOR_S after the link gave up another one."""
        now_s = asyncio.get_running_loop().time()
        is_wanted = self._hub.is_wanted(outgoing.message)
        is_hopeless = outgoing.tries == 0 and not is_wanted and now_s - self._gave_up_s < AGAIN_FOR_S
        wait_s = None if is_hopeless else outgoing.again_in_s(now_s, is_wanted)
        if wait_s is None:
            self._gave_up_s = self._gave_up_s if is_hopeless else now_s
            self._drop(EARLY, 1)
            outgoing.ended(False)
        elif not self._hub.bulk_budget.take(len(outgoing.frame)):
            raise _Lost(FULL)
        else:
            self._early.append((now_s + wait_s, outgoing))

    def _sent(self, outgoing: Outgoing) -> None:
        self._hub.sent(outgoing.message, len(outgoing.frame))
        self.used_s = self._hub.clock.monotonic()


class _Reply:
    """The reply path for messages that the peer sends on this link."""

    def __init__(self, link: Link, key: Key) -> None:
        self._link = link
        self.key: Key | None = key

    def send(self, messages: tuple[Message, ...]) -> None:
        """Replies on the same link while it is open."""
        self._link.put(messages, bulk=False)


def _why(error: BaseException, endpoint: str) -> str:
    """Returns why a link is down, in the system's words where it has some.

    Whoever refuses a connection on the way to an endpoint that stands for a key, it is not the peer.
    """
    if isinstance(error, asyncio.TimeoutError):
        return "does not answer in time"
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    if number == errno.ECONNREFUSED:
        return NOBODY_LISTENS if key_of(endpoint) is None else NO_WAY
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    if isinstance(error, ClientError | OSError):
        return one_line(str(cause)) or type(cause).__name__
    return one_line(f"a fault of this node: {type(error).__name__}: {error}")
