"""Real nodes and a real tracker under TLS, and a node without TLS."""

from __future__ import annotations

import signal
import ssl

import pytest

from node.net.tls import vouched_for
from node.system.addresses import split_endpoint
from tests.e2e.processes import Nursery, free_endpoint
from tests.e2e.swarm import one_digest
from tests.e2e.test_doctor import told
from tests.run_folders import history

ON, OFF = ("--tls", "on"), ("--tls", "off")
LINKS = "TLS 1.3; the far end must hold the announced or pinned key"


def answering(endpoint: str) -> bytes:
    """Returns the node key behind the certificate at `endpoint`."""
    return vouched_for(ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(split_endpoint(endpoint))))


def test_a_pinned_swarm_under_tls_and_one_that_comes_without(make_swarm) -> None:
    """Two nodes wait until the one without TLS is refused; then the third that they need starts."""
    swarm = make_swarm(4, 3, "aggregation.min_participants=3")
    pinned = zip(swarm.keys[:3], swarm.endpoints[:3], strict=True)
    peers = ("--peers", ",".join(f"{key.hex()}@{endpoint}" for key, endpoint in pinned))
    nodes = [swarm.start(number, *peers, *ON, "--wait", "forever") for number in range(2)]
    assert {node.event("started")["links"] for node in nodes} == {LINKS}
    plain = swarm.start(3, *peers, *OFF)
    for endpoint, key in zip(swarm.endpoints[:2], swarm.keys, strict=False):
        plain.line(
            f"{endpoint} cannot be reached (the program there does not answer without TLS; "
            "use the same --tls at both ends); trying again"
        )
        assert answering(endpoint) == key
    nodes.append(swarm.start(2, *peers, *ON, "--wait", "forever"))
    ends = [node.ends_well() for node in nodes]
    one_digest(ends)
    assert [(end["aggregated"], end["fallbacks"]) for end in ends] == [(3, 0)] * 3
    assert {line["participants"] for number in range(3) for line in history(swarm.out(number))} == {3}
    assert plain.events("round") == []


@pytest.mark.sampled
def test_a_tracker_under_tls_introduces_nodes_under_tls_and_is_examined(make_swarm, nursery: Nursery) -> None:
    where = free_endpoint()
    tracker = nursery.tracker("--listen", where, *ON)
    tracker.line(f"at https://{where}")
    option = tracker.line("nodes come with: --tracker ").rpartition(" ")[2]
    doctor = nursery.module("node.doctor.__main__", "--tracker", option, "--parameters", "1", *ON, "--json")
    found = told(doctor, 0)[where]
    assert (found["level"], found["text"]) == ("ok", "nothing to do")
    assert (found["steps"]["TLS"], found["steps"]["state"]) == ("1.3", "ready")
    assert found["steps"]["throughput"].startswith(">= ")
    swarm = make_swarm(4, 3, "aggregation.min_participants=3", tracker=where)
    plain = swarm.start(3, *OFF)
    plain.line(f"{where} cannot be reached (the program there does not answer without TLS")
    nodes = [swarm.start(number, *ON, "--wait", "forever") for number in range(3)]
    ends = [node.ends_well() for node in nodes]
    one_digest(ends)
    assert [(end["aggregated"], end["fallbacks"]) for end in ends] == [(3, 0)] * 3
    assert plain.events("round") == []
    tracker.send(signal.SIGINT)
    assert tracker.status() == 0
    assert tracker.err.all() == []
