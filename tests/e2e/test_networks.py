"""Masked groups over a network that is slow, loses packets or is partitioned; one namespace per node."""

from __future__ import annotations

import json
import signal
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from tests.e2e.namespaces import Conditions, enter
from tests.e2e.processes import Event
from tests.e2e.swarm import MASKED, get, history, one_digest
from tests.outcomes import Deadlines, means_agree, sound

DEADLINES = Deadlines(group_s=20.0, shares_s=6.0, sums_s=6.0)
LONG_S = 170.0

T = TypeVar("T")


def test_delay_and_loss(make_nodes) -> None:
    """20 to 30 ms each way, one packet in fifty lost: every round ends in time, with or without a mean."""
    swarm, wire, nodes = make_nodes(5, 6, Conditions(0.02, 0.01, 0.02), MASKED, *DEADLINES.overrides)
    one_digest([node.ends_well(LONG_S) for node in nodes])
    outcomes = sound(swarm, DEADLINES)
    means_agree(swarm)
    assert wire.lost > 10
    assert outcomes["aggregated"] >= 5 * 4, outcomes


@pytest.mark.slow
def test_a_partition_that_heals(make_nodes) -> None:
    """Takes half a minute of deadlines: four of six go on by themselves, the other two wait.

    Nothing reports that the others are gone: packets just stop. Two of six never form a group.
    """
    swarm, wire, nodes = make_nodes(6, 48, Conditions(0.005, 0.005), MASKED, *DEADLINES.overrides)
    minority, majority = nodes[:2], nodes[2:]
    together = nodes[5].event_after("round", lambda event: event["participants"] == 6)["round"]
    wire.cut((0, 1), (2, 3, 4, 5))

    def is_apart(event: Event) -> bool:
        return event["round"] > together and event["participants"] == 4

    apart = {node.event_after("round", is_apart, LONG_S)["base_digest"] for node in majority}
    for node in minority:
        node.event("round", outcome="fallback", within_s=LONG_S)
    wire.cut()
    one_digest([node.ends_well(LONG_S) for node in nodes])
    sound(swarm, DEADLINES)
    means_agree(swarm)
    for number, node in enumerate(nodes):
        lines = history(swarm.out(number))
        assert lines[-1]["participants"] == 6, (number, lines[-1])
        assert (number > 1) == any(line["participants"] and line["base_digest"] in apart for line in lines)
        assert number > 1 or node.events("caught-up")


def test_a_peer_killed_behind_a_slow_wire_comes_back(make_nodes) -> None:
    swarm, wire, nodes = make_nodes(5, 8, Conditions(0.02, 0.01, 0.01), MASKED, *DEADLINES.overrides)
    nodes[0].event("round", round=2)
    nodes[4].send(signal.SIGKILL)
    assert nodes[4].status() == -signal.SIGKILL
    nodes[4] = swarm.start_in(4, wire.namespaces[4])
    one_digest([node.ends_well(LONG_S) for node in nodes])
    sound(swarm, DEADLINES)
    means_agree(swarm)


def seen_from(namespace: str, look: Callable[[], T]) -> T:
    """Runs a program in that namespace; returns its output."""

    def there() -> T:
        enter(namespace)
        return look()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(there).result()


def test_off_loopback_the_page_asks_for_its_token(make_nodes) -> None:
    """Another node reaches the port but learns nothing derived from data; the owner's token grants access."""
    swarm, wire, nodes = make_nodes(3, 10_000, Conditions(), MASKED, *DEADLINES.overrides)
    started = nodes[0].event("started")
    file = swarm.out(0) / "page.token"
    assert started["page"] == f"https://{swarm.endpoints[0]}/ (its token: {file})"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text().strip()

    def ask(path: str, **headers: str) -> tuple[int, bytes]:
        return seen_from(wire.namespaces[1], lambda: get(swarm.endpoints[0], path, headers, tls=True))

    for path in ("/v1/status", "/v1/events"):
        assert (
            ask(path) == ask(path, Authorization=f"Bearer {token[::-1]}") == (401, b"the token is needed\n")
        )
    status, body = ask("/v1/status", Authorization=f"Bearer {token}")
    assert (status, json.loads(body)["key"]) == (200, swarm.keys[0].hex())
    assert token not in nodes[0].told()
