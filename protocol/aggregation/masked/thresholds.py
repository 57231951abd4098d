"""The failures that a masked group tolerates (protocol, Part II, D.3).

    t = n - f      shares that open a secret, acknowledgements and releases that end a round
    m = 2 t - n - 1 = n - 2 f - 1, at most n - 2      members that may collude, and lie, and learn nothing

so that no honest majority is needed beyond n + m < 2 t: the self mask and the mask key of one member are
never both opened, and two different sets of members never both complete (P1, P2).
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.aggregation.encoding import Encoding, encoding_of
from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES, Layout
from protocol.vectors.ring import WIDE, Ring

LEAST_MEMBERS = 4
ONE_IN = 5


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A group of `members`, of which `dropouts` may fall silent at any time."""

    members: int
    dropouts: int
    all_or_none: bool = False
    """Whether a sum counts only with every member in it."""

    def __post_init__(self) -> None:
        if not 0 <= self.dropouts <= most_dropouts(self.members):
            raise ValueError(
                f"dropouts {self.dropouts} of {self.members}: allowed are 0 to {most_dropouts(self.members)}"
            )

    @property
    def threshold(self) -> int:
        """t: the shares that open a secret."""
        return self.members - self.dropouts

    @property
    def least_included(self) -> int:
        """The least number of members in a sum: t, and three, since with two, each could subtract its own.

        All members if it is all or none.
        """
        return self.members if self.all_or_none else max(self.threshold, 3)

    @property
    def colluders(self) -> int:
        """m: the members that may collude and learn nothing."""
        return min(self.members - 2, self.members - 2 * self.dropouts - 1)


def most_dropouts(members: int) -> int:
    """The largest f with which one colluder learns nothing and a sum has three members."""
    return max(0, min((members - 2) // 2, members - 3))


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a group of one size sums with masks: its losses, its chunks, its words."""

    tolerance: Tolerance
    layout: Layout
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class MaskedSettings:
    """The parameters of a swarm's masked sums.

    `clip`: the bound on coordinates; None: vectors are whole numbers. `dropouts`: how many members may fall
    silent; None: a fifth of them. `all_to_all_bytes`: see protocol.aggregation.masked.layout. `honest`: how
    many of a member's others are taken to be honest where members share noise; None: they share none.
    `all_or_none`: whether a sum counts only with every member in it, as one with shared noise always does.
    `ring`: the words of a sum; whole numbers need wide ones.
    """

    clip: float | None
    dropouts: int | None
    all_to_all_bytes: int = ALL_TO_ALL_BYTES
    honest: int | None = None
    all_or_none: bool = False
    ring: Ring = WIDE

    def tolerance(self, members: int) -> Tolerance:
        """The tolerance of a group of this size."""
        return tolerance(members, self.dropouts, self.honest, self.all_or_none)

    def scheme(self, dimension: int, members: int) -> Scheme:
        """How a group of this size sums (dimension,) vectors."""
        layout = Layout(dimension, members, self.all_to_all_bytes, self.ring)
        return Scheme(self.tolerance(members), layout, encoding_of(self.clip, members, self.ring))


def tolerance(
    members: int, dropouts: int | None, honest: int | None = None, all_or_none: bool = False
) -> Tolerance:
    """The tolerance of a group of this size. `dropouts`: capped by what is possible; None: a fifth.

    `all_or_none`: as in `Tolerance`. `honest`: how many of a member's others are taken to be honest where
    members share noise. Such a sum is all or none: it lacks nobody's share. And at most half as many may fall
    silent. Then a group withstands n - 1 - `honest` colluders, whatever its size n: m = n - 2 f - 1 >= n - 1
    - `honest` if and only if 2 f <= `honest`. So noise and masks rest on the same assumption.
    """
    wanted = members // ONE_IN if dropouts is None else dropouts
    most = most_dropouts(members) if honest is None else min(honest // 2, most_dropouts(members))
    return Tolerance(members, min(wanted, most), all_or_none or honest is not None)
