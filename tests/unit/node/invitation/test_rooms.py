"""How an inviter meets a relay: by its word at first, then by its key; and who else may answer there."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from node.invitation.rooms import opened_rooms
from node.system.errors import UserError
from protocol.relay.room_messages import OpenRooms
from tests.relays import RELAY_KEY, WORD
from tests.unit.node.links import ONE, OTHER
from tests.unit.node.net.relay.lines import RelayAtHome

ASKED = OpenRooms(b"", b"", (), 1)


@asynccontextmanager
async def a_relay(word=WORD, *, lets_all_in=False):
    """Yields a relay's address. `lets_all_in`: it says yes to whoever comes, with whatever proof."""
    relay = RelayAtHome()
    await relay.start()
    lobby = relay.relay.relaying._rooms._lobby
    lobby._word = word
    if lets_all_in:
        lobby._refusal = lambda *_: None
    try:
        yield f"{relay.address[0]}:{relay.address[1]}"
    finally:
        await relay.stop()


async def test_a_relay_is_met_by_its_word_and_from_then_on_by_its_key():
    async with a_relay() as endpoint:
        async with opened_rooms(endpoint, WORD, ONE, ASKED) as (_, relay, rooms):
            assert (relay.endpoint, relay.key, len(rooms)) == (endpoint, RELAY_KEY.public, 1)
        again = OpenRooms(b"", relay.licence, rooms, 0)
        async with opened_rooms(endpoint, RELAY_KEY.public, ONE, again) as (_, relay, kept):
            assert kept == rooms


@pytest.mark.parametrize(
    ("knows", "other", "lets_all_in", "why"),
    [
        (WORD, "v8k2-qm4u", False, "that is not this relay's word: ask who runs it"),
        (WORD, "v8k2-qm4u", True, "another machine answers there, which learned nothing of the word"),
        (OTHER.public, WORD, True, "another machine answers there; ask who runs it"),
    ],
    ids=["a wrong word", "another machine", "another key"],
)
async def test_what_does_not_know_the_word_or_has_not_the_key_gets_no_invitation(
    knows, other, lets_all_in, why
):
    async with a_relay(other, lets_all_in=lets_all_in) as endpoint:
        with pytest.raises(UserError, match=why):
            async with opened_rooms(endpoint, knows, ONE, ASKED):
                raise AssertionError("it is taken for the relay")
