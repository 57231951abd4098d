"""The doctor as a user starts it, against real nodes and a real tracker that run."""

from __future__ import annotations

import json

from tests.e2e.dying_peer import Orders, WrongClock
from tests.e2e.processes import Nursery, Process


def told(doctor: Process, status: int) -> dict[str, dict]:
    """Returns the objects that the doctor printed, by whom they are about."""
    assert doctor.status() == status, doctor.told()
    doctor.out.join()
    return {each["who"]: each for each in map(json.loads, doctor.out.all())}


def test_nodes_that_run_one_with_a_wrong_clock_one_that_is_missing(make_swarm, nursery: Nursery) -> None:
    swarm, tls = make_swarm(4, 1_000_000), "on"
    clocks = {1: Orders(clock=WrongClock(100.0))}
    nodes = [swarm.start(number, "--tls", tls, orders=clocks.get(number)) for number in range(3)]
    for node in nodes:
        node.event("round", outcome="aggregated")

    named = [f"{key.hex()}@{each}" for key, each in zip(swarm.keys, swarm.endpoints, strict=True)]
    wrong = f"{swarm.keys[0].hex()}@{swarm.endpoints[2]}"
    peers = ",".join([*named[:2], swarm.endpoints[2], named[3]])
    words = ("--peers", peers, "--parameters", "1", "--tls", tls, "--json")
    found = told(nursery.module("node.doctor.__main__", *words), 1)
    levels = [found[endpoint]["level"] for endpoint in swarm.endpoints]
    assert levels == ["ok", "warning", "ok", "problem"], found
    assert found[swarm.endpoints[0]]["text"] == "nothing to do"
    assert found[swarm.endpoints[1]]["text"].startswith("its clock is ")
    assert swarm.keys[2].hex() in found[swarm.endpoints[2]]["text"]
    assert found[swarm.endpoints[2]]["steps"]["throughput"].startswith(">= ")
    assert found[swarm.endpoints[3]]["steps"]["port"] == "refused"

    found = told(nursery.module("node.doctor.__main__", "--peers", wrong, "--tls", tls, "--json"), 1)
    assert "correct --peers, or find out who listens there" in found[swarm.endpoints[2]]["text"]
