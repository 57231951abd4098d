"""Whole nodes, one of which trains far longer: what it costs the others, and what becomes of its work."""

from __future__ import annotations

import pytest

from node.runtime.record.events import Outpaced
from tests.box.box import Box
from tests.box.conftest import MakeBox
from tests.box.loop import this_life
from tests.cases import soak

LEAST = 0.8
LASTS_S = 80.0
OTHERWISE_S = 0.15
"""What a round of the others takes beside their training, and a little more."""


def swarm(make_box: MakeBox, usual_s: float, slow: dict[int, float]) -> Box:
    box = make_box(5, 1000, "aggregation.group_timeout_s=20")

    def lasts_s(name: str) -> float:
        number = int(this_life().name.split()[1].rstrip(","))
        return slow.get(number, usual_s) if name == "_train" else 0.0

    box.loop.lasts_s = lasts_s
    box.start_all()
    box.run_for(LASTS_S)
    return box


def sums(box: Box, without: int) -> list[int]:
    return [sum(one.reason is None for one in node.records) for node in box.nodes if node.number != without]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("usual_s", "slow_s", "place"),
    [(1.0, 20.0, 0), soak(0.5, 6.0, 3)],
)
def test_one_that_is_far_slower_costs_the_others_little(make_box, usual_s, slow_s, place):
    box = swarm(make_box, usual_s, {place: slow_s})
    assert min(sums(box, place)) >= LEAST * LASTS_S / (usual_s + OTHERWISE_S)
    slow = box.nodes[place]
    assert len(slow.records) >= LASTS_S // (slow_s + 2 * usual_s + 1)
    assert all(one.reason is None for node in box.nodes for one in node.records)
    told = [event for event in slow.events if isinstance(event, Outpaced)]
    entered = [one.round for one in slow.records]
    late = [number - event.round for event, number in zip(told, entered, strict=False)]
    assert len(late) >= 3
    assert set(late) <= {0, 1}, "it says where it enters; perhaps one further, as that sum is under way"
    assert [event.train_s for event in told] == pytest.approx([slow_s] * len(told))
    others = [event for node in box.nodes if node is not slow for event in node.events]
    assert not any(isinstance(event, Outpaced) for event in others)
