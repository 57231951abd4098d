"""Invitations to a swarm that learns already, by any of its members: a newcomer comes by that member's word.

What is kept of it has a folder of its own in that of the run, so it may be ended and gone on with.
"""

from __future__ import annotations

import asyncio
import tomllib
from functools import partial
from pathlib import Path

from node.invitation.inviting import Reception, new_seats
from node.invitation.kept import LATER, Inviting, keep_inviting, kept_inviting
from node.invitation.key import own_key
from node.invitation.rooms import opened_rooms
from node.invitation.terminal import Terminal
from node.invitation.words import member_lines
from node.start.inviter_window import Closing, until_closed
from node.storage.owners_files import read_limited
from node.storage.swarm_file import AGREED, TASK, Swarm, read_swarm
from node.storage.vouches import SPENT_UNKNOWN
from node.system.errors import ConfigError, UserError, one_line
from node.system.system import SYSTEM
from node.task.load import read_task
from protocol.crypto.node_key import NodeKey
from protocol.invitation.messages import MAX_TASK_BYTES, Standing
from protocol.invitation.roster import Member, same_name
from protocol.relay.admission import Relay
from protocol.relay.room_messages import OpenRooms
from protocol.wire.limits import MAX_MEMBERS


def invite_later(folder: Path, names: tuple[str, ...], terminal: Terminal) -> int:
    """Invites later members, waits for them, and gives this node's word; returns the exit status.

    Raises UserError.
    """
    swarm, key, home = read_swarm(folder), own_key(folder), folder / LATER
    kept = kept_inviting(home)
    if kept is None or _is_over(kept):
        asyncio.run(_begin(folder, swarm, key, names, terminal))
    elif names != tuple(seat.name for seat in kept.seats):
        open_ones = ", ".join(seat.name for seat in kept.seats)
        raise ConfigError(
            f"{one_line(str(home))} has an invitation of {open_ones} that is not over: give the same "
            "names, or delete that folder"
        )
    state = kept_inviting(home)
    if state is None:
        raise ConfigError(f"{one_line(str(home))} has no invitation any more: begin again")
    closing = Closing(2, partial(_asks, terminal), partial(_until_answered, folder, terminal))
    if not asyncio.run(until_closed(home, key, state, terminal, closing)):
        terminal.say("nobody has your word; go on with the same command")
    return 0


async def _begin(
    folder: Path, swarm: Swarm, key: NodeKey, names: tuple[str, ...], terminal: Terminal
) -> None:
    """Checks, gets rooms at a relay of the swarm, and keeps the codes. Raises UserError."""
    me = swarm.names.get(key.public)
    if me is None:
        raise ConfigError("this node's key is not on the list of its swarm: it cannot invite")
    if (twice := same_name((me, *names))) is not None:
        raise ConfigError(f'two members would be called "{twice}": give each a name of its own')
    if len(swarm.learned_with) + len(names) > MAX_MEMBERS:
        raise ConfigError(f"a swarm has at most {MAX_MEMBERS} members: remove one first")
    first = kept_inviting(folder)
    if first is not None and not _is_over(first):
        raise ConfigError("a member has not confirmed the list yet: invite others once it has")
    for name in names:
        if (former := swarm.roster.named(name)) is not None:
            terminal.say(f"warning: {former.name} gets a new key by this, and {SPENT_UNKNOWN}")
    task, agreed = (read_limited(folder / name, MAX_TASK_BYTES) or b"" for name in (TASK, AGREED))
    about = tomllib.loads(task.decode())
    if "agreement" in about and not agreed:
        raise ConfigError("the members have not agreed on the task yet: invite others once they have")
    if len(task) + len(agreed) > MAX_TASK_BYTES:
        raise ConfigError(f"the task and what was agreed have more than {MAX_TASK_BYTES} bytes together")
    relays, rooms = await _rooms(swarm, key, len(names))
    seats = new_seats(names, rooms, int(SYSTEM.clock.wall()), SYSTEM)
    name = read_task(about).task.name
    roster = (swarm.roster,)
    state = Inviting(name, me, task, relays, seats, swarm.own, so_far=roster, agreed=agreed)
    keep_inviting(folder / LATER, state)


async def _rooms(swarm: Swarm, key: NodeKey, count: int) -> tuple[tuple[Relay, ...], tuple[str, ...]]:
    """The relays, first the one that answers, and rooms there. Raises UserError."""
    relays, missing = swarm.roster.relays, list[str]()
    for relay in relays:
        asked = OpenRooms(b"", b"", (), count, (swarm.roster.credentials(relay),))
        try:
            async with opened_rooms(relay.endpoint, relay.key, key, asked) as (_, _, rooms):
                return (relay, *(each for each in relays if each != relay)), rooms
        except ConnectionError as error:
            missing.append(str(error))
    raise UserError("; ".join(missing))


def _is_over(state: Inviting) -> bool:
    """Whether each newcomer that had joined when the list was closed has answered it."""
    here = [seat for seat in state.seats if seat.is_taken]
    return bool(state.roster) and all(seat.standing > Standing.ACCEPTED for seat in here)


async def _asks(terminal: Terminal, state: Inviting) -> bool:
    """Asks the owner for its word."""
    here = [Member(seat.name, seat.key) for seat in state.seats if seat.is_taken]
    terminal.say("These came by your codes:", *member_lines(here, {}))
    terminal.say("Ask them for their words if you are in doubt. Each of the others decides for itself.")
    return await terminal.ask("Give your word for them, and learn with them?")


async def _until_answered(
    folder: Path, terminal: Terminal, reception: Reception, serving: asyncio.Task[None]
) -> None:
    """Takes the newcomers in, and waits until each has answered the list."""
    reception.keep_list()  # once more, if this is not the first start after the list was closed
    names = [seat.name for seat in reception.state.seats if seat.is_taken]
    where = one_line(str(folder))
    terminal.say(
        f"{' and '.join(names)}: your node learns with them from now on, and passes your word on",
        *(f'the others accept by: murmuration members {where} --accept "{name}"' for name in names),
    )
    await serving
