"""What a group's sums withstand, in figures and words, and the session settings that achieve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from node.system.errors import ConfigError
from node.task.sections import AggregationSection
from protocol.aggregation.masked.thresholds import LEAST_MEMBERS, MaskedSettings, tolerance
from protocol.aggregation.size_limits import fits_additive, fits_masked, most_additive, most_masked
from protocol.quorum.electorate import BY_SIZE
from protocol.vectors.ring import RINGS, WIDE


@dataclass(frozen=True)
class Withstands:
    """What a group of `members` withstands: silent members, and colluding members who learn only the sum."""

    protocol: str
    members: int
    threshold: int
    """t: how many members must be present at the end."""
    dropouts: int
    """f: how many members may fall silent."""
    colluders: int
    """m: how many members may collude; one more can expose an update."""
    shares: str
    bits: int = WIDE.bits
    """Of a word. Shares always have long ones."""

    @property
    def facts(self) -> Mapping[str, object]:
        """The guarantees as plain values, for programs."""
        return asdict(self)

    @property
    def text(self) -> str:
        """The guarantees in one line."""
        if self.protocol == "additive":
            secret = "; floats obfuscate, they guarantee nothing" if self.shares == "float" else ""
            return f"additive shares of {self.members}: no dropout; all others would have to collude{secret}"
        return (
            f"masked sums of {self.members}: tolerates {_counted(self.dropouts)}; {self.colluders + 1} of "
            f"{self.members} peers would have to collude; {self.bits}-bit words, t = {self.threshold}, "
            f"f = {self.dropouts}, m = {self.colluders}"
        )


def _counted(dropouts: int) -> str:
    return "1 dropout" if dropouts == 1 else f"{dropouts or 'no'} dropouts"


def withstands(section: AggregationSection, members: int, honest: int | None = None) -> Withstands:
    """Returns what the sums of a group of 3 or more withstand. `honest`: see `masked_settings`."""
    if not _is_masked(section, members):
        return Withstands("additive", members, members, 0, members - 2, section.shares)
    group = tolerance(members, section.dropouts, honest)
    found = group.threshold, group.dropouts, group.colluders
    return Withstands("masked", members, *found, section.shares, section.bits)


def _is_masked(section: AggregationSection, members: int) -> bool:
    return section.protocol == "masked" and members >= LEAST_MEMBERS


def check_length(section: AggregationSection, members: int, words: int) -> None:
    """Raises ConfigError if a group of `members`, 3 or more, cannot sum vectors of shape (words,)."""
    masked, ring = _is_masked(section, members), RINGS[section.bits]
    if not (fits_masked(words, members, ring) if masked else fits_additive(words, members)):
        kind = "masked sums" if masked else "additive shares"
        most = most_masked(members, ring) if masked else most_additive(members)
        raise ConfigError(
            f"{words} parameters are too many for {kind} of {members} peers; allowed: at most {most}; "
            "share fewer of them (train.parameters), or take fewer peers"
        )


def masked_settings(
    section: AggregationSection, bound: float | None, honest: int | None = None, all_or_none: bool = False
) -> MaskedSettings | None:
    """Returns the settings for groups of 4 and more; None if all groups use additive shares.

    `bound` is the largest absolute value of a coordinate; None: vectors are whole numbers. `honest`: how many
    of a node's others are taken to be honest where members share noise. `all_or_none`: whether a sum counts
    only with every member in it.
    """
    if section.protocol == "additive":
        return None
    ring = RINGS[section.bits]
    return MaskedSettings(bound, section.dropouts, honest=honest, all_or_none=all_or_none, ring=ring)


def liars_of(section: AggregationSection) -> int:
    """Returns how many electors may lie, in the form that the protocol takes.

    Sums of shares allow no liar unless the task says so. They need every vote: if a goodbye might be a lie,
    a member that leaves without its vote would bind all others for good.
    """
    if section.liars is not None:
        return section.liars
    return BY_SIZE if section.protocol == "masked" else 0
