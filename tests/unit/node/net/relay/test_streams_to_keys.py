"""Streams to keys on real sockets, as a node uses them: bytes, ends, slow readers, the far end's key."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import socket
from contextlib import AsyncExitStack, asynccontextmanager, closing

import pytest

from node.net.relay.streams import RelayedStreams
from node.system.streams import KernelStreams
from protocol.wire.endpoints import of_key, split_endpoint
from tests.patience import ENOUGH_S
from tests.relays import running
from tests.unit.node.links import ONE, OTHER, tls_of, until
from tests.unit.node.net.relay.lines import in_roster, roster, where

HOST, PORT = split_endpoint(of_key(OTHER.public))
MIB = 1 << 20


class Talk(asyncio.Protocol):
    """What an end of a stream hears."""

    opened = []  # noqa: RUF012 - of one test, which closes them

    def __init__(self, reads=True):
        self.opened.append(self)
        self.got, self.has_ended, self.lost = bytearray(), False, asyncio.get_running_loop().create_future()
        self._reads = reads

    def connection_made(self, transport):
        self.transport = transport
        if not self._reads:  # the first versions of Python 3.11 read on if it is paused at once
            asyncio.get_running_loop().call_soon(transport.pause_reading)

    def data_received(self, data):
        self.got += data

    def eof_received(self):
        self.has_ended = True
        return True

    def connection_lost(self, error):
        self.lost.set_result(error)


class Listening:
    """A node that accepts streams and hands each to a protocol."""

    def __init__(self, streams, reads=True):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._listener = streams.listen(self._socket)
        self._incoming, self._reads = asyncio.Queue(), reads
        self._listener.watch(self._accept)
        self.port = self._socket.getsockname()[1]

    def _accept(self):
        self._incoming.put_nowait(self._listener.accept())

    async def next(self, reads=True):
        incoming = await self._incoming.get()
        talk = Talk(reads)
        await incoming.serve(talk, None, None)
        return talk

    async def incoming(self):
        return await self._incoming.get()

    def rest(self):
        self._listener.unwatch()

    def close(self):
        self._listener.close()
        self._socket.close()


@asynccontextmanager
async def two(base=None):
    """Two nodes at one relay; the second accepts."""
    async with running(tls="on") as (relay, _), AsyncExitStack() as stack, asyncio.timeout(ENOUGH_S):
        both = []
        for key in (ONE, OTHER):
            named = (in_roster(where(relay), ONE),)
            streams = RelayedStreams(key, roster(ONE, OTHER), named, base=base or KernelStreams())
            await streams.start()
            stack.push_async_callback(streams.close)
            both.append(streams)
        listening = Listening(both[1])
        stack.callback(listening.close)
        stack.callback(close_all)
        yield both[0], both[1], listening


def close_all():
    while Talk.opened:
        talk = Talk.opened.pop()
        if not talk.lost.done():
            talk.transport.abort()


@pytest.mark.parametrize("bulk", [False, True])
async def test_bytes_go_both_ways_and_each_end_may_finish_first(bulk):
    async with two() as (here, _, listening):
        _, near = await here.open(HOST, PORT, Talk, None, bulk=bulk)
        data = os.urandom(3 * MIB)
        near.transport.write(data)
        near.transport.write_eof()
        far = await listening.next()
        await until(lambda: far.has_ended)
        assert hashlib.sha256(far.got).digest() == hashlib.sha256(data).digest()
        far.transport.write(data[:MIB])
        far.transport.close()
        await until(lambda: near.has_ended)
        assert near.got == data[:MIB]
        assert await far.lost is None
        near.transport.close()
        await until(lambda: not here._locals)


async def test_a_stream_comes_from_the_key_that_opened_it():
    async with two() as (here, _, listening):
        _, near = await here.open(HOST, PORT, Talk, None)
        incoming = await listening.incoming()
        assert (incoming.key, incoming.address) == (ONE.public, "")
        assert incoming.first_byte() == b""
        near.transport.write(b"abc")
        await until(lambda: incoming.first_byte() == b"a")
        incoming.close()
        await until(lambda: near.has_ended)


async def test_other_endpoints_are_reached_and_accepted_as_before():
    async with two() as (here, _, listening):
        _, near = await here.open("127.0.0.1", listening.port, Talk, None)
        incoming = await listening.incoming()
        assert (incoming.key, incoming.address) == (None, "127.0.0.1")
        incoming.close()
        await until(lambda: near.has_ended)


async def test_an_end_that_aborts_ends_the_other():
    async with two() as (here, there, listening):
        _, near = await here.open(HOST, PORT, Talk, None)
        near.transport.write(b"abc")
        far = await listening.next()
        await until(lambda: far.got)
        near.transport.abort()
        await until(lambda: far.has_ended)
        far.transport.abort()
        await until(lambda: not here._locals and not there._locals)


async def test_a_reader_that_never_reads_stops_its_own_stream_alone():
    async with two() as (here, _, listening):
        _, stuck = await here.open(HOST, PORT, Talk, None, bulk=True)
        stuck.transport.write(bytes(16 * MIB))
        far = await listening.next(reads=False)
        name = next(iter(here._locals))
        await until(lambda: here.room(name) <= 0)
        _, free = await here.open(HOST, PORT, Talk, None, bulk=True)
        data = os.urandom(8 * MIB)
        free.transport.write(data)
        other = await listening.next()
        await until(lambda: len(other.got) == len(data))
        assert other.got == data
        assert not far.got
        assert stuck.transport.get_write_buffer_size() > 12 * MIB
        far.transport.resume_reading()
        await until(lambda: len(far.got) == 16 * MIB)


class NoDescriptors(KernelStreams):
    """A system that can open no pair."""

    allowed = 1

    async def pair(self, near, key):
        if self.allowed == 0:
            raise OSError(errno.EMFILE, "Too many open files")
        self.allowed -= 1
        return await super().pair(near, key)


async def test_a_node_without_descriptors_refuses_a_stream():
    async with two(NoDescriptors()) as (here, there, _):
        _, near = await here.open(HOST, PORT, Talk, None)
        near.transport.write(b"abc")
        await until(lambda: near.has_ended)
        assert not there._locals


async def test_a_node_that_closes_ends_its_streams_and_those_that_wait():
    async with two() as (here, there, listening):
        _, near = await here.open(HOST, PORT, Talk, None)
        near.transport.write(b"abc")
        await listening.next()
        listening.rest()
        await here.open(HOST, PORT, Talk, None)
        await until(lambda: there._incoming)
        await there.close()
        assert not there._incoming
        await until(lambda: near.has_ended)


async def test_before_the_start_nothing_is_opened():
    with closing(socket.create_server(("127.0.0.1", 0))):
        streams = RelayedStreams(ONE, roster(ONE, OTHER), ())
        with pytest.raises(ConnectionError, match="no relay was asked yet"):
            await streams.open(HOST, PORT, Talk, None)


async def test_an_opening_that_is_given_up_leaves_nothing():
    async with two() as (here, there, listening):
        opening = asyncio.create_task(here.open(HOST, PORT, asyncio.Protocol, tls_of(ONE).client))
        incoming = await listening.incoming()
        await until(lambda: incoming.first_byte() == b"\x16")
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        incoming.close()
        await until(lambda: not here._locals and not there._locals)
        assert not here._why
