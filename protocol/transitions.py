"""Where a machine stands, and where its events take it: a table that it walks, and can not leave.

A table is a value: for each phase and event that there can be, the next phase and what is sent or done. The
machine has its phase from nowhere else, and the documentation draws the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from protocol.errors import LocalProtocolError

Phase = TypeVar("Phase", bound=Enum)
Event = TypeVar("Event", bound=Enum)


@dataclass(frozen=True, slots=True)
class Step(Generic[Phase]):
    """Where an event leads. `does`: what is sent or handed on then, for people; messages by their names."""

    to: Phase
    does: str


Table = Mapping[tuple[Phase, Event], Step[Phase]]


class Course(Generic[Phase, Event]):
    """One machine's way through a table."""

    def __init__(self, table: Table[Phase, Event], first: Phase) -> None:
        self._table = table
        self._phase = first

    @property
    def phase(self) -> Phase:
        """Where the machine stands; `step` alone changes it."""
        return self._phase

    def allows(self, event: Event) -> bool:
        """Whether the table has a step for this event, here."""
        return (self._phase, event) in self._table

    def step(self, event: Event) -> None:
        """Go where the event leads; LocalProtocolError, and no step, where the table has none for it."""
        found = self._table.get((self._phase, event))
        if found is None:
            raise LocalProtocolError(
                f"{event.name} in {self.phase.name} is no step of {type(event).__module__}"
            )
        self._phase = found.to
