"""Kills peers of a swarm by pid at seeded random moments, and restarts them, over many rounds."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from dataclasses import dataclass

from protocol.actions import Reason
from tests.e2e.processes import Event, Process
from tests.e2e.swarm import Swarm, frozen, history, summary

MARGIN_S = 5.0
"""Allowed in addition to the deadlines, because a busy machine notices late that one has passed."""
REASONS = {str(reason) for reason in Reason} - {"caught", "wrong-count", "wrong-weights", "budget-spent"}
LONG_S = 900.0


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


class Chaos:
    """Kills up to `at_once` peers, waits a moment, restarts them, and repeats until a round is reached.

    A round is shorter than a start. So the other peers stand still while peers start, or they would finish
    first.
    """

    def __init__(self, swarm: Swarm, seed: int, at_once: int) -> None:
        self._swarm, self._at_once = swarm, at_once
        self._random = random.Random(seed)
        self._clock = threading.Event()  # is never set: what is waited for is a random moment
        self.nodes: list[Process] = swarm.start_all()
        self.kills = 0

    def run(self, kills: int, until_round: int) -> None:
        """Kills `kills` times, evenly over the rounds up to `until_round`, at random times within them."""
        begun = 2
        while self.kills < kills:
            some = min(self._random.randint(1, self._at_once), kills - self.kills)
            self._wait_for(begun)
            self._kill(some)
            begun = 2 + (until_round - 2) * self.kills // kills

    def _wait_for(self, number: int) -> None:
        """Waits until some peer trains for this round, and a random moment longer."""
        node = self._random.choice(self.nodes)
        node.event_after("training", lambda event: event["round"] >= number, LONG_S)
        self._clock.wait(self._random.uniform(0, 0.15))

    def _kill(self, some: int) -> None:
        victims = self._random.sample(range(len(self.nodes)), some)
        for number in victims:
            self._clock.wait(self._random.uniform(0, 0.05))
            self.nodes[number].send(signal.SIGKILL)
        for number in victims:
            assert self.nodes[number].status() == -signal.SIGKILL
            assert self.nodes[number].err.all() == []
        self._clock.wait(self._random.uniform(0, 0.25))
        with frozen([node for number, node in enumerate(self.nodes) if number not in victims]):
            for number in victims:
                self.nodes[number] = self._swarm.start(number)
            for number in victims:
                self.nodes[number].event("started")
        self.kills += some

    def ended(self, within_s: float) -> list[Event]:
        """Waits for all nodes to end; returns their summaries."""
        return [node.ends_well(within_s) for node in self.nodes]


def sound(swarm: Swarm, deadlines: Deadlines) -> Counter[str]:
    """Checks that every round of every peer ended in time, in a mean or a fallback; counts both."""
    outcomes: Counter[str] = Counter()
    for number in range(swarm.count):
        lines = history(swarm.out(number))
        numbers = [line["round"] for line in lines]
        assert numbers == sorted(set(numbers)), number
        assert numbers[-1] == swarm.rounds, number
        for line in lines:
            assert line["outcome"] == ("aggregated" if line["reason"] is None else "fallback")
            assert line["reason"] is None or line["reason"] in REASONS, line
            assert line["aggregate_s"] <= deadlines.round_s + MARGIN_S, line
            outcomes[line["reason"] or "aggregated"] += 1
        assert summary(swarm.out(number))["finished"], number
    return outcomes


def means_agree(swarm: Swarm) -> None:
    """Checks that a round with a mean has the same base and number of contributors at all peers.

    Peers that fell back in a round and adopted its base later have the fallback in their history.
    """
    of_round: dict[int, set[tuple[int, str]]] = {}
    for number in range(swarm.count):
        for line in history(swarm.out(number)):
            if line["reason"] is None:
                of_round.setdefault(line["round"], set()).add((line["participants"], line["base_digest"]))
    assert {number: ends for number, ends in of_round.items() if len(ends) > 1} == {}
