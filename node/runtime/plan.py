"""What a node was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from node.task.sections import AggregationSection
from protocol.wire.messages import Base


@dataclass(frozen=True)
class Plan:
    """Up to which round this node goes, and how it is named."""

    rounds: int
    task: str
    key: str
    accuracy_of: str
    parameters: str
    """The canonical text that all members share."""
    aggregation: AggregationSection
    expected: int
    """How many there will be in a group, as far as can be told before there is one."""
    generations: int | None
    """After how many agreed bases enough is agreed, whatever the round; None: all rounds are wanted."""

    def over(self, round: int, base: Base) -> bool:
        """Whether there is nothing more to do after `round`, with this base."""
        enough = self.generations is not None and base.generation >= self.generations
        return enough or round >= self.rounds
