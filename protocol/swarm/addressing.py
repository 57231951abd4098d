"""Addresses of nodes: machines name nodes by key, the shell dials endpoints; this maps one to the other.

The shell asks which keys may answer while another thread may be changing the session. The answer is
therefore an immutable mapping, which the session replaces after its events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from protocol.actions import Action, Send
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings
from protocol.swarm.requests import Requests
from protocol.wire.messages import Group, Key


class Addresses:
    """The members' announced endpoints; for members that are forgotten, those in the last group's READYs."""

    def __init__(self, settings: Settings, state: NodeState, members: Members) -> None:
        self._settings = settings
        self._state = state
        self._requests = Requests(settings, state)
        self._members = members
        self._grouped: dict[Key, str] = {}
        self._announced: Mapping[str, frozenset[Key]] = {}
        """The keys that announced each endpoint, as of the last event; replaced, never changed in place."""
        self._published: Mapping[Key, str] = {}
        """The members' endpoints, as of the last event; replaced, too."""

    def publish(self) -> None:
        """Publish, after an event, what other threads may read."""
        latest = {announce.key: announce.endpoint for announce in self._members.latest}
        if latest == self._published:
            return
        announced: dict[str, list[Key]] = {}
        for key, endpoint in latest.items():
            announced.setdefault(endpoint, []).append(key)
        self._announced = {endpoint: frozenset(keys) for endpoint, keys in announced.items()}
        self._published = latest

    def of_group(self, group: Group) -> None:
        """A session begins: remember the endpoints in its members' READYs."""
        self._grouped = {ready.key: ready.announce.endpoint for ready in group.readys}

    def of(self, key: Key) -> str | None:
        """The endpoint at which a node listens; None if it is not known."""
        if key == self._settings.key.public:
            return self._settings.endpoint
        announce = self._members.get(key)
        return announce.endpoint if announce else self._grouped.get(key)

    def named(self, key: Key) -> str:
        """A name for people: the endpoint, even an old one; else the beginning of the key."""
        return self.of(key) or self._before(key) or key.hex()[:8]

    def _before(self, key: Key) -> str | None:
        """The endpoint in the newest READY of this key in the base's line; for display, never dialled."""
        readys = (ready for link in reversed(self._state.line.whole) for ready in link.group.readys)
        return next((ready.announce.endpoint for ready in readys if ready.key == key), None)

    def at(self, endpoint: str) -> set[Key]:
        """The keys at an endpoint: the last one that announced it, and members of the last group."""
        keys = {key for key, end in self._grouped.items() if end == endpoint}
        announce = self._members.at(endpoint)
        return keys if announce is None else keys | {announce.key}

    def may_answer(self, endpoint: str) -> frozenset[Key]:
        """The keys that may answer at an endpoint: the pinned one, else all that announced it; empty: any.

        Safe at any time and in any thread.
        """
        pinned = self._settings.contacts.pins.get(endpoint)
        return self._announced.get(endpoint, frozenset()) if pinned is None else frozenset((pinned,))

    def is_known(self, key: Key) -> bool:
        """Whether this key is a known member's. Safe at any time and in any thread."""
        return key in self._published

    def addressed(self, actions: Sequence[Action]) -> list[Action]:
        """Replace node keys by endpoints, and drop what has no known endpoint.

        Requests get their number and signature here.
        """
        out: list[Action] = []
        for action in actions:
            if not isinstance(action, Send) or isinstance(action.to, str):
                out.append(action)
            elif endpoint := self.of(action.to):
                messages = self._requests.signed(action.to, action.messages)
                out.append(replace(action, to=endpoint, messages=messages))
        return out
