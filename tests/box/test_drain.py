"""SIGTERM during a round: the node finishes it first, the others lose nothing, and a restart goes on."""

from __future__ import annotations

from functools import partial

import pytest

from protocol.wire.masked_messages import Masked
from protocol.wire.messages import Accepted, Share
from tests.box.box import Box
from tests.box.moments import Moment


def test_a_round_that_has_begun_is_ended_before_the_node(make_box) -> None:
    """The signal comes as the node sends the first part of its spent update in its second round."""
    box: Box = make_box(4, 4, "aggregation.protocol=masked", "aggregation.min_participants=4")
    stopping, others = box.nodes[2], [node for node in box.nodes if node.number != 2]
    Moment(Masked).arrange(stopping, stopping.tell_to_end)
    box.start_all()
    box.run(lambda: stopping.is_over)
    assert stopping.status == 130
    assert stopping.has_said("ending: a round that has begun may take 30 s")
    assert [line["participants"] for line in stopping.history] == [4, 4]
    assert (stopping.summary["finished"], stopping.fact("round")) == (False, 2)
    box.run_for(20.0)
    assert {len(node.history) for node in others} == {2}, "nobody goes on without it"
    stopping.start()
    box.run_to_the_end()
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1
    for node in box.nodes:
        assert [(line["round"], line["participants"]) for line in node.history] == [
            (number, 4) for number in range(1, 5)
        ]


def test_the_bound_ends_the_drain(make_box) -> None:
    """Another node stands still in a round: without the bound it would wait until that counts as gone."""
    box: Box = make_box(3, 3, "aggregation.protocol=additive", "aggregation.shares_timeout_s=40")
    still, stopped = box.nodes[1:]
    box.start_all()
    Moment(Accepted, way="in").arrange(still, still.life.pause)
    Moment(Share, 2).arrange(stopped, partial(stopped.tell_to_end, within_s=5.0))
    box.run(lambda: stopped.has_said("ending:"))
    begun_s = box.loop.time()
    box.run(lambda: stopped.is_over)
    assert box.loop.time() - begun_s == pytest.approx(5.0, abs=0.1)
    assert (stopped.status, [line["round"] for line in stopped.history]) == (130, [1])


def test_a_node_told_to_end_waits_for_no_other_group_once_its_sum_has_failed(make_box) -> None:
    """It waits for ever, and another node stands still before anything is spent: its offer is good again."""
    box: Box = make_box(3, 3, "aggregation.shares_timeout_s=3", options=("--wait", "forever"))
    still, stopped = box.nodes[1:]
    box.start_all()
    Moment(Accepted, way="in").arrange(still, still.life.pause)
    Moment(Share).arrange(stopped, stopped.tell_to_end)
    box.run(lambda: stopped.has_said("ending:"))
    begun_s = box.loop.time()
    box.run(lambda: stopped.is_over)
    assert box.loop.time() - begun_s == pytest.approx(3.0, abs=0.1)
    assert stopped.status == 130
    assert not stopped.has_said("waiting for")
