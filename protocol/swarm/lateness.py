"""Detects late peers, for people: who is slow, and who fell behind. No decision of a node depends on it.

While nothing happens in a sum, this node waits for somebody. If that is at most half of the others, the
silence counts as a wait for each of them. A coordinator also waits for the READYs of peers that still train.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from protocol.actions import Action, Note, Notice
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings
from protocol.wire.messages import Announce, Key

SLOW_S = 1.0
"""A peer is slow if the last rounds waited this long for it, on average."""
FEWEST_ROUNDS = 3
MOST_ROUNDS = 5
SILENCE_S = 0.1
"""Shorter silences are the time that messages take."""
BEHIND_SUMS = 2
"""A peer has fallen behind if its base has this many sums fewer than this node's."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """The peers that a node waits for, and how many others there are."""

    keys: Collection[Key]
    others: int


class Lateness:
    """How long the last rounds waited for each peer, and how far each has come. Times are in seconds."""

    def __init__(self, settings: Settings, state: NodeState, members: Members) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._last = 0.0
        self._waits: Counter[Key] = Counter()
        """Milliseconds of the round in progress."""
        self._rounds: deque[Counter[Key]] = deque(maxlen=MOST_ROUNDS)
        self._told: set[tuple[Note, Key]] = set()

    def heard(self, now: float, awaited: Callable[[], Awaited]) -> None:
        """Something happens; until now, the node waited for those that `awaited` returns."""
        silent_s, self._last = now - self._last, now
        if silent_s < SILENCE_S:
            return
        waiting = awaited()
        if waiting.keys and 2 * len(waiting.keys) <= waiting.others:
            self._waits.update(dict.fromkeys(waiting.keys, int(1000 * silent_s)))

    def ended(self) -> None:
        """A round, or a sum of one, is over."""
        self._rounds.append(self._waits)
        self._waits = Counter()

    def words(self, announce: Announce) -> str:
        """What is wrong with this member, in words; empty if it is on time."""
        return "; ".join(text for _, text in self._found(announce))

    def news(self) -> list[Action]:
        """Notices of live members that have become slow or fallen behind since they were last on time."""
        live = [self._members.get(key) for key in self._members.live(self._state.round)]
        found = {(kind, a.key): (a, text) for a in live if a is not None for kind, text in self._found(a)}
        fresh = [key for key in found if key not in self._told]
        self._told = set(found)
        return [Notice(kind, found[kind, key][0].endpoint, found[kind, key][1]) for kind, key in fresh]

    def _found(self, announce: Announce) -> list[tuple[Note, str]]:
        return [*self._slow(announce.key), *self._behind(announce)]

    def _slow(self, key: Key) -> list[tuple[Note, str]]:
        count = len(self._rounds)
        if count < FEWEST_ROUNDS:
            return []
        mean_s = sum(waits[key] for waits in self._rounds) / count / 1000
        if mean_s < SLOW_S:
            return []
        return [(Note.SLOW, f"slow: the last {count} sums waited {mean_s:.1f} s for it")]

    def _behind(self, announce: Announce) -> list[tuple[Note, str]]:
        """A peer without a sum is new; where each sum is a step, peers announce no bases meanwhile."""
        mine, theirs = self._state.base.generation, announce.base.generation
        if self._settings.by_steps or not 0 < theirs <= mine - BEHIND_SUMS:
            return []
        return [(Note.BEHIND, f"fell behind: its last sum is {theirs}, this node's {mine}")]
