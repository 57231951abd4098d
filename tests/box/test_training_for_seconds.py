"""Whole nodes that train for so many seconds in a round, by their own clocks, at whatever pace."""

from __future__ import annotations

import asyncio
import math
from collections import Counter

import pytest
import torch
from torch.nn import functional

from tests.box.conftest import MakeBox
from tests.box.loop import VirtualLoop, this_life

SECONDS = 4.0
PACES_S = (0.5, 1.5, 9.0)
"""How long a batch takes each node."""
ROUNDS = 3
_batches: Counter[int] = Counter()


def paced(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy that takes its node's time, if it is for a step."""
    if outputs.requires_grad:
        loop, number = asyncio.get_running_loop(), int(this_life().name.split()[1].rstrip(","))
        assert isinstance(loop, VirtualLoop)
        loop.work(PACES_S[number])
        _batches[number] += 1
    return functional.cross_entropy(outputs, targets)


@pytest.mark.parametrize("privacy", ["none", "ldp"])
def test_each_trains_until_its_time_is_over_and_at_least_one_batch(make_box: MakeBox, privacy: str) -> None:
    _batches.clear()
    sets = (f"train.seconds={SECONDS}", "train.batch_size=4", f"train.loss={__name__}:paced")
    shared = ("train.threads=1", "model.args.sizes=[64,2,10]", f"privacy.mechanism={privacy}")
    box = make_box(3, ROUNDS, *sets, usual=shared)
    box.start_all()
    box.run_to_the_end()
    batches = [math.ceil(SECONDS / pace) for pace in PACES_S]
    for node in box.nodes:
        took_s = batches[node.number] * PACES_S[node.number]
        assert [record.train_s for record in node.records] == [took_s] * ROUNDS
        assert all(record.participants == 3 for record in node.records), node.lines
    tried = 1  # at the start
    assert [_batches[number] for number in range(3)] == [tried + ROUNDS * each for each in batches]


def test_who_is_killed_within_its_seconds_trains_them_again(make_box: MakeBox) -> None:
    sets = (f"train.seconds={SECONDS}", "train.batch_size=4", f"train.loss={__name__}:paced")
    box = make_box(3, ROUNDS, *sets, usual=("train.threads=1", "model.args.sizes=[64,2,10]"))
    box.start_all()
    node = box.nodes[1]
    box.run(until=node.has_aggregated)
    box.run_for(1.0)
    node.kill()
    box.run(until=lambda: node.is_over)
    node.start()
    box.run_to_the_end()
    assert all(one.has_aggregated(ROUNDS) for one in box.nodes), box.told()
