"""Nodes leave one by one, or are killed repeatedly, and restart: soon all are in one sum again.

The last node to leave holds the newest model; all others have an older one.
"""

from __future__ import annotations

import random

import pytest

from tests.box.box import Box, BoxNode
from tests.cases import soaks

FOR_EVER = 100_000
LEAST = 3
BACK_WITHIN_S = 30.0
BETWEEN_ROUNDS = 2
KILLS, BETWEEN_S, SLOW_S = 77, 1.5, 0.2


def generation(node: BoxNode) -> int:
    """Returns the generation of a running node's model."""
    assert node.engine is not None
    return node.engine.inspector.state.base.generation


def leave_one_by_one(box: Box, order: list[BoxNode]) -> list[int]:
    """Stops the nodes one by one; each remaining group makes some models, and the last two can make none.

    Returns the generations of their models.
    """
    made = []
    for left, node in zip(range(box.count, 0, -1), order, strict=True):
        if left >= LEAST:
            rounds = len(node.records) + BETWEEN_ROUNDS
            box.run(lambda: len(node.records) >= rounds and node.records[-1].reason is None)  # noqa: B023
        state = node.engine.inspector.state
        node.tell_to_end()
        box.run(lambda: node.is_over)  # noqa: B023
        assert node.status == 130
        made.append(state.base.generation)
    return made


def all_in_one_sum(box: Box) -> None:
    """Runs the box until each node has been in one more sum of all."""
    seen = [len(node.records) for node in box.nodes]
    box.run(
        lambda: all(
            any(one.participants == box.count for one in node.records[before:])
            for node, before in zip(box.nodes, seen, strict=True)
        ),
        BACK_WITHIN_S,
    )


@pytest.mark.parametrize("seed", [1, *soaks(range(2, 20))])
def test_six_leave_one_by_one_and_come_back(make_box, seed: int) -> None:
    """They stop and restart in orders drawn from a seed; no agreed model may be lost.

    Those who left first make no model before a quorum of the newest one is back.
    """
    rng = random.Random(seed)
    box = make_box(6, FOR_EVER)
    box.start_all()
    order = rng.sample(box.nodes, 6)
    made = leave_one_by_one(box, order)
    early, late = order[:3], order[3:]
    for node in rng.sample(early, 3):
        node.start()
    box.run_for(300.0)
    assert [generation(node) for node in early] == [made[2]] * 3
    assert made[2] < max(made)
    for node in rng.sample(late, 3):
        node.start()
    all_in_one_sum(box)
    assert min(map(generation, box.nodes)) > max(made)


@pytest.mark.soak
def test_eight_nodes_and_seventy_seven_kills(make_box) -> None:
    """Two minutes of kills; then all nodes run undisturbed."""
    box = make_box(8, FOR_EVER, seed=77)
    box.network.slowest_s = SLOW_S
    box.start_all()
    for _ in range(KILLS):
        box.run_for(BETWEEN_S)
        victim = box.rng.choice(box.nodes)
        victim.kill()
        box.run(lambda: victim.is_over)  # noqa: B023
        victim.start()
    all_in_one_sum(box)
    told = [{one.round: one for one in node.records} for node in box.nodes]
    common = set.intersection(*(set(records) for records in told))
    last = max(one for one in common if told[0][one].participants == box.count)
    assert len({records[last].base_digest for records in told}) == 1
