"""Whom nodes suspect at random, and one that withholds from each in turn: the swarm goes on.

Nodes with wires between them, as in tests/unit/protocol/swarm/test_leaving_out.py:
too many steps for coverage.
"""

import random
from typing import Any

import pytest

from protocol.wire.masked_messages import Masked
from tests.cases import soaks
from tests.unit.protocol.swarm.test_leaving_out import KEYS, Swarm, others_of, suspects, withholds


@pytest.mark.sampled("0-3", "1-3", "2-3", "3-3", "4-4", "5-3", "2-5")
@pytest.mark.parametrize("least", [3, 4, 5])
@pytest.mark.parametrize("seed", [*range(6), *soaks(range(6, 12))])
def test_whoever_suspects_whom_every_step_finds_a_group(seed, least):
    rng = random.Random(1000 * least + seed)
    wires = Swarm(min_participants=least)
    for who in KEYS:
        for whom in rng.sample(others_of(who), rng.randint(0, 4)):
            suspects(wires, who, whom)
    for number in range(1, 8):
        wires.steps(1)
        if wires.generation() < number:  # pairs that cannot be kept apart wait longer for others
            wires.tick(30.0)
        assert wires.generation() >= number, (seed, least)


@pytest.mark.sampled
def test_one_that_withholds_from_one_after_the_other_is_soon_at_odds_with_most():
    """No other member sees it. Each victim asks for itself; two of them outnumber the one they name."""
    silent, others = KEYS[2], others_of(KEYS[2])
    wires = Swarm()

    def dropped(sender: str, to: str, message: Any) -> bool:
        victim = others[(wires.generation() + len(wires.failed(others[-1]))) % len(others)]
        return withholds(silent, to=[victim], kinds=(Masked,))(sender, to, message)

    wires.dropped = dropped
    wires.steps(60)

    assert max(len(wires.failed(key)) for key in others) <= len(others) * 6
    assert wires.generation() >= 30
