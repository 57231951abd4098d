"""Timeouts that adapt to the durations observed in this swarm: median + k MAD, between a floor and a cap."""

from __future__ import annotations

from collections import deque
from statistics import median

_WINDOW = 32
_ENOUGH = 3
_SPREADS = 6.0
_PHASE_FLOOR_S = 5.0


class Pace:
    """The recent durations of one kind of wait, and the time to allow for the next, in seconds."""

    def __init__(self, floor_s: float, cap_s: float) -> None:
        self._floor_s = min(floor_s, cap_s)
        self._cap_s = cap_s
        self._seen: deque[float] = deque(maxlen=_WINDOW)

    def observe(self, seconds: float) -> None:
        """Record the duration of a successful wait."""
        self._seen.append(seconds)

    @property
    def allowed_s(self) -> float:
        """The cap until there are 3 observations; then 2 (median + 6 MAD), within floor and cap."""
        if len(self._seen) < _ENOUGH:
            return self._cap_s
        middle = median(self._seen)
        spread = median(abs(value - middle) for value in self._seen)
        return min(self._cap_s, max(self._floor_s, 2 * (middle + _SPREADS * spread)))


FIRST_VIEW = 0.4
"""The first view's part of the time for all views: if no member fails, there is only the first view."""
_FIRST_VIEW_FLOOR_S = 3.0


class PhasePaces:
    """The times to allow for the two halves of a session, in seconds, each within its own cap."""

    def __init__(self, shares_cap_s: float, sums_cap_s: float) -> None:
        self._shares = Pace(_PHASE_FLOOR_S, shares_cap_s)
        self._sums = Pace(_PHASE_FLOOR_S, sums_cap_s)
        self._first_view = Pace(_FIRST_VIEW_FLOOR_S, FIRST_VIEW * sums_cap_s)

    def observe(self, shares_since: float, sums_since: float, now: float) -> None:
        """Record a successful session: shares from `shares_since` to `sums_since`, sums until `now`."""
        self._shares.observe(sums_since - shares_since)
        self._sums.observe(now - sums_since)
        self._first_view.observe(now - sums_since)

    @property
    def shares_s(self) -> float:
        """T_shares, the time to allow for shares."""
        return self._shares.allowed_s

    @property
    def sums_s(self) -> float:
        """T_sums, the time to allow for sums."""
        return self._sums.allowed_s

    @property
    def views_s(self) -> float:
        """The time for all views of a masked session, so that the first view has what sums took lately."""
        return self._first_view.allowed_s / FIRST_VIEW
