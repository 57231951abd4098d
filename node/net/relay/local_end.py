"""The local end of a relayed stream: one end of a pair in this process, whose other end somebody reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from node.net.aborting import abort
from protocol.relay.frames import PIECE_BYTES
from protocol.relay.stream import StreamId

_SMALL_BYTES, _LARGE_BYTES = 4096, 4 * PIECE_BYTES
"""What is set apart for the next bytes: four whole frames, which leave together, where many come."""


class Far(Protocol):
    """The stream, as its local end uses it."""

    def room(self, stream: StreamId) -> int:
        """Returns how many bytes the stream takes now."""

    def write(self, stream: StreamId, data: memoryview) -> None:
        """Sends bytes, which nobody changes any more."""

    def consume(self, stream: StreamId, count: int) -> None:
        """The reader took so many bytes."""

    def finish(self, stream: StreamId) -> None:
        """Nothing follows."""

    def abort(self, stream: StreamId) -> None:
        """Ends the stream at once."""


class LocalEnd(asyncio.BufferedProtocol):
    """Reads what the local program writes, while the stream has room; writes what comes from the far end.

    Bytes count as consumed once the pair has taken them, so a slow reader stops its own stream alone.
    """

    def __init__(self, far: Far, stream: StreamId) -> None:
        self._far = far
        self._stream = stream
        self._transport: asyncio.Transport | None = None
        self._early: list[Callable[[], None]] = []
        """What happens to the stream before the pair is there."""
        self._free = memoryview(b"")
        self._size = _SMALL_BYTES
        self._is_full = False
        self._is_lost = False
        self._owed = 0
        """Bytes that the pair holds and the reader has not taken."""

    # -- from the far end ----------------------------------------------------------------------------

    def take(self, data: memoryview) -> None:
        """Takes the next bytes for the local program."""
        if self._transport is None:
            self._early.append(partial(self.take, data))
            return
        if not self._transport.is_closing():
            self._transport.write(data)
        if self._is_full:
            self._owed += len(data)
        else:
            self._far.consume(self._stream, len(data))

    def end_reading(self) -> None:
        """The far end writes no more."""
        if self._transport is None:
            self._early.append(self.end_reading)
        elif not self._transport.is_closing():
            self._transport.write_eof()

    def make_room(self) -> None:
        """The stream takes bytes again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def end(self, *, in_peace: bool) -> None:
        """The stream is over."""
        if self._transport is None:
            self._early.append(partial(self.end, in_peace=in_peace))
        elif in_peace:
            self._transport.close()
        elif not self._is_lost:
            abort(self._transport)

    # -- called by asyncio ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The pair is there."""
        self._transport = cast("asyncio.Transport", transport)  # other event loops have classes of their own
        early, self._early = self._early, []
        for happen in early:
            happen()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns memory for the next bytes, no more than the stream takes; the stream keeps them there.

        A transport that was paused hands over no more, but for what it has read already.
        """
        if len(self._free) < self._size // 4:
            self._free = memoryview(bytearray(self._size))
        room = self._far.room(self._stream)
        return self._free[:room] if room > 0 else self._free

    def buffer_updated(self, nbytes: int) -> None:
        """Sends what the local program wrote."""
        data, self._free = self._free[:nbytes], self._free[nbytes:]
        self._size = _LARGE_BYTES if nbytes >= PIECE_BYTES or not self._free else _SMALL_BYTES
        self._far.write(self._stream, data)
        if self._far.room(self._stream) <= 0 and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """The local program writes no more; it may still read."""
        self._far.finish(self._stream)
        return True

    def pause_writing(self) -> None:
        """The local program does not read."""
        self._is_full = True

    def resume_writing(self) -> None:
        """The local program reads again."""
        self._is_full = False
        owed, self._owed = self._owed, 0
        if owed:
            self._far.consume(self._stream, owed)

    def connection_lost(self, error: Exception | None) -> None:
        """The pair is closed: nobody reads or writes here."""
        self._is_lost = True
        self._far.abort(self._stream)
