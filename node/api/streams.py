"""Streams: values that one thread makes, and that tasks on any event loop can await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Stream(Generic[T]):
    """Values in order. The stream keeps them, so each reader gets all values, however late it starts."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._values: list[T] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._ended = False
        self._error: BaseException | None = None

    @property
    def ended(self) -> bool:
        """Whether the stream has ended."""
        return self._ended

    def values(self) -> tuple[T, ...]:
        """Returns the values so far."""
        with self._changed:
            return tuple(self._values)

    def put(self, value: T) -> None:
        """Adds a value; any thread may call it."""
        with self._changed:
            self._values.append(value)
            self._wake()

    def end(self, error: BaseException | None) -> None:
        """Ends the stream; readers end after the last value, with `error` if there is one."""
        with self._changed:
            self._ended, self._error = True, error
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        for future in self._waiting:
            with suppress(RuntimeError):  # its loop is closed, so no task awaits it
                future.get_loop().call_soon_threadsafe(_settle, future)
        self._waiting.clear()

    def wait(self) -> None:
        """Blocks until the stream has ended; raises its error, or that of a signal such as Ctrl-C."""
        with self._changed:
            while not self._ended:
                self._changed.wait()
        if self._error is not None:
            raise self._error

    def read(self, leave: Callable[[], None]) -> Reading[T]:
        """Returns an iterator over all values as they arrive; it calls `leave` if its loop is left early."""
        return Reading(self, leave)

    async def at(self, position: int) -> T:
        """Waits for the value at a position. After the last one, raises StopAsyncIteration or the error."""
        is_there: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._changed:
            if position < len(self._values) or self._ended:
                is_there.set_result(None)
            else:
                self._waiting.append(is_there)
        await is_there
        with self._changed:
            if position < len(self._values):
                return self._values[position]
        raise self._error or StopAsyncIteration


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Reading(Generic[T]):
    """A reader of a stream for `async for`. It calls `leave` if the loop is left before its end."""

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
        """Leaves the stream before its end."""
        if not self._over:
            self._over = True
            self._leave()

    def __del__(self) -> None:
        if not self._over:
            self._leave()
