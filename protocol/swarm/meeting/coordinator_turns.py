"""Whose turn it is to coordinate: one candidate after the other, as more than half of them decide.

Without a tracker the candidates are this node and the live peers that offer. The first turn on a base is that
of the coordinator whose group made the base: who makes sums goes on making them. On a first base, and if that
one is no candidate, it is the lowest key from there on. Each further turn is that of the next higher key, and
of the lowest after the highest.

A node whose coordinator does not answer, or makes no group in time, says so to all by a STALLED, and goes on
waiting; it says so again with each announcement. A turn is over when more than half of the candidates have
said that they waited too long in it. So all go to the same one next, a few liars end no turn, and who comes
later goes where the others are.

A node says so, too, once a coordinator has made several groups in a row without it though it held its READY;
and so does who has heard it say that as often (`Turns.is_unfair`). So nobody chooses for ever who takes part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection

from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings
from protocol.wire.messages import Key, Stalled

_NONE = Stalled(b"", 0)
MISSED = 4
"""After so many groups of one coordinator in a row without one that was READY, it has had its turn."""


class Turns:
    """The turns on this node's base, and what each candidate says of them."""

    def __init__(self, settings: Settings, state: NodeState, members: Members) -> None:
        self._me = settings.key.public
        self._state = state
        self._members = members
        self._said: dict[Key, Stalled] = {}
        self._made_by: Key | None = None
        """Who coordinated the last group that made a base."""
        self._missed: Counter[Key] = Counter()
        """Of how many of its groups in a row each candidate was left out though it waited."""

    @property
    def _candidates(self) -> tuple[Key, ...]:
        return (self._me, *self._members.candidates)

    @property
    def _counted(self) -> frozenset[Key]:
        """The candidates, and who made this base and is still there: also if this node alone cannot reach it.

        So a cut link changes neither whose turn comes next nor how many are more than half.
        """
        made = [ready.key for link in self._state.line.whole[-1:] for ready in link.group.readys]
        return frozenset((*self._candidates, *filter(self._members.counts, made)))

    def _over(self, key: Key) -> int:
        """How many turns on this node's base are over, as far as this candidate says."""
        said = self._said.get(key, _NONE)
        return said.turns if said.base == self._state.base.digest else 0

    @property
    def number(self) -> int:
        """How many turns on this base are over: more than half of the candidates say at least that many."""
        return self._number(self._counted)

    def _number(self, counted: frozenset[Key]) -> int:
        said = sorted([self._over(key) for key in self._said if key in counted], reverse=True)
        middle = len(counted) // 2
        return said[middle] if middle < len(said) else 0  # who said nothing says that none is over

    @property
    def coordinator(self) -> Key:
        """The candidate whose turn it is; it may be this node."""
        candidates, counted = self._candidates, self._counted
        last, ordered = self._state.line.whole[-1:], sorted(counted)
        first = bisect_left(ordered, last[0].group.coordinator) if last else 0
        turn = (first + self._number(counted)) % len(ordered)
        return next(key for key in (*ordered[turn:], *ordered) if key in candidates)

    @property
    def has_stalled(self) -> bool:
        """Whether this node has said that it waited too long in this turn."""
        return self._over(self._me) > self.number

    def adopted(self, waited: bool, apart: Collection[Key]) -> None:
        """This node has another base than the one before.

        `waited`: whether that one's coordinator held its READY. `apart`: those that it leaves out itself.
        """
        made = self._state.line.whole[-1:]
        if not made or made[0].group.step > 0:
            return
        group = made[0].group
        if group.coordinator != self._made_by:
            self._missed.clear()
        self._made_by = group.coordinator
        before = None if self._state.previous is None else self._state.previous.digest
        waiting = {key for key, said in self._said.items() if said.base == before and key != self._me}
        waiting |= {self._me} if waited else set()
        absent = waiting.difference(apart, (ready.key for ready in group.readys))
        self._missed = Counter({key: self._missed[key] + 1 for key in absent})

    @property
    def is_unfair(self) -> bool:
        """Whether the coordinator of the first turn on this base has left somebody out for too long."""
        if max(self._missed.values(), default=0) < MISSED:
            return False
        return self.number == 0 and self.coordinator == self._made_by

    def stall(self) -> Stalled | None:
        """This node has waited too long in this turn: what it says to all; None if it has said so before."""
        if self.has_stalled:
            return None
        self._said[self._me] = Stalled(self._state.base.digest, self.number + 1)
        return self._said[self._me]

    @property
    def mine(self) -> Stalled | None:
        """What this node has said of the turns on its base; None if nothing."""
        return self._said[self._me] if self._over(self._me) else None

    def heard(self, stalled: Stalled, by: Key) -> Stalled | None:
        """Note what another says; returns what this node said itself, if that one seems not to know it."""
        if by in self._members.candidates:
            self._said[by] = stalled
        mine = self._said.get(self._me, _NONE)
        return mine if mine.base == stalled.base and mine.turns > stalled.turns else None

    def keep(self) -> None:
        """Forget what was said by those that are no candidates any more."""
        candidates = self._candidates
        self._said = {key: said for key, said in self._said.items() if key in candidates}
