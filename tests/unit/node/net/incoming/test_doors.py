"""What strangers can do to a node's server, on real sockets: each limit, and that members get through."""

import asyncio
import gc
import gzip
import os
import resource
import socket
import time
import tracemalloc
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from aiohttp import ClientSession, web

from node.net.incoming import doors
from node.net.incoming.doors import (
    BODY_BYTES,
    MEMBER_BODY_BYTES,
    ROOMS,
    STEP_BYTES,
    Bounds,
    Rooms,
    raise_descriptors,
)
from node.net.incoming.rooms import Bound
from node.net.traffic import Counts
from node.net.versions import SUBPROTOCOL
from node.system.free_memory import give_back
from protocol.wire import codec
from protocol.wire.limits import MAX_FRAME_BYTES
from protocol.wire.messages import Accepted
from tests.unit.node.links import ONE, THIRD, a_server, anybody, prove, tls_of

TLS = tls_of(ONE)
FRAME = codec.encode(Accepted(bytes(16))).join()
SOON_S = 0.05
FEW = Bound(2, 2, 60.0)
"""Tests of numbers have no time limits that could expire; tests of times have no full rooms."""
PATIENT = Bounds(sweep_s=0.01)


def patient(**rooms):
    return replace(PATIENT, rooms=Rooms(**rooms))


def turn():
    """Lets the loop turn once."""
    return asyncio.sleep(0)


class Served:
    """A server with these limits, and its clients."""

    def __init__(self, bounds, tls, is_member):
        self.counts = Counts()
        self.got = asyncio.Queue()
        self.server = a_server(self._receive, self.counts, tls, bounds, is_member)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.address = self.listener.getsockname()
        self.waiting = asyncio.Event()
        self.used = asyncio.Event()
        self.used.set()
        self.writers = []

    async def _receive(self, message, _):
        self.got.put_nowait(message)
        await self.used.wait()

    async def answer(self, request):
        if request.path == "/slow":
            await self.waiting.wait()
        return web.Response()

    async def connect(self, said=b"", host="127.0.0.1"):
        reader, writer = await asyncio.open_connection(*self.address, local_addr=(host, 0))
        self.writers.append(writer)
        writer.write(said)
        return reader, writer

    async def enter(self, room, count, said=b"", host="127.0.0.1"):
        """Connects, and waits until so many are in a room."""
        guest = await self.connect(said, host)
        await self.until(room, count)
        return guest

    def ticket(self):
        """Returns the header of a member's request."""
        return f"Authorization: Bearer {self.server.doors.ticket(THIRD.public).hex()}"

    def at(self, room):
        return self.server.doors.counts[room]

    async def until(self, room, count):
        """Waits for a condition, no longer than a test may take."""
        while self.at(room) != count:
            await turn()

    async def dropped(self, part):
        while not any(part in why for why in self.counts.dropped):
            await turn()


@asynccontextmanager
async def served(bounds, tls=None, is_member=anybody):
    here = Served(bounds, tls, is_member)
    await here.server.start(here.listener, [web.get(path, here.answer) for path in ("/hello", "/slow")])
    try:
        yield here
    finally:
        here.waiting.set()
        for writer in here.writers:
            writer.transport.abort()
        while any(here.server.doors.counts.values()) or here.server.doors._guests:
            await turn()
        await here.server.close()
        here.listener.close()


async def closed(reader):
    """Returns everything that was received before the connection ended."""
    said = b""
    with suppress(ConnectionResetError):
        while piece := await reader.read(1 << 16):
            said += piece
    return said


def is_open(reader):
    return not reader.at_eof() and reader.exception() is None


def head(length, *more, path="/v1/bulk", method="POST"):
    lines = (f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *more, "", "")
    return "\r\n".join(lines).encode()


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


WEBSOCKET = (
    b"GET /v1/link HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    b"Sec-WebSocket-Protocol: " + SUBPROTOCOL.encode() + b"\r\n\r\n"
)
CHUNKED = b"POST /v1/bulk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
STAYS_IN = {
    "quiet": b"",
    "speaking": b"GET /hello HT",
    "asking": get("/slow"),
    "idle": get("/hello"),
    "linking": WEBSOCKET,
}
"""What a stranger sends to enter a room and stay there."""


@pytest.mark.parametrize("room", STAYS_IN)
async def test_at_the_limit_the_oldest_goes_and_the_newest_is_served(room):
    async with served(patient(**{room: FEW})) as here:
        guests = [await here.enter(room, count, STAYS_IN[room]) for count in (1, 2, 2)]
        await closed(guests[0][0])
        assert here.at(room) == 2
        assert all(is_open(reader) for reader, _ in guests[1:])
        assert here.counts.dropped == {f"{ROOMS[room]}: closed for a newer one": 1}
        here.waiting.set()
        reader, _ = await here.connect(get("/hello"))
        assert b"200 OK" in await reader.readuntil(b"\r\n")


async def test_addresses_are_counted_apart():
    async with served(patient(quiet=Bound(3, 1, 60.0))) as here:
        first, _ = await here.enter("quiet", 1)
        other, _ = await here.enter("quiet", 2, host="127.0.0.2")
        await here.connect()
        await closed(first)
        assert is_open(other)
        for number in (3, 4):  # in all three may be here: the oldest of all goes
            await here.connect(host=f"127.0.0.{number}")
        await closed(other)


async def test_no_stranger_takes_the_place_of_one_who_has_proved_a_key():
    bounds = patient(**dict.fromkeys(("quiet", "speaking", "asking", "idle", "linking"), FEW))
    async with served(bounds) as here, ClientSession() as client:
        where = f"http://127.0.0.1:{here.address[1]}/v1/link"
        ws = await client.ws_connect(where, protocols=(SUBPROTOCOL,))
        await prove(ws, THIRD)
        await ws.send_bytes(FRAME)
        await here.got.get()
        await here.until("members", 1)
        for said in (*STAYS_IN.values(), head(10**6) + bytes(10)):
            for _ in range(8):
                await here.connect(said)
        while sum(here.counts.dropped.values()) < 6 * 6:
            await turn()
        assert not ws.closed
        await ws.send_bytes(FRAME)
        await here.got.get()
        await ws.close()


async def test_one_key_has_only_so_many_connections():
    async with served(patient(members=Bound(8, 2))) as here:
        guests = []
        for key in (b"one", b"one", b"other", b"one"):
            reader, _ = await here.enter("linking", 1, STAYS_IN["linking"])
            guests.append(reader)
            next(iter(here.server.doors._rooms["linking"])).prove(key)
        await closed(guests[0])
        assert all(is_open(reader) for reader in guests[1:])


@pytest.mark.parametrize("free", [1, 2])
async def test_without_descriptors_the_oldest_silent_one_goes_and_the_newest_is_served(free: int):
    """It is served in the last free descriptor, too: nobody else waits for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with served(patient(quiet=Bound(99, 99, 60.0))) as here:
        clients = [socket.create_connection(here.address) for _ in range(4)]
        clients[-1].sendall(get("/hello"))
        lowest = [os.dup(0) for _ in range(free)]
        for descriptor in lowest:
            os.close(descriptor)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest[-1] + 1, hard))
            clients[-1].setblocking(False)
            answer = await asyncio.get_running_loop().sock_recv(clients[-1], 64)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert b"200 OK" in answer
        assert here.counts.dropped["a connection that could not be accepted: Too many open files"] > 0
        for client in clients:
            client.close()


async def test_a_flood_is_accepted_at_a_pace_and_everyone_of_it_in_the_end():
    async with served(replace(PATIENT, accepts_saved=3, accepts_per_s=100.0)) as here:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        guests = [await here.connect(get("/hello")) for _ in range(9)]
        for reader, _ in guests:
            assert b"200 OK" in await reader.readuntil(b"\r\n")
        assert loop.time() - begun_s >= 0.05  # three at once, and then ten milliseconds for each of six


def test_a_node_raises_its_own_limit_of_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 1000)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        assert raise_descriptors(wanted) == wanted
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (wanted, hard)
        assert raise_descriptors(10) == wanted
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("room", STAYS_IN)
async def test_who_does_not_go_on_is_closed(room):
    async with served(patient(**{room: Bound(9, 9, SOON_S)})) as here:
        reader, _ = await here.connect(STAYS_IN[room])
        await closed(reader)
        assert dict(here.counts.dropped) == {f"{ROOMS[room]}: closed, for its time was over": 1}


SHORT_BODY = replace(BODY_BYTES, within_s=SOON_S)
SHORT = {"body_bytes": SHORT_BODY, "member_body_bytes": replace(MEMBER_BODY_BYTES, within_s=SOON_S)}


@pytest.mark.parametrize("bounds", [SHORT, {"body_grace_s": SOON_S}], ids=["time", "rate"])
async def test_a_slow_body_is_closed_also_a_member_s(bounds):
    async with served(replace(PATIENT, **bounds)) as here:
        reader, _ = await here.connect(head(10**6) + bytes(10))
        assert await closed(reader) == b""
        await here.dropped("a body that is too slow")
        await here.until("body_bytes", 0)
        reader, _ = await here.connect(head(10**6, here.ticket()) + bytes(10))
        await here.until("members", 1)
        await here.until("member_body_bytes", STEP_BYTES)
        await closed(reader)


async def test_a_body_that_is_here_is_not_slow_however_long_it_is_used():
    async with served(replace(PATIENT, body_bytes=SHORT_BODY)) as here:
        here.used.clear()
        reader, _ = await here.connect(head(len(FRAME)) + FRAME)
        await here.got.get()
        sentinel, _ = await here.connect(head(10**6) + bytes(10))
        await closed(sentinel)  # which came later, and is over
        here.used.set()
        assert b"204" in await reader.readuntil(b"\r\n\r\n")


async def test_a_member_may_be_silent():
    bounds = patient(**dict.fromkeys(("asking", "idle"), Bound(9, 9, SOON_S)))
    async with served(bounds) as here:
        member, writer = await here.connect(head(len(FRAME), here.ticket()) + FRAME)
        await member.readuntil(b"\r\n\r\n")
        stranger, _ = await here.connect(get("/hello"))
        await closed(stranger)
        assert is_open(member)
        writer.write(head(len(FRAME)) + FRAME)
        assert b"204" in await member.readuntil(b"\r\n\r\n")


async def test_nobody_is_late_for_what_this_node_was_late():
    async with served(patient(quiet=Bound(9, 9, 10 * SOON_S))) as here:
        reader, writer = await here.enter("quiet", 1)
        time.sleep(20 * SOON_S)  # noqa: ASYNC251 - the loop stands still: that is what this is about
        for _ in range(20):
            await turn()
        writer.write(get("/hello"))
        assert b"200 OK" in await reader.readuntil(b"\r\n")


async def test_what_is_announced_and_does_not_come_takes_no_memory():
    async with served(PATIENT) as here:
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(40):
                await here.connect(head(MAX_FRAME_BYTES) + bytes(10))
            while here.at("body_bytes") < 40 * STEP_BYTES:
                await turn()
            assert tracemalloc.get_traced_memory()[0] < 40 * 200_000
        finally:
            tracemalloc.stop()


async def test_at_the_limit_of_bytes_the_body_that_was_silent_for_longest_goes():
    async with served(replace(PATIENT, body_bytes=Bound(6 * STEP_BYTES, 6 * STEP_BYTES, 30.0))) as here:
        first, first_writer = await here.enter("body_bytes", STEP_BYTES, head(10**6) + bytes(10))
        second, _ = await here.enter("body_bytes", 2 * STEP_BYTES, head(10**6) + bytes(10))
        first_writer.write(bytes(2 * STEP_BYTES))
        await here.until("body_bytes", 4 * STEP_BYTES)
        _, third_writer = await here.connect(head(10**6) + bytes(10))
        third_writer.write(bytes(2 * STEP_BYTES))
        assert await closed(second) == b""
        assert is_open(first)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity, gzip"])
async def test_a_compressed_body_is_refused_before_it_is_unpacked(coding):
    body = gzip.compress(bytes(200_000_000), 1) if coding == "gzip" else bytes(100)
    async with served(PATIENT) as here:
        tracemalloc.start()
        try:
            reader, _ = await here.connect(head(len(body), f"Content-Encoding: {coding}") + body)
            assert b"415" in (await closed(reader)).splitlines()[0]
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()
        assert here.counts.dropped == {"a compressed body": 1}
        assert here.got.empty()


async def test_a_compressed_body_for_another_path_is_refused_too_and_one_that_is_sent_as_it_is_is_not():
    async with served(PATIENT) as here:
        for path in ("/hello", "/nowhere"):
            said = head(4, "Content-Encoding: gzip", path=path, method="GET") + bytes(4)
            reader, _ = await here.connect(said)
            assert b"415" in (await closed(reader)).splitlines()[0]
        reader, _ = await here.connect(head(len(FRAME), "Content-Encoding: identity") + FRAME)
        assert b"204" in await reader.readuntil(b"\r\n")


@pytest.mark.parametrize(
    "said",
    [
        head(MAX_FRAME_BYTES + 1),
        CHUNKED + b"4\r\nabcd\r\n0\r\nx: y\r\n\r\n",
        head(5, path="/hello", method="GET") + bytes(5),
        head(5, path="/nowhere") + bytes(5),
    ],
    ids=["long", "chunked", "get", "nowhere"],
)
async def test_a_body_that_nobody_reads_is_refused(said):
    async with served(PATIENT) as here:
        reader, _ = await here.connect(said)
        assert b" 413 " in await reader.readuntil(b"\r\n")


async def test_what_is_refused_is_counted_once_however_much_of_it_comes():
    async with served(PATIENT) as here:
        reader, writer = await here.connect(head(4 * MAX_FRAME_BYTES))
        with suppress(ConnectionError):
            for _ in range(24):
                writer.write(bytes(MAX_FRAME_BYTES // 6))
                await writer.drain()
        assert b" 413 " in await closed(reader)
        assert here.counts.dropped == {"a body without a length, or over the limit": 1}


async def test_a_body_that_is_cut_off_is_counted_and_let_go():
    async with served(PATIENT) as here:
        _, writer = await here.enter("body_bytes", STEP_BYTES, head(10**6) + bytes(10))
        writer.close()
        await here.until("body_bytes", 0)
        await here.dropped("a body that was cut off")


async def test_who_does_not_wait_for_answers_is_closed():
    async with served(PATIENT) as here:
        next_one = get("/hello").replace(b"\r\n\r\n", b"\r\na: " + b"x" * 4000 + b"\r\n\r\n")
        reader, writer = await here.enter("asking", 1, get("/slow"))
        with suppress(ConnectionError):
            while is_open(reader):
                writer.write(next_one)
                await turn()
        await here.dropped("a request that was not waited for")


@pytest.mark.parametrize("kind", ["link", "body"])
async def test_who_proves_a_key_that_may_not_be_here_stays_a_stranger(kind):
    async with served(PATIENT, is_member=lambda _: False) as here, ClientSession() as client:
        if kind == "link":
            where = f"http://127.0.0.1:{here.address[1]}/v1/link"
            ws = await client.ws_connect(where, protocols=(SUBPROTOCOL,))
            await prove(ws, THIRD)
            await ws.send_bytes(FRAME)
        else:
            await here.connect(head(len(FRAME), here.ticket()) + FRAME)
        await here.got.get()
        assert here.at("members") == 0


async def test_a_ticket_lets_in_until_its_link_has_ended():
    async with served(PATIENT) as here:
        doors = here.server.doors
        ticket = doors.ticket(b"key")
        first, _ = await here.enter("quiet", 1)
        guest = next(iter(doors._rooms["quiet"]))
        assert doors.admit(guest, b"not a ticket") is None
        assert not guest.is_proved
        assert doors.admit(guest, ticket) == doors.owner(ticket) == b"key"
        assert here.at("members") == 1
        doors.forget(ticket)
        await closed(first)
        assert doors.owner(ticket) is None
        assert not doors._admitted


async def test_under_tls_silence_and_garbage_are_closed_too():
    bounds = patient(quiet=Bound(9, 9, SOON_S), speaking=Bound(9, 9, SOON_S))
    async with served(bounds, TLS) as here:
        silent, _ = await here.connect()
        slow, _ = await here.connect(b"\x16\x03\x01")
        garbage, _ = await here.connect(get("/hello"))
        for reader in (silent, slow, garbage):
            await closed(reader)
        await here.dropped("a connection without a TLS handshake")
        assert here.counts.dropped[f"{ROOMS['quiet']}: closed, for its time was over"] == 1


async def test_under_tls_the_newest_handshake_is_served():
    async with served(patient(speaking=FEW), TLS) as here:
        slow = [await here.connect(b"\x16\x03\x01") for _ in range(4)]
        await closed(slow[0][0])
        where, ssl = f"https://127.0.0.1:{here.address[1]}/hello", TLS.dialling("127.0.0.1:1")
        async with ClientSession() as client, client.get(where, ssl=ssl) as answer:
            assert answer.status == 200


async def test_when_a_flood_is_over_memory_is_given_back(monkeypatch):
    given = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(doors, "FLOOD", 3)
    monkeypatch.setattr(doors, "give_back", lambda: give_back() or loop.call_soon_threadsafe(given.set))
    async with served(patient(quiet=FEW)) as here:
        for _ in range(3):
            assert not given.is_set()
            _, writer = await here.enter("quiet", 1)
            writer.close()
            await here.until("quiet", 0)
        await given.wait()
