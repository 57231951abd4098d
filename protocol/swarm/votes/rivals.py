"""The groups beside a node's own that might make another base on the same anchor.

A quorum outvotes f electors that lie. If one more lies than that, it can be in two groups at once, and each
of them may have a quorum: rivals. So before a member joins a group, it asks the live electors outside of it
that could form a rival with f + 1 liars (`Head`). Each of them answers with the groups that it is in, has
voted in, or holds the result of (`Heard`).

    a GROUP --a rival is possible--> asked --all have answered, or after 2 s--> no rival: join
                                                                                a rival: seek another group

Of two members of rivals, each asks the other after it got its own GROUP. So whoever is asked second names its
own group, and at most one of the two joins, whatever the order of the messages. Who does not answer in time
is asked the next time, too, but not waited for: an elector that is away stops nobody.

A group that certainly has no result is no rival. That a member has left it is that member's word, and while
the one who names the group is in it, one word more than f is doubted: a liar may have voted there. This lasts
as long as a session may, so that who names such groups again and again holds up nobody for longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from protocol.actions import Action, Send
from protocol.adaptive_timeouts import Pace
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import Ballot, ballot_of
from protocol.swarm.meeting.group_seeker import check_group
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings
from protocol.swarm.votes.voting import Voting
from protocol.wire import codec, signing
from protocol.wire.limits import MAX_RIVALS
from protocol.wire.messages import Group, Head, Heard, Key, Ready, Sid

ASKED_S = 2.0
"""The longest wait for answers (s); the pace of earlier ones shortens it."""
_FLOOR_S = 0.5
APART_S = 2.0
"""After a rival, a node is READY again so much later (s), for a rival may be over by then."""


@dataclass
class Asked:
    """A group about which this node asks, until `until` (s); None: that is over.

    `answers`: the groups that each peer has named, once it has answered.
    """

    group: Group
    asked: frozenset[Key]
    waits_for: frozenset[Key]
    since: float
    until: float | None
    answers: dict[Key, tuple[Group, ...]] = field(default_factory=dict)

    @property
    def sid(self) -> Sid:
        """The session of the group."""
        return signing.session_id(self.group)

    @property
    def missing(self) -> frozenset[Key]:
        """Who is waited for and has not answered."""
        return self.waits_for.difference(self.answers)


class Rivals:
    """Asks about the group that this node may join, and answers the others."""

    def __init__(self, settings: Settings, state: NodeState, members: Members, voting: Voting) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._voting = voting
        self._pace = Pace(_FLOOR_S, ASKED_S)
        self._asked: Asked | None = None
        self._silent: frozenset[Key] = frozenset()
        """Who did not answer the last time."""
        self._named: dict[Key, float] = {}
        """Since when each peer names rivals on this anchor (s)."""
        self._apart_until: float | None = None

    @property
    def deadline(self) -> float | None:
        """When tick should be called at the latest; None: never."""
        return self._apart_until if self._asked is None else self._asked.until

    @property
    def keeps_apart(self) -> bool:
        """Whether this node has met a rival a moment ago, and is not READY yet."""
        return self._apart_until is not None

    def tick(self, now: float) -> None:
        """Wait no longer, for answers or after a rival, if that is due."""
        if self._apart_until is not None and now >= self._apart_until:
            self._apart_until = None
        if self._asked is not None and self._asked.until is not None and now >= self._asked.until:
            self._asked.until = None

    def adopted(self) -> None:
        """This node has another base: what was asked and answered was about the one before."""
        self._asked, self._apart_until = None, None
        self._named.clear()

    def asks_about(self, group: Group) -> bool:
        """Whether this is the group that it asks about."""
        return self._asked is not None and self._asked.group == group

    # -- asking ------------------------------------------------------------------------------------

    def ask(self, group: Group, ballot: Ballot, now: float) -> list[Action]:
        """Ask about a group that this node may join; nothing if nobody can name a rival.

        Raises RemoteProtocolError if this node asks about another group with the same READY of its own.
        """
        before = self._asked
        if before is not None and self._ready_in(before.group) == self._ready_in(group):
            raise RemoteProtocolError("a second GROUP with one READY")
        self._asked = None
        outside = ballot.outside(self._members.announced(self._members.live))
        if not outside:
            return []
        waits_for = outside - self._silent
        self._asked = Asked(group, outside, waits_for, now, now + self._pace.allowed_s)
        head = Head(self._asked.sid, group.base.anchor)
        return [Send(key, (head,)) for key in sorted(outside)]

    def _ready_in(self, group: Group) -> Ready | None:
        me = self._settings.key.public
        return next((ready for ready in group.readys if ready.key == me), None)

    def heard(self, heard: Heard, by: Key, now: float) -> None:
        """Take an answer in. Raises RemoteProtocolError if it names a group that no coordinator signed."""
        self._silent -= {by}
        asked = self._asked
        if asked is None or heard.sid != asked.sid or by not in asked.asked:
            return
        for group in heard.groups:
            self._check(group)
        asked.answers[by] = heard.groups
        if not asked.missing:
            self._pace.observe(now - asked.since)

    def _check(self, group: Group) -> None:
        if not group.readys:
            raise RemoteProtocolError("a rival without members")
        first = group.readys[0]
        if first.announce.swarm != self._settings.task.swarm:
            raise RemoteProtocolError("a rival of another swarm")
        signing.verify(group, group.coordinator)
        check_group(group, first)

    def settled(self, now: float) -> tuple[Group, tuple[Group, ...]] | None:
        """The group that was asked about, and its rivals, once; None while answers are missing."""
        asked = self._asked
        if asked is None or (asked.missing and asked.until is not None):
            return None
        self._asked = None
        self._silent |= asked.missing
        named = [(by, group) for by, groups in sorted(asked.answers.items()) for group in groups]
        rivals = tuple(group for by, group in named if self._is_rival(group, by, asked, now))
        if rivals:
            self._apart_until = now + APART_S
        return asked.group, rivals

    def _is_rival(self, rival: Group, by: Key, asked: Asked, now: float) -> bool:
        """Whether this group, which a peer has named, may have made or may yet make another base."""
        if signing.session_id(rival) == asked.sid:
            return False  # a member that is bound elsewhere has joined it, and names it
        anchor, electorate = asked.group.base.anchor, self._state.electorate(self._settings)
        if rival.base.anchor > anchor and electorate is not None:
            later = ballot_of(rival.readys, rival.excused, electorate)
            return later.is_quorum(later.voters)  # so many electors show a later base
        ballot = self._voting.ballot(rival) if rival.base.anchor == anchor else None
        if ballot is None:
            return False
        since = self._named.setdefault(by, now)
        is_doubted = now < since + self._voting.longest_s
        return not self._voting.is_dead(rival, ballot, self._out_of(rival, asked), is_doubted, now)

    def _out_of(self, rival: Group, asked: Asked) -> frozenset[Key]:
        """Who says that it has left a rival without a vote: in its answer, its READY or an announcement."""
        sid = signing.session_id(rival)
        later = {ready.key: ready.announce for ready in asked.group.readys}
        out = self._voting.out_of(rival, sid)
        for ready in rival.readys:
            named = asked.answers.get(ready.key)
            if named is not None:
                is_out = sid not in {signing.session_id(group) for group in named}
            else:
                shown = later.get(ready.key)
                is_out = shown is not None and shown.order > ready.announce.order and sid not in shown.open
            out |= {ready.key} if is_out else frozenset()
        return out

    # -- answering ---------------------------------------------------------------------------------

    def answer(self, head: Head, running: Group | None) -> Heard:
        """The groups that this node is in, has voted in or holds the result of. `running`: its session's.

        As many as one frame holds: large groups that excuse many may be too much together.
        """
        asked = None if self._asked is None else self._asked.group
        votes = (vote.group for vote in self._state.votes.values())
        made = [link.group for link in self._state.line.links if link.group.first_base.anchor >= head.anchor]
        mine = [group.run for group in (running, asked, *made[:1], *votes) if group is not None]
        named = {signing.session_id(group): group for group in mine if group.base.anchor >= head.anchor}
        heard = Heard(head.sid, ())
        for group in list(named.values())[:MAX_RIVALS]:
            more = Heard(head.sid, (*heard.groups, group))
            heard = more if codec.fits(more) else heard
        return heard


def in_both(group: Group, rivals: Iterable[Group]) -> frozenset[Key]:
    """Who is to blame for rivals: the member that coordinates both, or whoever is a member of both."""
    others = {ready.key: rival.coordinator for rival in rivals for ready in rival.readys}
    both = frozenset(ready.key for ready in group.readys if ready.key in others)
    coordinates = group.coordinator in both and group.coordinator in others.values()
    return frozenset((group.coordinator,)) if coordinates else both
