"""A node that is a relay, too: members of an invited swarm talk through its listener."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp

from node.relay.word_file import file_beside
from node.storage.key_file import read_key
from protocol.relay.admission import Admit, CarrierKind, Credentials, Licences, Welcome, sign_members
from tests.e2e.processes import Nursery, free_endpoint
from tests.patience import ENOUGH_S
from tests.relays import KEYS, SWARM, Member, ask

A, B = KEYS[:2]


class NodeRelay:
    """A running node, as tests.relays knows a relay."""

    def __init__(self, endpoint: str, key_file: Path) -> None:
        found = read_key(key_file)
        assert found is not None
        self.url, self.key = f"https://{endpoint}", found
        self._licences = Licences(found, file_beside(key_file).read_text().strip())

    def admit(self) -> Admit:
        members = sign_members(A, SWARM, (A.public, B.public))
        return Admit(CarrierKind.BULK, 1, Credentials(members, self._licences.give(A.public)))


async def talk(relay: NodeRelay) -> tuple[bytes, str]:
    """Sends a frame from one member to another; returns what arrived, and the node's metrics after that."""
    connector = aiohttp.TCPConnector(ssl=False)
    async with asyncio.timeout(ENOUGH_S), aiohttp.ClientSession(connector=connector) as client:
        here, there = [await ask(client, relay, key, relay.admit()) for key in (A, B)]
        assert isinstance(here[1], Welcome)
        await Member(here[0], A).send(B, b"hello")
        arrived = bytes((await Member(there[0], B).receive()).data)
        async with client.get(f"{relay.url}/metrics") as answer:
            return arrived, await answer.text()


def test_members_talk_through_a_node_that_relays(nursery: Nursery, tmp_path: Path) -> None:
    endpoint, others = free_endpoint(), f"{free_endpoint()},{free_endpoint()}"
    usual = ("--peers", others, "--listen", endpoint, "--tls", "on", "--shard", "0/3")
    node = nursery.module("node", *usual, "--relay", "--out", str(tmp_path / "a"))
    said = node.out.wait(lambda line: line.startswith("relays: "))
    assert said is not None
    assert said.endswith("node.key.word; it sees who talks to whom, when and how much, and nothing else")
    assert node.out.wait(lambda line: line.startswith("page: ")) is not None
    asyncio.run(until_it_listens(endpoint))
    arrived, figures = asyncio.run(talk(NodeRelay(endpoint, tmp_path / "a" / "node.key")))
    assert arrived == b"hello"
    assert "murmuration_relay_carried_frames_total 1.0" in figures
    node.send(signal.SIGTERM)
    assert node.status() == 130


async def until_it_listens(endpoint: str) -> None:
    """Waits for an answer of the node: its first lines come before its listener serves."""
    connector = aiohttp.TCPConnector(ssl=False)
    async with (
        asyncio.timeout(ENOUGH_S),
        aiohttp.ClientSession(connector=connector) as client,
        client.get(f"https://{endpoint}/healthz") as answer,
    ):
        assert answer.status == 200
