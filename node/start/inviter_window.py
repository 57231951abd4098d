"""The inviter's window: codes, who is here, the closing of the list, and then the inviter's own node."""

from __future__ import annotations

import asyncio
import time
import tomllib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from node.invitation.inviting import Reception, code_of, spent_seats, with_new_codes
from node.invitation.kept import Inviting, keep_inviting, kept_inviting
from node.invitation.key import own_key
from node.invitation.rooms import opened_rooms
from node.invitation.terminal import Terminal
from node.invitation.words import lost_text, member_lines
from node.net.tls import by_relay
from node.start.serving import learn_and_serve
from node.system.errors import ConfigError, UserError, counted, one_line
from node.system.system import SYSTEM
from node.task.load import read_task
from protocol.crypto.node_key import NodeKey
from protocol.invitation.inviter import News, Seat
from protocol.invitation.messages import Standing
from protocol.invitation.roster import Member
from protocol.invitation.words import Code, key_words


class Window:
    """What the inviter reads. `changed` is set whenever somebody did something."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._told = ""
        self.changed = asyncio.Event()

    def news(self, seat: Seat, news: News) -> None:
        """Prints what happened at a seat."""
        text = _news_text(seat, news)
        if text:
            now = time.strftime("%H:%M", time.localtime(SYSTEM.clock.wall()))
            self._terminal.say(f"{now}  {text}")
        self.changed.set()

    def trouble(self, text: str) -> None:
        """Prints once that the relay cannot be reached."""
        if text != self._told:
            self._terminal.say(f"warning: {text}; it is tried again")
        self._told = text

    def lost(self, name: str, code: Code | None) -> None:
        """Prints the code that takes the place of one whose room is lost."""
        self._terminal.say(f"warning: {lost_text(name, code)}")


def _news_text(seat: Seat, news: News) -> str:
    match news:
        case News.WRONG:
            left = "it is burnt: a new one stands here after a restart of this window"
            left = f"{_tries(seat.tries)} left" if seat.tries else left
            return f"somebody used a wrong code for {seat.name} ({left})"
        case News.REUSED:
            return (
                f"somebody used the code of {seat.name} again: compare the words of {seat.name} by telephone"
            )
        case News.INVITED:
            return f"{seat.name} reads the invitation"
        case News.MISFIT:
            return f"{seat.name}: its data do not fit yet"
        case News.JOINED:
            return f"{seat.name} is here       {key_words(seat.key)}       its data fit"
        case News.BACK:
            return f"{seat.name} is here again"
        case News.ANSWERED if seat.standing is Standing.DECLINED:
            return f"{seat.name} declined the list"
    return f"{seat.name} confirmed the list"


def _tries(count: int) -> str:
    return "1 try" if count == 1 else f"{count} tries"


def keep_open(folder: Path, terminal: Terminal) -> int:
    """Waits for all, closes the list, and learns; returns the exit status. Raises UserError."""
    state = kept_inviting(folder)
    if state is None:
        raise ConfigError(f"{one_line(str(folder))} has no invitation")
    key = own_key(folder)
    least = read_task(tomllib.loads(state.task.decode())).aggregation.min_participants
    closing = Closing(least, partial(_may_close, key, terminal), partial(_starts, folder, terminal))
    if not state.roster and not asyncio.run(until_closed(folder, key, state, terminal, closing)):
        terminal.say(f"the list is open still; go on with: murmuration start {one_line(str(folder))}")
        return 0
    return learn_and_serve(folder)


def _show_codes(state: Inviting, key: NodeKey, terminal: Terminal) -> None:
    width = max(len(seat.name) for seat in state.seats)
    free = [seat for seat in state.seats if not seat.is_taken]
    terminal.say(f"Your own words: {key_words(key.public)}", "")
    if free:
        terminal.say(
            *(f"  {seat.name:<{width}}   murmuration join {code_of(state, seat)}" for seat in free),
            "",
            "Give each line to that person only, by telephone or a channel that you trust. Each is good "
            "for 24 hours, once.",
            f"Keep this window open until all have joined. Waiting: {', '.join(seat.name for seat in free)}.",
            *(() if terminal.yes else ("To go on without somebody, type: close",)),
        )


@dataclass(frozen=True)
class Closing:
    """How a list is closed. `least`: how many must be here, this node included.

    `asks`: asks the owner, once all are here; `then`: what follows, while the rooms are served.
    """

    least: int
    asks: Callable[[Inviting], Awaitable[bool]]
    then: Callable[[Reception, asyncio.Task[None]], Awaitable[None]]


async def until_closed(
    folder: Path, key: NodeKey, state: Inviting, terminal: Terminal, closing: Closing
) -> bool:
    """Serves the rooms until the owner closes the list; returns whether that happened. Raises UserError."""
    dial = partial(opened_rooms, state.relay.endpoint, state.relay.key, key)
    try:
        now_s = int(SYSTEM.clock.wall())
        over = () if state.roster else spent_seats(state, now_s)
        renewed = await with_new_codes(state, over, dial, now_s)
    except ConnectionError as error:
        raise UserError(str(error)) from error
    if renewed != state:
        keep_inviting(folder, renewed)
    _show_codes(renewed, key, terminal)
    window = Window(terminal)
    reception = Reception(folder, key, renewed, window)
    serving = asyncio.create_task(reception.serve(dial))
    try:
        if not renewed.roster:
            await _until_closable(reception, serving, window, terminal, closing.least)
            if not await closing.asks(reception.state):
                return False
            await reception.close_list()
        await closing.then(reception, serving)
        return True
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _until_closable(
    reception: Reception, serving: asyncio.Task[None], window: Window, terminal: Terminal, least: int
) -> None:
    """Waits until all are here, or the owner types `close` and those who are here are enough for a sum.

    Raises the error that ended the serving.
    """
    typed = asyncio.create_task(terminal.line())
    try:
        while not reception.are_all_here:
            window.changed.clear()
            changed = asyncio.create_task(window.changed.wait())
            await asyncio.wait((changed, serving, typed), return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            if serving.done():
                serving.result()
            if typed.done():
                here = 1 + sum(seat.is_taken for seat in reception.state.seats)
                if typed.result() == "close" and here >= least:
                    return
                if typed.result() == "close":
                    terminal.say(f"{here} are here, and a sum takes {least}: wait for the others")
                typed = asyncio.create_task(terminal.line())
    finally:
        typed.cancel()
        await asyncio.gather(typed, return_exceptions=True)


async def _starts(folder: Path, terminal: Terminal, reception: Reception, _: asyncio.Task[None]) -> None:
    roster = reception.state.roster[0]
    terminal.say(
        f"the list is closed: {reception.state.swarm}-{roster.digest.hex()[:4]}, "
        f"{counted(len(roster.members), 'member')}",
        f"links: {by_relay(roster.relays)}",
        f"starting in {one_line(str(folder))}; after a restart or a power cut:  murmuration start "
        f"{one_line(str(folder))}",
    )


async def _may_close(key: NodeKey, terminal: Terminal, state: Inviting) -> bool:
    here = [Member(seat.name, seat.key) for seat in state.seats if seat.is_taken]
    away = ", ".join(seat.name for seat in state.seats if not seat.is_taken)
    terminal.say(
        f"{len(here) + 1} are here, without {away}:" if away else f"All {len(here) + 1} are here:",
        *member_lines([Member(state.me, key.public), *here], {key.public: "this machine"}),
        "Ask them for their words if you are in doubt. Nobody can join by these codes any more.",
    )
    return await terminal.ask("Close the list and start?")
