"""Plans in which peers come late, die, come back, are cut off, and leave, one kind of trouble at a time."""

from __future__ import annotations

import random
from enum import StrEnum

from protocol.layout import ALL_TO_ALL_BYTES
from protocol.tolerance import MaskedSettings
from scenarios.plans import SEEDS, Conditions, Crash, Partition, Plan, split


class Trouble(StrEnum):
    """What happens in a plan."""

    LATE = "late"
    """Some are not up at first, or never."""
    CRASH = "crash"
    """Some die, up to three times, and come back or do not."""
    CUT = "cut"
    """Up to three partitions one after another, of up to 200 s."""
    MIXED = "mixed"
    """All of these."""


def churn_plan(seed: int, trouble: Trouble, tracker: bool = False) -> Plan:
    """Four to eight peers, eight rounds, and this trouble, drawn from a seed."""
    rng = random.Random(seed * 7919 + 17)
    peers = rng.randint(4, 8)
    masked = None
    if rng.random() < 0.75:
        masked = MaskedSettings(4.0, rng.choice([None, 1]), rng.choice([0, ALL_TO_ALL_BYTES]))
    crashes: list[Crash] = []
    cuts: list[Partition] = []
    if trouble in (Trouble.LATE, Trouble.MIXED):
        late = rng.sample(range(peers), rng.randint(0, peers // 2))
        crashes += [
            Crash(peer, 1, rng.choice([rng.uniform(3, 40), rng.uniform(3, 40), None])) for peer in late
        ]
    if trouble in (Trouble.CRASH, Trouble.MIXED):
        for peer in rng.sample(range(peers), rng.randint(0, peers - 1)):
            at = rng.randint(2, 60)
            for _ in range(rng.randint(1, 3)):
                back_s = rng.choice([rng.uniform(0.2, 30), rng.uniform(0.2, 30), None])
                crashes.append(Crash(peer, at, back_s))
                at += rng.randint(3, 80)
    if trouble in (Trouble.CUT, Trouble.MIXED):
        cuts = _cuts(rng, peers)
    conditions = Conditions(
        delay_s=(0.001, rng.choice([0.02, 0.2])),
        notices_loss=rng.random() < 0.7,
        crashes=tuple(crashes),
        partitions=tuple(cuts),
    )
    return Plan(peers, 8, conditions, SEEDS, masked, tracker=tracker)


def _cuts(rng: random.Random, peers: int) -> list[Partition]:
    at, cuts = rng.uniform(0, 6), []
    for _ in range(rng.randint(1, 3)):
        order, size = rng.sample(range(peers), peers), rng.randint(1, peers - 1)
        for_s = rng.choice([rng.uniform(1, 10), rng.uniform(10, 60), rng.uniform(60, 200)])
        cuts.append(split(order[:size], order[size:], at, at + for_s))
        at += for_s + rng.uniform(0.5, 10)
    return cuts
