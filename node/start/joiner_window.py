"""The joiner's window: what the owner reads and answers, from the invitation to the closed list."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from node.invitation.joining import Decision, Visitor
from node.invitation.kept import Joining, kept_joining
from node.invitation.key import own_key
from node.invitation.rooms import entered
from node.invitation.terminal import Terminal
from node.invitation.words import member_lines
from node.net.tls import by_relay
from node.start.learn import learn
from node.system.errors import ConfigError, one_line
from protocol.invitation.messages import Invitation
from protocol.invitation.roster import Roster
from protocol.invitation.words import key_words
from protocol.wire.ids import Key


class JoinersWindow:
    """The owner at a terminal, who has accepted an invitation before. `decide` answers others."""

    def __init__(self, terminal: Terminal, key: Key) -> None:
        self.terminal = terminal
        self._key = key
        self._told = ""
        self.folder = Path()
        """The folder to name when the owner may close the window."""

    async def decide(self, invitation: Invitation) -> Decision:
        """Nobody asks again at a start: the invitation is another one than was accepted."""
        return Decision.LATER

    async def answer(self, roster: Roster) -> bool:
        """Shows the list, and asks."""
        remarks = {roster.sponsor(self._key): "invited you", self._key: "this machine"}
        everyone = roster.everyone
        self.terminal.say(f"The list, {len(everyone)} members:", *member_lines(everyone, remarks))
        if self._key in [each.key for each in roster.later]:
            self.terminal.say("They learn already, and each of the others decides for itself about you")
        return await self.terminal.ask("Learn with these, and with nobody else?")

    def waiting(self) -> None:
        """Says that the window may be closed."""
        self._say_once(
            f"Your words: {key_words(self._key)}   (the inviter may ask you for them)\n"
            "waiting until the inviter closes the list; you may close this window and come back with: "
            f"murmuration start {one_line(str(self.folder))}"
        )

    def trouble(self, text: str) -> None:
        """Says once that there is no way to the inviter."""
        self._say_once(f"{text}; it is tried again")

    def _say_once(self, text: str) -> None:
        if text != self._told:
            self.terminal.say(text)
        self._told = text


def wait_for_list(visitor: Visitor, window: JoinersWindow) -> int:
    """Joins, and learns; returns the exit status. Raises UserError."""
    window.folder, place = visitor.folder, visitor.state.place
    roster = asyncio.run(visitor.join(partial(entered, place.relay, place.room)))
    window.terminal.say(f"links: {by_relay(roster.relays)}")
    return learn(visitor.folder)


def keep_waiting(folder: Path, terminal: Terminal) -> int:
    """Goes on where a joiner stands; returns the exit status. Raises UserError."""
    state: Joining | None = kept_joining(folder)
    if state is None or not state.place.invitation:
        raise ConfigError(f"{one_line(str(folder))} has no swarm: give the folder that invite or join named")
    key = own_key(folder)
    window = JoinersWindow(terminal, key.public)
    return wait_for_list(Visitor(folder, key, state, window), window)
