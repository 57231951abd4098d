"""Rounds without an offer: a node whose privacy budget is spent goes on with the bases that others make.

Such a round is the phase `following` of protocol.swarm.phases; it ends with a base, at T_group, where
nobody is left who offers, or where all is over.

What must stay true:
- once it follows, a node follows for good, over a restart too: it offers nothing, and says so;
- every round ends, at T_group at the latest;
- a round that was given a base has the number that it has for those who made it.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.actions import Action, Failed, Reason
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import Settings, Standing
from protocol.swarm.swarm_finished import Lateness
from protocol.wire.messages import Announce


class Follower:
    """This node's rounds without an offer, one at a time."""

    def __init__(self, settings: Settings, standing: Standing, members: Members, lateness: Lateness) -> None:
        self._settings = settings
        self._standing = standing
        self._members = members
        self._lateness = lateness
        self._has_base = False
        """Whether a base was adopted since the last of these rounds ended."""
        self.deadline: float | None = None
        """T_group of the round that runs; None between two rounds."""

    def begin(self, now: float) -> None:
        """A round, and from the first one on this node follows.

        What was adopted between two rounds is this round's base, if who made it says so by a later round.
        """
        self._standing.following = True
        self._has_base = self._has_base and self._shown_round() > self._standing.round
        self.deadline = now + self._settings.group_timeout_s

    def adopted(self) -> None:
        """This node stands on another base."""
        self._has_base = True

    def end(self, expecting: bool, now: float) -> list[Action]:
        """The end of the round that runs, if it is over.

        `expecting`: a base is being fetched or stored, or not everybody was heard yet.
        """
        if self.deadline is None:
            return []
        all_follow = self._nobody_offers()  # then their rounds end at once, one by one
        is_last = not (expecting or all_follow) and self._lateness.is_over
        nothing_comes = is_last or (all_follow and not expecting)
        if not (self._has_base or now >= self.deadline or nothing_comes):
            return []
        self.deadline, self._has_base = None, False
        least = self._settings.last_round if is_last else self._standing.round + 1
        round = max(self._standing.round + 1, least, self._shown_round())
        self._members.skipped(round - self._standing.round - 1)
        self._standing.round = round
        return [Failed(Reason.BUDGET_SPENT, self._standing.round, (), None)]

    def _nobody_offers(self) -> bool:
        """Whether the others follow, too: then no new base can come."""
        round = self._standing.round
        return bool(self._members.known(round)) and not self._members.offering(round)

    def _shown_round(self) -> int:
        """The highest round of the live members that offer and stand on this node's base; 0 without any."""
        base = self._standing.base
        return max((a.round for a in self._live_offering() if a.base == base), default=0)

    def _live_offering(self) -> Iterable[Announce]:
        announces = (self._members.get(key) for key in self._members.candidates(self._standing.round))
        return (announce for announce in announces if announce is not None)
