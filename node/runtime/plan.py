"""The plan: what a node was asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from node.storage.nicknames import NO_NICKNAMES, Nicknames
from node.task.sections import StepPlan, Task
from protocol.wire.messages import Base


def last_step(plan: StepPlan, rounds: int | None) -> int:
    """Returns the last step of a run: that of round `rounds`, or the task's last one."""
    return plan.steps if rounds is None else min(plan.steps, rounds * plan.report_every)


@dataclass(frozen=True)
class Plan:
    """A node's task, how far it goes with it, and its owner's names."""

    task: Task
    parameters: str
    """The canonical text that all members share."""
    accuracy_of: str
    rounds: int
    """The rounds of the run, as people count them."""
    sums: int
    """The most agreed sums of the run: it is over once the node's base is that of the last one."""
    tries: int
    """After so many rounds alone in a row the node gives up."""
    report_every: int | None = None
    """The sums in a round, each of which is for one base; None: each round is one sum, of updates."""
    cohort: bool = False
    """Whether all sums have the members of the first one: without one of them, none comes."""
    purposes: tuple[tuple[str, int], ...] = ()
    """What the sums of a job are for, each in a word with their number, in their order; (): all are alike."""
    waits: bool = False
    """Whether the owner has it wait for the first group: it gives up without one."""
    nicknames: Nicknames = NO_NICKNAMES
    """The owner's names of keys."""
    swarm_folder: Path | None = None
    """Where the words for newcomers to an invited swarm are kept; None: nobody was invited."""

    def round(self, base: Base, *, is_over: bool = False) -> int:
        """Returns the last round that ended with this base, by the sums that led there.

        `is_over`: whether the run is over with it; then a round ends that has not all of its sums.
        """
        whole = self.round_after(base.generation)
        cut_short = is_over and base.generation < self.sums and base.generation % (self.report_every or 1) > 0
        return whole + cut_short

    def purpose(self, generation: int) -> str:
        """Returns what the sum is for that follows a base of this generation; "sum" if all are alike."""
        ends = accumulate(sums for _, sums in self.purposes)
        words = (word for (word, _), end in zip(self.purposes, ends, strict=True) if generation < end)
        return next(words, self.purposes[-1][0] if self.purposes else "sum")

    def sums_for(self, generation: int) -> dict[str, int]:
        """Returns how many sums of a job led to a base of this generation, by purpose; {} in other runs."""
        if not self.purposes:
            return {"sum": generation} if self.cohort else {}
        *first, (last, _) = self.purposes
        found, left = dict[str, int](), generation
        for word, sums in first:
            found[word] = min(sums, left)
            left -= found[word]
        return {**found, last: left}

    def round_after(self, sums: int) -> int:
        """Returns the last round that ended after so many sums; of a node that claims too many, the last."""
        return self.rounds if sums >= self.sums else sums // (self.report_every or 1)
