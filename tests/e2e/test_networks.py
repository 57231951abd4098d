"""Nodes in namespaces of their own: a network that loses packets, and a page off loopback."""

from __future__ import annotations

import json
import stat

from tests.e2e.namespaces import Conditions, within
from tests.e2e.swarm import MASKED, get

TIMEOUTS = tuple(
    f"aggregation.{name}_timeout_s={s}" for name, s in (("group", 20), ("shares", 6), ("sums", 6))
)
OF_ALL = "aggregation.min_participants=5"


def test_delay_and_loss(make_nodes) -> None:
    """20 to 30 ms each way, one packet in fifty lost: every round ends, and all come to models of all."""
    _, wire, nodes = make_nodes(5, 6, Conditions(0.02, 0.01, 0.02), MASKED, *TIMEOUTS, OF_ALL)
    ends = [node.ends_well() for node in nodes]
    assert wire.lost > 10
    assert all(end["generation"] for end in ends)


def test_off_loopback_the_page_asks_for_its_token(make_nodes) -> None:
    """Another node reaches the port but learns nothing derived from data; the owner's token grants access."""
    swarm, wire, nodes = make_nodes(3, 10_000, Conditions(), MASKED)
    started = nodes[0].event("started")
    file = swarm.out(0) / "page.token"
    assert started["page"] == f"https://{swarm.endpoints[0]}/ (its token: {file})"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text().strip()

    def ask(path: str, **headers: str) -> tuple[int, bytes]:
        return within(wire.namespaces[1], lambda: get(swarm.endpoints[0], path, headers, tls=True))

    for path in ("/v1/status", "/v1/events"):
        assert (
            ask(path) == ask(path, Authorization=f"Bearer {token[::-1]}") == (401, b"the token is needed\n")
        )
    status, body = ask("/v1/status", Authorization=f"Bearer {token}")
    assert (status, json.loads(body)["key"]) == (200, swarm.keys[0].hex())
    assert token not in nodes[0].told()
