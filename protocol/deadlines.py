"""Deadlines that follow what this swarm was seen to need: median + k MAD, between a floor and a cap."""

from __future__ import annotations

from collections import deque
from statistics import median

_WINDOW = 32
_ENOUGH = 3
_SPREADS = 6.0


class Pace:
    """How long one kind of wait has taken lately, and so how long to allow for the next, in seconds."""

    def __init__(self, floor_s: float, cap_s: float) -> None:
        self._floor_s = min(floor_s, cap_s)
        self._cap_s = cap_s
        self._seen: deque[float] = deque(maxlen=_WINDOW)

    def observe(self, seconds: float) -> None:
        """A wait that ended well took this long."""
        self._seen.append(seconds)

    @property
    def allowed_s(self) -> float:
        """The cap until there is enough to go by; then median + 6 MAD, twice over, within floor and cap."""
        if len(self._seen) < _ENOUGH:
            return self._cap_s
        middle = median(self._seen)
        spread = median(abs(value - middle) for value in self._seen)
        return min(self._cap_s, max(self._floor_s, 2 * (middle + _SPREADS * spread)))
