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
        assert node.has_said("wait: as long as it takes for the first group; no round is spent meanwhile")
        assert node.records == []
    late.start()
    box.run_to_the_end()
    for node in box.nodes:
        assert [line["participants"] for line in node.history] == [3] * 3


def test_a_node_that_waited_in_vain_goes_on_alone_and_says_so_last(make_box):
    box = make_box(3, 2, SOON)
    begun_s = box.loop.time()
    node = box.nodes[0]
    node.start("--wait", "5")
    box.run_to_the_end()
    assert box.loop.time() - begun_s == pytest.approx(5 + 1, abs=0.01)
    missing = f"waiting for {box.nodes[1].endpoint}, {box.nodes[2].endpoint}, who were named"
    assert sum(line.startswith(missing) for line in node.lines) == 5 - 1, "each second says who is missing"
    assert node.status == 0
    assert [line["reason"] for line in node.history] == ["group-timeout"] * 2
    assert node.summary["generation"] == 0
    assert "warning: you trained alone: 0 of 2 rounds were aggregated;" in node.lines[-1]


@pytest.mark.parametrize("count", [1, 3])
def test_who_requires_others_fails_alone_and_ends_well_with_them(make_box, count: int):
    box = make_box(3, 2, SOON, options=("--require-aggregation",))
    for node in box.nodes[:count]:
        node.start()
    box.run_to_the_end()
    alone = "error: no round up to 2 of 2 was aggregated, and --require-aggregation asks for one"
    for node in box.nodes[:count]:
        assert (node.status, alone in node.lines[-1]) == ((0, False) if count == 3 else (1, True))
        assert node.summary["fallbacks"] == (0 if count == 3 else 2)
