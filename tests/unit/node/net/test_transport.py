"""Transports on loopback: what is small and what is bulk, replies, and the counting of bytes."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import numpy as np
import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from node.net.intake import SMALL_BYTES
from node.net.link import AHEAD
from node.net.server import _body
from node.net.traffic import phase_of
from node.net.transport import Transport
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.wire import codec
from protocol.wire import masked_messages as masked
from protocol.wire.masked_messages import TotalPiece
from protocol.wire.messages import Accepted, Share, Sum
from tests.parts import stranger
from tests.unit.node.links import anybody, open_ends

H, S = bytes(32), bytes(64)
BULK = masked.Masked(masked.MaskedHead(H, H, 0, H, S), bytes(4 * SMALL_BYTES))


class End:
    """A transport, what it receives, and what it reports of others."""

    def __init__(self, heavy):
        self.got, self.lost = asyncio.Queue(), asyncio.Queue()
        self.refuses = []
        told = (self._receive, self._unreachable, self._reconnected)
        self.transport = Transport(*told, heavy, tls=None, key=stranger(), warn=self._warn, is_member=anybody)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self.listener.getsockname()[1]}"

    def _warn(self, text):
        raise AssertionError(text)

    async def _receive(self, message, back):
        if self.refuses:
            raise self.refuses.pop(0)
        self.got.put_nowait(message)

    async def _unreachable(self, endpoint, why):
        self.lost.put_nowait(endpoint)

    async def _reconnected(self, endpoint):
        raise AssertionError(endpoint)

    async def take(self, count):
        return [await self.got.get() for _ in range(count)]


def two(heavy=False):
    return open_ends(End(heavy), End(heavy))


def numbered(count):
    return tuple(Accepted(number.to_bytes(16, "big")) for number in range(count))


@pytest.mark.parametrize("heavy", [False, True])
async def test_small_messages_arrive_in_order_and_bulk_beside_them(heavy):
    async with two(heavy) as (here, there):
        chunks = [replace(BULK, head=replace(BULK.head, index=index)) for index in range(5)]
        here.transport.send(there.endpoint, (chunk for chunk in chunks))
        for message in numbered(20):
            here.transport.send(there.endpoint, (message,))
        got = await there.take(25)
        assert tuple(message for message in got if isinstance(message, Accepted)) == numbered(20)
        assert [message for message in got if isinstance(message, masked.Masked)] == chunks
        assert here.transport.counts.sent == there.transport.counts.received
        assert here.transport.counts.sent["sums"] > 5 * 4 * SMALL_BYTES


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("count", [0, 1, AHEAD, AHEAD + 1])
async def test_a_generator_is_read_to_its_end_and_not_far_ahead(count, heavy):
    async with two(heavy) as (here, there):
        built = []
        went = (built.append(number) or message for number, message in enumerate(numbered(count)))
        messages = iter(await here.transport.built(went))
        assert len(built) == min(count, AHEAD)
        here.transport.send(there.endpoint, (message for part in (messages, went) for message in part))
        assert await there.take(count) == list(numbered(count))


@pytest.mark.parametrize("at_once", [1, 3, 7, 1 << 16])
@pytest.mark.parametrize("index", [0, 1, 200, 4095])
async def test_a_body_comes_whole_with_its_payload_at_a_word_s_boundary(index, at_once):
    """For any way in which the network splits it, and any length of its header."""
    sent = TotalPiece(H, index, bytes(range(256)) * 1040)
    frame = codec.encode(sent).join()[: None if at_once > 9 else 300]
    request = make_mocked_request("POST", "/v1/bulk", payload=streamed(frame, at_once))
    seen = []
    body = await _body(request.content, len(frame), seen.append)
    assert seen == sorted(seen)
    assert bytes(body) == frame
    if at_once > 9:
        payload = codec.decode(body).payload
        assert payload == sent.payload
        assert np.frombuffer(payload, dtype="<u4").flags.aligned


async def test_a_body_of_nothing_is_refused_like_any_that_is_no_frame():
    request = make_mocked_request("POST", "/v1/bulk")
    with pytest.raises(RemoteProtocolError, match="a frame of 0 bytes"):
        codec.decode(await _body(request.content, 0, print))


def streamed(data, at_once):
    """Returns aiohttp's own stream, fed with so many bytes at a time."""
    stream = StreamReader(BaseProtocol(asyncio.get_running_loop()), 1 << 20)
    for first in range(0, len(data), at_once):
        stream.feed_data(data[first : first + at_once])
    stream.feed_eof()
    return stream


async def test_bulk_that_comes_too_early_is_sent_again():
    async with two() as (here, there):
        there.refuses = [TooEarly("not yet"), RemoteProtocolError("never")]
        here.transport.send(there.endpoint, (message for message in (BULK, BULK, BULK)))
        assert await there.take(2) == [BULK, BULK]  # the first again; the second is refused for good
        assert dict(there.transport.counts.dropped) == {"never": 1}
        assert there.transport.counts.received["sums"] == 4 * len(codec.encode(BULK))


async def test_who_is_not_there_is_told_once():
    async with two() as (here, there):
        await there.transport.close()
        here.transport.send(there.endpoint, (message for message in (BULK,)))
        assert await here.lost.get() == there.endpoint
        assert here.lost.empty()


VOTE = masked.ViewVote(H, H, 0, b"", ())


@pytest.mark.parametrize(
    ("message", "phase"),
    [
        (Accepted(bytes(16)), "group"),
        (Share(H, H, H, 0), "shares"),
        (masked.Join(masked.JoinHead(H, H, H, 1), (), (), H), "shares"),
        (masked.Joined(masked.JoinVote(H, H, H), ()), "shares"),
        (masked.JoinCertificate(H, H, ()), "shares"),
        (Sum(H, H, H, (), S), "sums"),
        (BULK, "sums"),
        (masked.Total(masked.TotalHead(H, H, 0, 0, H, H), ()), "sums"),
        (masked.Check(masked.CheckVote(H, H, 0, H, ()), ()), "sums"),
        (masked.Ack(masked.AckVote(H, H, 0, H), ()), "sums"),
        (masked.Release(masked.ReleaseHead(H, H, 0, H, H, H), ()), "sums"),
        (masked.ViewChange(VOTE, ()), "sums"),
        (masked.Propose(masked.ProposalHead(H, H, 0, 0, (), H, ()), (), ()), "sums"),
        (masked.TotalPiece(H, 0), "sums"),
    ],
)
def test_bytes_count_for_the_phase_of_their_message(message, phase):
    assert phase_of(message) == phase


async def test_who_hands_on_is_told_when_it_went_and_when_it_never_will():
    async with two() as (here, there):
        assert await here.transport.hand(there.endpoint, BULK)
        assert await there.take(1) == [BULK]
        await there.transport.close()
        assert not await here.transport.hand(there.endpoint, BULK)


async def test_what_finds_no_room_or_is_left_at_the_end_never_went(monkeypatch):
    monkeypatch.setattr("node.net.link.QUEUED_SENDS", 1)
    async with two() as (here, there):
        handed = [asyncio.create_task(here.transport.hand(there.endpoint, BULK)) for _ in range(3)]
        await asyncio.sleep(0)
        there.refuses = [TooEarly("for ever")] * 1000
        assert [await one for one in handed[1:]] == [False, False]
        assert dict(here.transport.counts.dropped) == {"queue to a peer is full": 2}
        await here.transport.close()
        assert not await handed[0]
