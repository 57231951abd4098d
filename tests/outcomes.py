"""How the rounds of a run with faults may end: all of them in time, and those with a mean in one base."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from protocol.actions import FOLLOWED, Reason
from tests.run_folders import history, summary

MARGIN_S = 5.0
"""Allowed in addition to the deadlines, because a busy machine notices late that one has passed."""
REASONS = {str(reason) for reason in set(Reason) - FOLLOWED} - {"caught", "wrong-count", "wrong-weights"}


@dataclass(frozen=True)
class Deadlines:
    """The caps of a round's three waits, in seconds."""

    group_s: float = 30.0
    shares_s: float = 10.0
    sums_s: float = 10.0

    @property
    def round_s(self) -> float:
        """The longest that a round may take once its offer is ready."""
        return self.group_s + self.shares_s + self.sums_s

    @property
    def overrides(self) -> tuple[str, ...]:
        """The deadlines as --set options."""
        named = (("group", self.group_s), ("shares", self.shares_s), ("sums", self.sums_s))
        return tuple(f"aggregation.{name}_timeout_s={value:g}" for name, value in named)


class Run(Protocol):
    """The nodes of a run that is over, each with a folder."""

    @property
    def count(self) -> int:
        """How many nodes there are."""

    @property
    def rounds(self) -> int:
        """How many rounds they were to make."""

    def out(self, number: int) -> Path:
        """Returns a node's folder."""


def sound(run: Run, deadlines: Deadlines, margin_s: float = MARGIN_S) -> Counter[str]:
    """Checks that every round of every peer ended in time, in a mean or a fallback; counts both."""
    outcomes: Counter[str] = Counter()
    for number in range(run.count):
        lines = history(run.out(number))
        own = [line["own"] for line in lines]
        assert own == sorted(set(own)), number
        assert lines[-1]["round"] == run.rounds, number
        for line in lines:
            assert line["outcome"] == ("aggregated" if line["reason"] is None else "fallback")
            assert line["reason"] is None or line["reason"] in REASONS, line
            assert line["aggregate_s"] <= deadlines.round_s + margin_s, line
            outcomes[line["reason"] or "aggregated"] += 1
        assert summary(run.out(number))["finished"], number
    return outcomes


def means_agree(run: Run) -> None:
    """Checks that a round with a mean has the same base and number of contributors at all peers.

    Peers that fell back in a round and adopted its base later have the fallback in their history.
    """
    of_round: dict[int, set[tuple[int, str]]] = {}
    for number in range(run.count):
        for line in history(run.out(number)):
            if line["reason"] is None:
                of_round.setdefault(line["round"], set()).add((line["participants"], line["base_digest"]))
    assert {number: ends for number, ends in of_round.items() if len(ends) > 1} == {}
