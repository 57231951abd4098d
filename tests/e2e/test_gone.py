"""Electors that never come back: what a swarm reports, and what it does without them once owners say so."""

from __future__ import annotations

import json
import signal

import pytest

from tests.e2e.processes import Event, Process
from tests.e2e.swarm import Swarm, get, history

LONG_S = 180.0
"""Five failed rounds and 30 s, while other processes run."""


def told(node: Process, text: str) -> Event:
    return node.event_after("notice", lambda event: text in event["text"], LONG_S)


def learned(swarm: Swarm, number: int) -> None:
    swarm.nodes[number].event("round", outcome="aggregated", round=2)


def stopped(node: Process) -> None:
    node.send(signal.SIGINT)
    assert node.status() == 130, node.told()


@pytest.mark.slow  # patience alone takes 30 s
def test_three_of_eight_go_on_weakly_and_for_good_once_all_owners_say_that_the_rest_is_gone(make_swarm):
    swarm = make_swarm(8, 1000, "aggregation.group_timeout_s=3")
    here, gone = (0, 1, 2), (3, 4, 5, 6, 7)
    swarm.start_all()
    for number in range(8):
        learned(swarm, number)
    for number in gone:
        swarm.nodes[number].kill()

    for number in here:  # number 0 is the first elector: with one more they are half of the eight
        node = swarm.nodes[number]
        text = told(node, "waiting for 1 of: ")["text"]
        assert all(swarm.endpoints[each] in text for each in gone), text
        assert ", who made the last model; goes on without them after " in text
        assert text.endswith(f"if they are gone for good: python -m node.rejoin --out {swarm.out(number)}")
        said = json.loads(get(swarm.endpoints[number], "/healthz")[1])
        assert said["waiting"].startswith("waiting for 1 of 5 peers, who made the last model")
        assert swarm.status(number)["electors_missing"] == 1
    for number in here:
        text = told(swarm.nodes[number], "was agreed without a quorum")["text"]
        assert "it counts until they are back" in text
        assert "until they are back, models are agreed without them" in swarm.status(number)["waiting"]
    for number in here:
        stopped(swarm.nodes[number])

    names = [part for each in gone for part in ("--gone", swarm.endpoints[each])]
    for number in here:
        command = swarm.nursery.module("node.rejoin", "--out", str(swarm.out(number)), *names, "--yes")
        command.line("then 2 of the 3 make a quorum")
        assert command.status() == 0
    for number in here:
        swarm.nodes[number] = swarm.start(number)
    for number in here:
        node = swarm.nodes[number]
        said = node.event("started")["gone for good"]
        assert all(swarm.endpoints[each] in said for each in gone), said
        warning = node.event_after("warning", lambda event: "WITHOUT" in event["text"])
        assert all(swarm.endpoints[each] in warning["text"] for each in gone)
        line = node.event_after("round", lambda event: event["without"])
        assert sorted(line["without"]) == sorted(swarm.endpoints[each] for each in gone)
        node.event("round", outcome="aggregated", round=line["round"] + 1)
    for number in here:
        stopped(swarm.nodes[number])
        assert sum(bool(line["without"]) for line in history(swarm.out(number))) == 1


@pytest.mark.slow  # as above
def test_a_lone_survivor_makes_no_model_of_its_own(make_swarm):
    swarm = make_swarm(3, 1000, "aggregation.group_timeout_s=1")
    swarm.start_all()
    for number in range(3):
        learned(swarm, number)
    for number in (1, 2):
        swarm.nodes[number].kill()
    node = swarm.nodes[0]
    first = node.event("round", LONG_S, outcome="fallback")
    after = node.event("round", LONG_S, round=first["round"] + 13)
    assert (after["outcome"], after["base_digest"]) == ("fallback", first["base_digest"])
    assert "a model takes at least 3 peers, and 1 is here" in swarm.status(0)["waiting"]
    assert "rejoin" not in swarm.status(0)["waiting"]
    stopped(node)
