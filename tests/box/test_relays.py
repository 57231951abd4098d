"""Swarms whose members reach each other by relays alone: what outages of relays and of ways to them cost."""

from __future__ import annotations

import pytest

from node.runtime.record.figures import Record
from protocol.wire.masked_messages import Ack, Join, Masked
from protocol.wire.messages import Message, Share, Sum
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


def restart(box: Box, relay: BoxTracker, after_s: float, kind: type[Message]) -> None:
    """Kills a relay while a member sends a message of a sum, and starts it again later."""
    box.nodes[1].before_message(relay.kill, "out", kind)
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


@pytest.mark.parametrize(("count", "kind"), [(3, Share), (3, Sum), (5, Join), (5, Masked), (5, Ack)])
@pytest.mark.parametrize("away_s", [3.0, 12.0])
def test_a_relay_that_is_killed_in_a_sum_and_soon_back_costs_nothing(
    make_box, count: int, kind: type[Message], away_s: float
) -> None:
    box = swarm(make_box, count)
    restart(box, box.relays[0], away_s, kind)
    without_loss(box, more_sums(box))


@pytest.mark.parametrize(("count", "kind"), [(3, Share), (5, Masked)])
def test_after_a_longer_outage_of_its_relay_a_swarm_goes_on_by_itself(
    make_box, count: int, kind: type[Message]
) -> None:
    box = swarm(make_box, count)
    restart(box, box.relays[0], 40.0, kind)
    rounds = more_sums(box)
    assert all(any(LOST_LINK in line for line in node.lines) for node in box.nodes)
    assert max(sum(one.reason is not None for one in each) for each in rounds) <= 1
