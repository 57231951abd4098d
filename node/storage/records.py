"""The records that a node stores of its rounds and offers: how a round ended, what an offer is charged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace

from mechanisms.accounting.ledger import Event, SampledGaussian, Spent
from mechanisms.mechanism import Memory
from protocol.wire.messages import ChargeCount


@dataclass(frozen=True)
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


_LATER = {"noised", "error", "unit"}


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

    @classmethod
    def from_json(cls, values: object) -> SwarmFigure | None:
        """Reads the figure of a line of history; None if it has none, or a damaged one.

        Lines of before there was noise, or persons, lack some of the last three values.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(values, dict) or not names - _LATER <= values.keys() <= names:
            return None
        return cls(**values)


@dataclass(frozen=True)
class Ending:
    """How a round ended and what it cost: the part of its line of history that cannot be computed again.

    It is stored with the round's number, so a round that counts gets its line even after a crash in between.
    """

    round: int
    """The node's own count of its rounds, with others or alone."""
    outcome: str
    reason: str | None
    participants: int
    bytes_sent: int
    bytes_received: int
    train_s: float
    aggregate_s: float
    train_loss: float | None
    missing: tuple[str, ...]
    clipped: int
    phases: Mapping[str, Traffic]
    without: tuple[str, ...] = ()
    part_of: int | None = None
    """The round that the sum is a step of; None: it is the whole round."""
    steps: int = 0
    """The sums of the round so far that were steps."""
    steps_failed: int = 0
    """The sums of the round so far that failed."""
    swarm: SwarmFigure | None = None
    """The metric of all members' rows, if the sum had one."""
    alone: int = 0
    """This node's rounds alone in a row, this one included; 0 if a base came in it."""

    def after(self, earlier: Ending) -> Ending:
        """Returns this ending plus the cost of the earlier sums of the same round."""
        names = self.phases.keys() | earlier.phases.keys()
        nothing = Traffic(0.0)
        return replace(
            self,
            outcome=self.outcome if self.outcome == "aggregated" else earlier.outcome,
            participants=self.participants or earlier.participants,
            bytes_sent=self.bytes_sent + earlier.bytes_sent,
            bytes_received=self.bytes_received + earlier.bytes_received,
            train_s=self.train_s + earlier.train_s,
            aggregate_s=self.aggregate_s + earlier.aggregate_s,
            missing=tuple(dict.fromkeys((*earlier.missing, *self.missing))),
            phases={
                name: self.phases.get(name, nothing).plus(earlier.phases.get(name, nothing)) for name in names
            },
            without=self.without or earlier.without,
            steps=self.steps + earlier.steps,
            steps_failed=self.steps_failed + earlier.steps_failed,
        )

    def to_text(self) -> str:
        """Returns the ending as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Ending:
        """Reads the line that `to_text` returned."""
        values = json.loads(text)
        values["missing"] = tuple(values["missing"])
        values["without"] = tuple(values.get("without", ()))
        values["swarm"] = SwarmFigure.from_json(values.get("swarm"))
        values["phases"] = {name: Traffic(**traffic) for name, traffic in values["phases"].items()}
        return cls(**values)


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
