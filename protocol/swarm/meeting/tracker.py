"""The tracker's machine: it introduces peers and closes groups. It sees signed READYs, never a share.

The tracker recovers what a restart loses: peers announce themselves again when their link breaks, and the
tracker forgets silent peers by its own clock. It must store only the electors that it named for a first base
(`Named`), which it does once for each swarm.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocol.actions import Action, Note, Notice, Reply, Send
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_message
from protocol.swarm.meeting.clock_skew import Clocks
from protocol.swarm.meeting.matchmaker import Matchmaker
from protocol.swarm.meeting.room import Waiting
from protocol.wire import signing
from protocol.wire.limits import MAX_KNOWN, MAX_MEMBERS
from protocol.wire.messages import (
    Announce,
    Electors,
    Hello,
    Key,
    LeftOut,
    Message,
    Ready,
    Refused,
    Roster,
)

FULL = f"{MAX_MEMBERS} peers are in this swarm, as many as can be; larger swarms come later"


class Tracker:
    """Rooms for any number of tasks. `allow`: the keys that may take part; None for anyone.

    `min_peers` is the tracker's own least size of a group; the larger of it and the task's applies. `named`:
    the electors that it has named for first bases, by swarm.
    """

    def __init__(
        self,
        key: NodeKey,
        min_peers: int,
        allow: frozenset[Key] | None,
        named: Mapping[tuple[str, bytes], tuple[Key, ...]] | None = None,
    ) -> None:
        self._key = key
        self._allow = allow
        self._matchmaker = Matchmaker(key, min_peers, named or {})
        self._endpoints: dict[Key, str] = {}
        self.clocks = Clocks()

    @property
    def deadline(self) -> float | None:
        """When tick should be called at the latest."""
        return self._matchmaker.deadline

    @property
    def peers(self) -> int:
        """The number of announced peers."""
        return len(self._endpoints)

    def is_member(self, key: Key) -> bool:
        """Whether this key is on the allow-list; without a list, whether it is announced."""
        return key in (self._endpoints if self._allow is None else self._allow)

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """For each announced swarm, its peers and what its next group waits for."""
        return self._matchmaker.waiting

    def receive(self, message: Message, by: Key | None, now: float) -> list[Action]:
        """Process a Hello, READY, Electors or LeftOut on its sender's link.

        Raises RemoteProtocolError for anything else.
        """
        match message:
            case Hello() if message.announce.key == by:
                return self._after(self._hello(message, now), now)
            case Ready() if message.key == by:
                return self._after(self._ready(message, now), now)
            case Electors() if by in self._endpoints:
                self._matchmaker.learn_from(by, of_message(message))
                return []
            case LeftOut() if by in self._endpoints:
                self._matchmaker.leave_out_for(by, message)
                return []
            case Hello() | Ready():
                raise RemoteProtocolError(f"a {type(message).__name__} on the link of another")
            case _:
                raise RemoteProtocolError(f"a tracker takes no {type(message).__name__}")

    def clock(self, offset_s: float, asleep_s: float) -> list[Action]:
        """This machine's clock is `offset_s` ahead of the shell's times; it slept `asleep_s` of that."""
        self.clocks.step(offset_s, asleep_s)
        return []

    def unreachable(self, endpoint: str, why: str, now: float) -> list[Action]:
        """Stop waiting for the peers at an endpoint that cannot be reached."""
        gone = [key for key, end in self._endpoints.items() if end == endpoint]
        for key in gone:
            self._matchmaker.unreachable(key)
        notices: list[Action] = [Notice(Note.LOST, endpoint, why)] if gone else []
        return self._after(notices, now)

    def reconnected(self, endpoint: str, now: float) -> list[Action]:
        """A link was opened again: peers announce themselves, and the tracker sends nothing."""
        return self._after([], now)

    def tick(self, now: float) -> list[Action]:
        """Close the groups that are due, and forget silent peers."""
        return self._after([], now)

    def _hello(self, hello: Hello, now: float) -> list[Action]:
        announce = hello.announce
        signing.verify(announce, announce.key)
        if self._allow is not None and announce.key not in self._allow:
            return [_refuse(hello, f"key {announce.key.hex()} is not on the tracker's allow-list")]
        if self._matchmaker.is_full(announce):
            return [_refuse(hello, FULL)]
        notices = self._note(announce) if self._matchmaker.announce(announce, now) else []
        self.clocks.heard(announce.key, announce.endpoint, hello.clock_ms, now)
        if not hello.wants_reply:
            return notices
        known = self._matchmaker.of_task(announce.task)
        others = [other for other in known if other.key != announce.key]
        held = self._matchmaker.announced(announce.swarm, announce.key)
        earlier = [held] if held is not None and held.order > announce.order else []
        shown = tuple([*earlier, *others][:MAX_KNOWN])  # first, a later announcement of its own key
        return [*notices, Send(announce.endpoint, (self._roster(hello.nonce, shown, now),))]

    def _roster(self, nonce: bytes, known: tuple[Announce, ...], now: float) -> Roster:
        return signing.sign(Roster(self._key.public, nonce, known, self.clocks.shown_ms(now)), self._key)

    def _note(self, announce: Announce) -> list[Action]:
        """Update where a peer listens; a notice when it joins or leaves."""
        if announce.leaving:
            known = self._endpoints.pop(announce.key, None)
            return [Notice(Note.LEFT, announce.endpoint, announce.key.hex()[:8])] if known else []
        is_new = announce.key not in self._endpoints
        self._endpoints[announce.key] = announce.endpoint
        return [Notice(Note.JOINED, announce.endpoint, announce.key.hex()[:8])] if is_new else []

    def _ready(self, ready: Ready, now: float) -> list[Action]:
        signing.verify(ready.announce, ready.key)
        signing.verify(ready, ready.key)
        if self._allow is not None and ready.key not in self._allow:
            raise RemoteProtocolError("a READY of a key that is not on the allow-list")
        if self._matchmaker.is_full(ready.announce):
            raise RemoteProtocolError(FULL)
        accepted = self._matchmaker.ready(ready, now)
        actions = [*self._note(ready.announce), *accepted]
        outranking = self._matchmaker.outranking(ready)[:MAX_KNOWN]
        if outranking:
            actions.append(Send(ready.key, (self._roster(bytes(16), outranking, now),)))
        return actions

    def _after(self, actions: list[Action], now: float) -> list[Action]:
        expired = self._matchmaker.expire(now)
        silent: list[Action] = [
            Notice(Note.LOST, self._endpoints.pop(key)) for key in expired if key in self._endpoints
        ]
        self.clocks.keep(self._endpoints.keys())
        actions = [*silent, *actions, *self._matchmaker.close_groups(now)]
        return [self._addressed(action) for action in actions]

    def _addressed(self, action: Action) -> Action:
        match action:
            case Send(to=bytes() as key):
                return Send(self._endpoints.get(key, ""), action.messages)
            case _:
                return action


def _refuse(hello: Hello, reason: str) -> Action:
    return Reply((Refused(hello.nonce, reason),))
