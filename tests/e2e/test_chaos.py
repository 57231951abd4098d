"""Masked groups whose members are killed at random moments, and come back: every round ends, in one base."""

from __future__ import annotations

import pytest

from tests.e2e.chaos import Chaos, Deadlines, means_agree, sound
from tests.e2e.swarm import MASKED, one_digest


@pytest.mark.parametrize("seed", [1, 2])
def test_five_peers_two_kills(make_swarm, seed: int) -> None:
    deadlines = Deadlines(20.0, 5.0, 5.0)
    swarm = make_swarm(5, 20, MASKED, *deadlines.overrides)
    chaos = Chaos(swarm, seed, at_once=1)
    chaos.run(kills=2, until_round=12)
    one_digest(chaos.ended(120.0))
    outcomes = sound(swarm, deadlines)
    means_agree(swarm)
    assert outcomes["aggregated"] > sum(outcomes.values()) / 2, outcomes


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ten_peers_forty_kills_over_a_hundred_rounds(make_swarm, seed: int) -> None:
    """Some minutes: up to three are dead at once, where two may be missing from a sum."""
    deadlines = Deadlines(20.0, 5.0, 5.0)
    swarm = make_swarm(10, 100, MASKED, *deadlines.overrides)
    chaos = Chaos(swarm, seed, at_once=3)
    chaos.run(kills=40, until_round=90)
    one_digest(chaos.ended(900.0))
    outcomes = sound(swarm, deadlines)
    means_agree(swarm)
    print(f"seed {seed}: {outcomes}")
    assert outcomes["aggregated"] > sum(outcomes.values()) / 2, outcomes
