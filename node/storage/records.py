"""The records that a node stores of its rounds and offers: how a round ended, what an offer is charged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mechanisms.accounting.ledger import Event, SampledGaussian, Spent
from mechanisms.mechanism import Memory
from protocol.wire.messages import ChargeCount


@dataclass(frozen=True, slots=True)
class Traffic:
    """The cost of one phase of a round: seconds, and bytes on the wire."""

    s: float
    bytes_sent: int = 0
    bytes_received: int = 0

    def plus(self, other: Traffic) -> Traffic:
        """Returns the cost of both."""
        return Traffic(
            self.s + other.s,
            self.bytes_sent + other.bytes_sent,
            self.bytes_received + other.bytes_received,
        )


NO_TRAFFIC = Traffic(0.0)


@dataclass(frozen=True)
class SwarmFigure:
    """A metric of all members' rows (node.training.figures.headline), for the base that a round began with.

    `mine`: this node's own value of the same metric, for the same base; None if it is not known. `rows`: of
    all `peers`. `generation`: that of the base.
    """

    metric: str
    value: float | None
    baseline: float | None
    only_class: str | None
    mine: float | None
    rows: int
    peers: int
    generation: int
    noised: bool = False
    """Whether noise covers it: then `value` and `rows` are estimates."""
    error: float | None = None
    """The standard error of `value` by the noise; None without noise, or without a value."""
    unit: str = "row"
    """What counts once, and what `rows` are: a row, or a person."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A round that has ended: its number among the node's own, and as text how (node.runtime.record.figures).

    Both are stored in one step, so a round that counts gets its line of history even after a crash.
    """

    own: int
    text: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The changes when an offer is spent: its charge, the mechanism's new memory and the new total."""

    events: tuple[Event, ...]
    memory: Memory
    total: Spent | None


NOTHING = Receipt((), (), None)


def count_of(events: Iterable[Event], before: ChargeCount = ChargeCount()) -> ChargeCount:  # noqa: B008
    """Returns the count of charges after these events.

    It counts events, not their steps: how many steps a training has tells how many rows there are.
    """
    charged = [isinstance(event, SampledGaussian) for event in events]
    sampled = sum(charged)
    return ChargeCount(before.sampled + sampled, before.plain + len(charged) - sampled)
