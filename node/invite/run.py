"""An invitation: what is checked and asked first, the codes, and then the inviter's window."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from node.check.checks import check_all
from node.invitation.foreign import check_portable, marked_lines
from node.invitation.inviting import Served, new_seats
from node.invitation.kept import Inviting, keep_inviting, kept_inviting
from node.invitation.key import made_key
from node.invitation.node_options import options_to_check, own_choices
from node.invitation.rooms import opened_rooms
from node.invitation.terminal import Terminal
from node.invite.options import InviteOptions, RelayWord
from node.options import NodeOptions
from node.start.inviter_window import keep_open
from node.storage.owners_files import read_limited
from node.storage.swarm_file import SWARM, Own
from node.system.errors import ConfigError, UserError, counted, one_line
from node.system.system import SYSTEM
from protocol.crypto.node_key import NodeKey
from protocol.invitation.messages import MAX_TASK_BYTES
from protocol.invitation.roster import Relays
from protocol.relay.admission import Relay
from protocol.relay.room_messages import OpenRooms

_MARKS_SHOWN = 12
Dial = Callable[[RelayWord, OpenRooms], Served]
"""Connects to a relay for the first time, and asks for rooms."""


def invite(options: InviteOptions) -> int:
    """Invites, waits for all, and learns; returns the exit status. Raises UserError."""
    terminal = Terminal(options.yes)
    if options.data is None or options.me is None:
        raise ConfigError("an invitation to a task needs --data and --me")
    own = own_choices(options.data, options.cells, options.blank_person, options.encoder)
    node = options_to_check(options.task, own, len(options.names) + 1)
    folder = options.out or Path("runs") / node.task.task.name
    if (folder / SWARM).exists():
        raise ConfigError(
            f"{one_line(str(folder))} has a swarm whose list is closed: go on with murmuration start "
            f"{one_line(str(folder))}, or give another --out"
        )
    kept = kept_inviting(folder)
    if kept is None:
        if not asyncio.run(_begin(options, options.me, terminal, folder, own, node)):
            terminal.say("nobody was invited, and nothing was sent")
            return 0
    elif (kept.me, *(seat.name for seat in kept.seats)) != (options.me, *options.names):
        raise ConfigError(
            f"{one_line(str(folder))} has an invitation of other names already: go on with murmuration start "
            f"{one_line(str(folder))}, or give another --out"
        )
    elif kept.own != own:
        keep_inviting(folder, replace(kept, own=own))
    return keep_open(folder, terminal)


def check_own(options: NodeOptions, terminal: Terminal) -> int:
    """Prints what a check of the own data finds; returns how many problems there are."""
    problems = 0
    for finding in check_all(options, met=False):
        problems += finding.level == "problem"
        terminal.say(*finding.lines())
    return problems


async def _begin(
    options: InviteOptions, me: str, terminal: Terminal, folder: Path, own: Own, node: NodeOptions
) -> bool:
    """Checks, asks, and gets the rooms; returns whether the owner said yes. Raises UserError."""
    text = read_limited(options.task, MAX_TASK_BYTES)
    if text is None:
        raise ConfigError(f"{one_line(str(options.task))} is not there: murmuration init writes a task")
    check_portable(node.task, options.task)
    least, here = node.task.aggregation.min_participants, len(options.names) + 1
    if here < least:
        raise ConfigError(
            f"{here} would learn, and a sum takes {least}: invite {counted(least - here, 'more')}"
        )
    if problems := check_own(node, terminal):
        raise ConfigError(f"{counted(problems, 'problem')}, see above: nobody was invited")
    marked = marked_lines(text)
    if marked:
        terminal.say(
            f"warning  these {counted(len(marked), 'line')} tell the others something about your data (no "
            "noise covers them):",
            *(f"           {line}" for line in marked[:_MARKS_SHOWN]),
            *([f"           and {len(marked) - _MARKS_SHOWN} more"] if len(marked) > _MARKS_SHOWN else []),
        )
    asked = "Send the task with these lines?" if marked else "Send the task?"
    if not await terminal.ask(asked):
        return False
    key = made_key(folder)
    relays, rooms = await licensed(options.relays, len(options.names), partial(_dial, key), terminal.say)
    seats = new_seats(options.names, rooms, int(SYSTEM.clock.wall()), SYSTEM)
    keep_inviting(folder, Inviting(node.task.task.name, me, text, relays, seats, own))
    return True


async def licensed(
    relays: Sequence[RelayWord], count: int, dial: Dial, say: Callable[[str], None]
) -> tuple[Relays, tuple[str, ...]]:
    """The relays with their licences, without those that do not answer, and `count` rooms at the first.

    Raises UserError if none answers, or one refuses its word.
    """
    found: list[Relay] = []
    rooms: tuple[str, ...] = ()
    missing: list[str] = []
    for named in relays:
        try:
            async with dial(named, OpenRooms(b"", b"", (), 0 if found else count)) as (_, relay, new):
                found.append(relay)
                rooms = rooms or new
        except ConnectionError as error:
            missing.append(str(error))
    if not found:
        raise UserError("; ".join(missing))
    for why in missing:
        say(f"warning: {why}; the swarm does without this relay")
    return tuple(found), rooms


def _dial(key: NodeKey, named: RelayWord, asked: OpenRooms) -> Served:
    return opened_rooms(named.endpoint, named.word, key, asked)
