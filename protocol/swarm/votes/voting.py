"""This node's votes: to which sessions they are bound, and when they are free again.

    free --a release in a session that may make a strong base--> open --a base of a higher anchor--> free
                                                                      --nobody has a result of it--> free
                                                                      --the session is dead--------> free
    free --it follows, and will offer nothing more--> resigned --a base of a higher anchor--> free

An open vote is on disk before the first byte of the release leaves. As long as it is open, this node's READYs
show it, and it counts in no other session on the same anchor: so two sessions on one anchor never both
have a quorum. A node that resigned counts in none, and the others need no vote of it.

A session is dead when so many members have left it without a release that it can never have a result.
"""

from __future__ import annotations

from protocol.actions import Action, OpenVote, Unbind, Vote
from protocol.quorum.electorate import Ballot
from protocol.swarm.meeting.membership import Members
from protocol.swarm.meeting.patience import Patience
from protocol.swarm.node_state import NodeState, Settings
from protocol.swarm.session_factory import round_of, threshold
from protocol.wire import signing
from protocol.wire.ids import RESIGNED
from protocol.wire.messages import Group, Key, Ready, Sid


class Voting:
    """The one owner of `NodeState.votes`. `patience` knows which electors count as gone."""

    def __init__(self, settings: Settings, state: NodeState, members: Members, patience: Patience) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._patience = patience
        self._freed: dict[Sid, int] = {}
        """The anchors of the sessions in which it has voted, though it shows that no more."""

    @property
    def longest_s(self) -> float:
        """How long a member may still be in a session that others have left (s)."""
        return self._settings.timeouts.session.shares_s + self._settings.timeouts.session.sums_s

    def ballot(self, group: Group) -> Ballot | None:
        """How a group on this node's base counts votes; None if it cannot make a strong base."""
        return self._state.ballot(group, self._settings)

    def cast(self, vote: OpenVote) -> None:
        """Bind this node's vote: from now on its announcements show it as open."""
        self._state.votes[vote.sid] = vote

    def adopted(self) -> None:
        """This node has another base: close the votes on lower anchors, whose sessions are decided."""
        anchor, votes = self._state.base.anchor, self._state.votes
        for sid in [sid for sid, vote in votes.items() if vote.anchor < anchor]:
            del votes[sid]
        self._freed = {sid: at for sid, at in self._freed.items() if at >= anchor}

    def refused(self, sid: Sid) -> list[Action]:
        """Free the vote in a session that has no result for any member."""
        vote = self._state.votes.pop(sid, None)
        if vote is None:
            return []
        self._freed[sid] = vote.anchor
        return [Unbind(sid)]

    def look(self, now: float) -> list[Action]:
        """Free the votes in dead sessions; resign, if this node follows and has no open vote."""
        dead = [vote for vote in self._state.votes.values() if self._is_dead(vote, now)]
        freed = [action for vote in dead for action in self.refused(vote.sid)]
        state, settings = self._state, self._settings
        electorate = state.electorate(settings)
        if not state.following or state.votes or electorate is None:
            return freed
        if electorate.elector_at(settings.key.public, settings.endpoint) is None:
            return freed
        vote = OpenVote(RESIGNED, state.base.anchor)
        self.cast(vote)
        return [*freed, Vote(vote)]

    def _is_dead(self, vote: OpenVote, now: float) -> bool:
        """Whether too few members can still release in this session, or they are no quorum of its ballot.

        This node's owner, or the time, says who is gone for good: that is no word that could be a lie.
        """
        group = vote.group
        if group is None:
            return False
        out = self.out_of(group, vote.sid)
        if not self._patience.gone(now) and not out:
            return False  # all members may still release
        ballot = self.ballot(group)
        if ballot is None:
            return False
        return self.is_dead(group, ballot, out, False, now)

    def is_dead(
        self, group: Group, ballot: Ballot, out: frozenset[Key], is_doubted: bool, now: float
    ) -> bool:
        """Whether a session can have no result if these have left it without a vote.

        `is_doubted`: whether one of them may lie, even if no elector is expected to.
        """
        gone, me = self._patience.gone(now), self._settings.key.public
        inside = {ready.key for ready in group.readys if ballot.voters.get(ready.key) not in gone}
        if signing.session_id(group) not in self._freed:
            inside -= out & {me}  # this node's own word is no lie
        return ballot.is_dead(out & inside, inside, threshold(group, self._settings), int(is_doubted))

    def out_of(self, group: Group, sid: Sid) -> frozenset[Key]:
        """The members that have announced that they left a session without a release."""
        return frozenset(ready.key for ready in group.readys if self._is_out(ready, sid, group))

    def _is_out(self, ready: Ready, sid: Sid, group: Group) -> bool:
        """Whether this member has left the session without a release; after one, it would show an open vote.

        A member with a base of a higher anchor no longer shows the vote, and may have this session's result.
        """
        later = self._members.get(ready.key)
        if later is None or later.order <= ready.announce.order or later.base.anchor > group.base.anchor:
            return False
        has_left = later.instance != ready.announce.instance or later.round >= round_of(ready, group)
        return has_left and sid not in later.open
