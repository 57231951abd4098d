"""Carriers over real sockets: admission, frames both ways, replaced and lost carriers, stuck readers."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import WSMsgType

from node.net.incoming.visits import NO_KEY
from node.relay.carriers import NO_FRAME, REPLACED
from protocol.relay.admission import OTHER_WORD, Licences, Refused, Welcome
from protocol.relay.frames import MAX_FRAME_BYTES, PIECE_BYTES, Absence, Frame, FrameKind
from protocol.relay.switch import LIMITS
from protocol.wire import handshake
from tests.relays import KEYS, Member, ask, dial, enter, prove, running

A, B, C = KEYS[:3]
PIECE = bytes(PIECE_BYTES)
ENDED = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED)


async def is_closed(ws):
    """Whether the relay closes a websocket, after whatever it has sent."""
    while (message := await ws.receive()).type is WSMsgType.BINARY:
        continue
    return message.type in ENDED or message.type is WSMsgType.ERROR


@pytest.mark.parametrize("tls", [None, "on"])
async def test_members_are_admitted_and_their_frames_carried_both_ways(tls):
    async with running(tls=tls) as (relay, client):
        ws, answer = await ask(client, relay, A, relay.admit())
        assert answer == Welcome(25_000_000, 64_000_000, 200 * 10**9)
        a, b = Member(ws, A), await enter(client, relay, B)
        data = random.Random(1).randbytes(PIECE_BYTES)
        await a.send(B, data, stream=5, offset=1 << 40)
        assert await b.receive() == Frame(A.public, FrameKind.DATA, 5, 1 << 40, memoryview(data))
        await b.send(A, b"", FrameKind.CREDIT, 5, 7)
        assert await a.receive() == Frame(B.public, FrameKind.CREDIT, 5, 7)
        view = relay.relaying.view()
        assert [member.key for member in view.members] == sorted(key.public.hex()[:16] for key in (A, B))
        assert (view.connected, view.swarms, view.carried_frames) == (2, 1, 2)
        assert view.carried_bytes == 2 * 49 + PIECE_BYTES == sum(each.carried_bytes for each in view.members)


@pytest.mark.parametrize(
    ("key", "change", "why"),
    [
        (KEYS[9], {}, "not on the list"),
        (A, {"licence": bytes(64)}, OTHER_WORD),
        (A, {"licence": Licences(B, "v8k2-qm4t").give(A.public)}, OTHER_WORD),
    ],
)
async def test_a_member_that_is_refused_hears_why(key, change, why):
    async with running() as (relay, client):
        ws, answer = await ask(client, relay, key, relay.admit(KEYS[:3], **change))
        assert isinstance(answer, Refused)
        assert why in answer.why
        assert answer.is_final
        assert await is_closed(ws)
        assert relay.relaying.view().connected == 0
        assert relay.transport.counts.dropped.total() == 1


@pytest.mark.parametrize("sent", [b"", b"\x01" * 33, handshake.knock(bytes(32)) + b"x"])
async def test_who_proves_no_key_is_closed(sent):
    async with running() as (relay, client):
        ws = await dial(client, relay.url, "/v1/relay")
        await ws.send_bytes(sent)
        await ws.send_bytes(sent)
        assert await is_closed(ws)
        assert relay.dropped == {NO_KEY: 1}


async def test_a_proof_for_a_link_is_none_for_a_relay():
    async with running() as (relay, client):
        ws = await dial(client, relay.url, "/v1/relay")
        mine = bytes(32)
        await ws.send_bytes(handshake.knock(mine))
        challenged = handshake.read_challenge(await ws.receive_bytes(), mine, handshake.RELAY)
        await ws.send_bytes(handshake.proof(A, mine, challenged, handshake.LINK))
        assert await is_closed(ws)


@pytest.mark.parametrize("sent", [b"no admission", Welcome(1, 2, 3)])
async def test_a_key_without_an_admission_is_closed(sent):
    async with running() as (relay, client):
        ws = await dial(client, relay.url, "/v1/relay")
        await prove(ws, A)
        await ws.send_bytes(sent if isinstance(sent, bytes) else b"\x94\x01\x01\x01\x02\x03")
        assert await is_closed(ws)
        assert relay.dropped == {NO_KEY: 1}


async def test_a_dialler_that_goes_in_the_middle_leaves_nothing():
    async with running() as (relay, client):
        ws = await dial(client, relay.url, "/v1/relay")
        await ws.send_bytes(handshake.knock(bytes(32)))
        await ws.close()
        await enter(client, relay, A)
        assert relay.dropped == {}


@pytest.mark.parametrize("sent", [b"short", bytes(MAX_FRAME_BYTES + 1), "text"])
async def test_what_is_no_frame_ends_a_carrier(sent):
    async with running() as (relay, client):
        a, b = await enter(client, relay, A), await enter(client, relay, B)
        await b.send(A)
        await a.receive()
        await (a.ws.send_str(sent) if isinstance(sent, str) else a.ws.send_bytes(sent))
        assert await is_closed(a.ws)
        assert (await b.receive()).kind is FrameKind.AWAY
        assert relay.dropped == {NO_FRAME: 1}


async def test_a_member_that_leaves_is_away_and_one_that_comes_again_is_here():
    async with running() as (relay, client):
        a, b = await enter(client, relay, A), await enter(client, relay, B)
        await a.send(B)
        await b.receive()
        await b.ws.close()
        assert await a.receive() == Frame(B.public, FrameKind.AWAY, offset=Absence.CLOSED)
        again = await enter(client, relay, B, process=77)
        assert await a.receive() == Frame(B.public, FrameKind.HERE, stream=77)
        await a.send(B, b"hello")
        assert bytes((await again.receive()).data) == b"hello"


async def test_a_newer_carrier_replaces_the_older():
    async with running() as (relay, client):
        a, b = await enter(client, relay, A), await enter(client, relay, B)
        newer = await enter(client, relay, B)
        assert await is_closed(b.ws)
        await a.send(B, b"hello")
        assert bytes((await newer.receive()).data) == b"hello"
        assert relay.dropped == {REPLACED: 1}
        assert relay.relaying.view().connected == 2


async def test_a_relay_that_ends_says_goodbye():
    async with running() as (relay, client):
        a = await enter(client, relay, A)
        await relay.relaying.close()
        message = await a.ws.receive()
        assert (message.type, message.data) == (WSMsgType.CLOSE, aiohttp.WSCloseCode.GOING_AWAY)


async def pump(sender, to, frames):
    for _ in range(frames):
        await sender.send(to, PIECE)


async def test_a_stuck_reader_blocks_nobody_and_its_sender_hears_of_it():
    async with running() as (relay, client):
        a = await enter(client, relay, A)
        stuck = await enter(client, relay, B)
        c = await enter(client, relay, C)
        await pump(a, B, 400)
        assert await a.receive() == Frame(B.public, FrameKind.FULL)
        await a.send(C, b"hello")
        assert bytes((await c.receive()).data) == b"hello"
        assert 0 < relay.relaying.view().waiting_bytes <= LIMITS.pair_bytes
        assert not stuck.ws.closed


async def test_a_member_beyond_its_rate_is_read_later_and_loses_nothing():
    limits = replace(LIMITS, burst_bytes=MAX_FRAME_BYTES, bytes_per_s=10**7)
    async with running(limits=limits) as (relay, client):
        a, b = await enter(client, relay, A), await enter(client, relay, B)
        sending = asyncio.create_task(pump(a, B, 50))
        assert [len((await b.receive()).data) for _ in range(50)] == [PIECE_BYTES] * 50
        await sending
        assert relay.relaying.view().dropped == {}
