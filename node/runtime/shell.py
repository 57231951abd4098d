"""The asyncio shell of a machine: it feeds events, carries out the actions in order and keeps one timer.

The shell enters the machine for one event at a time. Events that may go through a large vector run in a
thread; light events stay on the event loop, because moving to a thread costs more CPU than the events do. The
clock starts at wall-clock time and is monotonic from there on.

A machine may change in a thread; a reader without the lock would see half-done changes or fail. So all code
except the events themselves reads the machine only under the shell's lock: in `send` and `perform`, which the
shell calls under it, and through `look`. Code that cannot wait for the lock reads immutable values that the
machine or the shell replaces as a whole: the deadline, which the shell notes at the end of each event; the
contents of an action (protocol.wire.bulk); who may answer at an endpoint (protocol.swarm.addressing).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from node.net.reply_path import Back
from node.system.clock import CLOCK, Clock, SteadyClock
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
"""Returns whether an event is light; called under the lock when the event enters the machine."""
T = TypeVar("T")
_HEAVY_BYTES = 4 * 1024 * 1024  # docs/decisions/node.md says why this many


@dataclass(frozen=True, slots=True)
class _BoundReply(Reply):
    """A reply, and the way back to the sender of the message that it answers."""

    back: Back


@dataclass(frozen=True, slots=True)
class _Last:
    """The last event of a shell: it ends the shell, then enters the machine."""

    event: Event
    end: Callable[[], None]

    def __call__(self, now: float) -> list[Action]:
        self.end()
        return self.event(now)


def is_heavy(dimension: int) -> bool:
    """Returns whether work on a vector (dimension,) takes longer than moving it to a thread."""
    return WORD_BYTES * dimension > _HEAVY_BYTES


class Shell:
    """Drives one machine.

    `send` takes each Send action at once; a reply goes back on the link that brought its request. `perform`
    carries out any other action and returns the actions that follow from it.
    """

    def __init__(
        self,
        machine: Machine,
        send: Deliver,
        perform: Perform,
        heavy: bool,
        is_light: Callable[[Message], bool] = is_always_light,
        clock: Clock = CLOCK,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`look` is called, under the lock, after all that an event led to; sometimes once before that, too.

        `heavy`: events that are not light may take more than some tens of ms and run in a thread.

        `is_light` tells whether a message is light for the machine now, as
        `protocol.aggregation.session_machine` defines it.
        """
        self._machine = machine
        self._is_light = is_light
        self._send = send
        self._perform = perform
        self._look = look
        self._heavy = heavy
        self._lock = asyncio.Lock()
        self._deadline: float | None = None
        """The machine's deadline at the end of the last event."""
        self._changed = asyncio.Event()
        """Set when the deadline changes."""
        self._queued = 0
        """How many tasks wait for the lock; it may be free while the next one is not yet woken."""
        self._running: set[asyncio.Task[None]] = set()
        self._is_over = False
        self.clock = SteadyClock(clock)
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Receives the first error of this node itself; the task that runs the shell waits for it."""

    async def feed(self, event: Event, light: Light = lambda: False) -> None:
        """Feeds one event: enters the machine, then carries out its actions, and those that follow, in order.

        A `light` event never runs in a thread. If the caller is cancelled, the event still finishes. The
        caller gets a RemoteProtocolError; an error of this node itself goes to `broken`.
        """
        if self._lock.locked() or self._queued or (self._heavy and not light()):
            await self._finished(self._in_turn(event, light))
            return
        await self._lock.acquire()  # nobody holds it or waits for it, so this does not block
        remaining = self._enter_and_send(event)
        if remaining:
            await self._finished(self._ended(remaining))

    async def _finished(self, event: Coroutine[None, None, None]) -> None:
        """Runs an event to its end, even if its caller is cancelled."""
        task = asyncio.create_task(event)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await asyncio.shield(task)

    async def look(self, at: Callable[[], T]) -> T:
        """Calls `at` between two events, some of which run in a thread, and returns its result."""
        async with self._turn():
            return at()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Holds the lock, after all earlier waiters."""
        self._queued += 1
        try:
            async with self._lock:
                yield
        finally:
            self._queued -= 1

    async def drain(self) -> None:
        """Waits for the events that have begun."""
        await asyncio.gather(*self._running, return_exceptions=True)

    def last(self, event: Event) -> Event:
        """Wraps an event as the last one: later events no longer reach the machine."""
        return _Last(event, self._end)

    def _end(self) -> None:
        self._is_over = True

    async def finish(self, event: Event) -> None:
        """Feeds the `last` event, unless there was one, and waits until all events have finished.

        Raises the error of this node itself, if there was one.
        """
        await self.feed(self.last(event), light=lambda: True)
        await self.drain()
        if self.broken.done():
            self.broken.result()

    def _enter(self, event: Event) -> list[Action]:
        """Enters the machine. After an error of this node itself, only the last event does.

        The machine assumes that its actions were carried out. If one was not, such as a charge on a full
        disk, a later event could send what must not leave before it.
        """
        is_shut = self._is_over or (self.broken.done() and not isinstance(event, _Last))
        return [] if is_shut else event(self.clock.now())

    async def _in_turn(self, event: Event, light: Light) -> None:
        """Waits for earlier events, then enters the machine, in a thread if the event is heavy."""
        async with self._turn():
            with self._reporting_errors():
                enter, aside = self._enter, self._heavy and not light()
                await self._do(await asyncio.to_thread(enter, event) if aside else enter(event))

    def _enter_and_send(self, event: Event) -> list[Action]:
        """Enters the machine and sends. Returns the other actions; releases the lock if there are none."""
        remaining: list[Action] = []
        try:
            with self._reporting_errors():
                remaining = self._send_first(self._enter(event))
        finally:
            if not remaining:
                self._lock.release()
        return remaining

    async def _ended(self, remaining: list[Action]) -> None:
        """Carries out the rest of an event that holds the lock, then releases the lock."""
        try:
            with self._reporting_errors():
                await self._do(remaining)
        finally:
            self._lock.release()

    async def _do(self, actions: list[Action]) -> None:
        """Carries out these actions and those that follow from them, in order."""
        while actions := self._send_first(actions):
            actions = [*await self._perform(actions[0]), *actions[1:]]

    def _send_first(self, actions: list[Action]) -> list[Action]:
        """Sends the leading Send and Reply actions; returns the rest."""
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
    def _reporting_errors(self) -> Iterator[None]:
        """Under the lock: passes an error of this node itself to `broken`, then notes the new deadline.

        After a cancellation, as at the end of the loop, it notes none: a thread may still be in the machine.
        """
        try:
            yield
        except RemoteProtocolError:
            self._note_deadline()
            raise
        except Exception as error:  # noqa: BLE001 - raised where a task waits for `broken`
            self._break(error)
        self._note_deadline()

    def _break(self, error: Exception) -> None:
        if not self.broken.done():
            self.broken.set_exception(error)

    def _note_deadline(self) -> None:
        """Under the lock, at the end of an event: notes the deadline until the end of the next one."""
        try:
            self._look()
            deadline = None if self._is_over else self._machine.deadline
        except Exception as error:  # noqa: BLE001 - as above
            self._break(error)
            return
        if deadline != self._deadline:
            self._deadline = deadline
            self._changed.set()

    async def receive(self, message: Message, back: Back) -> None:
        """Feeds a message. Raises RemoteProtocolError to the caller; replies take the way `back`."""

        def event(now: float) -> list[Action]:
            actions = self._machine.receive(message, back.key, now)
            return [_BoundReply(a.messages, back) if isinstance(a, Reply) else a for a in actions]

        await self.feed(event, lambda: self._is_light(message))

    async def unreachable(self, endpoint: str, why: str) -> None:
        """Feeds the event that an endpoint does not answer."""
        await self.feed(lambda now: self._machine.unreachable(endpoint, why, now))

    async def reconnected(self, endpoint: str) -> None:
        """Feeds the event that a link broke and was opened again."""
        await self.feed(lambda now: self._machine.reconnected(endpoint, now))

    async def keep_time(self) -> None:
        """Ticks the machine at each deadline; runs until it is cancelled."""
        await self.look(self._note_deadline)
        while True:
            self._changed.clear()
            wait_s = None if self._deadline is None else max(0.0, self._deadline - self.clock.now())
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                await self.feed(self._machine.tick)
