"""Nodes that wait for the others before the first group, and how a node that stayed alone ends."""

from __future__ import annotations

import json

from tests.e2e.swarm import history, summary

SOON = "aggregation.group_timeout_s=1"


def test_who_waits_for_ever_spends_no_round_until_the_last_one_comes(make_swarm):
    swarm = make_swarm(3, 3, SOON)
    early = [swarm.start(number, "--wait", "forever") for number in range(2)]
    missing = swarm.endpoints[2]
    for node in early:
        text = f"waiting for {missing}, who were named for the first model; a model takes at least 3 peers"
        node.event_after("notice", lambda event, text=text: event["text"].startswith(text))
        assert (
            node.event("started")["wait"]
            == "as long as it takes for the first group; no round is spent meanwhile"
        )
    assert swarm.status(0)["round"] == 0
    late = swarm.start(2, "--wait", "forever")
    for number, node in enumerate([*early, late]):
        node.ends_well()
        assert [line["outcome"] for line in history(swarm.out(number))] == ["aggregated"] * 3


def test_a_node_that_waited_in_vain_goes_on_alone_and_says_so_last(make_swarm):
    swarm = make_swarm(3, 2, SOON)
    node = swarm.start(0, "--wait", "3", "--log", "json")
    assert node.status() == 0
    assert [line["reason"] for line in history(swarm.out(0))] == ["group-timeout"] * 2
    assert summary(swarm.out(0))["generation"] == 0
    node.err.join()
    assert '"you trained alone: 0 of 2 rounds were aggregated;' in node.err.all()[-2]
    kinds = [json.loads(line)["event"] for line in node.out.all()]
    assert kinds[: kinds.index("round")].count("notice") >= 2, "each second of the wait says who is missing"


def test_a_run_alone_fails_where_its_owner_requires_others(make_swarm):
    swarm = make_swarm(3, 2, SOON)
    node = swarm.start(0, "--require-aggregation")
    assert "no round up to 2 of 2 was aggregated, and --require-aggregation asks for one" in node.fails(1)
    assert summary(swarm.out(0))["fallbacks"] == 2


def test_a_run_with_others_does_what_its_owner_requires(make_swarm):
    swarm = make_swarm(3, 1)
    for node in [swarm.start(number, "--require-aggregation") for number in range(3)]:
        node.ends_well()
