"""Nodes that wait for the others before the first group, and how a node that stayed alone ends."""

from __future__ import annotations

import pytest

SOON = "aggregation.group_timeout_s=1"


def test_who_waits_for_ever_spends_no_round_until_the_last_one_comes(make_box):
    box = make_box(3, 3, SOON, options=("--wait", "forever"))
    *early, late = box.nodes
    for node in early:
        node.start()
    box.run_for(600)
    for node in early:
        text = (
            f"waiting for {late.endpoint}, who were named for the first model; a model takes at least 3 peers"
        )
        assert node.has_said(text)
        assert node.has_said("wait: as long as it takes for each group; no round is spent meanwhile")
        assert node.records == []
    late.start()
    box.run_to_the_end()
    for node in box.nodes:
        assert [line["participants"] for line in node.history] == [3] * 3


def test_a_node_that_waited_in_vain_ends_and_says_so_last(make_box):
    box = make_box(3, 2, SOON)
    begun_s = box.loop.time()
    node = box.nodes[0]
    node.start("--wait", "5")
    box.run_to_the_end()
    assert box.loop.time() - begun_s == pytest.approx(5, abs=0.01)
    missing = f"waiting for {box.nodes[1].endpoint}, {box.nodes[2].endpoint}, who were named"
    assert sum(line.startswith(missing) for line in node.lines) == 5 - 1, "each second says who is missing"
    assert node.status == 1
    assert [(line["reason"], line["alone"]) for line in node.history] == [("group-timeout", 1)]
    assert (node.summary["generation"], node.summary["finished"]) == (0, False)
    assert "warning: you trained alone: 0 of 1 rounds were aggregated;" in node.lines[-2]
    others = f"{box.nodes[1].endpoint}, {box.nodes[2].endpoint} did not come, after round 0 of 2"
    ended = f"error: no group came while this node waited for one: {others}; start"
    assert node.lines[-1].startswith(ended)


def test_a_node_ends_after_as_many_rounds_alone_in_a_row_as_it_was_to_make_and_tries_again(make_box):
    box = make_box(3, 2, SOON)
    node = box.nodes[0]
    for start in (1, 2):
        node.start()
        box.run_to_the_end()
        assert node.status == 1
        assert node.lines[-1].startswith("error: 2 rounds alone in a row, after round 0 of 2; start")
        told = [(line["own"], line["round"], line["alone"]) for line in node.history]
        assert told == [(own, 1, 1 + (own - 1) % 2) for own in range(1, 2 * start + 1)]
    for other in box.nodes:
        other.start()
    box.run_to_the_end()
    assert [other.status for other in box.nodes] == [0] * 3
    assert [(line["own"], line["round"], line["alone"]) for line in node.history[4:]] == [
        (5, 1, 0),
        (6, 2, 0),
    ]


@pytest.mark.parametrize("alone", [16, 10**6])
def test_rounds_that_others_have_had_alone_end_nobody_s_run(make_box, alone: int):
    """Two owners began early: before, their high numbers left the others 4 sums of 20."""
    box = make_box(5, 3, SOON)
    box.start_all()
    box.run(lambda: all(node.engine is not None for node in box.nodes))
    for node in box.nodes[:2]:
        node.engine._node._state.round = alone
    box.run_to_the_end()
    for node in box.nodes:
        assert node.status == 0
        assert [(line["round"], line["participants"]) for line in node.history] == [(n, 5) for n in (1, 2, 3)]


@pytest.mark.parametrize("count", [1, 3])
def test_who_requires_others_fails_alone_and_ends_well_with_them(make_box, count: int):
    box = make_box(3, 2, SOON, options=("--require-aggregation",))
    for node in box.nodes[:count]:
        node.start()
    box.run_to_the_end()
    alone = "error: 2 rounds alone in a row, after round 0 of 2; start"
    for node in box.nodes[:count]:
        assert (node.status, alone in node.lines[-1]) == ((0, False) if count == 3 else (1, True))
        assert node.summary["fallbacks"] == (0 if count == 3 else 2)
