"""The rules of every schedule, checked while a simulated network runs and at its end.

- two members never hold different means, or groups, of one session;
- every mean is the mean of the members' offers; a session ends once for each member;
- a peer never offers again what it offered before, in whole or in part, even after a restart;
- a follower offers nothing, even after a restart;
- in a masked session at least max(t, 3) members are in a mean; an honest member acknowledges one
  (members, totals) and releases once, for what t members acknowledged; released shares and the shares of m
  colluders together never open both secrets of a member;
- no peer is without progress for longer than its deadlines allow;
- an honest peer is never accused;
- a stored strong base is never lost: of two stored ones, one descends from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from protocol.actions import Completed, Evidence, Healed, Spend
from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.lacking import GRACE_S
from protocol.aggregation.masked.thresholds import LEAST_MEMBERS, Tolerance, tolerance
from protocol.wire.masked_messages import Ack, AckVote, Release, ReleaseHead
from protocol.wire.messages import Base, Key, Message, Sid
from scenarios.simulator.plans import Plan

JOIN_S = 5.0
HEAL_S = 20.0
TOLERANCE = 1e-3
SLOT = 0.75
"""The value of every extra word after an offer's vector."""

Units = tuple[int, ...]
"""The units that a peer learned, one number per training; an offer holds some of them."""


class Violation(AssertionError):
    """A rule was broken; the text names the seed and the rule."""


@dataclass(frozen=True)
class Outcome:
    """The end of one round for one peer; `reason` is None if the round was aggregated."""

    peer: int
    round: int
    sid: Sid | None
    reason: str | None
    at_s: float


@dataclass(frozen=True)
class Accusation:
    """A peer's evidence that another peer sent two different sums."""

    by: int
    evidence: Evidence


class Rules:
    """Checks all events of the peers in one run; raises Violation.

    In a session with a liar only the conduct of the honest members is checked, not the result.
    """

    def __init__(self, plan: Plan, seed: int) -> None:
        self._plan = plan
        self._seed = seed
        self._liars = {liar for liar, _ in plan.conditions.lies}
        if plan.conditions.two_faced is not None:
            self._liars |= {plan.conditions.two_faced, plan.faces}
        self.outcomes: list[Outcome] = []
        self.accusations: list[Accusation] = []
        self.offers: dict[tuple[Sid, Key], tuple[int, Units]] = {}
        self.groups: dict[Sid, tuple[Key, ...]] = {}
        self.longest_wait_s = 0.0
        self.followers: set[int] = set()
        self._ended: set[tuple[int, Sid | None]] = set()
        self._spent: dict[int, set[int]] = {}
        self._means: dict[Sid, bytes] = {}
        self._acks: dict[Sid, dict[Key, AckVote]] = {}
        self._releases: dict[Sid, dict[Key, ReleaseHead]] = {}
        self._strong: dict[Base, list[int]] = {}
        self.parents: dict[Base, Base] = {}
        """The parent of each base that a session made."""

    def violated(self, what: str) -> NoReturn:
        """Stop the run: raise Violation."""
        raise Violation(f"seed {self._seed}: {what}")

    def followed(self, peer: int) -> None:
        """Record that a peer begins a round without an offer, as its budget is spent for ever."""
        self.followers.add(peer)

    def spent(self, peer: int, key: Key, units: Units, spend: Spend) -> None:
        """Check that a peer that is about to send its sum offers only fresh units, and does not follow."""
        before = self._spent.setdefault(peer, set())
        again = before.intersection(units)
        if (again or not units) and not self._plan.reuse_offers:
            self.violated(f"peer {peer} offers {sorted(again) or 'nothing'} again")
        if peer in self.followers:
            self.violated(f"peer {peer} follows, and offers {units}")
        before.update(units)
        self.offers[spend.sid, key] = (peer, units)

    def proved(self, peer: int, proof: Completed | Healed) -> None:
        """Check the mean that a peer holds, from the session itself or from its certificate."""
        members = proof.contributors
        self._enough(peer, proof)
        if self.groups.setdefault(proof.sid, members) != members:
            self.violated(f"peer {peer} holds the mean of other members of a session than a second member")
        offers = [self.offers.get((proof.sid, key)) for key in members]
        whole = [offer for offer in offers if offer is not None]
        if len(whole) < len(members):
            self.violated(f"peer {peer} holds the mean of a session without every member's offer")
        is_honest = not self._liars.intersection(member for member, _ in whole)
        if is_honest or self._is_masked(len(proof.group.readys)):
            mean = proof.result.tobytes()
            if self._means.setdefault(proof.sid, mean) != mean:
                self.violated(f"peer {peer} holds another mean of a session than a second member")
        if is_honest:
            exact = np.mean([self.offered(*offer) for offer in whole], axis=0)
            whole_mean = np.append(exact, np.full(self._plan.aggregation.slots, SLOT))
            if np.abs(whole_mean - proof.result).max() > self._tolerance(len(proof.group.readys)):
                self.violated(f"peer {peer} holds a mean that is not the members' mean")

    def _tolerance(self, members: int) -> float:
        """How far a mean may be from that of the offers: a step of short words, or less than any fault."""
        masked = self._plan.aggregation.masked
        if masked is None or masked.clip is None or not self._is_masked(members):
            return TOLERANCE
        return max(TOLERANCE, 1 / FixedPoint(masked.clip, members, masked.ring).scale)

    def _is_masked(self, members: int) -> bool:
        return self._plan.aggregation.masked is not None and members >= LEAST_MEMBERS

    def _withstands(self, members: int) -> Tolerance:
        masked = self._plan.aggregation.masked
        return tolerance(members, None) if masked is None else masked.tolerance(members)

    def _enough(self, peer: int, proof: Completed | Healed) -> None:
        members = len(proof.group.readys)
        least = self._withstands(members).least_included if self._is_masked(members) else members
        if len(proof.contributors) < least:
            self.violated(f"peer {peer} holds the mean of {len(proof.contributors)} of {members}")

    # -- masked sessions: all sent messages --------------------------------------------------------

    def saw(self, peer: int, message: Message) -> None:
        """Check a message that a peer sends."""
        match message:
            case Ack(vote=vote):
                acks = self._acks.setdefault(vote.sid, {})
                if acks.setdefault(vote.sender, vote) != vote and peer not in self._liars:
                    self.violated(f"peer {peer} acknowledges two totals in one session")
                acks[vote.sender] = vote
            case Release(head=head) if peer not in self._liars:
                self._released(peer, head, len(message.shares))

    def _released(self, peer: int, head: ReleaseHead, members: int) -> None:
        releases = self._releases.setdefault(head.sid, {})
        if releases.setdefault(head.sender, head) != head:
            self.violated(f"peer {peer} releases twice in one session")
        votes = self._acks.get(head.sid, {}).values()
        count = sum((vote.included, vote.totals) == (head.included, head.totals) for vote in votes)
        if count < self._withstands(members).threshold and not self._liars:
            self.violated(f"peer {peer} releases what {count} acknowledged")
        included = [release.included for release in releases.values()]
        if opens_both(included, self._withstands(members)):
            self.violated(f"after peer {peer}'s release both secrets of a member are open")

    # -- the tree of bases -------------------------------------------------------------------------

    def stored(self, peer: int, base: Base, before: Base) -> None:
        """Check the base that a peer stores in place of `before`.

        Beside a peer that lies the others may fork, but not beside one that is two-faced.
        """
        if base.rank <= before.rank:
            self.violated(f"peer {peer} goes from generation {before.generation} to a base of lower rank")
        if peer in self._liars or (self._liars and self._plan.conditions.two_faced is None):
            return
        if not base.is_strong:
            return
        holders = self._strong.setdefault(base, [])
        holders.append(peer)
        if len(holders) > 1:
            return
        line = set(self._line(base))
        if any(base not in self._line(other) for other in self._strong if other not in line):
            self.violated(f"peer {peer} stores a strong base beside another: a fork")

    def _line(self, base: Base) -> Iterator[Base]:
        """Yields a base and all that led to it, the last one first."""
        step: Base | None = base
        while step is not None:
            yield step
            step = self.parents.get(step)

    def lost(self, ends: Iterable[Base]) -> tuple[list[Base], list[Base]]:
        """The strong and the weak bases without a descendant among the bases `ends` of the peers."""
        kept = set[Base]()
        for base in ends:
            kept.update(takewhile(lambda step: step not in kept, self._line(base)))
        lost = [base for base in self.parents if base not in kept]
        return [base for base in lost if base.is_strong], [base for base in lost if not base.is_strong]

    def offered(self, peer: int, units: Units) -> NDArray[np.float64]:
        """The vector (d,) float64 that a peer offers for these units."""
        vectors = [unit_vector(peer, unit, self._plan.aggregation.dimension) for unit in units]
        return np.sum(vectors, axis=0, dtype=np.float64)

    def ended(self, outcome: Outcome) -> None:
        """Record the end of a round for a peer; a session may end only once."""
        if outcome.sid is not None and (outcome.peer, outcome.sid) in self._ended:
            self.violated(f"a session ended a second time for peer {outcome.peer}")
        self._ended.add((outcome.peer, outcome.sid))
        self.outcomes.append(outcome)

    def waited(self, peer: int, seconds: float, rounds: int) -> None:
        """Check that a peer made progress in round `rounds` after an allowed number of virtual seconds."""
        self.longest_wait_s = max(self.longest_wait_s, seconds)
        round_s = self._plan.aggregation.timeouts.round_s
        allowed = round_s + GRACE_S + JOIN_S + HEAL_S + max(self._plan.offers.train_s)
        if seconds > allowed:
            self.violated(f"peer {peer} stood in round {rounds} for {seconds:.1f} virtual seconds")

    def accused(self, by: int, sender: int | None, evidence: Evidence) -> None:
        """Record a peer's evidence against another, which must be a liar."""
        if sender not in self._liars:
            self.violated(f"peer {by} accuses peer {sender}, who is honest")
        self.accusations.append(Accusation(by, evidence))


def opens_both(included: Sequence[int], withstands: Tolerance) -> bool:
    """Whether releases for these sets of members and m colluders' shares open both secrets of a member."""
    return any(
        _both_open(selves, len(included) - selves, withstands)
        for number in range(withstands.members)
        for selves in [sum(members >> number & 1 for members in included)]
    )


@lru_cache(maxsize=4096)
def _both_open(selves: int, pairs: int, withstands: Tolerance) -> bool:
    """Whether both secrets of a member open, for `selves` and `pairs` released shares of each kind.

    A colluder that released nothing holds both shares; one that released holds the other share.
    """
    colluders, threshold = withstands.colluders, withstands.threshold
    silent = max(0, withstands.members - selves - pairs)
    return any(
        min(selves + of_silent + of_pairs, pairs + of_silent + of_selves) >= threshold
        for of_silent in range(min(silent, colluders) + 1)
        for of_selves in range(min(selves, colluders - of_silent) + 1)
        for of_pairs in range(min(pairs, colluders - of_silent - of_selves) + 1)
    )


@lru_cache(maxsize=1024)
def unit_vector(peer: int, unit: int, dimension: int) -> NDArray[np.float64]:
    """The vector (d,) float64 that one peer learns in one training: unique, and too small to be clipped."""
    return np.random.default_rng([peer, unit]).uniform(-0.25, 0.25, dimension)
