"""How long a node has waited for its electors, and what follows: weak groups, then, if enabled, an amnesty.

an offer --the owner's wait for its group is over-->     T_group ends the round (1)
a strong base --5 of its own rounds failed, and 30 s--> it would join a weak group
a weak base --at once-->                                it would join a weak group
no strong base for `aggregation.amnesty_s`              silent electors count as gone for good

The owner has the first offer of a start wait, or every one: an offer whose session never began waits on, too.
While such a wait lasts, a T_group without a group counts as a failed round, but no round ends. Who waits for
ever for every group waits for a quorum: it joins a weak group only on a weak base.

(1) None ends while no group can form without peers of another version (protocol.swarm.votes.mixed).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings

PATIENT_ROUNDS = 5
PATIENT_S = 30.0
TRUSTING_ROUNDS = 2
"""After this many failed rounds, one member that shows a proved base suffices (swarm.recovery.catch_up)."""


@dataclass(frozen=True, slots=True)
class PatienceLeft:
    """What is left of a node's patience: so many more `rounds` must fail before it would join a weak group.

    `wait_s`: if they are waits while none ends, how long each is. `amnesty_s`: as in `QuorumRules`.
    """

    rounds: int = 0
    wait_s: float | None = None
    amnesty_s: float | None = None


class Patience:
    """Counts this node's failed rounds in a row and its time without a strong base. Times are Unix s."""

    def __init__(self, settings: Settings, state: NodeState, members: Members) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self.failed_rounds = 0
        self._failed_since = 0.0
        self._waits_since: float | None = None
        self._first_until: float | None = None
        """When the owner's wait for the first group ends (Unix s); None before the first offer."""
        self._each_until = -math.inf
        """When the owner's wait for a group for the last offer ends (Unix s)."""

    def offered(self, now: float) -> float:
        """An offer begins, and with it the owner's wait. Returns when that ends, or has ended."""
        if self._first_until is None:
            self._first_until = now + self._settings.timeouts.wait_s
        self._each_until = now + self._settings.timeouts.wait_each_s
        return max(self._first_until, self._each_until)

    def grouped(self) -> float:
        """A group came: the owner's wait for the first one is over. Returns when that of the offer ends."""
        self._first_until = -math.inf
        return self._each_until

    def waits(self, now: float, for_upgrade: bool = False) -> bool:
        """Whether this node waits for a group, however many T_group it takes, as its owner asked.

        `for_upgrade`: no group can form without peers of another version. Then it waits, too, but no longer
        than its owner asked.
        """
        until = now + self._settings.timeouts.wait_s if self._first_until is None else self._first_until
        is_limited = self._settings.timeouts.wait_s > 0 and until > -math.inf
        return now < max(until, self._each_until) or (for_upgrade and not is_limited)

    def failed(self, now: float) -> None:
        """A round, or a T_group of the owner's wait, ended without a base."""
        if self.failed_rounds == 0:
            self._failed_since = now
        self.failed_rounds += 1

    def adopted(self, was_anchored: bool, now: float) -> None:
        """The node has another base. `was_anchored`: its anchor is new, too."""
        self.failed_rounds = 0
        if was_anchored:
            self._waits_since = now

    def left(self, now: float) -> PatienceLeft:
        """What is left of it now."""
        settings, rounds = self._settings, PATIENT_ROUNDS - self.failed_rounds
        wait_s = settings.timeouts.group_s if self.waits(now) else None
        return PatienceLeft(rounds, wait_s, settings.quorum.amnesty_s)

    @property
    def is_trusting(self) -> bool:
        """Whether one member suffices to show a base whose line is proved."""
        return self.failed_rounds >= TRUSTING_ROUNDS

    def is_willing(self, now: float) -> bool:
        """Whether this node would join a group without a quorum of electors."""
        if not self._settings.quorum.weak:
            return False
        is_over = self.failed_rounds >= PATIENT_ROUNDS and now - self._failed_since >= PATIENT_S
        return (is_over and not self._settings.timeouts.is_endless) or not self._state.base.is_strong

    def gone(self, now: float) -> tuple[bytes, ...]:
        """The electors that count as gone for good, sorted: declared by the owner, or silent too long."""
        after_s, electorate = self._settings.quorum.amnesty_s, self._state.electorate(self._settings)
        since = self._waits_since
        if since is None:
            self._waits_since = since = now
        if after_s is None or electorate is None or now - since < after_s:
            return tuple(sorted(self._state.gone))
        here = {electorate.elector(each) for each in self._members.announced(self._members.live)}
        here.add(electorate.elector_at(self._settings.key.public, self._settings.endpoint))
        return tuple(sorted(self._state.gone | (set(electorate.members) - here)))
