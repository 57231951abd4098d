"""The inviter's part: it serves the rooms of its codes until each joiner has answered the closed list.

A Reception keeps each change before it says anything that follows from it, so it may be stopped at any time
and served again from the run's folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from node.invitation.kept import Inviting, keep_inviting
from node.invitation.rooms import InvitersRooms
from node.storage.owners_files import keep_file
from node.storage.swarm_file import AGREED, TASK, Own, Swarm, read_swarm, write_swarm
from node.system.errors import ConfigError
from node.system.pauses import Pauses
from node.system.system import SYSTEM, System
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.invitation.inviter import LIFE_S, Host, News, Phase, Seat
from protocol.invitation.messages import Invitation, Standing
from protocol.invitation.roster import Member, Roster
from protocol.invitation.sealed import NONCE_BYTES, RANDOM_BYTES
from protocol.invitation.words import RANDOM_BYTES as WORD_BYTES
from protocol.invitation.words import Code, new_secret
from protocol.relay.admission import Relay
from protocol.relay.room_messages import CloseRoom, Dismiss, Knocked, Left, OpenRooms, Proved, Said, ToInviter
from protocol.wire.messages import Vouch

_PROVED = frozenset((News.INVITED, News.BACK))
Served = AbstractAsyncContextManager[tuple[InvitersRooms, Relay, tuple[str, ...]]]
Dial = Callable[[OpenRooms], Served]
"""Connects to the relay, and asks for rooms."""
Pause = Callable[[float], Awaitable[None]]


class Watcher(Protocol):
    """Who is told what happens at a reception."""

    def news(self, seat: Seat, news: News) -> None:
        """Something happened at a seat, which is as it is now kept."""

    def trouble(self, text: str) -> None:
        """The relay cannot be reached; it is tried again."""

    def lost(self, name: str, code: Code | None) -> None:
        """Another inviter has the room of a seat. `code`: the seat's new one; None: the list is closed."""


def new_seats(names: tuple[str, ...], rooms: tuple[str, ...], now_s: int, system: System) -> tuple[Seat, ...]:
    """A seat with a new code for each name, good for a day."""
    return tuple(
        Seat(name, room, new_secret(system.entropy(WORD_BYTES)), now_s + LIFE_S)
        for name, room in zip(names, rooms, strict=True)
    )


def spent_seats(state: Inviting, now_s: int) -> tuple[Seat, ...]:
    """The free seats whose code is burnt or too old."""
    return tuple(
        seat for seat in state.seats if not seat.is_taken and (not seat.tries or now_s >= seat.until)
    )


async def with_new_codes(
    state: Inviting, over: tuple[Seat, ...], dial: Dial, now_s: int, system: System = SYSTEM
) -> Inviting:
    """The state with a new code in the place of each seat that is `over`; asks the relay for rooms.

    Raises ConnectionError or UserError.
    """
    if not over:
        return state
    kept = tuple(seat.room for seat in state.seats if seat not in over)
    async with dial(state.asking(kept, len(over))) as (rooms, _, digits):
        names = tuple(seat.name for seat in over)
        fresh = new_seats(names, digits[-len(over) :], now_s, system)
        for seat in over:
            await rooms.say(CloseRoom(seat.room))
    of_name = {seat.name: seat for seat in fresh}
    return replace(state, seats=tuple(of_name.get(seat.name, seat) for seat in state.seats))


def code_of(state: Inviting, seat: Seat) -> Code:
    """The code of a seat."""
    return Code(state.relay.endpoint, seat.room, seat.secret)


class Reception:
    """One inviter's rooms."""

    def __init__(
        self, folder: Path, key: NodeKey, state: Inviting, watcher: Watcher, system: System = SYSTEM
    ) -> None:
        """`state`: as it is kept in `folder`."""
        self.state = state
        self._folder, self._key, self._watcher, self._system = folder, key, watcher, system
        self._hosts: dict[tuple[str, int], Host] = {}
        """By room and visit."""
        self._rooms: InvitersRooms | None = None
        self._lost: set[str] = set()
        """Rooms that are another inviter's, of which the owner has heard."""

    @property
    def are_all_here(self) -> bool:
        """Whether each seat is taken."""
        return all(seat.is_taken for seat in self.state.seats)

    @property
    def waited_for(self) -> tuple[Seat, ...]:
        """The seats that are free, or, once the list is closed, the members that have not answered it."""
        if self.state.roster:
            return tuple(s for s in self.state.seats if s.is_taken and s.standing <= Standing.ACCEPTED)
        return tuple(seat for seat in self.state.seats if not seat.is_taken)

    @property
    def is_over(self) -> bool:
        """Whether the list is closed and nobody's answer is missing."""
        return bool(self.state.roster) and not self.waited_for

    async def serve(self, dial: Dial, pause: Pause = asyncio.sleep) -> None:
        """Serves the rooms until the reception is over; connects again whenever the connection breaks."""
        pauses = Pauses()
        while not self.is_over:
            try:
                async with dial(self._asked()) as (rooms, _, digits):
                    self._rooms = rooms
                    pauses.reset()
                    lost = self._note_lost(digits)
                    while not lost and not self.is_over:
                        await self._turn(rooms, await rooms.hear())
                    if self.is_over:
                        await self._leave(rooms)
                await self._renew(lost, dial)
            except ConnectionError as error:
                self._watcher.trouble(str(error))
            finally:
                self._rooms = None
                self._hosts.clear()
            if not self.is_over:
                await pause(pauses.take())

    async def _leave(self, rooms: InvitersRooms) -> None:
        """Gives the rooms back, so that whoever comes with a used code hears that it is over."""
        with suppress(ConnectionError):
            for seat in self.state.seats:
                await rooms.say(CloseRoom(seat.room))

    async def close_list(self) -> Roster:
        """Closes the list of those who are here: signs it, keeps it, sends it to all. Raises ConfigError."""
        state = self.state
        known: list[Member | Vouch] = []
        for roster in state.so_far:
            known += [*roster.members, *roster.later]
        here = [Member(seat.name, seat.key) for seat in state.seats if seat.is_taken]
        _refuse_equal_keys([*(known or [Member(state.me, self._key.public)]), *here])
        roster = state.closed(self._key, self._system.entropy(NONCE_BYTES))
        self._keep(replace(state, roster=(roster,)))
        self.keep_list()
        for (room, visit), host in list(self._hosts.items()):
            await self._say(room, visit, *host.close_list(roster).send)
        for seat in state.seats:
            if not seat.is_taken and self._rooms is not None:
                await self._rooms.say(CloseRoom(seat.room))
        return roster

    def keep_list(self) -> None:
        """Writes the closed list for this node: all of it, or who came later. Raises ConfigError."""
        (roster,), state = self.state.roster, self.state
        if state.so_far:
            take_in(self._folder.parent, roster.later[len(state.so_far[0].later) :])
        else:
            keep_list(self._folder, roster, state.task, state.own)

    def _note_lost(self, digits: tuple[str, ...]) -> tuple[Seat, ...]:
        """The seats that need a new code, as the relay did not give their rooms back.

        A relay that starts again knows no room, so another inviter may have got the digits meanwhile. Once
        the list is closed there are no new codes, and the owner only hears of it.
        """
        if not self.state.roster:
            return tuple(seat for seat in self.state.seats if seat.room not in digits)
        for seat in self.waited_for:
            if seat.room not in (*digits, *self._lost):
                self._lost.add(seat.room)
                self._watcher.lost(seat.name, None)
        return ()

    async def _renew(self, lost: tuple[Seat, ...], dial: Dial) -> None:
        """Makes new codes for seats whose rooms are lost; who had accepted there has to join again."""
        if not lost:
            return
        renewed = await with_new_codes(self.state, lost, dial, int(self._system.clock.wall()), self._system)
        if self.state.roster:
            return  # it was closed meanwhile
        self._keep(renewed)
        for seat in renewed.seats:
            if seat.name in {each.name for each in lost}:
                self._watcher.lost(seat.name, code_of(renewed, seat))

    def _asked(self) -> OpenRooms:
        return self.state.asking(tuple(seat.room for seat in self.state.seats), 0)

    async def _turn(self, rooms: InvitersRooms, heard: ToInviter) -> None:
        match heard:
            case Knocked(room, visit):
                if (seat := self._seat(room)) is not None:
                    self._hosts[room, visit] = self._host(seat)
            case Left(room, visit):
                self._hosts.pop((room, visit), None)
            case Said(room, visit, data):
                host, seat = self._hosts.get((room, visit)), self._seat(room)
                if host is not None and seat is not None:
                    host.seat = seat
                    await self._heard(rooms, room, visit, host, data)

    async def _heard(self, rooms: InvitersRooms, room: str, visit: int, host: Host, data: bytes) -> None:
        try:
            turn = host.receive(data, int(self._system.clock.wall()))
        except RemoteProtocolError:
            await self._dismiss(rooms, room, visit)
            return
        self._keep_seat(host.seat)
        if turn.news in _PROVED:
            await rooms.say(Proved(room, visit))
        await self._say(room, visit, *turn.send)
        if turn.news is not None:
            self._watcher.news(host.seat, turn.news)
        if turn.news is News.BACK:
            await self._end_earlier(rooms, room, visit)
        if host.phase is Phase.OVER:
            await self._dismiss(rooms, room, visit)

    async def _end_earlier(self, rooms: InvitersRooms, room: str, visit: int) -> None:
        """Ends the connection that somebody who is back had before: its place is free for another."""
        for each, number in list(self._hosts):
            if each == room and number < visit:
                await self._dismiss(rooms, room, number)

    async def _dismiss(self, rooms: InvitersRooms, room: str, visit: int) -> None:
        self._hosts.pop((room, visit), None)
        await rooms.say(Dismiss(room, visit))

    async def _say(self, room: str, visit: int, *messages: bytes) -> None:
        for message in messages:
            if self._rooms is not None:
                await self._rooms.say(Said(room, visit, message))

    def _seat(self, room: str) -> Seat | None:
        return next((seat for seat in self.state.seats if seat.room == room), None)

    def _host(self, seat: Seat) -> Host:
        random, roster = self._system.entropy(RANDOM_BYTES), next(iter(self.state.roster), None)
        return Host(seat, self._invitation(seat), roster, random[:NONCE_BYTES], random[NONCE_BYTES:])

    def _invitation(self, seat: Seat) -> Invitation:
        state = self.state
        return Invitation(
            swarm=state.swarm,
            inviter=state.me,
            inviter_key=self._key.public,
            you=seat.name,
            others=state.others(seat),
            task=state.task,
            relays=state.so_far[0].relays if state.so_far else state.relays,
            until=seat.until,
            agreed=state.agreed,
        )

    def _keep_seat(self, seat: Seat) -> None:
        seats = tuple(seat if seat.room == each.room else each for each in self.state.seats)
        if seats != self.state.seats:
            self._keep(replace(self.state, seats=seats))

    def _keep(self, state: Inviting) -> None:
        keep_inviting(self._folder, state, self._system.disk)
        self.state = state


def take_in(folder: Path, words: Iterable[Vouch]) -> None:
    """Accepts later members in a swarm's file, if they are not in it yet. Raises ConfigError."""
    swarm = read_swarm(folder)
    for vouch in words:
        if vouch.key not in swarm.roster.keys:
            swarm = swarm.with_word(vouch)
    write_swarm(folder, swarm)


def keep_list(folder: Path, roster: Roster, task: bytes, own: Own, agreed: bytes = b"") -> None:
    """Writes the task and the swarm's file: from now on the node may start. Raises ConfigError."""
    keep_file(folder / TASK, task)
    if agreed:
        keep_file(folder / AGREED, agreed)
    write_swarm(folder, Swarm(roster, own))


def _refuse_equal_keys(members: Iterable[Member | Vouch]) -> None:
    named: dict[bytes, str] = {}
    for member in members:
        if member.key in named:
            raise ConfigError(
                f'"{named[member.key]}" and "{member.name}" joined with one key, so one owner has both: '
                "begin anew, with a code a person"
            )
        named[member.key] = member.name
