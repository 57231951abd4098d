"""What a masked group withstands (protocol, Part II, D.3).

    t = n - f      shares that open a secret, acknowledgements and releases that end a round
    m = 2 t - n - 1 = n - 2 f - 1, at most n - 2      members that may collude, and lie, and learn nothing

so that no honest majority is needed beyond n + m < 2 t: of one member, the self mask and the mask key are
never both opened, and two sets of members never both end (P1, P2).
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
        """t."""
        return self.members - self.dropouts

    @property
    def least_included(self) -> int:
        """How few members a sum may include: t, and three, or one's own could be subtracted."""
        return max(self.threshold, 3)

    @property
    def colluders(self) -> int:
        """m."""
        return min(self.members - 2, self.members - 2 * self.dropouts - 1)


def most_dropouts(members: int) -> int:
    """The largest f that leaves one colluder without power, and three in a sum."""
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
    """What a group of this size withstands; `dropouts` None: a fifth of it, else at most what is possible."""
    wanted = members // ONE_IN if dropouts is None else dropouts
    return Tolerance(members, min(wanted, most_dropouts(members)))
