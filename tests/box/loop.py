"""An event loop under virtual time that runs several processes' worth of tasks, and can stop or end one.

Time is a value: when no callback is ready, the loop jumps to its next timer. There is no kernel in it, no
selector and no thread, so the order of events follows from the program and the seed alone.

Every callback belongs to the `Life` in whose context it was scheduled. A paused life's callbacks wait until
it goes on, as those of a stopped process do. `Life.at_step` runs before the callback of a number: a kill
between any two awaits.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

_life: ContextVar[Life | None] = ContextVar("life", default=None)
FOREVER_S = 10 * 365 * 86400.0
_CANCELS_AGAIN_S = 0.001


class Stuck(AssertionError):
    """Nothing will ever happen again, though somebody waits."""


class Life:
    """One life of a process: from its start to its end."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.tasks: set[asyncio.Task[Any]] = set()
        self.steps = 0
        """How many callbacks it has run."""
        self.at_step: dict[int, Callable[[], None]] = {}
        self.is_dead = False
        self._waiting: list[asyncio.Handle] | None = None
        self.context: Context = copy_context()
        self.context.run(_life.set, self)

    def begin(self, main: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs the process's main task."""
        return self.context.run(self.loop.create_task, main)

    def pause(self) -> None:
        """Stops the process: nothing of it runs until `go_on`."""
        if self._waiting is None:
            self._waiting = []

    def go_on(self) -> None:
        """Continues a stopped process; what became due meanwhile runs now, in order."""
        waiting, self._waiting = self._waiting or [], None
        self.loop.make_ready(waiting)

    def holds(self, handle: asyncio.Handle) -> bool:
        """Returns whether a callback must wait; counts it if not."""
        if self._waiting is not None:
            self._waiting.append(handle)
            return True
        self.steps += 1
        due = self.at_step.pop(self.steps, None)
        if due is not None:
            due()
        return False

    def cancel(self) -> None:
        """Cancels all tasks until none is left; it is dead, and its seams let nothing out any more.

        One may wait for a lock that nobody gives back any more: so it is cancelled again.
        """
        self.is_dead = True
        self.go_on()
        for task in sorted(self.tasks, key=lambda task: task.get_name()):
            task.cancel()
        if self.tasks:
            self.loop.call_later(_CANCELS_AGAIN_S, self.cancel, context=Context())


class _Handle(asyncio.Handle):
    """A callback of a life."""

    __slots__ = ("life",)

    def _run(self) -> None:
        if not self.life.holds(self):
            super()._run()


class _TimerHandle(asyncio.TimerHandle):
    """A timer of a life."""

    __slots__ = ("life",)

    def _run(self) -> None:
        if not self.life.holds(self):
            super()._run()


class _NoSelector:
    """Waits for nothing: it moves the loop's time on."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise Stuck("no callback is ready and no timer is set")
        self._loop.now += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module. `run_until_complete` works as usual."""

    def __init__(self, begun_s: float = 1000.0) -> None:
        super().__init__()
        self.now = begun_s
        self._selector = _NoSelector(self)
        self.errors: list[tuple[Life | None, dict[str, Any]]] = []
        """What no task has caught, with the life in which it happened."""
        self.lasts_s: Callable[[str], float] = lambda _: 0.0
        """How long a call of this name takes in a thread, beside what it says itself (`work`)."""
        self._worked_s: float | None = None
        """How long the call in a thread has worked so far; None outside of one."""
        self.set_exception_handler(lambda _, what: self.errors.append((self._life_of(what), what)))
        self.lives: WeakKeyDictionary[asyncio.Future[Any], Life] = WeakKeyDictionary()
        """Of each task of a life."""
        self.set_task_factory(_in_life)
        self._names = 0
        self._is_over: Callable[[], bool] = lambda: False

    def time(self) -> float:
        return self.now

    def clock(self) -> float:
        """The time that whoever runs now reads: in a thread, time has passed by what it has worked."""
        return self.now + (self._worked_s or 0.0)

    def work(self, seconds: float) -> None:
        """Says that the call in a thread has worked so long; outside of one nobody works."""
        if self._worked_s is not None:
            self._worked_s += seconds

    def next_name(self) -> str:
        """Returns a name for a task; names order tasks, which have no order of their own."""
        self._names += 1
        return f"task {self._names:09}"

    def _life_of(self, what: dict[str, Any]) -> Life | None:
        """Returns the life in which an error happened; another may collect its dead task or gather."""
        future = what.get("future") or what.get("task")
        tasks = (future, *getattr(future, "_children", ())) if future is not None else ()
        return next((self.lives[task] for task in tasks if task in self.lives), _life.get())

    def make_ready(self, handles: list[asyncio.Handle]) -> None:
        """Runs these callbacks next, unless they are cancelled."""
        self._ready.extend(handle for handle in handles if not handle.cancelled())

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Runs the function at once, where a node uses a thread; its result comes when it has worked."""
        future = self.create_future()
        self._worked_s = self.lasts_s(_name_of(func))
        try:
            end = partial(_succeed, future, func(*args))
        except BaseException as error:  # noqa: BLE001 - whoever awaits it gets it
            end = partial(_fail, future, error)
        self.call_later(self._worked_s, end)
        self._worked_s = None
        return future

    def run_until(self, over: Callable[[], bool]) -> None:
        """Runs until `over`, which is asked after every turn. Raises Stuck if nothing can happen any more."""
        self._is_over = over
        if not over():
            self.run_forever()

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        if self._is_over():
            self.stop()

    # -- what asyncio's base leaves open -----------------------------------------------------------

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> asyncio.Handle:
        life = _life.get() if context is None else context.get(_life)
        if life is None:
            return super()._call_soon(callback, args, context)  # type: ignore[misc]
        handle = _Handle(callback, args, self, context)
        handle.life = life
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        life = _life.get() if context is None else context.get(_life)
        if life is None:
            return super().call_at(when, callback, *args, context=context)
        timer = _TimerHandle(when, callback, args, self, context)
        timer.life = life
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def _process_events(self, _: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector."""


def _name_of(func: Callable[..., Any]) -> str:
    """Returns the name of a function, also of one that asyncio.to_thread has wrapped."""
    called = func.args[0] if isinstance(func, partial) and func.args else func
    return getattr(called, "__name__", "")


def _succeed(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _in_life(
    loop: asyncio.AbstractEventLoop, work: Any, *, context: Context | None = None
) -> asyncio.Task[Any]:
    """Makes a task that its life knows."""
    assert isinstance(loop, VirtualLoop)
    task = asyncio.Task(work, loop=loop, name=loop.next_name(), context=context)
    life = _life.get() if context is None else context.get(_life)
    if life is not None:
        life.tasks.add(task)
        loop.lives[task] = life
        task.add_done_callback(life.tasks.discard)
    return task


def this_life() -> Life:
    """Returns the life in whose context the caller runs."""
    life = _life.get()
    assert life is not None
    return life
