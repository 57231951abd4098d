"""Masked groups with members that are killed at random moments and restarted: all rounds end, in one base."""

from __future__ import annotations

import pytest

from tests.e2e.chaos import Chaos, Deadlines, means_agree, sound
from tests.e2e.swarm import MASKED, Swarm, one_digest

DEADLINES = Deadlines(20.0, 5.0, 5.0)


def ends_in_one_base(swarm: Swarm, chaos: Chaos, kills: int, until_round: int, within_s: float) -> None:
    """Checks that every round ended, more than half of them with a mean, with the same base everywhere."""
    chaos.run(kills, until_round)
    one_digest(chaos.ended(within_s))
    outcomes = sound(swarm, DEADLINES)
    means_agree(swarm)
    assert outcomes["aggregated"] > sum(outcomes.values()) / 2, outcomes


@pytest.mark.parametrize("seed", [1, 2])
def test_five_peers_two_kills(make_swarm, seed: int) -> None:
    swarm = make_swarm(5, 20, MASKED, *DEADLINES.overrides)
    ends_in_one_base(swarm, Chaos(swarm, seed, at_once=1), kills=2, until_round=12, within_s=120.0)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ten_peers_forty_kills_over_a_hundred_rounds(make_swarm, seed: int) -> None:
    """Takes minutes: up to three are dead at once, while a sum tolerates two."""
    swarm = make_swarm(10, 100, MASKED, *DEADLINES.overrides)
    ends_in_one_base(swarm, Chaos(swarm, seed, at_once=3), kills=40, until_round=90, within_s=900.0)
