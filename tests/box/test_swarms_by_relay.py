"""Swarms whose members reach each other by relays alone: what outages of relays and of ways to them cost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from node.observe.kept_view import EVERY_S
from node.runtime.record.figures import Record
from node.storage.folder_lock import VIEW
from protocol.swarm.last_rounds import AWAY_S
from protocol.wire.masked_messages import Ack, Join, Masked
from protocol.wire.messages import Group, Message, Share, Sum
from tests.box.box import Box, BoxNode, BoxTracker
from tests.box.conftest import MakeBox
from tests.box.network import HOST
from tests.cases import soak

SELDOM = ((3, Sum), (5, Join), (5, Ack))
LOST_LINK = "cannot be reached"
STAYS = "this node stays up to 15 min more for"
TRAINS_S = 4.0
OUTAGE_S = 360.0
UNDER_WAY_S = 90.0
"""By then a line that is cut counts as silent, and a sum under way has failed."""
BACK_S = 120.0


def swarm(make_box: MakeBox, count: int, relays: int = 1, *overrides: str) -> Box:
    """Starts relays and nodes; returns when each was in two sums."""
    box = make_box(count, 1000, *overrides)
    box.network.slowest_s = 0.25
    box.loop.lasts_s = lambda name: TRAINS_S if name == "_train" else 0.0
    box.with_relays(relays)
    box.start_all()
    box.run(lambda: all(node.has_aggregated(2, participants=count) for node in box.nodes), within_s=120.0)
    return box


def restart(
    box: Box, relay: BoxTracker, after_s: float, kind: type[Message], way: str = "out", nth: int = 1
) -> None:
    """Kills a relay while a member sends, or gets, a message of a sum, and starts it again later."""
    box.nodes[1].before_message(relay.kill, way, kind, nth)
    box.run(lambda: relay.is_over)
    box.run_for(after_s)
    relay.start()


def cut_off(box: Box, one: BoxNode, kind: type[Message]) -> None:
    """Cuts the way of a node to the relay while it sends a message of a sum, until that sum is over."""
    one.before_message(lambda: box.network.cut(one.number, box.relays[0].number), "any", kind)
    box.run(lambda: bool(box.network.cuts))
    box.run_for(UNDER_WAY_S)


def until_all_meet(box: Box) -> None:
    """Runs until each node is in one more sum of all."""
    known = [len(node.records) for node in box.nodes]

    def has_met(node: BoxNode, old: int) -> bool:
        return any(is_whole(box, record) for record in node.records[old:])

    box.run(lambda: all(map(has_met, box.nodes, known)), within_s=BACK_S)


def is_whole(box: Box, record: Record) -> bool:
    return record.reason is None and record.participants == box.count


def seen_from(node: BoxNode) -> list[dict[str, Any]]:
    """Whether others are there, as the node shows its owner: those that are missed last."""
    peers = json.loads((node.folder / VIEW).read_text())["peers"]
    return sorted((peer["presence"] for peer in peers), key=lambda seen: not seen["relay"])


def failures(node: BoxNode) -> int:
    return sum(record.reason is not None for record in node.records)


def has_lost_a_link(node: BoxNode) -> bool:
    return any(LOST_LINK in line for line in node.lines)


@pytest.mark.sampled("3-Share-3.0")
@pytest.mark.parametrize(
    ("count", "kind", "away_s"),
    [
        (3, Share, 3.0),
        (5, Masked, 12.0),
        soak(3, Share, 12.0),
        soak(5, Masked, 3.0),
        *(soak(*seldom, away_s) for seldom in SELDOM for away_s in (3.0, 12.0)),
    ],
)
def test_a_relay_that_is_killed_in_a_sum_and_soon_back_costs_no_link(
    make_box, count: int, kind: type[Message], away_s: float
) -> None:
    """After three seconds the sum goes on; after twelve it has failed, as its time is over."""
    box = swarm(make_box, count)
    restart(box, box.relays[0], away_s, kind)
    until_all_meet(box)
    assert not any(map(has_lost_a_link, box.nodes))
    assert not [line for node in box.nodes for line in node.lines if "its clock is" in line]
    assert max(map(failures, box.nodes)) <= (0 if away_s < 10 else 1)


@pytest.mark.sampled("3-Share-out-1")
@pytest.mark.parametrize(("count", "kind", "way", "nth"), [(3, Share, "out", 1), (5, Join, "in", 6)])
def test_after_a_longer_outage_of_its_relay_a_swarm_goes_on_by_itself(
    make_box, count: int, kind: type[Message], way: str, nth: int
) -> None:
    """Who lacked some of the others' joins blames nobody: no relay could be reached."""
    box = swarm(make_box, count)
    restart(box, box.relays[0], 40.0, kind, way, nth)
    assert [node.engine.inspector.node.picture().left_out for node in box.nodes] == [()] * count
    assert count == 3 or any(node.has_said("did not send its join") for node in box.nodes)
    until_all_meet(box)
    assert all(map(has_lost_a_link, box.nodes))
    assert max(map(failures, box.nodes)) <= 1


@pytest.mark.parametrize("kind", [Masked, soak(Join), soak(Ack)])
def test_where_one_of_two_relays_is_killed_the_other_carries_and_nothing_is_lost(
    make_box, kind: type[Message]
) -> None:
    box = swarm(make_box, 5, relays=2)
    box.nodes[1].before_message(box.relays[0].kill, "out", kind)
    box.run(lambda: box.relays[0].is_over)
    until_all_meet(box)
    assert not any(map(has_lost_a_link, box.nodes))
    assert max(map(failures, box.nodes)) == 0


@pytest.mark.parametrize("kind", [Share, soak(Group)])
def test_of_three_nobody_spends_a_round_while_the_way_of_one_to_the_relay_is_cut(
    make_box, kind: type[Message]
) -> None:
    """Six minutes, from the middle of a sum on or from the beginning of one."""
    box = swarm(make_box, 3)
    cut_off(box, box.nodes[1], kind)
    before = [len(node.records) for node in box.nodes]
    box.run_for(OUTAGE_S)
    assert [len(node.records) for node in box.nodes] == before
    here, missed = seen_from(box.nodes[0])
    assert (here["relay"], missed["relay"]) == (HOST, "")
    assert missed["why"] == "its connection to the relay broke"
    box.network.heal()
    until_all_meet(box)
    assert max(map(failures, box.nodes)) <= 1
    box.run_for(EVERY_S)
    assert [each["relay"] for each in seen_from(box.nodes[0])] == [HOST] * 2


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [Masked, soak(Join)])
def test_of_five_the_others_go_on_while_the_way_of_one_to_the_relay_is_cut(
    make_box, kind: type[Message]
) -> None:
    box = swarm(make_box, 5)
    one, others = box.nodes[1], [node for node in box.nodes if node.number != 1]
    cut_off(box, one, kind)
    before, known = len(one.records), len(others[0].records)
    box.run_for(30.0)
    assert len(one.records) == before
    since = others[0].records[known:]
    assert since
    assert all(record.reason is None and record.participants == 4 for record in since)
    box.network.heal()
    until_all_meet(box)


@pytest.mark.sampled
def test_three_of_five_that_are_no_quorum_of_who_made_the_last_model_make_none(make_box) -> None:
    """A weak one would cost each of them a round and a charge; they wait instead (tests.box.invariants)."""
    box = swarm(make_box, 5, 1, "aggregation.group_timeout_s=10")
    relay, (one, two, _, four, five) = box.relays[0].number, (node.number for node in box.nodes)
    for away in (four, five):
        box.network.cut(away, relay)
    box.run(lambda: any(record.participants == 3 for record in box.nodes[2].records))
    for away in (one, two):
        box.network.cut(away, relay)
    box.network.mend(frozenset((back, relay)) for back in (four, five))
    box.run_for(UNDER_WAY_S)
    assert {node.engine.agreed[0].members for node in box.nodes[2:]} == {3}
    box.network.heal()
    until_all_meet(box)


def left_alone(make_box: MakeBox) -> tuple[Box, BoxNode, list[BoxNode]]:
    """Cuts one of four off; returns when the others have the last model, and say that they stay for it."""
    box = make_box(4, 4)
    box.with_relays()
    box.start_all()
    box.run(lambda: all(node.has_aggregated(2) for node in box.nodes), within_s=120.0)
    late, others = box.nodes[2], [node for node in box.nodes if node.number != 2]
    box.network.cut(late.number, box.relays[0].number)
    box.run(lambda: all(node.has_said(STAYS) for node in others), within_s=600.0)
    return box, late, others


@pytest.mark.sampled
def test_the_others_stay_for_one_who_was_cut_off_when_they_ended(make_box) -> None:
    box, _, others = left_alone(make_box)
    box.run_for(OUTAGE_S)
    assert all(node.is_up for node in others)
    box.network.heal()
    box.run_to_the_end(within_s=60.0)
    assert [node.status for node in box.nodes] == [0] * 4
    assert len({node.agreed[0].digest for node in box.nodes}) == 1


@pytest.mark.sampled
def test_who_comes_back_too_late_waits_until_one_of_the_others_starts_again(make_box) -> None:
    """Whoever stays for it ends at once when told to, as if all had the model."""
    box, late, others = left_alone(make_box)
    before = len(late.records)
    box.run_for(UNDER_WAY_S)
    others[2].tell_to_end()
    box.run(lambda: others[2].is_over, within_s=10.0)
    box.run(lambda: all(node.is_over for node in others), within_s=AWAY_S)
    assert [node.status for node in others] == [0] * 3
    assert others[2].events[-1].summary.finished
    box.network.heal()
    box.run_for(UNDER_WAY_S)
    assert late.is_up
    assert (len(late.records), late.has_said("one of them starts again")) == (before, True)
    others[0].start()
    box.run(lambda: others[0].is_over and late.is_over, within_s=300.0)
    assert (others[0].status, late.status) == (0, 0)
    assert others[0].agreed[0].digest == late.agreed[0].digest
