"""A site loses its way to all others where nodes wait for ever: whoever lacks a quorum spends nothing.

A sum under way is the exception: what has left for it is spent. Before, each T_group without a group was a
round, and T_group adapts down to 10 s.
"""

from __future__ import annotations

import pytest

from protocol.wire.masked_messages import Ack, Join, Masked
from protocol.wire.messages import Group, Message, Ready, Share, Sum
from tests.box.box import Box, BoxNode
from tests.box.conftest import MakeBox
from tests.box.ledgers import charges
from tests.cases import soak, soaks

TRAINS_S = 3.0
SIX_MINUTES_S = 360.0
UNDER_WAY_S = 40.0
"""A sum under way has failed by then."""
BACK_S = 60.0


def swarm(make_box: MakeBox, count: int) -> Box:
    """Starts nodes with a privacy budget; returns when each was in some sums."""
    with_budget = ("privacy.mechanism=dp-sgd", "privacy.epsilon=8", "train.batch_size=4", "train.rounds=1000")
    box = make_box(count, 1000, *with_budget, options=("--wait", "forever"))
    box.network.slowest_s = 0.5
    box.loop.lasts_s = lambda name: TRAINS_S if name == "_train" else 0.0
    box.start_all()
    box.run(lambda: all(node.has_aggregated(5) for node in box.nodes))
    return box


def cut_off(box: Box, one: BoxNode) -> None:
    for other in box.nodes:
        if other is not one:
            box.network.cut(one.number, other.number)


def spent(box: Box) -> list[tuple[int, int]]:
    """Returns how many rounds each node has ended, and how many offers it was charged for."""
    return [(len(node.records), len(charges(node.folder))) for node in box.nodes]


def failed(node: BoxNode) -> int:
    return sum(record.reason is not None for record in node.records)


def all_in_a_sum(box: Box) -> None:
    """Waits until a new sum has all nodes."""
    known = [len(node.records) for node in box.nodes]
    box.run(
        lambda: all(
            any(record.participants == box.count for record in node.records[old:])
            for node, old in zip(box.nodes, known, strict=True)
        ),
        within_s=BACK_S,
    )


def test_two_short_outages_cost_a_swarm_of_three_no_round(make_box) -> None:
    box = swarm(make_box, 3)
    for one, for_s in ((0, 12.0), (1, 25.0)):
        cut_off(box, box.nodes[one])
        box.run_for(for_s)
        box.network.heal()
        all_in_a_sum(box)
    assert [failed(node) for node in box.nodes] == [0, 0, 0]


@pytest.mark.sampled("0")
@pytest.mark.parametrize("place", [0, 1])  # 0 coordinates
def test_six_minutes_cost_a_swarm_of_three_neither_round_nor_budget(make_box, place: int) -> None:
    box = swarm(make_box, 3)
    cut_off(box, box.nodes[place])
    box.run_for(UNDER_WAY_S)
    before = spent(box)
    box.run_for(SIX_MINUTES_S)
    assert spent(box) == before
    box.network.heal()
    all_in_a_sum(box)
    assert [failed(node) for node in box.nodes] == [0, 0, 0]


@pytest.mark.sampled("1-Share")
@pytest.mark.parametrize("kind", [Group, Share, Sum, soak(Ready)], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("nth", [1, soak(2)])
def test_in_the_middle_of_a_sum_it_costs_what_has_left_for_it(
    make_box, kind: type[Message], nth: int
) -> None:
    box = swarm(make_box, 3)
    one = box.nodes[1]
    one.before_message(lambda: cut_off(box, one), "any", kind, nth)
    box.run(lambda: bool(box.network.cuts))
    was = spent(box)
    box.run_for(UNDER_WAY_S)
    before = spent(box)
    assert all(now[1] <= then[1] + 1 for now, then in zip(before, was, strict=True))
    box.run_for(SIX_MINUTES_S)
    assert spent(box) == before
    box.network.heal()
    all_in_a_sum(box)
    assert max(failed(node) for node in box.nodes) <= (1 if kind in (Share, Sum) else 0)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "kind",
    [Masked, *soaks((Group, Ready, Join, Ack))],
    ids=lambda kind: kind.__name__,
)
def test_of_five_the_others_go_on_and_the_one_that_is_cut_off_waits(make_box, kind: type[Message]) -> None:
    box = swarm(make_box, 5)
    one, others = box.nodes[1], [node for node in box.nodes if node.number != 1]
    one.before_message(lambda: cut_off(box, one), "any", kind)
    box.run(lambda: bool(box.network.cuts))
    box.run_for(UNDER_WAY_S)
    before, known = spent(box)[1], len(others[0].records)
    box.run_for(30.0)
    assert spent(box)[1] == before
    assert all(record.participants == 4 for node in others for record in node.records[known:])
    assert len(others[0].records) > known
    assert failed(one) == (1 if kind in (Masked, Ack) else 0)
