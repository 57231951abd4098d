"""Swarms whose members reach each other by relays alone: what outages of relays and of ways to them cost."""

from __future__ import annotations

import pytest

from node.runtime.record.figures import Record
from protocol.wire.masked_messages import Ack, Join, Masked
from protocol.wire.messages import Message, Share, Sum
from tests.box.box import Box, BoxNode, BoxTracker
from tests.box.conftest import MakeBox

LOST_LINK = "cannot be reached"
OUTAGE_S = 360.0
BACK_S = 60.0


def swarm(make_box: MakeBox, count: int, relays: int = 1) -> Box:
    """Starts relays and nodes; returns when each was in two sums."""
    box = make_box(count, 1000)
    box.network.slowest_s = 0.5
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


def until_all_meet(box: Box) -> None:
    """Runs until each node is in one more sum of all."""
    known = [len(node.records) for node in box.nodes]

    def has_met(node: BoxNode, old: int) -> bool:
        return any(is_whole(box, record) for record in node.records[old:])

    box.run(lambda: all(map(has_met, box.nodes, known)), within_s=BACK_S)


def is_whole(box: Box, record: Record) -> bool:
    return record.reason is None and record.participants == box.count


def failures(node: BoxNode) -> int:
    return sum(record.reason is not None for record in node.records)


def has_lost_a_link(node: BoxNode) -> bool:
    return any(LOST_LINK in line for line in node.lines)


@pytest.mark.parametrize(("count", "kind"), [(3, Share), (3, Sum), (5, Join), (5, Masked), (5, Ack)])
@pytest.mark.parametrize("away_s", [3.0, 12.0])
def test_a_relay_that_is_killed_in_a_sum_and_soon_back_costs_no_link(
    make_box, count: int, kind: type[Message], away_s: float
) -> None:
    """After three seconds the sum goes on; after twelve it has failed, as its time is over."""
    box = swarm(make_box, count)
    restart(box, box.relays[0], away_s, kind)
    until_all_meet(box)
    assert not any(map(has_lost_a_link, box.nodes))
    assert max(map(failures, box.nodes)) <= (0 if away_s < 10 else 1)


@pytest.mark.parametrize(("count", "kind"), [(3, Share), (5, Masked)])
def test_after_a_longer_outage_of_its_relay_a_swarm_goes_on_by_itself(
    make_box, count: int, kind: type[Message]
) -> None:
    box = swarm(make_box, count)
    restart(box, box.relays[0], 40.0, kind)
    until_all_meet(box)
    assert all(map(has_lost_a_link, box.nodes))
    assert max(map(failures, box.nodes)) <= 1
