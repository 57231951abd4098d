"""What the others are told when a node leaves: one line, with who and why."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.processes import Process, free_endpoint
from tests.e2e.swarm import history

TASK = """\
[task]
name = "huge"
[model]
class = "node.models:Linear"
args = { inputs = 4, outputs = 2 }
[train]
rounds = 3
learning_rate = 0.1
[aggregation]
group_timeout_s = 2
"""


def notice(node: Process, text: str) -> str:
    return str(node.event_after("notice", lambda event: text in event["text"])["text"])


@pytest.fixture
def three(nursery, tmp_path: Path) -> list[Process]:
    """Three nodes with data of their own; the values of the third one are too large to learn from."""
    (tmp_path / "huge.toml").write_text(TASK)
    endpoints = [free_endpoint() for _ in range(3)]
    nodes = []
    for number, scale in enumerate((1.0, 1.0, 1e29)):
        rng = np.random.default_rng(number)
        x = rng.normal(size=(60, 4)) * scale
        np.savez(tmp_path / f"{number}.npz", x=x, y=(x[:, 0] > 0).astype(np.int64))
        words = ["--peers", ",".join(endpoints), "--listen", endpoints[number], "--json"]
        mine = ["--data", str(tmp_path / f"{number}.npz"), "--out", str(tmp_path / str(number))]
        nodes.append(nursery.fork("--task", str(tmp_path / "huge.toml"), *words, *mine))
    return nodes


def test_a_node_that_diverges_tells_the_others_why_it_leaves(three, tmp_path):
    assert "training diverged in round 1" in three[2].fails(1)
    for node in three[:2]:
        told = notice(
            node, " has left: its training diverged, to a loss or an update that is not finite (key "
        )
        assert three[2].event("started")["node"].partition(" at ")[2] in told
        node.ends_well()
    assert {line["outcome"] for line in history(tmp_path / "0")} == {"fallback"}


def test_a_node_that_is_stopped_says_so_and_one_that_is_done_says_that(make_swarm):
    swarm = make_swarm(4, 1000, "aggregation.group_timeout_s=2")
    nodes = swarm.start_all()
    for node in nodes:
        node.event("round", outcome="aggregated", round=1)
    nodes[3].send(signal.SIGTERM)
    assert nodes[3].status() == 130
    for node in nodes[:3]:
        assert swarm.endpoints[3] in notice(node, " has left: its owner stopped it (key ")
        node.send(signal.SIGTERM)


def test_the_first_to_end_its_last_round_tells_the_others(make_swarm):
    swarm = make_swarm(3, 1000)
    others = [swarm.start(number) for number in (0, 1)]
    first = swarm.start(2, "--rounds", "2")
    assert first.ends_well()["aggregated"] == 2
    for node in others:
        assert " has left: its last round is over (key " in notice(node, f"{swarm.endpoints[2]} has left")
    for node in others:
        node.kill()


def test_names_that_the_owner_gave_stand_in_place_of_digits(make_swarm, tmp_path):
    swarm = make_swarm(3, 1000, "aggregation.group_timeout_s=2")
    key = swarm.keys[2]
    (tmp_path / "names.txt").write_text(f"ward c = {key.hex()}\n")
    mine = ("--names", str(tmp_path / "names.txt"), "--log", "json")
    node = swarm.start(0, *mine)
    others = [swarm.start(number) for number in (1, 2)]
    assert swarm.endpoints[2] in notice(node, " is here (ward c)")
    node.event("round", outcome="aggregated", round=2)
    assert {peer["endpoint"]: peer["name"] for peer in swarm.status(0)["peers"]} == {
        swarm.endpoints[1]: "",
        swarm.endpoints[2]: "ward c",
    }
    others[1].send(signal.SIGTERM)
    notice(node, " has left: its owner stopped it (ward c)")
    node.send(signal.SIGTERM)
    assert node.status() == 130
    node.err.join()
    logged = [json.loads(line) for line in node.err.all()]
    (left,) = (line for line in logged if line["event"] == "peer-left")
    assert (left["name"], left["key"], left["why"]) == ("ward c", key.hex()[:8], "its owner stopped it")
