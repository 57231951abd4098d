"""A run outlives its swarm: its page stays up until its owner ends it."""

from __future__ import annotations

import signal

from node.observe.run_folder import MODEL, RunFolder
from tests.e2e.swarm import get


def test_a_page_that_lingers_holds_up_nobody_and_shows_the_end(make_waiting_swarm) -> None:
    swarm = make_waiting_swarm(3, 4)
    nodes = [
        swarm.start(number, "--linger", "600") if not number else swarm.start(number) for number in range(3)
    ]
    nodes[0].event("lingering", for_s=600.0)
    for node in nodes[1:]:
        node.ends_well()

    seen = swarm.status(0)
    assert (seen["ended"], seen["round"], len(seen["history"])) == (True, 4, 4)
    assert get(swarm.endpoints[0], "/")[0] == 200
    assert get(swarm.endpoints[0], "/v1/model") == (200, (swarm.out(0) / MODEL).read_bytes())
    assert get(swarm.endpoints[0], "/v1/link") == (503, b"this node has left the swarm\n")
    nodes[0].send(signal.SIGINT)
    assert nodes[0].status() == 0
    kept = RunFolder(swarm.out(0)).read()
    assert (kept.ended, kept.task, kept.key, len(kept.peers)) == (True, "digits", swarm.keys[0].hex(), 2)
