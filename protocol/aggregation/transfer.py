"""How long bulk may take on its way: the time that all members give it, at the least rate they agreed on.

A wait for bulk has two ends. If nothing of it has come when the time of its step is over, the wait is over.
If its first byte has come by then, the wait goes on once, for `transfer_s` of all bodies of its step:
bytes that arrive later renew nothing, so who sends them drop by drop holds up nobody for longer.
"""

from __future__ import annotations

from protocol.vectors.pieces import WORD_BYTES

_SPARE = 2
"""A line at the least rate has twice the time that it needs: it carries other things, too."""


def transfer_s(size_bytes: float, least_rate: float) -> float:
    """The seconds that so many bytes may take; `least_rate` is in bytes per second."""
    return _SPARE * size_bytes / least_rate


def additive_bytes(dimension: int, members: int) -> int:
    """What a member sends in each half of an additive session, at most: a vector to each other member."""
    return WORD_BYTES * dimension * (members - 1)
