"""The failures that a masked group tolerates (protocol, Part II, D.3).

    t = n - f      shares that open a secret, acknowledgements and releases that end a round
    m = 2 t - n - 1 = n - 2 f - 1, at most n - 2      members that may collude, and lie, and learn nothing

so that no honest majority is needed beyond n + m < 2 t: the self mask and the mask key of one member are
never both opened, and two different sets of members never both complete (P1, P2).
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES

LEAST_MEMBERS = 4
ONE_IN = 5


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A group of `members`, of which `dropouts` may fall silent at any time."""

    members: int
    dropouts: int

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
        """The least number of members in a sum: t, and three, since with two, each could subtract its own."""
        return max(self.threshold, 3)

    @property
    def colluders(self) -> int:
        """m: the members that may collude and learn nothing."""
        return min(self.members - 2, self.members - 2 * self.dropouts - 1)


def most_dropouts(members: int) -> int:
    """The largest f with which one colluder learns nothing and a sum has three members."""
    return max(0, min((members - 2) // 2, members - 3))


@dataclass(frozen=True, slots=True)
class MaskedSettings:
    """The parameters of a swarm's masked sums: coordinates within +-`clip`; `dropouts` None: a fifth.

    `all_to_all_bytes`: see protocol.aggregation.masked.layout.
    """

    clip: float
    dropouts: int | None
    all_to_all_bytes: int = ALL_TO_ALL_BYTES


def tolerance(members: int, dropouts: int | None) -> Tolerance:
    """The tolerance of a group of this size. `dropouts`: capped by what is possible; None: a fifth."""
    wanted = members // ONE_IN if dropouts is None else dropouts
    return Tolerance(members, min(wanted, most_dropouts(members)))
