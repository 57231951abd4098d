"""Groups whose members are killed at random, or lose power, and restart: all rounds end, in one base."""

from __future__ import annotations

import random
from functools import partial

import pytest

from tests.box.box import Box
from tests.box.ledgers import booked_once
from tests.outcomes import Deadlines, means_agree, sound

DEADLINES = Deadlines(20.0, 5.0, 5.0)
SLOWEST_S = 0.2
"""Of a block: a round takes most of a second, so that who was away finds the others at work."""
CASES = [("additive", False), ("additive", True), ("masked", False), ("masked", True)]


class Chaos:
    """Kills up to `at_once` nodes between any two callbacks, waits a moment, restarts them, and repeats."""

    def __init__(self, box: Box, at_once: int, power: bool) -> None:
        self._box, self._at_once, self._power = box, at_once, power
        self._random = random.Random(f"{box.seed} chaos")

    def run(self, kills: int, until_round: int) -> None:
        """Kills `kills` times, evenly over the rounds up to `until_round`, each at a random moment."""
        done = 0
        while done < kills:
            begun = 1 + (until_round - 1) * done // kills
            self._box.run(partial(self._has_begun, begun))
            done += self._kill(min(self._random.randint(1, self._at_once), kills - done))

    def _has_begun(self, number: int) -> bool:
        return any(
            node.is_up and node.records and node.records[-1].round > number for node in self._box.nodes
        )

    def _kill(self, some: int) -> int:
        victims = self._random.sample(self._box.nodes, some)
        for node in victims:
            node.before_step(partial(node.kill, power=self._power), self._random.randint(1, 300))
        self._box.run(lambda: all(node.is_over for node in victims))
        self._box.run_for(self._random.choice((0.01, 0.1, 1.0)))
        for node in victims:
            node.start()
        return some


def ends_in_one_base(box: Box, chaos: Chaos, kills: int, until_round: int) -> None:
    """Checks that all nodes end with one base, and spend nothing twice."""
    box.network.slowest_s = SLOWEST_S
    box.start_all()
    chaos.run(kills, until_round)
    box.run_to_the_end()
    assert [node.status for node in box.nodes] == [0] * box.count
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1
    for node in box.nodes:
        booked_once(node)


def all_rounds_ended(box: Box) -> None:
    """Checks that every round ended in time, more than half of them with a mean, of which there is one only.

    That is read from the history, which a power failure may shorten.
    """
    outcomes = sound(box, DEADLINES, margin_s=0.0)
    means_agree(box)
    assert outcomes["aggregated"] > outcomes.total() / 2, outcomes


@pytest.mark.sampled("additive-True")
@pytest.mark.parametrize(("protocol", "power"), [("additive", True), ("masked", False)])
def test_five_peers_four_kills(make_box, protocol: str, power: bool) -> None:
    box = make_box(5, 20, f"aggregation.protocol={protocol}", *DEADLINES.overrides, seed=1)
    ends_in_one_base(box, Chaos(box, 1, power), kills=4, until_round=10)
    if not power:
        all_rounds_ended(box)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "power"), CASES)
@pytest.mark.parametrize("seed", range(2, 5))
def test_ten_peers_forty_kills(make_box, protocol: str, power: bool, seed: int) -> None:
    """Takes a minute each: up to three are dead at once, while a masked sum tolerates two."""
    box = make_box(10, 100, f"aggregation.protocol={protocol}", *DEADLINES.overrides, seed=seed)
    ends_in_one_base(box, Chaos(box, 3, power), kills=40, until_round=80)
    if not power:
        all_rounds_ended(box)
