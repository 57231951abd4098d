"""SIGTERM during a round: the node finishes it first, the others lose nothing, and a restart goes on."""

from __future__ import annotations

import json
import signal
import time

from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.swarm import ADDITIVE, MASKED, fact, history, one_digest, summary

STOPPING = 2


def test_a_round_that_has_begun_is_ended_before_the_node(make_swarm) -> None:
    """SIGTERM arrives as the node sends the first part of its spent update in its second session."""
    swarm = make_swarm(4, 4, MASKED, "aggregation.min_participants=4")  # nobody goes on without it
    fate = Fate("Masked", session=2, sign=signal.SIGTERM)
    nodes = swarm.start_all({STOPPING: Orders(fate=fate)})
    stopped = nodes[STOPPING]
    assert stopped.status() == 130
    stopped.err.join()
    assert stopped.err.all() == []
    assert stopped.event("draining")["within_s"] == 30
    mine = history(swarm.out(STOPPING))
    assert [line["outcome"] for line in mine] == ["aggregated"] * 2
    assert (summary(swarm.out(STOPPING))["finished"], fact(swarm.out(STOPPING), "round")) == (False, 2)
    again = swarm.start(STOPPING)
    others = [node for node in nodes if node is not stopped]
    ends = [node.ends_well() for node in (*others, again)]
    one_digest(ends)
    for node in others:
        assert node.event("round", round=2)["participants"] == 4
    numbers = [line["round"] for line in history(swarm.out(STOPPING))]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 4


def test_the_bound_ends_the_drain(make_swarm) -> None:
    """Two of three nodes stand still in a round: without the bound only timeouts of 40 s would end it."""
    swarm = make_swarm(3, 3, ADDITIVE, "aggregation.shares_timeout_s=40", "aggregation.sums_timeout_s=40")
    stops = {number: Orders(fate=Fate("Share", session=2, sign=signal.SIGSTOP)) for number in (0, 1)}
    nodes = [swarm.start(number, "--drain-timeout", "1", orders=stops.get(number)) for number in range(3)]
    swarm.wait_status(2, lambda said: said["phase"] == "shares" and said["round"] == 1)
    begun = time.monotonic()
    nodes[2].send(signal.SIGTERM)
    assert nodes[2].status() == 130
    assert time.monotonic() - begun < 30  # the order of things, not their speed
    assert [line["round"] for line in history(swarm.out(2))] == [1]


def test_the_second_signal_ends_at_once_and_the_log_says_so(make_swarm) -> None:
    swarm = make_swarm(3, 3, ADDITIVE, "aggregation.shares_timeout_s=40", "aggregation.sums_timeout_s=40")
    stops = {number: Orders(fate=Fate("Share", session=2, sign=signal.SIGSTOP)) for number in (0, 1)}
    nodes = [swarm.start(number, "--log", "json", orders=stops.get(number)) for number in range(3)]
    swarm.wait_status(2, lambda said: said["phase"] == "shares" and said["round"] == 1)
    nodes[2].send(signal.SIGTERM)
    nodes[2].event("draining")
    assert nodes[2].alive()
    nodes[2].send(signal.SIGINT)
    assert nodes[2].status() == 130
    nodes[2].err.join()
    lines = [json.loads(line) for line in nodes[2].err.all()]
    assert [line["event"] for line in lines if line["event"] in {"round", "draining", "stopped"}] == [
        *("round", "draining", "stopped"),
    ]
    assert lines[0]["event"] == "started"
    assert fact(swarm.out(2), "round") == 1
