"""What happens in a node's life, as values, and who is told of it.

Each event is told once, to every observer, in the order in which things happen. An observer takes what it
cares about, and lets the rest be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from node.runtime.artifacts import Record, Summary
from node.runtime.group_guarantees import Withstands
from protocol.actions import Notice
from protocol.wire.messages import Base


@dataclass(frozen=True, slots=True)
class Started:
    """What this node is and what it is going to do: a line for each name."""

    lines: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupResized:
    """A group has another size than was told before: what its sums withstand."""

    group: Withstands


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """A round begins."""

    round: int


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """A round is over; `rounds` is the last one of this run."""

    record: Record
    rounds: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A base that the others agreed on was fetched; `how` says on what ground it is taken."""

    base: Base
    how: str

    @property
    def text(self) -> str:
        """In a line."""
        return f"caught up: base of generation {self.base.generation}, {self.how}"


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something about a peer or the swarm; `text` is the whole of it in words."""

    notice: Notice
    text: str


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The owner's loss gate refused a base; `text` says it with the losses on the owner's rows."""

    text: str


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that the owner should look at."""

    text: str


@dataclass(frozen=True, slots=True)
class Draining:
    """This node was told to end, and first ends what has begun, within so many seconds."""

    within_s: float

    @property
    def text(self) -> str:
        """In a line, with how not to wait."""
        within = f"{self.within_s:.0f} s"
        return f"ending: a round that has begun may take {within}; interrupt again to end at once"


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over, after its last round or before."""

    summary: Summary


NodeEvent = (
    Started
    | GroupResized
    | RoundStarted
    | RoundEnded
    | CaughtUp
    | Noticed
    | RolledBack
    | Warned
    | Draining
    | Finished
)


class Observer(Protocol):
    """Who is told what happens in a node's life."""

    def handle(self, event: NodeEvent) -> None:
        """Take in an event. It is called on the event loop, or in a thread that trains: it must not wait."""


class Observers:
    """Tells each of several observers, in their order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def handle(self, event: NodeEvent) -> None:
        """Each is told."""
        for observer in self._observers:
            observer.handle(event)
