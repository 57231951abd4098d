"""Enumerates all ways in which the releases of honest members may differ, and what these open.

The proposer shows each member another set of included members, and nothing keeps honest members consistent:
no acknowledgements, no locks. Each releases once, for any set that it was shown, or not at all; the colluders
release for any sets. A secret is opened by t shares: the releases for it, and those of the m colluders.

Of an honest member the self mask's secret (b), the mask key (s), both, or neither is then known. Both reveal
its vector. And among the members with known b, none may be alone once all masks between honest members are
removed, because its vector would then be the sum.

Members are interchangeable, so a pattern counts once for all orders of its releases. This is a pure model,
without machines and messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import NDArray

from protocol.aggregation.masked.thresholds import Tolerance, most_dropouts

LEAST_IN_A_SUM = 3
PATTERNS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Votes:
    """A group, with as many colluders as its tolerance allows, or more to plant a fault."""

    members: int
    threshold: int
    colluders: int

    @property
    def honest(self) -> int:
        """h, the number of honest members."""
        return self.members - self.colluders

    @property
    def choices(self) -> NDArray[np.int8]:
        """(choices, h): whether a release counts an honest member as included (1) or not (-1); 0: no release.

        The colluders are in every set: a set without them opens no more of an honest member's secrets.
        """
        least = max(0, max(self.threshold, LEAST_IN_A_SUM) - self.colluders)
        sets = [
            set(c) for size in range(least, self.honest + 1) for c in combinations(range(self.honest), size)
        ]
        rows = [[1 if member in chosen else -1 for member in range(self.honest)] for chosen in sets]
        return np.array([[0] * self.honest, *rows], dtype=np.int8)

    @property
    def patterns(self) -> int:
        """The number of patterns, each counted once for all orders."""
        return comb(len(self.choices) + self.honest - 1, self.honest)


@dataclass(frozen=True)
class Findings:
    """Counts over many patterns: how many open both secrets of a member, or leave one alone in a sum.

    `least_together`: the fewest honest members whose sum can be opened, over the patterns that open one.
    """

    patterns: int
    both: int
    alone: int
    least_together: int

    def __add__(self, other: Findings) -> Findings:
        return Findings(
            self.patterns + other.patterns,
            self.both + other.both,
            self.alone + other.alone,
            min(self.least_together, other.least_together),
        )


def votes_of(tolerance: Tolerance, more_colluders: int = 0) -> Votes:
    """Returns the model of a group; `more_colluders` adds colluders beyond what it withstands."""
    return Votes(tolerance.members, tolerance.threshold, tolerance.colluders + more_colluders)


def groups(members: int) -> tuple[Tolerance, ...]:
    """Returns all groups of this many members that tolerate at least one colluder, by dropouts f."""
    each = (Tolerance(members, dropouts) for dropouts in range(most_dropouts(members) + 1))
    return tuple(tolerance for tolerance in each if tolerance.colluders >= 1)


def judge(votes: Votes, releases: NDArray[np.integer]) -> Findings:
    """Judges patterns: `releases` (patterns, h), each the number of a choice."""
    shown = votes.choices[releases]  # (patterns, h who release, h whom they release for)
    needed = votes.threshold - votes.colluders
    self_mask = (shown == 1).sum(axis=1) >= needed  # (patterns, h)
    mask_key = (shown == -1).sum(axis=1) >= needed
    both = (self_mask & mask_key).any(axis=1)
    bare = (self_mask | mask_key).all(axis=1) & ~both
    together = self_mask.sum(axis=1)
    opened = together[bare & (together > 0)]
    return Findings(
        len(releases), int(both.sum()), int((opened == 1).sum()), int(opened.min(initial=votes.members))
    )


def exhaust(votes: Votes) -> Findings:
    """Judges every pattern."""
    found = Findings(0, 0, 0, votes.members)
    for releases in _blocks(len(votes.choices), votes.honest):
        found += judge(votes, releases)
    return found


def sample(votes: Votes, patterns: int, rng: np.random.Generator) -> Findings:
    """Judges patterns drawn at random, half of them without any member that does not release."""
    anything = rng.integers(0, len(votes.choices), (patterns // 2, votes.honest))
    something = rng.integers(1, len(votes.choices), (patterns - patterns // 2, votes.honest))
    found = Findings(0, 0, 0, votes.members)
    for releases in (anything, something):
        for start in range(0, len(releases), PATTERNS_AT_ONCE):
            found += judge(votes, releases[start : start + PATTERNS_AT_ONCE])
    return found


def _blocks(choices: int, honest: int) -> Iterator[NDArray[np.integer]]:
    """Yields all multisets of `honest` choices, (PATTERNS_AT_ONCE or fewer, h) at once."""
    flat = combinations_with_replacement(range(choices), honest)
    while True:
        block = np.fromiter(_some(flat, PATTERNS_AT_ONCE), dtype=np.dtype((np.int16, (honest,))))
        if not len(block):
            return
        yield block


def _some(rows: Iterator[tuple[int, ...]], count: int) -> Iterator[tuple[int, ...]]:
    for _, row in zip(range(count), rows, strict=False):
        yield row
