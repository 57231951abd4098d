"""A real node that stops itself at an exact message, and can record all frames.

It wraps the product's functions for sending and decoding in its own process; the product has no hook for it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgpack

from protocol.wire import codec, signing
from protocol.wire.masked_messages import MaskedMessage, session_of
from protocol.wire.messages import Group, Share, Sum
from tests.e2e.named import main_of
from tests.e2e.namespaces import enter


@dataclass(frozen=True)
class Fate:
    """The process sends itself `sign` before it sends its first message of `kind` in session `session`."""

    kind: str
    session: int
    sign: signal.Signals = signal.SIGKILL


@dataclass
class Watch:
    """Counts sessions up to the fated one; writes frames to `record`, if given."""

    fate: Fate | None
    record: Path | None
    sids: list[bytes] = field(default_factory=list)

    def saw(self, way: str, message: Any) -> None:
        sid = _session_of(message)
        if sid is None:
            return
        if sid not in self.sids:
            self.sids.append(sid)
        found, fate = (way, type(message).__name__, self.sids.index(sid) + 1), self.fate
        if fate is not None and found == ("out", fate.kind, fate.session):
            self.fate = None
            # To this very thread: sent to the process, it may stop another one first, and let this one go on.
            signal.pthread_kill(threading.get_ident(), fate.sign)

    def write(self, way: str, message: Any, frame: bytes) -> None:
        if self.record is not None and threading.current_thread() is threading.main_thread():
            with self.record.open("ab") as file:
                file.write(msgpack.packb([way, type(message).__name__, frame]))


def _session_of(message: Any) -> bytes | None:
    """Returns the session that a message is part of; None for messages that only name one, such as requests.

    A GROUP starts a session, although a share of another member may arrive before it.
    """
    if isinstance(message, Group):
        return signing.session_id(message)
    if isinstance(message, MaskedMessage):
        return session_of(message)
    return message.sid if isinstance(message, Share | Sum) else None


def read_record(path: Path) -> list[tuple[str, str, bytes]]:
    """Returns (way, kind, frame) of all frames so far that a recording node sent or received, in order."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(path.read_bytes())
    return [tuple(entry) for entry in unpacker]


@dataclass(frozen=True)
class WrongClock:
    """A clock that is `ahead_s` ahead of the system's."""

    ahead_s: float

    def set(self) -> None:
        right = time.time
        time.time = lambda: right() + self.ahead_s


@dataclass(frozen=True)
class Orders:
    """What the process does besides running a node, and where.

    `namespace`: of the network; `clock`: what its clock shows; `environment`: variables of its own.
    """

    fate: Fate | None = None
    record: Path | None = None
    namespace: str | None = None
    clock: WrongClock | None = None
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def watches(self) -> bool:
        """Whether messages are counted or recorded."""
        return self.fate is not None or self.record is not None


def wrap(orders: Orders) -> None:
    """Wraps sending and decoding in this process, so that it counts, records and meets its fate."""
    from node.net.transport import Transport  # noqa: PLC0415  not for whoever only starts processes

    watch = Watch(orders.fate, orders.record)
    decode, sent = codec.decode, Transport.sent

    def sending(self: Any, message: Any, count: int) -> None:
        watch.write("out", message, codec.encode(message).join())
        watch.saw("out", message)
        sent(self, message, count)

    def decoding(frame: bytes | memoryview) -> Any:
        message = decode(frame)
        watch.write("in", message, bytes(frame))
        watch.saw("in", message)
        return message

    codec.decode = decoding
    Transport.sent = sending  # type: ignore[method-assign]


def run(module: str, argv: list[str], out: Connection, err: Connection, orders: Orders) -> None:
    """Runs `python -m module *argv` in a forked child, with its output in two pipes."""
    sys.stdout.flush()
    sys.stderr.flush()
    for stream, number in ((out, 1), (err, 2)):
        os.dup2(stream.fileno(), number)
        stream.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # as the fork-server was started
    if orders.namespace is not None:
        enter(orders.namespace)
    if orders.clock is not None:
        orders.clock.set()
    os.environ.update(orders.environment)
    if orders.watches:
        wrap(orders)
    sys.exit(main_of(module)(argv))
