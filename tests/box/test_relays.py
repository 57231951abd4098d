"""Swarms whose members reach each other by relays alone: what outages of relays and of ways to them cost."""

from __future__ import annotations

import pytest

from node.runtime.record.figures import Record
from tests.box.box import Box, BoxNode, BoxTracker
from tests.box.conftest import MakeBox

LOST_LINK = "cannot be reached"


def swarm(make_box: MakeBox, count: int, relays: int = 1) -> Box:
    """Starts relays and nodes; returns when each was in two sums."""
    box = make_box(count, 1000)
    box.with_relays(relays)
    box.start_all()
    box.run(lambda: all(node.has_aggregated(2, participants=count) for node in box.nodes), within_s=120.0)
    return box


def restart(box: Box, relay: BoxTracker, after_s: float) -> None:
    """Kills a relay, and starts it again later."""
    relay.kill()
    box.run(lambda: relay.is_over)
    box.run_for(after_s)
    relay.start()


def more_sums(box: Box, count: int = 3) -> list[list[Record]]:
    """Runs until each node was in so many sums of all; returns each node's rounds since then."""
    known = [len(node.records) for node in box.nodes]

    def has_more(node: BoxNode, old: int) -> bool:
        whole = [one for one in node.records[old:] if one.reason is None and one.participants == box.count]
        return len(whole) >= count

    box.run(lambda: all(map(has_more, box.nodes, known)), within_s=300.0)
    return [node.records[old:] for node, old in zip(box.nodes, known, strict=True)]


def without_loss(box: Box, rounds: list[list[Record]]) -> None:
    """All rounds were aggregated with all, and no link broke."""
    assert all(one.reason is None and one.participants == box.count for each in rounds for one in each)
    assert not [line for node in box.nodes for line in node.lines if LOST_LINK in line]


@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("away_s", [3.0, 12.0])
def test_a_relay_that_is_killed_and_soon_back_costs_nothing(make_box, count: int, away_s: float) -> None:
    box = swarm(make_box, count)
    restart(box, box.relays[0], away_s)
    without_loss(box, more_sums(box))


def test_after_a_longer_outage_of_its_relay_a_swarm_goes_on_by_itself(make_box) -> None:
    box = swarm(make_box, 3)
    restart(box, box.relays[0], 40.0)
    rounds = more_sums(box)
    assert max(sum(one.reason is not None for one in each) for each in rounds) <= 1
