"""Which mechanisms show the norms of a node's own updates by the level of their noise."""

from __future__ import annotations

from mechanisms.mechanism import Mechanism
from mechanisms.updates.linear_classic import LinearClassic
from mechanisms.updates.local import LocalDP


def shows_radius(mechanism: Mechanism) -> bool:
    """Returns whether radius and noise level follow un-noised norms, which no epsilon covers."""
    return isinstance(mechanism, LocalDP | LinearClassic) and bool(mechanism.guarantee.outside)
