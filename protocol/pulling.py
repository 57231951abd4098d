"""Getting the chunks of a total that others have: one source at a time, a window of requests in flight."""

from __future__ import annotations

from collections.abc import Iterable

from protocol import codec
from protocol.actions import Action, Send
from protocol.messages import PieceRequest
from protocol.names import NOBODY, Key
from protocol.seat import Seat

WINDOW = 4
PATIENCE_S = 2.0


class Pull:
    """Asks `sources` in turn, each for as long as it answers. `missing` are the chunks that are wanted."""

    def __init__(self, seat: Seat, missing: Iterable[int], sources: Iterable[Key]) -> None:
        self._seat = seat
        self._missing = list(missing)
        self._sources = [key for key in sources if key != seat.me]
        self._asked: set[int] = set()
        self.deadline: float | None = None

    def ask(self, now: float) -> list[Action]:
        """Requests for what is neither here nor in flight."""
        wanted = [index for index in self._missing if index not in self._asked]
        wanted = wanted[: WINDOW - len(self._asked)]
        self.deadline = now + PATIENCE_S if self._missing and self._sources else None
        if not wanted or not self._sources:
            return []
        self._asked.update(wanted)
        return [Send(self._sources[0], tuple(self._request(index) for index in wanted))]

    def _request(self, index: int) -> PieceRequest:
        seat = self._seat
        return codec.sign(PieceRequest(seat.sid, NOBODY, index, seat.me), seat.key)

    def got(self, index: int, now: float) -> list[Action]:
        """A chunk came."""
        self._missing.remove(index)
        self._asked.discard(index)
        return self.ask(now)

    def tick(self, now: float) -> list[Action]:
        """Turn to the next source if this one does not answer."""
        if self.deadline is None or now < self.deadline:
            return []
        self._sources.append(self._sources.pop(0))
        self._asked.clear()
        return self.ask(now)
