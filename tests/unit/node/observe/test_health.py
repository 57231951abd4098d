"""The answers for a supervisor, and the notices to systemd."""

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest

from node.observe import sd_notify
from node.observe.health import health, missing_of, missing_unless_ending
from protocol.swarm.meeting.discovery import Event
from tests.parts import COUNTER, announce, stranger
from tests.unit.node.links import deaf, started


@asynccontextmanager
async def served(missing, *waiting):
    """Yields how to ask both routes on a socket."""

    async def ask(path):
        async with client.get(path) as answer:
            return answer.status, await answer.json()

    transport = deaf()
    async with started(transport, health(missing, *waiting)) as endpoint:
        async with aiohttp.ClientSession(f"http://{endpoint}") as client:
            yield ask
        assert transport.counts.dropped == {}  # an answer that is asked for is no garbage


async def test_a_node_is_alive_long_before_it_is_ready(alone):
    node = alone("none")
    async with served(missing_of(node.peer.inspector, node.peer.stopping)) as ask:
        assert await ask("/healthz") == (200, {"status": "ok"})
        why = ["still meeting the others", "neither a peer nor a tracker answers"]
        assert await ask("/readyz") == (503, {"ready": False, "why": why})


async def test_health_says_how_many_are_left_out_and_names_nobody(alone):
    node = alone("none")
    inspector, suspicion = node.peer.inspector, node.peer._node._suspicion
    assert inspector.troubles == {}
    for count, words in (
        (1, "1 peer withheld what was due to sums, and is"),
        (2, "2 peers withheld what was due to sums, and are"),
    ):
        suspicion._left = {bytes([number] * 32): 4 for number in range(count)}
        assert inspector.troubles == {"left_out": f"{words} left out for a while"}


async def test_a_node_is_ready_once_a_peer_answers_and_until_it_is_told_to_end(alone):
    node = alone("none")
    session, now = node.peer._node, node.peer._shell.clock.now()
    other = announce(stranger(), task="digits", parameters=node.parameters, counter=COUNTER)
    session._discovery.members.learn(other, now, live=True)
    session._discovery._course.step(Event.SETTLED)
    async with served(missing_of(node.peer.inspector, node.peer.stopping)) as ask:
        assert await ask("/readyz") == (200, {"ready": True, "why": []})
        session._discovery.members.suspect(other.key)
        why = ["neither a peer nor a tracker answers"]
        assert await ask("/readyz") == (503, {"ready": False, "why": why})
        session._discovery.members.learn(replace(other, counter=other.counter + 1), now, live=True)
        node.peer.stopping.ask()
        assert await ask("/readyz") == (503, {"ready": False, "why": ["told to end"]})
        assert (await ask("/healthz"))[0] == 200


async def test_a_tracker_is_ready_until_it_is_told_to_end():
    asked = asyncio.Event()
    async with served(missing_unless_ending(asked)) as ask:
        assert await ask("/readyz") == (200, {"ready": True, "why": []})
        asked.set()
        assert await ask("/readyz") == (503, {"ready": False, "why": ["told to end"]})


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(tmp_path, monkeypatch, abstract):
    path = f"@{tmp_path}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.settimeout(30)
        end.bind(f"\0{tmp_path}" if abstract else path)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        sd_notify.notify(sd_notify.READY)
        assert end.recv(100) == b"READY=1"


@pytest.mark.parametrize("path", ["", "relative", "/nowhere/at/all"])
def test_nobody_is_told_where_nobody_asked(monkeypatch, path):
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    sd_notify.notify(sd_notify.STOPPING)
    monkeypatch.delenv("NOTIFY_SOCKET")
    sd_notify.notify(sd_notify.STOPPING)
