"""The plan: what a node was asked to do."""

from __future__ import annotations

from dataclasses import dataclass

from node.task.sections import AggregationSection
from protocol.wire.messages import Base


@dataclass(frozen=True)
class Plan:
    """A node's last round, its task and its names."""

    rounds: int
    task: str
    key: str
    accuracy_of: str
    parameters: str
    """The canonical text that all members share."""
    aggregation: AggregationSection
    expected: int
    """The expected number of members of a group, before the first group forms."""
    generations: int | None
    """The number of agreed bases after which the node stops, whatever the round; None: it runs all rounds."""

    def over(self, round: int, base: Base) -> bool:
        """Returns whether the node is done after `round`, with this base."""
        enough = self.generations is not None and base.generation >= self.generations
        return enough or round >= self.rounds
