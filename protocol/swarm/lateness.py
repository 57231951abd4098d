"""Detects late peers: who is slow, and who fell behind. No decision of a node depends on it.

While nothing happens in a sum, this node waits for somebody. If that is at most half of the others, the
silence counts as a wait for each of them. A coordinator also waits for the READYs of peers that still train.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Slow:
    """The last `sums` waited `mean_s` for this peer, on average."""

    key: Key
    endpoint: str
    sums: int
    mean_s: float


@dataclass(frozen=True, slots=True)
class Behind:
    """This peer's base is of `generation`, this node's of `mine`."""

    key: Key
    endpoint: str
    generation: int
    mine: int


Late = Slow | Behind


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
        self.late: tuple[Late, ...] = ()
        """The live members that were late at the last look. Replaced, never changed in place."""

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

    def look(self) -> None:
        """Find out which live members are late."""
        live = self._members.announced(self._members.live)
        self.late = tuple(late for announce in live for late in self.of(announce))

    def of(self, announce: Announce) -> tuple[Late, ...]:
        """In what this member is late; empty if it is on time.

        A peer without a sum is new; where each sum is a step, peers announce no bases meanwhile.
        """
        key, endpoint, theirs = announce.key, announce.endpoint, announce.base.generation
        count, mine = len(self._rounds), self._state.base.generation
        mean_s = sum(waits[key] for waits in self._rounds) / max(1, count) / 1000
        is_slow = count >= FEWEST_ROUNDS and mean_s >= SLOW_S
        is_behind = not self._settings.task.by_steps and 0 < theirs <= mine - BEHIND_SUMS
        slow = (Slow(key, endpoint, count, mean_s),) if is_slow else ()
        return (*slow, Behind(key, endpoint, theirs, mine)) if is_behind else slow
