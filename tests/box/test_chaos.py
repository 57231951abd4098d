"""Groups whose members are killed at random moments, or lose power, and restart: all rounds end, in one base."""

from __future__ import annotations

import random

import pytest

from tests.box.box import Box
from tests.box.offers import Offers
from tests.outcomes import Deadlines, means_agree, sound

DEADLINES = Deadlines(20.0, 5.0, 5.0)
PROTOCOLS = ["additive", "masked"]


class Chaos:
    """Kills up to `at_once` nodes between any two callbacks, waits a moment and restarts them, over and over."""

    def __init__(self, box: Box, at_once: int) -> None:
        self._box, self._at_once = box, at_once
        self._random = random.Random(f"{box.seed} chaos")

    def run(self, kills: int, until_round: int) -> None:
        """Kills `kills` times, evenly over the rounds up to `until_round`, each at a random moment."""
        done = 0
        while done < kills:
            begun = 1 + (until_round - 1) * done // kills
            self._box.run(lambda: all(node.records for node in self._box.nodes))
            self._box.run(lambda: max(node.records[-1].round for node in self._box.nodes) >= begun)
            done += self._kill(min(self._random.randint(1, self._at_once), kills - done))

    def _kill(self, some: int) -> int:
        victims = self._random.sample([node for node in self._box.nodes if node.is_up], some)
        for node in victims:
            has_power = self._random.random() < 0.5
            node.before_step(lambda node=node, lost=not has_power: node.kill(power=lost), self._random.randint(1, 300))
        self._box.run(lambda: all(node.is_over for node in victims))
        self._box.run_for(self._random.choice((0.0, 0.1, 1.0)))
        for node in victims:
            node.start()
        return some


def ends_in_one_base(box: Box, offers: Offers, at_once: int, kills: int, until_round: int) -> None:
    """Checks that every round ended, more than half of them with a mean, with the same base everywhere."""
    box.start_all()
    Chaos(box, at_once).run(kills, until_round)
    box.run_to_the_end()
    assert [node.status for node in box.nodes] == [0] * box.count
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1
    outcomes = sound(box, DEADLINES, margin_s=0.0)
    means_agree(box)
    assert outcomes["aggregated"] > outcomes.total() / 2, outcomes
    for node in box.nodes:
        offers.check(node)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", [1, 2])
def test_five_peers_four_kills(make_box, monkeypatch: pytest.MonkeyPatch, protocol: str, seed: int) -> None:
    box = make_box(5, 20, f"aggregation.protocol={protocol}", *DEADLINES.overrides, seed=seed)
    ends_in_one_base(box, Offers(monkeypatch), at_once=1, kills=4, until_round=10)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", range(3, 8))
def test_ten_peers_forty_kills(make_box, monkeypatch: pytest.MonkeyPatch, protocol: str, seed: int) -> None:
    """Takes a minute each: up to three are dead at once, while a masked sum tolerates two."""
    box = make_box(10, 100, f"aggregation.protocol={protocol}", *DEADLINES.overrides, seed=seed)
    ends_in_one_base(box, Offers(monkeypatch), at_once=3, kills=40, until_round=90)
