"""The cost of a round: seconds by phase, bytes by phase."""

from __future__ import annotations

from collections import Counter

from node.net.traffic import Counts
from node.storage.records import Traffic
from node.system.clock import CLOCK, Clock

PHASES = ("group", "shares", "sums")


class Meter:
    """Books time to the phase in which it was spent, and takes bytes from the transport's totals."""

    def __init__(self, counts: Counts, clock: Clock = CLOCK) -> None:
        self.counts = counts
        self._now = clock.monotonic
        self._phase = "idle"
        self._since = self._now()
        self.begin()

    def begin(self) -> None:
        """Starts a round."""
        self._sent = Counter(self.counts.sent)
        self._received = Counter(self.counts.received)
        self._seconds: Counter[str] = Counter()
        self._since = self._now()
        self.clipped = 0

    def enter(self, phase: str) -> None:
        """Books the time since the last call, and books time to `phase` from now on."""
        now = self._now()
        self._seconds[self._phase] += now - self._since  # type: ignore[assignment]
        self._phase, self._since = phase, now

    @property
    def sent(self) -> Counter[str]:
        """Bytes sent in this round, by phase."""
        return self.counts.sent - self._sent

    @property
    def received(self) -> Counter[str]:
        """Bytes received in this round, by phase."""
        return self.counts.received - self._received

    @property
    def spent_s(self) -> dict[str, float]:
        """Seconds of this round by phase, as booked so far."""
        return {name: float(seconds) for name, seconds in self._seconds.items()}

    @property
    def since(self) -> float:
        """The moment, in monotonic seconds, since which time is not booked yet."""
        return self._since

    def phases(self, train_s: float) -> dict[str, Traffic]:
        """Returns the cost of the round so far, by phase."""
        sent, received = self.sent, self.received
        own = {name: Traffic(float(self._seconds[name]), sent[name], received[name]) for name in PHASES}
        return {"train": Traffic(train_s), **own}
