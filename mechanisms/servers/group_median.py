"""The median of disjoint group sums, for members of whom nobody sees a single update: (k, d) to one (d,).

Members are dealt at random to g groups of near equal size, each group adds up securely, and of the g group
means the median of each coordinate is taken (the median of means of Nemirovsky & Yudin 1983, coordinate by
coordinate as in Yin et al. 2018, Algorithm 1).

Breakdown point: floor((g - 1) / 2) lying members in all, whatever k is, as each may spoil a group of its own.
Up to there each coordinate lies between those of honest groups' means. More liars carry it away once they sit
in more groups than that: the deal must be new each round and not the liars' choice.

What it costs in anonymity: everybody learns the sum of each group. Of a member's update that is the sum with
floor(k / g) - 1 others or one more, where one secure sum over all would hide it among k - 1. A group of fewer
than `LEAST_MEMBERS` is refused: of two each subtracts its own. Liars in a group shrink it further, and over
rounds with new deals the sums overlap only by chance, as every round has new updates.

What it costs without liars: the median of g means has up to pi / 2 times the mean's variance, and where
members' data are unlike it leans to the groups in the middle.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import count
from mechanisms.noise.clipping import Floats, NotFinite
from mechanisms.noise.randomness import Words
from mechanisms.servers.robust import Updates, coordinate_median, finite_rows

LEAST_MEMBERS = 3
LEAST_GROUPS = 3
"""Of two groups one liar has half of the median."""

Groups = tuple[NDArray[np.int64], ...]
"""Numbers of members, each in one group."""


def deal(members: int, groups: int, words: Words) -> Groups:
    """`members` (numbers from 0) dealt at random to `groups`, whose sizes differ by at most one.

    All deals are equally likely up to k^2 2^-65. ValueError for fewer than 3 groups, or than 3 members a
    group.
    """
    most = count("members", members) // LEAST_MEMBERS
    if not LEAST_GROUPS <= count("groups", groups) <= most:
        allowed = f"{LEAST_GROUPS} to {most}" if most >= LEAST_GROUPS else f"none, of {members} members"
        raise ValueError(
            f"groups = {groups} is not allowed: {allowed}; there must be {LEAST_GROUPS} groups of "
            f"{LEAST_MEMBERS} members or more"
        )
    drawn = np.empty(2 * members, np.uint32)
    words.fill(drawn)
    order = np.argsort(drawn.view(np.uint64), kind="stable")
    return tuple(np.array_split(order, groups))


def smallest_sum(members: int, groups: int) -> int:
    """How many members are in the smallest sum that anybody sees."""
    return members // groups


def lies_withstood(groups: int) -> int:
    """How many lying members, whoever they are, leave the median between honest groups."""
    return (groups - 1) // 2


def group_means(updates: Updates, dealt: Groups) -> Floats:
    """(g, d): the mean of each group's rows of `updates` (k, d), which is its sum over a public number."""
    return np.stack([updates[group].mean(axis=0, dtype=np.float64) for group in dealt]).astype(np.float32)


def group_median(updates: Updates, groups: int, words: Words) -> Floats:
    """(d,): the median of each coordinate over the means of `groups` random groups of `updates` (k, d).

    Breakdown point: floor((groups - 1) / 2) of k members. ValueError as `deal`, or for another shape;
    TypeError for other than float32; NotFinite where a row is.
    """
    if not finite_rows(updates).all():
        raise NotFinite("updates hold a NaN or an infinity; drop those members first")
    return coordinate_median(group_means(updates, deal(len(updates), groups, words)))
