"""The asyncio shell of a machine: feed it, carry out its actions in order, re-arm one timer.

One event at a time: the machine is never entered twice at once. Events that may go through a large vector
leave the event loop for a thread; those that never do stay, for the way to a thread and back costs more CPU
than they do. The clock is the wall's at the start and monotonic from there on.

A machine may change in a thread: whoever reads it meanwhile sees what is half done, or fails. So there is a
rule for all but the events themselves. A machine is read under the shell's lock: in `send` and `perform`,
which are called under it, and through `look`. Who can not wait for the lock reads a value that never changes,
and that the machine or the shell has replaced as a whole: the deadline, which the shell notes at the end of
each event; what an action holds (protocol.wire.bulk); who may answer at an endpoint
(protocol.swarm.addressing).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from node.net.reply_path import Back
from protocol.actions import Action, Reply, Send
from protocol.aggregation.session_machine import is_always_light
from protocol.errors import RemoteProtocolError
from protocol.machine import Machine
from protocol.vectors.pieces import WORD_BYTES
from protocol.wire.messages import Message

Event = Callable[[float], list[Action]]
Deliver = Callable[[Send], None]
Perform = Callable[[Action], Awaitable[list[Action]]]
Light = Callable[[], bool]
"""Whether an event is light now: asked when it enters the machine, under the lock."""
T = TypeVar("T")
_HEAVY_BYTES = 4 * 1024 * 1024  # why so many: docs/decisions/node.md


class Clock:
    """Unix seconds that never jump."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """The time."""
        return self.at(time.monotonic())

    def at(self, monotonic_s: float) -> float:
        """The time at a moment of the monotonic clock."""
        return monotonic_s + self._offset


@dataclass(frozen=True, slots=True)
class _BoundReply(Reply):
    """A reply, and the way back to who brought the message that it answers."""

    back: Back


def is_heavy(dimension: int) -> bool:
    """Whether going through a vector (dimension,) is worth a thread: it takes more than the way there."""
    return WORD_BYTES * dimension > _HEAVY_BYTES


class Shell:
    """Drives one machine.

    `send` takes what is to be sent, at once, and a reply goes back where its question came from; `perform`
    carries out anything else, and returns what follows.
    """

    def __init__(
        self,
        machine: Machine,
        send: Deliver,
        perform: Perform,
        heavy: bool,
        is_light: Callable[[Message], bool] = is_always_light,
    ) -> None:
        """`heavy`: whether events that are not light take more than some tens of milliseconds: a thread.

        `is_light`: whether the machine takes in a message now as `protocol.aggregation.session_machine` says.
        """
        self._machine = machine
        self._is_light = is_light
        self._send = send
        self._perform = perform
        self._heavy = heavy
        self._lock = asyncio.Lock()
        self._deadline: float | None = None
        """The machine's, at the end of the last event."""
        self._changed = asyncio.Event()
        """Set when that is another one."""
        self._queued = 0
        """Who waits for the lock, or had to: it may be free, and the next one not yet woken."""
        self._running: set[asyncio.Task[None]] = set()
        self._is_over = False
        self.clock = Clock()
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Ends with the first error that is this node's own: whoever runs the shell waits for it."""

    async def feed(self, event: Event, light: Light = lambda: False) -> None:
        """One event: enter the machine, then do what it says, and what follows, in order.

        A `light` one is never worth a thread.

        Whoever brought the event may be cancelled; the event is finished all the same. It gets a
        RemoteProtocolError; an error of this node's own goes to `broken`, and so to whoever runs it.
        """
        if self._lock.locked() or self._queued or (self._heavy and not light()):
            await self._finished(self._in_turn(event, light))
            return
        await self._lock.acquire()  # nobody has it, and nobody waits for it: that is at once
        remaining = self._begun(event)
        if remaining:
            await self._finished(self._ended(remaining))

    async def _finished(self, event: Coroutine[None, None, None]) -> None:
        """Run what may wait to its end, whatever becomes of who brought it."""
        task = asyncio.create_task(event)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await asyncio.shield(task)

    async def look(self, at: Callable[[], T]) -> T:
        """What `at` sees of the machine between two events: some of them run in a thread."""
        async with self._turn():
            return at()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """The lock, after all who came before."""
        self._queued += 1
        try:
            async with self._lock:
                yield
        finally:
            self._queued -= 1

    async def drain(self) -> None:
        """Wait for the events that have begun."""
        await asyncio.gather(*self._running, return_exceptions=True)

    def last(self, event: Event) -> Event:
        """This event, after which the machine is told nothing more."""

        def ending(now: float) -> list[Action]:
            self._is_over = True
            return event(now)

        return ending

    async def finish(self, event: Event) -> None:
        """The `last` event, unless there was one; all is done when this returns.

        Raises what this node itself got wrong until then.
        """
        await self.feed(self.last(event), light=lambda: True)
        await self.drain()
        if self.broken.done():
            self.broken.result()

    def _entered(self, event: Event) -> list[Action]:
        return [] if self._is_over else event(self.clock.now())

    async def _in_turn(self, event: Event, light: Light) -> None:
        """Wait for the events before, then enter: in a thread, where that is worth it."""
        async with self._turn():
            with self._told():
                enter, aside = self._entered, self._heavy and not light()
                await self._do(await asyncio.to_thread(enter, event) if aside else enter(event))

    def _begun(self, event: Event) -> list[Action]:
        """Enter and send; what remains to be done under the lock, which is let go where nothing does."""
        remaining: list[Action] = []
        try:
            with self._told():
                remaining = self._sent(self._entered(event))
        finally:
            if not remaining:
                self._lock.release()
        return remaining

    async def _ended(self, remaining: list[Action]) -> None:
        """The rest of an event that has the lock."""
        try:
            with self._told():
                await self._do(remaining)
        finally:
            self._lock.release()

    async def _do(self, actions: list[Action]) -> None:
        """All of this, and what follows from it, in order."""
        while actions := self._sent(actions):
            actions = [*await self._perform(actions[0]), *actions[1:]]

    def _sent(self, actions: list[Action]) -> list[Action]:
        """Send what is first to be sent; what remains begins with something else."""
        for done, action in enumerate(actions):
            match action:
                case Send():
                    self._send(action)
                case _BoundReply():
                    action.back.send(action.messages)
                case _:
                    return actions[done:]
        return []

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Under the lock: a fault of this node's own is told to whoever runs it; the deadline is noted anew.

        Not where this is cancelled, as at the end of the loop: a thread may be in the machine still.
        """
        try:
            yield
        except RemoteProtocolError:
            self._note_deadline()
            raise
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for `broken`
            self._break(error)
        self._note_deadline()

    def _break(self, error: Exception) -> None:
        if not self.broken.done():
            self.broken.set_exception(error)

    def _note_deadline(self) -> None:
        """Under the lock: what the timer goes by until the next event has ended."""
        try:
            deadline = None if self._is_over else self._machine.deadline
        except Exception as error:  # noqa: BLE001 - as above
            self._break(error)
            return
        if deadline != self._deadline:
            self._deadline = deadline
            self._changed.set()

    async def receive(self, message: Message, back: Back) -> None:
        """A message came in; RemoteProtocolError goes to who brought it, and so does every Reply to it."""

        def event(now: float) -> list[Action]:
            actions = self._machine.receive(message, back.key, now)
            return [_BoundReply(a.messages, back) if isinstance(a, Reply) else a for a in actions]

        await self.feed(event, lambda: self._is_light(message))

    async def unreachable(self, endpoint: str, why: str) -> None:
        """An endpoint does not answer."""
        await self.feed(lambda now: self._machine.unreachable(endpoint, why, now))

    async def reconnected(self, endpoint: str) -> None:
        """A link broke and was opened again."""
        await self.feed(lambda now: self._machine.reconnected(endpoint, now))

    async def keep_time(self) -> None:
        """Tick whenever the deadline is over; runs until it is cancelled."""
        await self.look(self._note_deadline)
        while True:
            self._changed.clear()
            wait_s = None if self._deadline is None else max(0.0, self._deadline - self.clock.now())
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                await self.feed(self._machine.tick)
