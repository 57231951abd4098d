"""The plan: what a node was asked to do."""

from __future__ import annotations

from dataclasses import dataclass

from node.nicknames import NO_NICKNAMES, Nicknames
from node.task.sections import AggregationSection, StepPlan
from protocol.wire.messages import Base


def last_step(plan: StepPlan, rounds: int | None) -> int:
    """Returns the last step of a run: that of round `rounds`, or the task's last one."""
    return plan.steps if rounds is None else min(plan.steps, rounds * plan.report_every)


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
    report_every: int | None = None
    """The steps in a round; None: each round is one sum. The protocol counts sums."""
    honest: int | None = None
    """How many of a node's others are taken to be honest where members share noise; None: they share none."""
    nicknames: Nicknames = NO_NICKNAMES
    """The owner's names of keys."""

    def over(self, sums: int, base: Base) -> bool:
        """Returns whether the node is done after `sums` sums, with this base."""
        enough = self.generations is not None and base.generation >= self.generations
        return enough or (self.report_every is None and sums >= self.rounds)

    def round(self, sums: int, base: Base) -> int:
        """Returns the last round that ended, after `sums` sums, with this base."""
        if self.report_every is None:
            return sums
        return self.rounds if self.over(sums, base) else base.generation // self.report_every

    def peers_round(self, theirs: int, sums: int, base: Base) -> int:
        """Returns the last round of a peer that has announced `theirs` sums, when this node has had `sums`.

        A peer announces sums, not steps. Those that failed are taken to have failed for both.
        """
        if self.report_every is None:
            return theirs
        step = base.generation + theirs - sums
        return max(0, min(self.rounds, step // self.report_every))
