"""Rooms over real sockets: an inviter with the word, joiners that come and go, and what is refused."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import WSMsgType, WSServerHandshakeError

from node.net.incoming.visits import NO_KEY
from node.relay.meeting_rooms import BROKEN_RULE, UNPROVED_INVITERS
from node.relay.websockets import TOO_SLOW
from protocol.relay.admission import Refused
from protocol.relay.room_messages import (
    MAX_JOINER_BYTES,
    MAX_SAID_BYTES,
    Bar,
    Barred,
    CloseRoom,
    Dismiss,
    Entered,
    Knocked,
    Left,
    Proved,
    Rooms,
    Said,
)
from protocol.relay.rooms import WRONG_WORD
from tests.relays import KEYS, dial, invite, knock, running

ENDED = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED)


async def test_an_inviter_and_a_joiner_meet_and_the_relay_pipes_what_they_say():
    async with running() as (relay, client):
        inviter = await invite(client, relay)
        opened = await inviter.ask(2)
        assert opened.licence == relay.licences.give(KEYS[0].public)
        room, other = opened.digits
        assert relay.relaying.view().rooms == 2
        joiner, answer = await knock(client, relay, room)
        assert answer == Entered()
        assert await inviter.hear() == Knocked(room, 1)
        await joiner.send_bytes(b"ya")
        assert await inviter.hear() == Said(room, 1, b"ya")
        await inviter.say(Proved(room, 1))
        await inviter.say(Said(room, 1, bytes(MAX_SAID_BYTES)))
        assert await joiner.receive_bytes() == bytes(MAX_SAID_BYTES)
        await joiner.send_bytes(bytes(MAX_JOINER_BYTES))
        assert await inviter.hear() == Said(room, 1, bytes(MAX_JOINER_BYTES))
        await joiner.close()
        assert await inviter.hear() == Left(room, 1)
        assert (await knock(client, relay, other))[1] == Entered()


async def test_a_joiner_that_is_dismissed_hears_first_what_was_said_to_it():
    async with running() as (relay, client):
        inviter = await invite(client, relay)
        (room,) = (await inviter.ask()).digits
        joiner, _ = await knock(client, relay, room)
        await inviter.hear()
        _, answer = await knock(client, relay, room)
        assert answer == Barred(Bar.TAKEN)
        await inviter.say(Said(room, 1, b"wrong code"))
        await inviter.say(Dismiss(room, 1))
        assert await joiner.receive_bytes() == b"wrong code"
        assert (await joiner.receive()).type in ENDED
        again, answer = await knock(client, relay, room)
        assert answer == Entered()
        await inviter.say(CloseRoom(room))
        assert (await again.receive()).type in ENDED
        _, answer = await knock(client, relay, room)
        assert answer == Barred(Bar.NO_ROOM)


async def test_an_inviter_without_the_word_gets_no_room():
    async with running() as (relay, client):
        inviter = await invite(client, relay)
        assert await inviter.ask(word="v8k2-qm4u") == Refused(WRONG_WORD, True)
        assert (await inviter.ws.receive()).type in ENDED
        assert relay.relaying.view().rooms == 0


async def test_an_inviter_that_comes_back_with_its_licence_keeps_its_rooms():
    async with running() as (relay, client):
        inviter = await invite(client, relay)
        opened = await inviter.ask()
        await inviter.ws.close()
        while (answer := (await knock(client, relay, opened.digits[0]))[1]) != Barred(Bar.NOBODY):
            assert answer == Entered()
        again = await invite(client, relay)
        assert await again.ask(0, opened.digits, "", opened.licence) == Rooms(opened.licence, opened.digits)
    async with running() as (relay, client):  # after a restart it knows no room
        again = await invite(client, relay)
        assert await again.ask(0, opened.digits, "", opened.licence) == Rooms(opened.licence, opened.digits)


async def test_a_room_is_five_digits():
    async with running() as (relay, client):
        for path in ("1234", "123456", "abcde", "1234%2f"):
            with pytest.raises(WSServerHandshakeError):
                await dial(client, relay.url, f"/v1/room/{path}")


async def test_an_inviter_that_breaks_a_rule_is_closed():
    async with running() as (relay, client):
        inviter = await invite(client, relay)
        await inviter.ws.send_bytes(b"rubbish")
        assert (await inviter.ws.receive()).type in ENDED
        other = await invite(client, relay)
        await other.ws.send_str("text")
        assert (await other.ws.receive()).type in ENDED
        assert relay.dropped == {BROKEN_RULE: 2}


async def test_a_joiner_that_breaks_a_rule_is_closed_and_the_inviter_hears_of_it():
    async with running() as (relay, client):
        inviter = await invite(client, relay)
        (room,) = (await inviter.ask()).digits
        joiner, _ = await knock(client, relay, room)
        await inviter.hear()
        await joiner.send_bytes(bytes(10_000))
        assert (await joiner.receive()).type in ENDED
        assert await inviter.hear() == Left(room, 1)
        assert relay.dropped == {BROKEN_RULE: 1}


async def test_who_proves_no_key_is_no_inviter():
    async with running() as (relay, client):
        ws = await dial(client, relay.url, "/v1/rooms")
        await ws.send_bytes(b"rubbish")
        assert (await ws.receive()).type in ENDED
        assert relay.dropped == {NO_KEY: 1}
        ws = await dial(client, relay.url, "/v1/rooms")
        await ws.close()
        (await (await invite(client, relay)).ask()).digits[0]


async def test_inviters_that_show_no_word_are_few_at_a_time():
    async with running() as (relay, client):
        first, *_ = [await invite(client, relay) for _ in range(UNPROVED_INVITERS)]
        with pytest.raises(WSServerHandshakeError, match="503"):
            await dial(client, relay.url, "/v1/rooms")
        await first.ask()
        await (await invite(client, relay, KEYS[1])).ask()


async def test_a_joiner_that_reads_nothing_is_closed_when_too_much_waits():
    async with running() as (relay, client):
        inviter = await invite(client, relay)
        (room,) = (await inviter.ask()).digits
        joiner, _ = await knock(client, relay, room)
        await inviter.hear()
        joiner._response.connection.transport.pause_reading()
        for _ in range(64):
            await inviter.say(Said(room, 1, bytes(MAX_SAID_BYTES)))
        assert await inviter.hear() == Left(room, 1)
        assert relay.dropped == {TOO_SLOW: 1}


async def test_a_relay_that_ends_says_goodbye_in_its_rooms():
    async with running() as (relay, client):
        inviter = await invite(client, relay)
        (room,) = (await inviter.ask()).digits
        joiner, _ = await knock(client, relay, room)
        await asyncio.gather(relay.relaying.close(), joiner.receive())
        assert joiner.closed
