"""The last things that a node told its owner, kept for whoever looks later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from node.runtime import events
from node.runtime.events import NodeEvent

KEPT = 100
PAGE = "page"
"""The line of the start that says where the page is: of no use on it, and perhaps with its token."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that was told, `at` Unix seconds."""

    at: float
    is_warning: bool
    text: str


class Journal:
    """Remembers what the run is and the last remarks."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now`: Unix seconds."""
        self._now = now
        self._remarks: deque[Remark] = deque(maxlen=KEPT)
        self.about: dict[str, str] = {}
        """What the owner was told at the start, with what the sums withstand now."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The oldest first."""
        return tuple(self._remarks)

    def handle(self, event: NodeEvent) -> None:
        """Keep what is not in history.jsonl: there rounds are."""
        match event:
            case events.Started(lines):
                self.about = {name: text for name, text in lines.items() if name != PAGE}
            case events.GroupResized(group):
                self.about = {**self.about, "sums": group.text}
            case events.CaughtUp() | events.Noticed() | events.Draining():
                self._remarks.append(Remark(at=self._now(), is_warning=False, text=event.text))
            case events.Warned() | events.RolledBack():
                self._remarks.append(Remark(at=self._now(), is_warning=True, text=event.text))
