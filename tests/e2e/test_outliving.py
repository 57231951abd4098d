"""A run outlives its process: its page stays up, and its folder tells it when the process is gone."""

from __future__ import annotations

import json
import signal

from node.observe.run_folder import MODEL, SILENT_S, RunFolder
from node.report.__main__ import main as report
from node.storage.folder_lock import VIEW
from tests.e2e.swarm import get, history, one_digest


def test_a_page_that_lingers_holds_up_nobody_and_shows_the_end(make_swarm) -> None:
    swarm = make_swarm(3, 4)
    nodes = [
        swarm.start(number, "--linger", "600") if not number else swarm.start(number) for number in range(3)
    ]
    nodes[0].event("lingering", for_s=600.0)
    one_digest([nodes[0].event("finished"), *(node.ends_well() for node in nodes[1:])])

    seen = swarm.status(0)
    assert (seen["ended"], seen["round"], len(seen["history"])) == (True, 4, 4)
    assert get(swarm.endpoints[0], "/")[0] == 200
    assert get(swarm.endpoints[0], "/v1/model") == (200, (swarm.out(0) / MODEL).read_bytes())
    assert get(swarm.endpoints[0], "/v1/link") == (503, b"this node has left the swarm\n")
    nodes[0].send(signal.SIGINT)
    assert nodes[0].status() == 0
    kept = RunFolder(swarm.out(0)).read()
    assert (kept.ended, kept.task, kept.key) == (True, "digits", swarm.keys[0].hex())
    assert {peer.contact for peer in kept.peers} == {"left"}


def test_a_killed_run_is_shown_as_far_as_it_came(make_swarm, capsys) -> None:
    swarm = make_swarm(3, 10_000)
    swarm.start_all()
    swarm.wait_status(0, lambda said: said["round"] >= 2)
    swarm.nodes[0].send(signal.SIGKILL)
    swarm.nodes[0].status()

    at = json.loads((swarm.out(0) / VIEW).read_text())["at"]
    seen = RunFolder(swarm.out(0), lambda: at + SILENT_S + 1).read()
    assert (seen.ended, seen.silent_since) == (False, at)
    assert seen.round == history(swarm.out(0))[-1]["round"] >= 2
    assert seen.about["task"].startswith("digits")
    assert report([str(swarm.out(0))]) == 0
    assert (swarm.out(0) / "report.html").stat().st_size < 1_500_000
    assert "report: " in capsys.readouterr().out
