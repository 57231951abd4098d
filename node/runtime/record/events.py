"""The events of a node's life, as values, and the observers that receive them.

Every observer receives each event once, in the order in which the events happen. An observer handles the
events that concern it and ignores the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from node.runtime.privacy.group_guarantees import Withstands
from node.runtime.record.figures import Record, Summary
from node.runtime.record.own_figures import NONE_KNOWN, OwnFigures
from protocol.actions import Notice
from protocol.wire.messages import Base


@dataclass(frozen=True, slots=True)
class Started:
    """What this node is and what it is about to do: a line for each name."""

    lines: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupResized:
    """A group has another size than the last one reported; `group` states what its sums withstand."""

    group: Withstands


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """A round begins."""

    round: int


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """A round is over; `rounds` is the number of the run's last round, or of an exact job's last sum."""

    record: Record
    rounds: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The node fetched a base that the others agreed on; `how` says why it accepts the base."""

    base: Base
    how: str

    @property
    def text(self) -> str:
        """The event in one line."""
        return f"caught up: base of generation {self.base.generation}, {self.how}"


@dataclass(frozen=True, slots=True)
class Outpaced:
    """The others went on while this node trained for `train_s`; it offers this progress from `round` on."""

    train_s: float
    rounds: int
    """How many rounds they ended meanwhile."""
    round: int

    @property
    def text(self) -> str:
        """The event in one line, with what becomes of the training."""
        return (
            f"trained {self.train_s:.1f} s; the others ended {self.rounds} round{'s' * (self.rounds > 1)} "
            f"meanwhile; this progress is offered from round {self.round} on"
        )


@dataclass(frozen=True, slots=True)
class Noticed:
    """A notice about a peer or the swarm; `text` is the complete notice in words."""

    notice: Notice
    text: str
    name: str = ""
    """The owner's name of the key that is here or has left; empty if there is none."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The owner's loss gate refused a base; `text` gives the losses on the owner's rows."""

    text: str


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning to the owner."""

    text: str


@dataclass(frozen=True, slots=True)
class Draining:
    """This node was told to end and first finishes what has begun, within `within_s` seconds."""

    within_s: float

    @property
    def text(self) -> str:
        """The event in one line, with how to end at once."""
        within = f"{self.within_s:.0f} s"
        return f"ending: a round that has begun may take {within}; interrupt again to end at once"


@dataclass(frozen=True, slots=True)
class Lingering:
    """The run is over, and the page stays up for `for_s` seconds."""

    for_s: float

    @property
    def text(self) -> str:
        """The event in one line, with how to end at once."""
        return f"the page stays up for {self.for_s:.0f} s; interrupt to end it"


@dataclass(frozen=True, slots=True)
class Comparing:
    """The run is over, and the node trains its own rows alone for at most `within_s` seconds."""

    within_s: float

    @property
    def text(self) -> str:
        """The event in one line, with how to leave it out."""
        return f"training on your rows alone, to compare: at most {self.within_s:.0f} s; interrupt to end it"


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over, after its last round or earlier."""

    summary: Summary
    own: OwnFigures = NONE_KNOWN
    """What the owner's rows show; with privacy it is for the owner's eyes on this machine alone."""
    exact: bool = False
    """Whether it was a job whose sums all have the same members."""


NodeEvent = (
    Started
    | GroupResized
    | RoundStarted
    | RoundEnded
    | CaughtUp
    | Outpaced
    | Noticed
    | RolledBack
    | Warned
    | Draining
    | Comparing
    | Finished
    | Lingering
)


class Observer(Protocol):
    """Receives the events of a node's life."""

    def handle(self, event: NodeEvent) -> None:
        """Handles an event. It runs on the event loop or in a training thread and must not block."""


class Observers:
    """Passes events to several observers, in their order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def handle(self, event: NodeEvent) -> None:
        """Passes the event to each observer."""
        for observer in self._observers:
            observer.handle(event)
