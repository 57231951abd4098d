"""Frames between the processes of a cell, over a Unix socket that only this user can open.

A frame is its length, 4 bytes, little-endian, and that many bytes of msgpack: a list of plain values and
arrays. An array is its dtype, its shape and its bytes; nothing is unpickled. A receiver knows how long a
frame may be, and allocates nothing for a longer one. The system closes the sockets of a process that is
killed, so the other end learns at once that it is gone.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from mechanisms.noise.clipping import Floats
from node.system.errors import UserError, reason

NAME = "server.sock"
FLOATS = "<f4"
LENGTH_BYTES = 4


class ConnectionLost(Exception):
    """The other end is gone, or has sent what it must not; the text says which."""


def longest_frame(floats: int, clients: int) -> int:
    """The length of the longest frame with an array of `floats` numbers and the numbers of all `clients`."""
    return 4 * floats + 9 * clients + 256


@dataclass
class Traffic:
    """The bytes that were sent and received."""

    sent: int = 0
    received: int = 0


class Connection:
    """One end of a connection: it sends frames, and takes them in as they arrive, part by part."""

    def __init__(self, end: socket.socket, longest: int, traffic: Traffic) -> None:
        """`longest`: the bytes of the longest frame that may arrive. `traffic`: where bytes are counted."""
        self.end = end
        self._longest = longest
        self.traffic = traffic
        self._part, self._filled = bytearray(LENGTH_BYTES), 0
        self._is_body = False

    def close(self) -> None:
        """Close this end; the other end learns of it."""
        self.end.close()

    def send(self, *values: object) -> None:
        """Send a frame of plain values and arrays. Raises ConnectionLost."""
        body = msgpack.packb(values, default=_plain)
        try:
            self.end.sendall(len(body).to_bytes(LENGTH_BYTES, "little"))
            self.end.sendall(body)
        except OSError as error:
            raise ConnectionLost(reason(error)) from error
        self.traffic.sent += LENGTH_BYTES + len(body)

    def receive(self) -> list[Any]:
        """Wait for the next frame. Raises ConnectionLost."""
        while (frame := self.read()) is None:
            pass
        return frame

    def read(self) -> list[Any] | None:
        """Take in once what has arrived; return the frame that this completes. Raises ConnectionLost."""
        try:
            count = self.end.recv_into(memoryview(self._part)[self._filled :])
        except OSError as error:
            raise ConnectionLost(reason(error)) from error
        if not count:
            raise ConnectionLost("closed within a frame" if self._filled or self._is_body else "closed")
        self.traffic.received += count
        self._filled += count
        if self._filled < len(self._part):
            return None
        part, self._filled, self._is_body = self._part, 0, not self._is_body
        self._part = bytearray(self._checked(part) if self._is_body else LENGTH_BYTES)
        return None if self._is_body else _unpacked(part)

    def _checked(self, head: bytearray) -> int:
        length = int.from_bytes(head, "little")
        if not 0 < length <= self._longest:
            raise ConnectionLost(f"a frame of {length} bytes; 1 to {self._longest} are allowed")
        return length


def _plain(array: Floats) -> list[object]:
    return [FLOATS, list(array.shape), np.ascontiguousarray(array, FLOATS).tobytes()]


def _unpacked(body: bytearray) -> list[Any]:
    try:
        frame = msgpack.unpackb(body, max_map_len=0, max_ext_len=0)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise ConnectionLost("a frame that is not msgpack of plain values") from error
    if type(frame) is not list:
        raise ConnectionLost("a frame that is no list")
    return frame


def floats(value: object, shape: tuple[int, ...]) -> Floats:
    """The array of a frame. Raises ConnectionLost unless it is of float32 and has this shape."""
    match value:
        case [dtype, list(sizes), bytes(content)] if dtype == FLOATS and sizes == list(shape):
            if len(content) == 4 * math.prod(shape):
                return np.frombuffer(content, FLOATS).reshape(shape).copy()
    raise ConnectionLost(f"no array of float32 of shape {shape}")


def listen(folder: Path) -> socket.socket:
    """A socket in `folder` that listens, and that only this user can connect to. Raises UserError."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        with _short(folder) as path:
            listener.bind(path)
            Path(path).chmod(0o600)  # nobody can connect before it listens
        listener.listen()
    except OSError as error:
        listener.close()
        where = folder / NAME
        raise UserError(f"{where}: no socket can be made ({reason(error)}); choose another --out") from error
    return listener


def connect(folder: Path, longest: int) -> Connection:
    """Connect to the socket that listens in `folder`. Raises ConnectionLost."""
    end = socket.socket(socket.AF_UNIX)
    try:
        with _short(folder) as path:
            end.connect(path)
    except OSError as error:
        end.close()
        raise ConnectionLost(reason(error)) from error
    return Connection(end, longest, Traffic())


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """The socket's path through a descriptor of its folder: the address of a socket ends after 107 bytes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)
