"""A tracker and a node as a service manager and a monitor see them."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.e2e.processes import Nursery, free_endpoint
from tests.e2e.swarm import frozen, get
from tests.patience import ENOUGH_S

SPENT = ("murmuration_privacy_epsilon_spent",)


def values(endpoint: str) -> dict[tuple[str, ...], float]:
    """Returns the values in /metrics by name and labels."""
    code, body = get(endpoint, "/metrics")
    assert code == 200
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in parse(body.decode())
        for sample in family.samples
    }


def test_a_tracker_as_a_service(make_waiting_swarm, nursery: Nursery, tmp_path: Path, monkeypatch) -> None:
    """Configured by file and environment; it notifies its manager, counts, logs, and ends well."""
    where = free_endpoint()
    (tmp_path / "tracker.toml").write_text(f'listen = "{where}"\nmin-peers = 4\n')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(ENOUGH_S)
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("MURMURATION_TRACKER_MIN_PEERS", "3")
        argv = ("--config", str(tmp_path / "tracker.toml"), "--log", "json")
        tracker = nursery.plain("node.tracker", *argv, cwd=tmp_path)
        assert manager.recv(100) == b"READY=1"
        monkeypatch.delenv("NOTIFY_SOCKET")
        assert get(where, "/readyz") == (200, b'{"ready": true, "why": []}')
        swarm = make_waiting_swarm(3, 2, tracker=where)
        for node in swarm.start_all():
            node.ends_well()
        counted = values(where)
        assert counted["murmuration_tracker_groups_total",] == 2
        assert counted["murmuration_tracker_refused_total",] == 0
        tracker.send(signal.SIGTERM)
        assert manager.recv(100) == b"STOPPING=1"
    assert tracker.status() == 0
    tracker.err.join()
    told = [json.loads(line) for line in tracker.err.all()]
    assert (told[0]["event"], told[-1]["event"]) == ("started", "stopped")
    assert sorted(line["peer"] for line in told if line["event"] == "peer-joined") == sorted(swarm.endpoints)


def test_a_node_is_watched_over_its_run(make_swarm) -> None:
    swarm = make_swarm(3, 4, "privacy.mechanism=dp-sgd", "privacy.epsilon=8")
    nodes = swarm.start_all()
    nodes[0].event("round", round=1)
    with frozen(nodes[1:]):
        code, said = get(swarm.endpoints[0], "/readyz")
        counted = values(swarm.endpoints[0])
        while counted[SPENT] == 0:  # a node looks at itself a few times a second
            counted = values(swarm.endpoints[0])
    assert (code, json.loads(said)) == (200, {"ready": True, "why": []})
    for node in nodes:
        node.ends_well()
    assert counted["murmuration_rounds_total", "aggregated", "none"] >= 1
    assert counted["murmuration_phase_seconds_count", "sums"] >= 1
    assert counted["murmuration_peers", "reachable"] == 2
    assert counted["murmuration_network_bytes_total", "sent", "sums"] > 0
    spent, left = counted[SPENT], counted["murmuration_privacy_epsilon_remaining",]
    assert 0 < spent < 8
    assert spent + left == pytest.approx(counted["murmuration_privacy_epsilon_budget",])
