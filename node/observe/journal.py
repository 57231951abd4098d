"""The last messages to a node's owner, kept for later viewers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from node.observe.lines import alone_text
from node.runtime.record import events
from node.runtime.record.events import NodeEvent

KEPT = 100
PAGE = "page"
"""The name of the start-up line with the page's address. The page omits it: it may contain the token."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One message to the owner, `at` Unix seconds."""

    at: float
    is_warning: bool
    text: str


class Journal:
    """Remembers the description of the run and the last remarks."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns Unix seconds."""
        self._now = now
        self._remarks: deque[Remark] = deque(maxlen=KEPT)
        self.about: dict[str, str] = {}
        """The start-up lines, updated with what the sums withstand now."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks, oldest first."""
        return tuple(self._remarks)

    def handle(self, event: NodeEvent) -> None:
        """Keeps an event; not a round's, which history.jsonl has."""
        match event:
            case events.Started(lines):
                self.about = {name: text for name, text in lines.items() if name != PAGE}
            case events.GroupResized(group):
                self.about = {**self.about, "sums": group.text}
            case events.CaughtUp() | events.Outpaced() | events.Noticed() | events.Draining():
                self._remarks.append(Remark(at=self._now(), is_warning=False, text=event.text))
            case events.Warned() | events.RolledBack():
                self._remarks.append(Remark(at=self._now(), is_warning=True, text=event.text))
            case events.Finished(summary, _, exact) if alone := alone_text(summary, exact=exact):
                self._remarks.append(Remark(at=self._now(), is_warning=True, text=alone))
