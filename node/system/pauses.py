"""The pauses between tries to reach a relay, which double up to a cap."""

from __future__ import annotations

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
"""With this cap, a relay that is back after 15 s finds all streams alive."""


class Pauses:
    """The pauses of somebody who tries again and again."""

    def __init__(self) -> None:
        self._next_s = FIRST_PAUSE_S

    def take(self) -> float:
        """Returns how long to wait now, in seconds. The next pause is twice as long, up to the cap."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, LONGEST_PAUSE_S)
        return pause_s

    def reset(self) -> None:
        """It worked: the next pause is short again."""
        self._next_s = FIRST_PAUSE_S
