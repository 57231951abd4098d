"""Sets of a session's members as ints: bit i says that member i, in key order, is in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from protocol.wire.ids import Key


def members_in(chosen: int, members: Sequence[Key]) -> tuple[Key, ...]:
    """The members of a set, in key order."""
    return tuple(key for number, key in enumerate(members) if chosen >> number & 1)


def set_of(keys: Iterable[Key], members: Sequence[Key]) -> int:
    """The set of these members as an int; it ignores keys that are no members'."""
    wanted = set(keys)
    return sum(1 << number for number, key in enumerate(members) if key in wanted)


def everybody(members: int) -> int:
    """The set of all members."""
    return (1 << members) - 1
