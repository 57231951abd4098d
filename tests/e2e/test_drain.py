"""The second signal ends a node that finishes a round after the first; more: tests/box/test_drain.py."""

from __future__ import annotations

import json
import signal

from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.swarm import ADDITIVE
from tests.run_folders import fact


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
