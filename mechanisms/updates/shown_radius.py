"""Mechanisms whose noise level shows the norms of a node's own updates."""

from __future__ import annotations

from mechanisms.mechanism import Mechanism
from mechanisms.updates.linear_classic import LinearClassic
from mechanisms.updates.local import LocalDP


def shows_radius(mechanism: Mechanism) -> bool:
    """Returns whether un-noised norms set radius and noise level, which no epsilon covers."""
    return isinstance(mechanism, LocalDP | LinearClassic) and bool(mechanism.guarantee.outside)
