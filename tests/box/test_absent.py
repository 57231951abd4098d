"""Somebody stands still, leaves, or is away too long; the tracker dies."""

from __future__ import annotations

import pytest

from node.runtime.record.events import GroupResized, RoundStarted
from protocol.wire.masked_messages import JoinCertificate
from protocol.wire.messages import Accepted
from tests.box.box import STEPS, Box, own_rows
from tests.box.ledgers import booked_once
from tests.box.moments import Moment
from tests.cases import soak

ADDITIVE, MASKED = "aggregation.protocol=additive", "aggregation.protocol=masked"
WIDE = ("model.args.sizes=[64,256,10]", "aggregation.weighting=samples", "aggregation.sample_cap=1000")


def one_digest(box: Box) -> None:
    assert [node.status for node in box.nodes] == [0] * box.count
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1


def test_who_stands_still_is_waited_for_until_the_deadline_only(make_box) -> None:
    """It is stopped, not killed: its streams stay open, and nothing reports that it is gone."""
    box: Box = make_box(4, 9, ADDITIVE, "aggregation.shares_timeout_s=2", "aggregation.sums_timeout_s=2")
    *others, still = box.nodes
    box.start_all()
    Moment(Accepted, session=4, way="in").arrange(still, still.life.pause)
    box.run(lambda: all(node.has_aggregated(4) for node in others))
    for node in others:
        failed, after = node.history[3:5]
        assert (failed["round"], failed["reason"]) == (4, "shares-timeout")
        assert failed["missing"] == [still.key.public.hex()[:16]]
        assert failed["aggregate_s"] == pytest.approx(2.0, abs=0.1)
        assert (after["round"], after["participants"]) == (4, 3)
    still.go_on()
    box.run_to_the_end()
    one_digest(box)
    assert still.history[-1]["participants"] == 4
    assert [node.summary["fallbacks"] for node in box.nodes] == [1] * 4


def test_who_stands_still_behind_masks_is_left_behind_and_catches_up(make_box) -> None:
    """It has joined and sends no vector: the others change the view and go on without it."""
    box: Box = make_box(5, 8, MASKED, "aggregation.sums_timeout_s=8", *WIDE)
    still, others = box.nodes[3], [node for node in box.nodes if node.number != 3]
    box.start_all()
    Moment(JoinCertificate).arrange(still, still.life.pause)
    box.run(lambda: all(node.has_aggregated(2) for node in others))
    for node in others:
        assert (node.history[1]["round"], node.history[1]["participants"]) == (2, 4)
        assert node.history[1]["aggregate_s"] < 8
    still.go_on()
    box.run_to_the_end()
    one_digest(box)
    assert [node.summary["aggregated"] for node in others] == [8] * 4
    assert (still.history[-1]["round"], still.history[-1]["participants"]) == (8, 5)
    second = [line for node in box.nodes for line in node.history if line["round"] == 2]
    assert len({(line["reason"], line["participants"], line["base_digest"]) for line in second}) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("number", [0, soak(3)])  # 0 coordinates
def test_who_stands_still_while_noise_is_shared_costs_the_others_few_steps(make_box, number: int) -> None:
    """Steps are all or none. Before, each of them failed until it was back, and weak models followed."""
    about = ("train.steps=50", "train.report_every=5", "privacy.honest=2", "aggregation.min_participants=4")
    box: Box = make_box(5, 10, *about, usual=STEPS, rows=own_rows)
    still, others = box.nodes[number], [node for node in box.nodes if node.number != number]
    box.start_all()
    box.run(lambda: all(node.has_aggregated(3) for node in box.nodes))
    still.pause()
    box.run(lambda: all(node.is_over for node in others))
    for node in others:
        assert [line["round"] for line in node.history] == [*range(1, 11)]
        assert {line["participants"] for line in node.history[4:]} == {4}
        assert sum(line["steps_failed"] for line in node.history) <= 2
        assert not node.has_said("without a quorum")
    assert len({node.summary["base_digest"] for node in others}) == 1
    still.go_on()
    still.tell_to_end()
    box.run_to_the_end()


def test_who_leaves_is_not_waited_for(make_box) -> None:
    box: Box = make_box(4, 8)
    *others, leaving = box.nodes
    box.start_all()
    box.run(lambda: leaving.has_aggregated(3))
    leaving.tell_to_end()
    box.run_to_the_end()
    assert [node.status for node in box.nodes] == [0, 0, 0, 130]
    assert len({node.summary["base_digest"] for node in others}) == 1
    for node in others:
        assert node.has_said(f"{leaving.endpoint} has left")
        assert [line["participants"] for line in node.history] == [4] * 3 + [3] * 5
        assert max(line["aggregate_s"] for line in node.history) < 1.0  # the shortest wait for one not READY


def test_who_comes_back_to_nobody_ends_after_one_round_of_its_own(make_box) -> None:
    """The others have finished without it and are gone, so there is nothing to wait for."""
    box: Box = make_box(4, 5, ADDITIVE, "aggregation.group_timeout_s=4")
    *others, victim = box.nodes
    victim.when(victim.kill, RoundStarted, nth=3)
    box.start_all()
    box.run_to_the_end()
    assert [node.status for node in others] == [0] * 3
    victim.start()
    box.run_to_the_end()
    assert victim.status == 1
    assert victim.has_said("nobody of this swarm is there any more: every connection was refused for 4 s")
    assert victim.has_said("after round 2 of 5")
    told = victim.history
    assert [(line["round"], line["reason"]) for line in told] == [(1, None), (2, None), (3, "group-timeout")]
    ended = victim.summary
    assert (ended["rounds"], ended["finished"], ended["offers"]) == (2, False, 2)
    assert ended["base_digest"] == told[-1]["base_digest"]
    booked_once(victim)


def test_rounds_go_on_without_the_tracker_and_one_more_comes_when_it_is_back(make_box) -> None:
    box: Box = make_box(4, 9)
    tracker = box.with_tracker()
    *first, late = box.nodes
    for node in first:
        node.start()
    box.run(lambda: first[0].has_aggregated(2))
    tracker.kill()
    box.run(lambda: first[1].has_said(f"{tracker.endpoint} cannot be reached") and tracker.is_over)
    late.start()
    box.run(lambda: late.has_said(f"{tracker.endpoint} cannot be reached"))
    tracker.start()
    box.run_to_the_end()
    one_digest(box)
    assert [node.summary["aggregated"] for node in first] == [9] * 3
    assert late.history[-1]["participants"] == 4


def test_what_the_sums_withstand_is_told_at_the_start_and_when_the_group_is_another(make_box) -> None:
    box: Box = make_box(5, 3, MASKED)
    nodes = box.nodes[:4]
    for node in nodes:
        node.start()
    box.run_to_the_end()
    for node in nodes:
        assert node.has_said(
            "sums: masked sums of 5: tolerates 1 dropout; 3 of 5 peers would have to collude; 32-bit words, "
            "t = 4, f = 1, m = 2"
        )
        (told,) = (event.group.facts for event in node.events if isinstance(event, GroupResized))
        assert (told["protocol"], told["members"], told["dropouts"], told["colluders"]) == ("masked", 4, 0, 2)
        assert node.summary["sums"] == told
