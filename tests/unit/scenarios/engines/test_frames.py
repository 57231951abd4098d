"""Frames over a Unix socket: what travels, what is refused, and who may connect."""

from __future__ import annotations

import os
import socket
import stat
import tracemalloc
from contextlib import closing, contextmanager

import msgpack
import numpy as np
import pytest

from node.system.errors import UserError
from scenarios.engines.frames import (
    NAME,
    Connection,
    ConnectionLost,
    Traffic,
    connect,
    floats,
    listen,
    longest_frame,
)

VECTOR = np.arange(6, dtype=np.float32)


@pytest.fixture
def pair():
    """A connection that takes frames of at most 64 bytes, and the other end as a bare socket."""
    here, there = socket.socketpair()
    with closing(Connection(here, 64, Traffic())) as connection, there:
        yield connection, there


@contextmanager
def ends(longest: int = 200):
    """Both ends of a connection."""
    here, there = socket.socketpair()
    one, other = (Connection(end, longest, Traffic()) for end in (here, there))
    with closing(one), closing(other):
        yield one, other


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "little") + body


def test_plain_values_and_arrays_travel_whole_and_in_parts_and_their_bytes_are_counted():
    matrix = np.array([[1.5, -0.0], [np.inf, 3e-45]], np.float32)
    with ends() as (one, other):
        one.send("order", 7, [3, 40_000], matrix)
        kind, number, clients, array = other.receive()
        assert (kind, number, clients) == ("order", 7, [3, 40_000])
        found = floats(array, (2, 2))
        assert found.tobytes() == matrix.tobytes()
        assert found.flags.writeable
        one.send(matrix.T[:0])
        assert floats(other.receive()[0], (0, 2)).shape == (0, 2)
        assert one.traffic.sent == other.traffic.received > matrix.nbytes
        *first, last = framed(msgpack.packb(["a", 1]))
        for byte in first:
            one.end.sendall(bytes([byte]))
            assert other.read() is None
        one.end.sendall(bytes([last]))
        assert other.read() == ["a", 1]


def test_the_longest_frame_has_room_for_the_numbers_of_all_clients():
    with ends(longest_frame(len(VECTOR), 100)) as (one, other):
        one.send("order", 2**31, list(range(70_000, 70_100)), VECTOR)
        assert len(other.receive()[2]) == 100


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "closed"),
        (b"\1\0", "closed within a frame"),
        (b"\5\0\0\0", "closed within a frame"),
        (framed(msgpack.packb(["a", 1]))[:-1], "closed within a frame"),
        ((65).to_bytes(4, "little") + bytes(65), "a frame of 65 bytes; 1 to 64 are allowed"),
        (bytes(4), "a frame of 0 bytes; 1 to 64 are allowed"),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 542393671 bytes; 1 to 64 are allowed"),
        (framed(b"\xc1"), "a frame that is not msgpack of plain values"),
        (framed(b"\x92\x01"), "a frame that is not msgpack of plain values"),
        (framed(b"\x01\x01"), "a frame that is not msgpack of plain values"),
        (framed(b"\x91" * 63 + b"\x01"), None),
        (framed(msgpack.packb([msgpack.ExtType(1, b"x")])), "a frame that is not msgpack of plain values"),
        (framed(msgpack.packb([{"a": 1}])), "a frame that is not msgpack of plain values"),
        (framed(msgpack.packb("node")), "a frame that is no list"),
    ],
)
def test_what_is_no_frame_ends_the_connection(sent, said, pair):
    connection, there = pair
    there.sendall(sent)
    there.shutdown(socket.SHUT_WR)
    if said is None:  # deep, but no harm
        assert connection.receive()
    else:
        with pytest.raises(ConnectionLost, match=f"^{said}$"):
            connection.receive()


def test_nothing_is_allocated_for_a_frame_that_is_too_long(pair):
    connection, there = pair
    there.sendall(b"\xff\xff\xff\x0f")
    there.shutdown(socket.SHUT_WR)
    tracemalloc.start()
    with pytest.raises(ConnectionLost):
        connection.receive()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        ["<f4", [6]],
        ["<f8", [6], bytes(24)],
        ["|O", [6], bytes(24)],
        ["<f4", 6, bytes(24)],
        ["<f4", [2, 3], bytes(24)],
        ["<f4", [7], bytes(28)],
        ["<f4", [6], bytes(23)],
        ["<f4", [6], bytes(28)],
        ["<f4", [6], "x" * 24],
    ],
)
def test_an_array_is_of_the_type_the_shape_and_the_length_that_its_reader_expects(value):
    with pytest.raises(ConnectionLost, match=r"^no array of float32 of shape \(6,\)$"):
        floats(value, (6,))
    assert floats(["<f4", [6], VECTOR.tobytes()], (6,)).tolist() == VECTOR.tolist()


def test_who_sends_to_a_process_that_is_gone_learns_it():
    here, there = socket.socketpair()
    there.close()
    with closing(Connection(here, 64, Traffic())) as connection, pytest.raises(ConnectionLost):
        connection.send("done")


def test_a_socket_is_its_user_s_alone_however_long_its_folder_s_path_is(tmp_path):
    folder = tmp_path.joinpath(*["deep" * 20] * 3)
    folder.mkdir(parents=True)
    before = os.umask(0)
    try:
        listener = listen(folder)
    finally:
        os.umask(before)
    with listener:
        assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o600
        with closing(connect(folder, 64)) as one:
            there, _ = listener.accept()
            with closing(Connection(there, 64, Traffic())) as other:
                one.send("node", 1)
                assert other.receive() == ["node", 1]
        with pytest.raises(UserError, match=r"server\.sock: no socket can be made \(Address already"):
            listen(folder)
    with pytest.raises(ConnectionLost, match="Connection refused"):
        connect(folder, 64)
