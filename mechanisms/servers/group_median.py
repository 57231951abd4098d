"""The median of sums over disjoint groups, where nobody may see a single update: (k, d) updates to one (d,).

A random deal puts the members into g groups of nearly equal size, and each group sums its updates securely.
The result is each coordinate's median over the g group means (the median of means of Nemirovsky & Yudin 1983,
coordinate by coordinate as in Yin et al. 2018, Algorithm 1).

Breakdown point: floor((g - 1) / 2) lying members in all, for any k, as each may corrupt another group. Up to
it each coordinate lies between those of honest groups' means. Liars in more groups control the result. So the
deal must be new in each round, and liars must not choose it.

Cost in anonymity: everybody learns the sum of each group. It hides a member's update among floor(k / g) - 1
others or one more; one secure sum over all would hide it among k - 1. No group has fewer than
`LEAST_MEMBERS`: in a group of two each could subtract its own update. Liars in a group reduce the anonymity
further. Sums
of different deals are sums of different updates, as each round has new ones.

Cost without liars: the median of g means has up to pi / 2 times the variance of the mean. With heterogeneous
data it is biased towards the groups in the middle.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import count
from mechanisms.noise.clipping import Floats, NotFinite
from mechanisms.noise.randomness import Words, uniform64
from mechanisms.servers.robust import Updates, coordinate_median, finite_rows

LEAST_MEMBERS = 3
LEAST_GROUPS = 3
"""With two groups one liar would control half of the median."""

Groups = tuple[NDArray[np.int64], ...]
"""The numbers of the members of each group; every member is in one group."""


def deal(members: int, groups: int, words: Words) -> Groups:
    """Deals `members`, numbered from 0, at random to `groups` groups whose sizes differ by at most one.

    All deals are equally likely up to k^2 2^-65. Raises ValueError for fewer than 3 groups, or fewer than 3
    members per group.
    """
    most = count("members", members) // LEAST_MEMBERS
    if not LEAST_GROUPS <= count("groups", groups) <= most:
        allowed = f"{LEAST_GROUPS} to {most}" if most >= LEAST_GROUPS else f"none, of {members} members"
        raise ValueError(
            f"groups = {groups} is not allowed: {allowed}; there must be {LEAST_GROUPS} groups of "
            f"{LEAST_MEMBERS} members or more"
        )
    order = np.argsort(uniform64(members, words), kind="stable")
    return tuple(np.array_split(order, groups))


def smallest_sum(members: int, groups: int) -> int:
    """The number of members in the smallest group, whose sum everybody learns."""
    return members // groups


def lies_withstood(groups: int) -> int:
    """The breakdown point: with so many lying members the median lies between honest groups' means."""
    return (groups - 1) // 2


def group_means(updates: Updates, dealt: Groups) -> Floats:
    """Returns the mean (g, d) of each group's rows of `updates` (k, d)."""
    return np.stack([updates[group].mean(axis=0, dtype=np.float64) for group in dealt]).astype(np.float32)


def group_median(updates: Updates, groups: int, words: Words) -> Floats:
    """Returns each coordinate's median (d,) over the means of `groups` random groups of `updates` (k, d).

    Breakdown point: floor((groups - 1) / 2) of k members. Raises ValueError as `deal` does or for another
    shape, TypeError unless float32, NotFinite if a row holds NaN or infinity.
    """
    if not finite_rows(updates).all():
        raise NotFinite("updates hold a NaN or an infinity; drop those members first")
    return coordinate_median(group_means(updates, deal(len(updates), groups, words)))
