"""Later members of an invited swarm: for whom members have given their word, and who was told of it.

A member that has invited somebody says so by a VOUCH. Each member passes on those that it knows, to whom it
meets and when they are new, and keeps them for its owner, who alone decides whether this node learns with the
newcomer. Until then neither talks to the other, and this node asks coordinators not to group the two.

Whom the owner removed stays removed: no word brings it back, and its own word counts no more.
"""

from __future__ import annotations

from dataclasses import replace

from protocol.actions import Action, Send, Vouched
from protocol.relay.admission import check_vouch
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings, Vouches
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Announce, Key, Vouch

MOST_OF_ONE = 8
"""For so many newcomers that are not accepted here one member's word is kept; in all, for MAX_MEMBERS."""


class Vouching:
    """The words that this node knows."""

    def __init__(self, settings: Settings, state: NodeState, members: Members) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._vouches = settings.contacts.vouches
        self._told: dict[Key, bytes] = {}
        """The instance of each peer that was told all."""

    @property
    def strangers(self) -> frozenset[Key]:
        """Who may be in others' groups, and not in this node's."""
        known = {*self._vouches.removed, *(each.key for each in self._vouches.known)}
        return frozenset(filter(self._is_stranger, known))

    def change(self, vouches: Vouches) -> list[Action]:
        """The owner has decided anew: tell the live members what is new."""
        before = {each.key for each in self._vouches.known}
        kept = {each.key: each for each in (*vouches.known, *self._vouches.known)}
        known = tuple(each for each in kept.values() if self._counts(each, vouches.removed))
        self._vouches = Vouches(vouches.swarm, known, vouches.removed)
        new = tuple(each for each in known if each.key not in before)
        return [Send(key, new) for key in self._members.live] if new else []

    def met(self, announce: Announce) -> list[Action]:
        """A peer is here: tell it all, once for each start."""
        if not self._vouches.known or self._told.get(announce.key) == announce.instance:
            return []
        self._told[announce.key] = announce.instance
        return [Send(announce.endpoint, self._vouches.known)]

    def lost(self, key: Key) -> None:
        """This peer cannot be reached: what it was told may be lost."""
        self._told.pop(key, None)

    def take(self, vouch: Vouch, by: Key) -> list[Action]:
        """Process a word that an accepted peer has passed on. Raises RemoteProtocolError if it is invalid."""
        check_vouch(vouch, self._vouches.swarm)
        if not self._counts(vouch, self._vouches.removed) or not self._is_new(vouch):
            return []
        self._vouches = replace(self._vouches, known=(*self._vouches.known, vouch))
        return [Vouched(vouch), *(Send(key, (vouch,)) for key in self._members.live if key != by)]

    def _counts(self, vouch: Vouch, removed: frozenset[Key]) -> bool:
        """Whether it is the word of somebody with whom this node learns, and for nobody who was removed."""
        return vouch.key not in removed and not self._is_stranger(vouch.member)

    def _is_stranger(self, key: Key) -> bool:
        return not self._state.allows(key, self._settings)

    def _is_new(self, vouch: Vouch) -> bool:
        """Whether nobody has given a word for this newcomer, and there is room for one more."""
        waiting = [each for each in self._vouches.known if self._is_stranger(each.key)]
        if not self._is_stranger(vouch.key) or vouch.key in [each.key for each in waiting]:
            return False
        of_one = sum(each.member == vouch.member for each in waiting)
        return len(waiting) < MAX_MEMBERS and of_one < MOST_OF_ONE
