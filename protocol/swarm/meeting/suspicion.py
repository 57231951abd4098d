"""Whom this node leaves out of its groups for a while, because sessions failed for want of its messages.

A member that joins a session and then withholds its part costs every member the charge of an offer. Each such
session is a strike against it. The first one has no consequence: a member that dies and comes back must not
be missed for long. The second one leaves it out for `Settings.leave_out` sums, and each further one for twice
as long as the one before. FORGIVEN_AFTER sums with it to their end take one strike back, and a sum that it
was in ends the time for which it is left out.

Strikes are not only counted in a row: else a member could withhold every other time for ever. If a node has
taken part in T sums since its start, one member has at most

    2 + log2(1 + T / leave_out) + T / FORGIVEN_AFTER

strikes (test_suspicion.py), as long as enough others for a group are there: without that, leaving it out
would stop the swarm, and the node takes part with it.

Nobody can prove that another sent nothing. A strike is what this node saw; it counts for this node's groups,
and it asks its coordinator not to put the two together (`LeftOut`). A node that lacks messages of more than
half of the others is probably cut off itself, and gives no strikes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from protocol.actions import Action, Due, Note, Notice, Withheld
from protocol.swarm.node_state import Settings
from protocol.wire.ids import NO_SID
from protocol.wire.messages import Key, Sid

LEFT_OUT_FROM = 2
"""The strike from which on a member is left out."""
FORGIVEN_AFTER = 50
"""So many sums with a member to their end take one strike back."""


class Suspicion:
    """The strikes against each member since this node's start, which forgets them. Times count in sums."""

    def __init__(self, settings: Settings, name: Callable[[Key], str]) -> None:
        """`name`: returns what people call a member."""
        self._settings = settings
        self._name = name
        self._strikes: Counter[Key] = Counter()
        self._good: Counter[Key] = Counter()
        """The sums that each member has ended well since its last strike was given or taken back."""
        self._left: dict[Key, int] = {}
        """For how many more sums each member is left out. Replaced, never changed in place."""
        self._last: tuple[Sid, tuple[Key, ...]] = NO_SID, ()
        """The last failed session, and who got a strike for it."""
        self._told: list[Action] = []

    @property
    def left_out(self) -> tuple[Key, ...]:
        """The members that this node leaves out, in key order. Safe in any thread."""
        return tuple(sorted(self._left))

    def strikes(self, key: Key) -> int:
        """The strikes against a member."""
        return self._strikes[key]

    def ended(self, sums: int = 1) -> None:
        """So many sums, of this node or without it, are over in whatever way: the time goes on."""
        over = [key for key, left in self._left.items() if left <= sums]
        self._left = {key: left - sums for key, left in self._left.items() if left > sums}
        for key in over:
            self._tell(key, "is no longer left out: its time is over")

    def completed(self, contributors: Iterable[Key]) -> None:
        """A sum with these members has a result."""
        for key in contributors:
            if key in self._left:
                self._take_in(key)
                self._tell(key, "is no longer left out: it has taken part in a sum to its end")
            self._good[key] += self._strikes[key] > 0
            if self._good[key] >= FORGIVEN_AFTER:
                self._take_back(key)

    def failed(self, withheld: Withheld | None, others: int) -> None:
        """A session with so many others failed here. A strike for each that withheld something in it.

        While joins are missing, nobody has used its offer: that is no strike.
        """
        self._last = NO_SID, ()
        if withheld is None or withheld.due is Due.JOIN or not self._settings.leave_out:
            return
        if 2 * len(withheld.keys) > others:
            return
        self._last = withheld.sid, withheld.keys
        for key in withheld.keys:
            self._strike(key, withheld.due)

    def _strike(self, key: Key, due: Due) -> None:
        self._strikes[key] += 1
        self._good[key] = 0
        doublings = self._strikes[key] - LEFT_OUT_FROM
        if doublings >= 0:
            sums = self._settings.leave_out << doublings
            self._left = {**self._left, key: sums}
            then = f"left out for {self._length(sums)}"
        else:
            then = f"the next time it is left out for {self._length(self._settings.leave_out)}"
        self._tell(key, f"did not send {due}, and the sum failed: {then}")

    def healed(self, sid: Sid) -> None:
        """A session that failed here has a result after all: nobody withheld what it needed."""
        if sid != self._last[0]:
            return
        for key in self._last[1]:
            self._take_in(key)
            self._take_back(key)
        self._last = NO_SID, ()

    def _take_in(self, key: Key) -> None:
        self._left = {other: sums for other, sums in self._left.items() if other != key}

    def _take_back(self, key: Key) -> None:
        self._good[key] = 0
        self._strikes[key] -= 1

    # -- for people --------------------------------------------------------------------------------

    def words(self, key: Key) -> str:
        """What this node holds against a member, in words; empty if nothing."""
        if key in self._left:
            return f"withholds: left out for {self._length(self._left[key])}"
        count = self._strikes[key]
        return f"{count} sum{'s' * (count > 1)} failed for want of its messages" if count else ""

    def news(self) -> list[Action]:
        """The notices since the last call."""
        told, self._told = self._told, []
        return told

    def _tell(self, key: Key, text: str) -> None:
        self._told.append(Notice(Note.WITHHOLDS, self._name(key), text))

    def _length(self, sums: int) -> str:
        rounds = -(-sums // self._settings.run_steps)
        return f"{rounds} round{'s' * (rounds > 1)}"
