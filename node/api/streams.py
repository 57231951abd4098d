"""Values that one thread makes, for whoever awaits them on any event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Stream(Generic[T]):
    """Values in order, kept: a reader that comes late gets all of them, and two readers get the same."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._values: list[T] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._ended = False
        self._error: BaseException | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self._ended

    def values(self) -> tuple[T, ...]:
        """What there is so far."""
        with self._changed:
            return tuple(self._values)

    def put(self, value: T) -> None:
        """One more, from any thread."""
        with self._changed:
            self._values.append(value)
            self._wake()

    def end(self, error: BaseException | None) -> None:
        """Nothing more comes; readers end there, with `error` if there is one."""
        with self._changed:
            self._ended, self._error = True, error
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        for future in self._waiting:
            with suppress(RuntimeError):  # its loop is closed: nobody awaits it any more
                future.get_loop().call_soon_threadsafe(_settle, future)
        self._waiting.clear()

    def wait(self) -> None:
        """Until it has ended; raises its error. A signal's exception, as Ctrl-C raises one, goes through."""
        with self._changed:
            while not self._ended:
                self._changed.wait()
        if self._error is not None:
            raise self._error

    def read(self, leave: Callable[[], None]) -> Reading[T]:
        """All values from the first on, each as soon as it is there; who leaves early has called `leave`."""
        return Reading(self, leave)

    async def at(self, position: int) -> T:
        """The value at a position, as soon as it is there; StopAsyncIteration or the error after the last."""
        await self._until_more_than(position)
        with self._changed:
            if position < len(self._values):
                return self._values[position]
        raise self._error or StopAsyncIteration

    async def _until_more_than(self, count: int) -> None:
        with self._changed:
            if len(self._values) > count or self._ended:
                return
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
        await future


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Reading(Generic[T]):
    """A stream as `async for` takes it: who leaves the loop before its end, however, has called `leave`."""

    def __init__(self, stream: Stream[T], leave: Callable[[], None]) -> None:
        self._stream = stream
        self._position = 0
        self._leave = leave
        self._over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            value = await self._stream.at(self._position)
        except (StopAsyncIteration, Exception):
            self._over = True
            raise
        self._position += 1
        return value

    async def aclose(self) -> None:
        """Leave before the end."""
        if not self._over:
            self._over = True
            self._leave()

    def __del__(self) -> None:
        if not self._over:
            self._leave()
