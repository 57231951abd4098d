"""The end of a node's life: rounds without an offer, the last round, and the time after it.

A run is over for a node once its base is that of the last sum. `SwarmEnd` tells a late node that this is
so for others. If too few nodes are left for a group, an offer would wait in vain: the node fetches what the
others agreed on, and its round fails.

`Follower`: a node whose privacy budget is spent offers nothing and adopts the bases that others make; so does
one that came after the first sum, where all sums have the members of that one. Such
a round is the phase `following` of protocol.swarm.phases. Invariants:
- a node that has begun to follow follows for good, even after a restart, offers nothing and announces it;
- every round ends, at T_group at the latest, unless no base can come without peers of another version, or
  its owner has every offer wait for longer.

`Closing`: after its last round a node serves what it holds until the others have it, too. These are the
phases `closing` and `closed` of protocol.swarm.phases. Who waits for ever for each group does so for members
that are away, too, for AWAY_S. A member that comes back later waits until one of them is started again: a
relay does not tell who has ended from whose machine is off.
"""

from __future__ import annotations

import math

from protocol.actions import Action, Note, Notice, Reason
from protocol.quorum.lineage import members_of
from protocol.swarm.meeting.discovery import Discovery
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings
from protocol.swarm.recovery.fetch import PATIENCE_S
from protocol.wire.endpoints import key_of
from protocol.wire.messages import Announce, Key

LINGER_S = 10.0
AWAY_S = 900.0
"""So long a node that has the last base stays for members that are away: an outage of six minutes, or a
machine that slept for ten, leaves nobody behind."""


class SwarmEnd:
    """Decides whether the swarm has ended for this node."""

    def __init__(self, settings: Settings, state: NodeState, discovery: Discovery) -> None:
        self._settings = settings
        self._state = state
        self._discovery = discovery

    @property
    def is_over(self) -> bool:
        """Whether this node's run is over, or a peer's is, too few are left, and none has a better base.

        Valid only once every reachable peer was heard. One member's statement suffices, even a goodbye: a
        member that a group needs could prevent the group anyway by staying away.
        """
        members, mine, settings = self._discovery.members, self._state, self._settings
        if mine.is_last(mine.base, settings):
            return True
        if not any(mine.is_last(each.announce.base, settings) for each in members.every):
            return False
        left = sum(not mine.is_last(each.base, settings) for each in members.announced(members.candidates))
        enough = left + (not mine.following) >= mine.least(settings)
        return not enough and not members.anyone_above

    @property
    def is_spent(self) -> bool:
        """Whether so many members follow for good that the others, silent ones too, are too few for a group.

        Members that were named and not met yet count among the others. A tracker may introduce more at any
        time.
        """
        members, settings = self._discovery.members.every, self._settings
        follows = sum(member.announce.following for member in members) + self._state.following
        if not follows or settings.contacts.tracker is not None:
            return False
        met = {member.announce.endpoint for member in members}
        in_all = len(members) + 1 + len(set(self._discovery.seeds) - met - {settings.endpoint})
        return in_all - follows < self._state.least(settings) <= in_all

    @property
    def is_deserted(self) -> bool:
        """Whether no peer was heard since this start, and every greeted endpoint refuses connections.

        A tracker that answers does not count as a peer: it stays when a swarm has ended. An endpoint that
        stands for a key refuses nothing: a peer that is away may come, and a relay that refuses is no peer.
        """
        if any(member.live for member in self._discovery.members.every):
            return False
        tracker = self._settings.contacts.tracker if self._discovery.tracker_key else None
        named = {end: greeting for end, greeting in self._discovery.greetings.items() if end != tracker}
        refused = (greeting.is_refused and key_of(end) is None for end, greeting in named.items())
        return bool(named or tracker) and all(refused)


class Follower:
    """This node's rounds without an offer, one at a time."""

    def __init__(self, settings: Settings, state: NodeState, members: Members, swarm_end: SwarmEnd) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._swarm_end = swarm_end
        self._has_base = False
        """Whether this node has fetched a base since its last round ended."""
        self.deadline: float | None = None
        """The end of T_group of the running round (Unix s); None between two rounds."""
        self._waits_until = -math.inf
        """Until when the owner has this node wait, as if it offered (Unix s)."""

    def begin(self, now: float) -> None:
        """Begin a round; from the first one on, this node follows. A base since the last one ends it."""
        self._state.following = True
        self.deadline = now + self._settings.timeouts.group_s
        self._waits_until = now + self._settings.timeouts.wait_each_s

    def is_overdue(self, now: float) -> bool:
        """Whether the running round's T_group is over."""
        return self.deadline is not None and now >= self.deadline

    def is_patient(self, now: float) -> bool:
        """Whether the owner has this node wait for a base still."""
        return now < self._waits_until

    def waits_on(self, now: float) -> None:
        """No base can come without others, for which this node waits: another T_group begins."""
        self.deadline = now + self._settings.timeouts.group_s

    def adopted(self, is_own: bool) -> None:
        """This node has another base; `is_own`: it is the result of the round that it has just ended."""
        self._has_base = not is_own

    def ended(self) -> None:
        """A round of this node's has ended, with or without an offer."""
        self._has_base = False

    def end(self, expecting: bool, now: float) -> Reason | None:
        """End the running round if it is over and return why it did, else None.

        `expecting`: a base is being fetched or stored, or not every peer was heard yet.
        """
        if self.deadline is None:
            return None
        why = Reason.LATE_MEMBER if self._is_late else Reason.BUDGET_SPENT
        if self._has_base:
            reason = why
        elif not expecting and (self.nobody_offers or self._swarm_end.is_spent):
            reason = Reason.ALL_SPENT
        elif not expecting and self._swarm_end.is_over:
            reason = Reason.SWARM_FINISHED
        elif now >= self.deadline:
            reason = why
        else:
            return None
        self.deadline = None
        return reason

    @property
    def _is_late(self) -> bool:
        """Whether it follows because all sums are of members that were in the first one."""
        cohort = self._state.cohort(self._settings)
        return bool(cohort) and self._settings.key.public not in cohort

    @property
    def nobody_offers(self) -> bool:
        """Whether all others follow, too: then no new base can come."""
        return bool(self._members.known) and not self._members.offering


class Closing:
    """Waits until the others confirm, that is, announce this node's base.

    A peer with an open vote in the same session as this node may still finish that session with it.

    Who waits for ever for each group also stays for members that are away and lack its base, if that is the
    last one. If it was started with that base, nobody knows who lacks it: it stays until it has given it to
    somebody. Who refuses connections is gone: for that one it stays no longer than for those that are here.
    If it took the base from others, those that made it stay, and know better who lacks it.
    """

    def __init__(self, settings: Settings, state: NodeState, discovery: Discovery) -> None:
        self._settings = settings
        self._state = state
        self._discovery = discovery
        self._soon = 0.0
        """When it ends at the latest, if it stays for nobody that is away (Unix s)."""
        self._gives_to: set[Key] | None = None
        """Whom it has met without its base, if it was started with the last one."""
        self._is_told = False
        self.until: float | None = None
        """When this node ends at the latest (Unix s); None before its last round is over."""

    def begin(self, others_need_s: float, now: float) -> None:
        """Linger for LINGER_S, or longer if the others may still be waiting for a sum, or for AWAY_S.

        `others_need_s`: how long they may wait for it; they fetch the certificate afterwards.
        """
        settings = self._settings
        self.until = self._soon = now + max(LINGER_S, others_need_s + PATIENCE_S)
        is_back = self._discovery.joining and key_of(settings.endpoint) is not None
        made_by = [member for link in self._state.line.whole[-1:] for member in members_of(link)]
        may_stay = is_back or not made_by or settings.key.public in made_by
        if settings.timeouts.is_endless and self._state.is_last(self._state.base, settings) and may_stay:
            self.until = max(self._soon, now + AWAY_S)
            self._gives_to = set() if is_back else None

    @property
    def deadline(self) -> float | None:
        """When `look` should be called at the latest."""
        return self.until if self._is_told else self._soon

    @property
    def lacking(self) -> tuple[Announce, ...]:
        """The members that have not left, may be back, and do not show this node's base."""
        base, greetings = self._state.base, self._discovery.greetings
        gone = {end for end, greeting in greetings.items() if greeting.is_refused}
        there = (each.announce for each in self._discovery.members.every if not each.counts_no_more)
        accepted = (each for each in there if self._discovery.accepts(each))
        return tuple(each for each in accepted if each.base != base and each.endpoint not in gone)

    @property
    def is_for_the_absent(self) -> bool:
        """Whether this node waits for nobody but members that are away, and its owner knows it."""
        live = self._discovery.members.live
        return self._is_told and not any(each.key in live for each in self.lacking)

    def look(self, now: float) -> list[Action]:
        """Note who lacks the base; tell the owner once for whom this node stays longer than LINGER_S."""
        if self._gives_to is not None:
            self._gives_to |= {each.key for each in self.lacking}
        if self._is_told or self.until is None or now < self._soon or not self._stays:
            return []
        self._is_told = True
        ends = [each.endpoint for each in self.lacking] or [""]
        return [Notice(Note.STAYS, end, f"{(self.until - now) / 60:.0f}") for end in ends]

    def is_over(self, busy: bool, now: float) -> bool:
        """Whether to end: the time is over, or all have the base and this node is not `busy`."""
        if self.until is None:
            return False
        if self._stays:
            return now >= self.until
        return now >= self._soon or (not busy and self._confirmed)

    @property
    def _stays(self) -> bool:
        """Whether it may stay longer than LINGER_S, and somebody lacks the base, or nobody came for it."""
        is_awaited = bool(self.lacking) or self._gives_to == set()
        return self.until is not None and self.until > self._soon and is_awaited

    @property
    def _confirmed(self) -> bool:
        base, members = self._state.base, self._discovery.members
        bound = {sid for sid, vote in self._state.votes.items() if vote.group is not None}
        live = members.announced(members.live)
        return all(each.base == base and bound.isdisjoint(each.open) for each in live)
