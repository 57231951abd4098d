"""Where nodes listen: from their keys, which machines know, to endpoints, which are dialled; and back.

Whoever dials asks who may answer while the session may be changing in a thread. So that stands in a mapping
which is never changed: a session publishes another one after its events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from protocol.actions import Action, Send
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings
from protocol.swarm.requests import Requests
from protocol.wire.messages import Announce, Group, Key


class Addresses:
    """What the members announced, and what the last group's READYs say of who is known no more."""

    def __init__(self, settings: Settings, state: NodeState, members: Members) -> None:
        self._settings = settings
        self._state = state
        self._requests = Requests(settings, state)
        self._members = members
        self._grouped: dict[Key, str] = {}
        self._announced: Mapping[str, frozenset[Key]] = {}
        """Who announced an endpoint, as of the last event; never changed, only replaced."""
        self._published: tuple[Announce, ...] = ()
        self._keys: frozenset[Key] = frozenset()
        """Who is known, as of the last event."""

    def publish(self) -> None:
        """An event is over: what others may see of it."""
        latest = self._members.latest
        if latest == self._published:
            return
        announced: dict[str, list[Key]] = {}
        for announce in latest:
            announced.setdefault(announce.endpoint, []).append(announce.key)
        self._announced = {endpoint: frozenset(keys) for endpoint, keys in announced.items()}
        self._published = latest
        self._keys = frozenset(announce.key for announce in latest)

    def of_group(self, group: Group) -> None:
        """A session begins: its members are reached where their READYs say."""
        self._grouped = {ready.key: ready.announce.endpoint for ready in group.readys}

    def of(self, key: Key) -> str | None:
        """Where a node listens, as far as that is known."""
        if key == self._settings.key.public:
            return self._settings.endpoint
        announce = self._members.get(key)
        return announce.endpoint if announce else self._grouped.get(key)

    def named(self, key: Key) -> str:
        """For people: the endpoint, also of who was there long ago; else the beginning of the key."""
        return self.of(key) or self._before(key) or key.hex()[:8]

    def _before(self, key: Key) -> str | None:
        """Where a node listened that was in the sessions of the base's line: nobody is dialled there."""
        readys = (ready for link in reversed(self._state.line.whole) for ready in link.group.readys)
        return next((ready.announce.endpoint for ready in readys if ready.key == key), None)

    def at(self, endpoint: str) -> set[Key]:
        """Who is reached at an endpoint: the last that announced it, and members of the last group."""
        keys = {key for key, end in self._grouped.items() if end == endpoint}
        announce = self._members.at(endpoint)
        return keys if announce is None else keys | {announce.key}

    def may_answer(self, endpoint: str) -> frozenset[Key]:
        """Who may answer at an endpoint: who is pinned there, else all that announced it; empty: anybody.

        It may be asked at any time, and in any thread.
        """
        pinned = self._settings.pins.get(endpoint)
        return self._announced.get(endpoint, frozenset()) if pinned is None else frozenset((pinned,))

    def is_known(self, key: Key) -> bool:
        """Whether somebody with this key is a member that this node knows. It may be asked at any time."""
        return key in self._keys

    def addressed(self, actions: Sequence[Action]) -> list[Action]:
        """Node keys replaced by where their nodes listen; what has nowhere to go is left out.

        Requests are numbered and signed on the way.
        """
        out: list[Action] = []
        for action in actions:
            if not isinstance(action, Send) or isinstance(action.to, str):
                out.append(action)
            elif endpoint := self.of(action.to):
                messages = self._requests.signed(action.to, action.messages)
                out.append(replace(action, to=endpoint, messages=messages))
        return out
