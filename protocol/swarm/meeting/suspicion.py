"""Whom this node leaves out of its groups for a while, because sessions failed or waited for its messages.

A member that withholds its part costs every member time, and after the joins the charge of an offer. Each
such session is a strike against it. The first one leaves it out of the next sum alone: a member that dies and
comes back must not be missed for long. The second one leaves it out for `SharedTask.leave_out` sums, and for
COSTS_BACK times the seconds that it cost, whichever is longer; each further one for twice as long as the one
before. So who is back again and again takes no more than a ninth of the others' time. FORGIVEN_AFTER sums
with it to their end take one strike back, and a sum that it was in ends the time for which it is left out.

While a member is left out for a second strike or a later one, nothing is a further strike: its time begins
again. So a link that is cut for a minute does not part two members for an hour. Even then a session may fail
with it: no group forms without it, or a tracker or a dishonest coordinator has put it into one. And it may be
caught in two groups at once.

Where the session has its result after all, no charge was lost, but time alone: then the strike is taken back
by the first sum with it to its end after COSTS_BACK times the seconds that it cost, without another strike.
So a slow or broken link is forgotten, and a liar that uses this takes a ninth of the time, too.

Strikes are not only counted in a row: else a member could withhold every other time for ever. If a node has
taken part in T sums since its start, one member has at most

    2 + log2(1 + T / leave_out) + T / FORGIVEN_AFTER

strikes (test_suspicion.py), as long as enough others for a group are there: without that, leaving it out
would stop the swarm, and the node takes part with it.

If a member says that a third one's message did not reach it, one of the two lies, or their link is broken.
Each of them asks not to be grouped with the other. For a member that is in no such pair this is no strike
against either, before one of them contradicts a second member: that one gets a strike for each such session.

Nobody can prove that another sent nothing. A strike is what this node saw; it counts for this node's groups,
and it asks its coordinator not to put the two together (`LeftOut`). A node that lacks messages of more than
half of the others is probably cut off itself, and gives no strikes. If it learns later that it was, as no
relay could be reached from here when the session failed, it takes them back.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from protocol.actions import Action, Due, Fault, Strike, TakenIn, Withheld
from protocol.relay.ways import SILENT_S
from protocol.swarm.node_state import Settings
from protocol.wire.ids import NO_SID
from protocol.wire.messages import Key, Sid

LEFT_OUT_FROM = 2
"""The strike from which on a member is left out of more than the next sum."""
COSTS_BACK = 8
"""For how many times the seconds that it cost a member is left out at least, from that strike on."""
MOST_DOUBLINGS = 30
FORGIVEN_AFTER = 50
"""So many sums with a member to their end take one strike back."""


@dataclass(frozen=True, slots=True)
class Left:
    """For how many more sums a member is left out, and until when (s) at least."""

    sums: int
    until: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A session that failed here: who got a strike for it, and from when to when it cost time (s)."""

    sid: Sid
    struck: tuple[Key, ...]
    since: float
    at: float


NO_FAILURE = Failure(NO_SID, (), -math.inf, -math.inf)


def silent(withheld: Withheld, others: int) -> tuple[Key, ...]:
    """Who owed this node something: nobody if they are more than half, as then it is cut off itself."""
    return withheld.keys if 2 * len(withheld.keys) <= others else ()


class Suspicion:
    """The strikes against each member since this node's start, which forgets them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._strikes: Counter[Key] = Counter()
        self._good: Counter[Key] = Counter()
        """The sums that each member has ended well since its last strike was given or taken back."""
        self._contradicts: defaultdict[Key, set[Key]] = defaultdict(set)
        """The members with which each one has contradicted itself, before third ones."""
        self._left: dict[Key, Left] = {}
        """The members that are left out. Replaced, never changed in place."""
        self._clean_at: dict[Key, float] = {}
        """From when (s) a sum with a member takes back its last strike, for a session that has a result."""
        self._last = NO_FAILURE
        self.disputes: tuple[tuple[Key, Key], ...] = ()
        """The pairs of members in dispute in the last session, if it failed."""
        self._news: list[Action] = []
        self.out_by: tuple[Key, ...] = ()
        """Who had this node left out, as its coordinator says, until a sum with it; empty: nobody."""

    @property
    def left_out(self) -> tuple[Key, ...]:
        """The members that this node leaves out, in key order. Safe in any thread."""
        return tuple(sorted(self._left))

    def strikes(self, key: Key) -> int:
        """The strikes against a member."""
        return self._strikes[key]

    def ended(self, now: float, sums: int = 1) -> None:
        """So many sums, of this node or without it, are over in whatever way: the time goes on."""
        left = {key: Left(max(0, old.sums - sums), old.until) for key, old in self._left.items()}
        self._left = {key: rest for key, rest in left.items() if rest.sums or rest.until > now}
        for key in left.keys() - self._left.keys():
            self._news.append(TakenIn(key, is_time_over=True))

    def left_out_by(self, keys: tuple[Key, ...]) -> None:
        """The coordinator says that these had this node left out."""
        self.out_by = self.out_by or keys

    def completed(self, contributors: Collection[Key], now: float) -> None:
        """A sum with these members has a result."""
        self.disputes = ()
        self.out_by = () if self._settings.key.public in contributors else self.out_by
        for key in contributors:
            if key in self._left:
                self._take_in(key)
                self._news.append(TakenIn(key, is_time_over=False))
            if now >= self._clean_at.get(key, math.inf):
                del self._clean_at[key]
                self._strikes[key] -= 1
            self._good[key] += self._strikes[key] > 0 or key in self._contradicts
            if self._good[key] >= FORGIVEN_AFTER:
                self._take_back(key)

    def failed(self, withheld: Withheld | None, others: int, cost_s: float, now: float) -> None:
        """A session with so many others failed here after `cost_s`: a strike for who withheld something."""
        self.disputes = () if withheld is None else withheld.disputes
        struck = self._struck(withheld, others, Fault.FAILED, cost_s, now)
        self._last = Failure(NO_SID if withheld is None else withheld.sid, struck, now - cost_s, now)

    def delayed(self, withheld: Withheld | None, others: int, cost_s: float, now: float) -> None:
        """A session had a result, but waited `cost_s` for what these withheld: a strike for each."""
        self._on_trial(self._struck(withheld, others, Fault.WAITED, cost_s, now), cost_s, now)

    def in_two(self, keys: Collection[Key], now: float) -> None:
        """These are in two groups at once that might make two bases of one: a strike for each."""
        for key in sorted(keys) if self._settings.task.leave_out else ():
            self._strike(key, Fault.IN_TWO, None, 0.0, now)

    def _struck(
        self, withheld: Withheld | None, others: int, fault: Fault, cost_s: float, now: float
    ) -> tuple[Key, ...]:
        """Give the strikes; returns to whom."""
        if withheld is None or not self._settings.task.leave_out:
            return ()
        late = silent(withheld, others)
        for key in late:
            self._strike(key, fault, withheld.due, cost_s, now)
        for one, other in withheld.disputes:
            self._contradicts[one].add(other)
            self._contradicts[other].add(one)
        named = {key for pair in withheld.disputes for key in pair if len(self._contradicts[key]) > 1}
        contradicting = tuple(sorted(named.difference(withheld.keys)))
        for key in contradicting:
            self._strikes[key] = max(1, self._strikes[key])  # the session before counts by now, too
            self._strike(key, Fault.CONTRADICTS, withheld.due, cost_s, now)
        return (*late, *contradicting)

    def _strike(self, key: Key, fault: Fault, due: Due | None, cost_s: float, now: float) -> None:
        is_kept_out = key in self._left and self._strikes[key] >= LEFT_OUT_FROM
        self._strikes[key] += not is_kept_out
        self._good[key] = 0
        self._clean_at.pop(key, None)
        first = self._settings.task.leave_out
        doublings = min(self._strikes[key] - LEFT_OUT_FROM, MOST_DOUBLINGS)
        is_first, left = doublings < 0, Left(1, now)
        if not is_first:
            left = Left(first << doublings, now + (COSTS_BACK * cost_s) * 2**doublings)
        self._left = {**self._left, key: left}
        rounds = self._rounds(first if is_first else left.sums)
        self._news.append(Strike(key, fault, due, rounds, is_first))

    def healed(self, sid: Sid, is_opened: bool, now: float) -> None:
        """A session that failed here has a result after all.

        `is_opened`: others opened it without what was due, so nothing is held against anybody. An additive
        one has a result with each member's sum alone: who held back its own may show it later.
        """
        last = self._last
        if sid != last.sid:
            return
        self._last = NO_FAILURE
        if not is_opened:
            self._on_trial(last.struck, now - last.since, now)
            return
        self._acquit(last.struck)

    def cut_off(self, now: float) -> None:
        """No relay can be reached from here. Links outlive that for SILENT_S, so a session fails sooner."""
        if now <= self._last.at + SILENT_S:
            self._acquit(self._last.struck)
            self._last = NO_FAILURE

    def _acquit(self, struck: Collection[Key]) -> None:
        """Nothing is held against these for the session for which they got a strike."""
        for key in struck:
            self._take_in(key)
            self._take_back(key)

    def _on_trial(self, struck: Collection[Key], cost_s: float, now: float) -> None:
        """These got a strike for a session that has a result, and cost so much time."""
        for key in struck:
            until = self._left[key].until if key in self._left else now
            self._clean_at[key] = max(now, until) + COSTS_BACK * cost_s

    def _take_in(self, key: Key) -> None:
        self._left = {other: left for other, left in self._left.items() if other != key}

    def _take_back(self, key: Key) -> None:
        self._good[key] = 0
        self._clean_at.pop(key, None)
        self._strikes[key] = max(0, self._strikes[key] - 1)
        self._contradicts.pop(key, None)

    # -- for people --------------------------------------------------------------------------------

    def rounds_out(self, key: Key) -> int:
        """For how many rounds a member is left out at least; 0 if it is not."""
        return self._rounds(self._left[key].sums) if key in self._left else 0

    def news(self) -> list[Action]:
        """What happened since the last call."""
        news, self._news = self._news, []
        return news

    def _rounds(self, sums: int) -> int:
        return max(1, -(-sums // self._settings.task.run_steps))
