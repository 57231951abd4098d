"""Transition tables: a machine's phases, and the steps that its events allow.

A table is a value: for each possible pair of phase and event, it holds the next phase and what the machine
sends or does. Only the table changes a machine's phase, and the documentation draws the same table.
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
    """The next phase. `does`: what the machine sends or reports then, for people; messages by their names."""

    to: Phase
    does: str


Table = Mapping[tuple[Phase, Event], Step[Phase]]


class Course(Generic[Phase, Event]):
    """The phase of one machine, which moves by the table."""

    def __init__(self, table: Table[Phase, Event], first: Phase) -> None:
        self._table = table
        self._phase = first

    @property
    def phase(self) -> Phase:
        """The current phase; only `step` changes it."""
        return self._phase

    def allows(self, event: Event) -> bool:
        """Whether the table has a step for this event in the current phase."""
        return (self._phase, event) in self._table

    def step(self, event: Event) -> None:
        """Move to the event's next phase. Raises LocalProtocolError, and stays, if the table has none."""
        found = self._table.get((self._phase, event))
        if found is None:
            raise LocalProtocolError(
                f"{event.name} in {self.phase.name} is no step of {type(event).__module__}"
            )
        self._phase = found.to
