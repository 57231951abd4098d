"""Transports on loopback: what is small and what is bulk, replies, and the counting of bytes."""

import asyncio

import numpy as np
import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from node.net.incoming.server import _body
from node.net.outgoing.link import AHEAD
from node.net.traffic import phase_of
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.wire import codec
from protocol.wire import masked_messages as masked
from protocol.wire.masked_messages import TotalPiece
from protocol.wire.messages import Accepted, Share, Sum
from tests.unit.node.links import BULK, OTHER, End, H, S, bulk, node_state, small


def two(heavy=False):
    return node_state(End(heavy=heavy), End(OTHER, heavy=heavy))


def numbered(count):
    return tuple(map(small, range(count)))


@pytest.mark.parametrize("heavy", [False, True])
async def test_small_messages_arrive_in_order_and_bulk_beside_them(heavy):
    async with two(heavy) as (here, there):
        chunks = [bulk(index) for index in range(5)]
        here.transport.send(there.endpoint, (chunk for chunk in chunks))
        for message in numbered(20):
            here.transport.send(there.endpoint, (message,))
        got = await there.take(25)
        assert tuple(message for message in got if isinstance(message, Accepted)) == numbered(20)
        assert [message for message in got if isinstance(message, masked.Masked)] == chunks
        assert here.transport.counts.sent == there.transport.counts.received
        assert here.transport.counts.sent["sums"] > 5 * len(BULK.payload)


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
        assert there.dropped == {"never": 1}
        assert there.transport.counts.received["sums"] == 4 * len(codec.encode(BULK))


def test_bytes_count_for_the_phase_of_their_message():
    vote = masked.ViewVote(H, H, 0, b"", ())
    phases = {
        "group": [Accepted(bytes(16))],
        "shares": [
            Share(H, H, H, 0),
            masked.Join(masked.JoinHead(H, H, H, 1), (), (), H),
            masked.Joined(masked.JoinVote(H, H, H), ()),
            masked.JoinCertificate(H, H, ()),
        ],
        "sums": [
            Sum(H, H, H, (), S),
            BULK,
            masked.Total(masked.TotalHead(H, H, 0, 0, H, H), ()),
            masked.Check(masked.CheckVote(H, H, 0, H, ()), ()),
            masked.Ack(masked.AckVote(H, H, 0, H), ()),
            masked.Release(masked.ReleaseHead(H, H, 0, H, H, H), ()),
            masked.ViewChange(vote, ()),
            masked.Propose(masked.ProposalHead(H, H, 0, 0, (), H, ()), (), ()),
            masked.TotalPiece(H, 0),
        ],
    }
    assert {phase: [phase_of(message) for message in messages] for phase, messages in phases.items()} == {
        phase: [phase] * len(messages) for phase, messages in phases.items()
    }


async def test_who_hands_on_is_told_when_it_went_and_when_it_never_will():
    async with two() as (here, there):
        assert await here.transport.hand(there.endpoint, BULK)
        assert await there.take(1) == [BULK]
        await there.transport.close()
        assert not await here.transport.hand(there.endpoint, BULK)
        assert (await here.lost.get())[0] == there.endpoint
        assert here.lost.empty(), "it is told once"


async def test_what_finds_no_room_or_is_left_at_the_end_never_went(monkeypatch):
    monkeypatch.setattr("node.net.outgoing.link.QUEUED_SENDS", 1)
    async with two() as (here, there):
        handed = [asyncio.create_task(here.transport.hand(there.endpoint, BULK)) for _ in range(3)]
        await asyncio.sleep(0)
        there.refuses = [TooEarly("for ever")] * 1000
        assert [await one for one in handed[1:]] == [False, False]
        assert dict(here.transport.counts.dropped) == {"queue to a peer is full": 2}
        await here.transport.close()
        assert not await handed[0]
