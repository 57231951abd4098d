"""Which relays a swarm gets, and at which one its rooms are."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from node.invite.options import RelayWord
from node.invite.run import licensed
from node.system.errors import UserError
from tests.invitations import INVITER
from tests.relay_rooms import WORD, MemoryRelay

NAMED = [RelayWord(f"relay-{number}.example:443", WORD) for number in range(3)]


class Relays:
    """Relays of which some do not answer."""

    def __init__(self, *silent: int) -> None:
        self.by_name = {each: MemoryRelay(each.endpoint) for each in NAMED}
        self.silent = {NAMED[number] for number in silent}
        self.said: list[str] = []

    @asynccontextmanager
    async def dial(self, named, asked):
        if named in self.silent:
            raise ConnectionError(f"no way to {named.endpoint}")
        async with self.by_name[named].opened(INVITER, asked) as opened:
            yield opened

    async def licensed(self):
        return await licensed(NAMED, 2, self.dial, self.said.append)

    @property
    def rooms(self) -> list[int]:
        return [relay.lobby.rooms for relay in self.by_name.values()]


@pytest.mark.parametrize(
    ("silent", "rooms"), [((), [2, 0, 0]), ((0,), [0, 2, 0]), ((1,), [2, 0, 0]), ((0, 1), [0, 0, 2])]
)
async def test_all_that_answer_give_a_licence_and_the_first_has_the_rooms(silent, rooms):
    relays = Relays(*silent)
    found, digits = await relays.licensed()
    assert [each.endpoint for each in found] == [
        each.endpoint for number, each in enumerate(NAMED) if number not in silent
    ]
    assert len({each.licence for each in found}) == 1  # they have one key here
    assert (relays.rooms, len(digits)) == (rooms, 2)
    assert relays.said == [
        f"warning: no way to {NAMED[number].endpoint}; the swarm does without this relay" for number in silent
    ]


async def test_where_no_relay_answers_nobody_is_invited():
    with pytest.raises(UserError, match="; ".join(["no way to relay-.*"] * 3)):
        await Relays(0, 1, 2).licensed()
