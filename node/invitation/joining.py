"""The joiner's part: from a code to the confirmed list, through lost connections and restarts.

A Visitor keeps each change before it says anything that follows from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Protocol

from node.invitation.inviting import Pause, keep_list
from node.invitation.kept import Joining, keep_joining
from node.invitation.rooms import JoinersRoom, Shut
from node.system.errors import UserError
from node.system.pauses import Pauses
from node.system.system import SYSTEM, System
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.invitation.joiner import Guest, Phase
from protocol.invitation.messages import Invitation, Reason, Refusal, Standing
from protocol.invitation.roster import Roster
from protocol.invitation.sealed import NONCE_BYTES, RANDOM_BYTES
from protocol.relay.room_messages import Bar

KNOCK_PAUSE_S = 11.0
"""A room lets in six a minute."""
TELLINGS = 3
"""How often a joiner tries to tell the inviter its answer to the list."""
Enter = Callable[[], AbstractAsyncContextManager[JoinersRoom]]
"""Enters the room of the code."""


class Decision(Enum):
    """What the owner says to an invitation, and the line with which a visit ends that joins nobody."""

    JOIN = ""
    UNFIT = (
        'the data do not fit, see above; nothing was sent but "its data do not fit yet": mend them, and run '
        "the same command: the code is still good"
    )
    LATER = "not joined, and nothing was sent: the code is still good"


class Owner(Protocol):
    """Who decides for this node, and is told what happens."""

    async def decide(self, invitation: Invitation) -> Decision:
        """Answers an invitation, after a look at the own data."""

    async def answer(self, roster: Roster) -> bool:
        """Whether to learn with these, and with nobody else."""

    def waiting(self) -> None:
        """The inviter knows that this node joined; the list is not closed yet."""

    def trouble(self, text: str) -> None:
        """There is no way to the inviter now; it is tried again."""


class NotJoined(UserError):
    """The owner did not join, or may not."""


class Visitor:
    """One joiner, with the code that its state holds."""

    def __init__(
        self, folder: Path, key: NodeKey, state: Joining, owner: Owner, system: System = SYSTEM
    ) -> None:
        """`state`: as it is kept in `folder`."""
        self.state = state
        self.folder = folder
        self._key, self._owner, self._system = key, owner, system
        self._is_told = False
        """Whether the inviter has this node's answer to the list."""
        self._joins: Invitation | None = None
        """The invitation to which the owner has said yes."""
        if state.place.standing is not Standing.OUTSIDE:
            self._joins = state.place.invitation[0]

    async def join(self, enter: Enter, pause: Pause = asyncio.sleep) -> Roster:
        """Returns the list, once its owner has confirmed it. Raises UserError.

        The inviter is told what the owner answered, if it is there: nobody needs it any more.
        """
        pauses, tellings = Pauses(), 0
        while True:
            is_inside = False
            if self.state.place.standing > Standing.ACCEPTED:
                tellings += 1
                if self._is_told or tellings > TELLINGS:
                    return self._list()
            try:
                async with enter() as room:
                    is_inside = True
                    pauses.reset()
                    await self._visit(room)
                    continue
            except Shut as shut:
                if self.state.place.standing > Standing.ACCEPTED:
                    return self._list()
                if shut.bar is Bar.NO_ROOM and self._joins is None:
                    raise
                self._owner.trouble(str(shut))
                await pause(KNOCK_PAUSE_S)
                continue
            except ConnectionError as error:
                if self._joins is None:
                    raise UserError(f"{error}. The code is still good") from error
                if not is_inside and self.state.place.standing <= Standing.ACCEPTED:
                    self._owner.trouble(str(error))  # else it may get in again at once
            except RemoteProtocolError as error:
                raise UserError(f"the inviter's end breaks a rule: {error}; ask for a new code") from error
            await pause(pauses.take())

    def _list(self) -> Roster:
        """The list, if the owner confirmed it; else raises NotJoined."""
        if self.state.place.standing is Standing.DECLINED:
            raise NotJoined("the list was declined: nothing is learned with it")
        return self.state.place.roster[0]

    async def _visit(self, room: JoinersRoom) -> None:
        """One visit of the room: to its end, or to the first lost connection."""
        place = self.state.place
        if not place.may_try:
            raise NotJoined(
                "this code was tried three times, and nobody proved to know it: ask the inviter for a new one"
            )
        random = self._system.entropy(RANDOM_BYTES)
        guest = Guest(place, self._key, random[:NONCE_BYTES], random[NONCE_BYTES:])
        await room.say(guest.knock())
        while guest.phase is not Phase.OVER:
            match guest.phase:
                case Phase.DECISION:
                    said = await self._decided(guest, room)
                case Phase.CHOICE:
                    said = await self._answered(guest)
                case _:
                    said = self._heard(guest, await room.hear())
            self._keep(guest)
            for message in said:
                await room.say(message)
        if guest.refusal is not None:
            self._refused(guest.refusal)
        self._is_told = self.state.place.standing > Standing.ACCEPTED

    def _heard(self, guest: Guest, message: bytes) -> tuple[bytes, ...]:
        before = guest.phase
        said = guest.receive(message)
        if guest.phase is Phase.LIST and before is not Phase.LIST:
            self._owner.waiting()
        return said

    async def _decided(self, guest: Guest, room: JoinersRoom) -> tuple[bytes, ...]:
        invitation = guest.place.invitation[0]
        if invitation != self._joins:
            decision = await self._owner.decide(invitation)
            if decision is Decision.UNFIT:
                for message in guest.decline_to_join():
                    await room.say(message)
            if decision is not Decision.JOIN:
                raise NotJoined(decision.value, status=2)
            self._joins = invitation
        return guest.accept()

    async def _answered(self, guest: Guest) -> tuple[bytes, ...]:
        roster = guest.place.roster[0]
        self._keep(guest)
        confirms = await self._owner.answer(roster)
        if confirms:
            invitation = guest.place.invitation[0]
            keep_list(self.folder, roster, invitation.task, self.state.own, invitation.agreed)
        return guest.answer_list(Standing.CONFIRMED if confirms else Standing.DECLINED)

    def _refused(self, refusal: Refusal) -> None:
        """Raises UserError, unless the next visit may do better."""
        match refusal.reason:
            case Reason.UNKNOWN:
                return
            case Reason.WRONG if refusal.tries:
                tries = f"{refusal.tries} {'try is' if refusal.tries == 1 else 'tries are'} left"
                raise NotJoined(f"wrong code: {tries}, then the inviter must make a new one", status=2)
            case Reason.WRONG | Reason.BURNT:
                raise NotJoined(
                    "this code was tried wrongly three times: ask the inviter for a new one", status=2
                )
            case Reason.USED:
                raise NotJoined(
                    "this code is used up: somebody joined by it; if not you, tell the inviter at once",
                    status=2,
                )
        raise NotJoined("this code is over: ask the inviter for a new one", status=2)

    def _keep(self, guest: Guest) -> None:
        if guest.place != self.state.place:
            state = replace(self.state, place=guest.place)
            keep_joining(self.folder, state, self._system.disk)
            self.state = state
