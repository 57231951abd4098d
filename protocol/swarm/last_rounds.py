"""The end of a node's life: rounds without an offer, the last round, and the time after it.

`SwarmEnd` tells a late node that the last round is over. The last round has ended for all nodes when it has
ended for one. If too few nodes are left for a group, an offer would wait in vain: the node fetches what the
others agreed on, and its round fails as the last one.

`Follower`: a node whose privacy budget is spent offers nothing and adopts the bases that others make. Such
a round is the phase `following` of protocol.swarm.phases. Invariants:
- a node that has begun to follow follows for good, even after a restart, offers nothing and announces it;
- every round ends, at T_group at the latest;
- a round that ends with a base has the round number of the nodes that made the base.

`Closing`: after its last round a node serves what it holds until the others have it, too. These are the
phases `closing` and `closed` of protocol.swarm.phases.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.swarm.meeting.discovery import Discovery
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings
from protocol.swarm.recovery.fetch import PATIENCE_S
from protocol.wire.messages import Announce

LINGER_S = 10.0


class SwarmEnd:
    """Decides whether the swarm has ended for this node."""

    def __init__(self, settings: Settings, state: NodeState, discovery: Discovery) -> None:
        self._settings = settings
        self._state = state
        self._discovery = discovery

    @property
    def is_over(self) -> bool:
        """Whether a peer ended the last round, too few are left for a group, and none has a better base.

        Valid only once every reachable peer was heard. One member's statement suffices, even a goodbye: a
        member that a group needs could prevent the group anyway by staying away.
        """
        members, mine, settings = self._discovery.members, self._state, self._settings
        if not any(settings.is_last(each.announce.round, each.announce.base) for each in members.every):
            return False
        announces = (members.get(key) for key in members.candidates(mine.round))
        left = sum(each is not None and not settings.is_last(each.round, each.base) for each in announces)
        enough = left + (not mine.following) >= self._settings.min_participants
        return not enough and not members.anyone_above(mine.round, mine.base)

    @property
    def is_deserted(self) -> bool:
        """Whether no peer was heard since this start, and every greeted endpoint refuses connections.

        A tracker that answers does not count as a peer: it stays when a swarm has ended.
        """
        if any(member.live for member in self._discovery.members.every):
            return False
        tracker = self._settings.tracker if self._discovery.tracker_key else None
        named = [greeting for end, greeting in self._discovery.greetings.items() if end != tracker]
        return bool(named or tracker) and all(greeting.is_refused for greeting in named)


class Follower:
    """This node's rounds without an offer, one at a time."""

    def __init__(self, settings: Settings, state: NodeState, members: Members, swarm_end: SwarmEnd) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._swarm_end = swarm_end
        self._has_base = False
        """Whether a base was adopted since the last of these rounds ended."""
        self.deadline: float | None = None
        """The end of T_group of the running round (Unix s); None between two rounds."""

    def begin(self, now: float) -> None:
        """Begin a round; from the first one on, this node follows.

        A base adopted between two rounds belongs to this round if its makers announce a later round.
        """
        self._state.following = True
        self._has_base = self._has_base and self._shown_round() > self._state.round
        self.deadline = now + self._settings.group_timeout_s

    def adopted(self) -> None:
        """This node has adopted another base."""
        self._has_base = True

    def end(self, expecting: bool, now: float) -> int | None:
        """End the running round if it is over and return its number, else None.

        `expecting`: a base is being fetched or stored, or not every peer was heard yet.
        """
        if self.deadline is None:
            return None
        all_follow = self.nobody_offers  # then this node's rounds end at once, one by one
        is_last = not (expecting or all_follow) and self._swarm_end.is_over
        nothing_comes = is_last or (all_follow and not expecting)
        if not (self._has_base or now >= self.deadline or nothing_comes):
            return None
        self.deadline, self._has_base = None, False
        ends_by_round = is_last and not self._settings.by_steps
        least = self._settings.last_round if ends_by_round else self._state.round + 1
        return max(self._state.round + 1, least, self._shown_round())

    @property
    def nobody_offers(self) -> bool:
        """Whether all others follow, too: then no new base can come."""
        round = self._state.round
        return bool(self._members.known(round)) and not self._members.offering(round)

    def _shown_round(self) -> int:
        """The highest round of the live members that offer and have this node's base; 0 without any."""
        base = self._state.base
        return max((a.round for a in self._live_offering() if a.base == base), default=0)

    def _live_offering(self) -> Iterable[Announce]:
        announces = (self._members.get(key) for key in self._members.candidates(self._state.round))
        return (announce for announce in announces if announce is not None)


class Closing:
    """Waits until the others confirm, that is, announce this node's base and round.

    A peer with an open vote in the same session as this node may still finish that session with it.
    """

    def __init__(self, state: NodeState, members: Members) -> None:
        self._state = state
        self._members = members
        self.until: float | None = None
        """When this node ends at the latest (Unix s); None before its last round is over."""

    def begin(self, others_need_s: float, now: float) -> None:
        """Linger for LINGER_S, or longer if the others may still be waiting for a sum.

        `others_need_s`: how long they may wait for it; they fetch the certificate afterwards.
        """
        self.until = now + max(LINGER_S, others_need_s + PATIENCE_S)

    def is_over(self, fetching: bool, now: float) -> bool:
        """Whether to end: the time is over, or all confirmed and this node is not `fetching` or storing."""
        return self.until is not None and (now >= self.until or self._confirmed(fetching))

    def _confirmed(self, fetching: bool) -> bool:
        if fetching:
            return False
        base, round = self._state.base, self._state.round
        live = (self._members.get(key) for key in self._members.live(round))
        bound = {sid for sid, vote in self._state.votes.items() if vote.group is not None}
        return all(
            a is None or (a.base == base and a.round >= round and bound.isdisjoint(a.open)) for a in live
        )
