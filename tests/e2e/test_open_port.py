"""Malformed or hostile input at an open port is dropped and counted; the node goes on, and rounds aggregate.

Of three nodes the third records every frame that it sends and receives, and stops (SIGSTOP) at a chosen
message, which holds the first node in that phase during all attacks. Then the third one goes on.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from node.net.versions import SUBPROTOCOL
from protocol.crypto.node_key import NodeKey
from protocol.wire import codec
from protocol.wire.limits import MAX_FRAME_BYTES
from protocol.wire.messages import Group, Hello, Ready, Share, Sum
from tests.e2e.dying_peer import Fate, Orders, read_record
from tests.e2e.processes import HOST, Nursery
from tests.e2e.swarm import Swarm, get, one_digest
from tests.patience import ENOUGH_S
from tests.unit.node.links import dialled, prove

ROUNDS = 4
STRANGER = NodeKey(bytes([9]) * 32)


class Port:
    """The open port of a running node, from outside."""

    def __init__(self, endpoint: str, key: NodeKey = STRANGER) -> None:
        """`key`: the key that a link proves."""
        self.endpoint = endpoint
        self.key = key

    def raw(self, data: bytes) -> bytes:
        """Sends bytes over TCP; returns the first line of the answer, if any."""
        host, _, port = self.endpoint.rpartition(":")
        with closing(socket.create_connection((host, int(port)), timeout=ENOUGH_S)) as connection:
            answer = b""
            with suppress(ConnectionError):
                connection.sendall(data)
                while data and b"\r\n" not in answer and (part := connection.recv(65536)):
                    answer += part
            return answer.partition(b"\r\n")[0]

    def post(self, frame: bytes, path: str = "/v1/bulk") -> int:
        """POSTs a bulk frame; returns the status of the answer."""
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(frame)}\r\n\r\n"
        return int(self.raw(head.encode() + frame).split()[1])

    def post_beside_a_link(self, frame: bytes) -> int:
        """POSTs a bulk frame as the holder of the key; returns the status of the answer."""
        return asyncio.run(self._post(frame))

    async def _post(self, frame: bytes) -> int:
        async with dialled(self.endpoint) as ws, aiohttp.ClientSession() as client:
            headers = {"Authorization": f"Bearer {(await prove(ws, self.key)).hex()}"}
            url = f"http://{self.endpoint}/v1/bulk"
            async with client.post(url, data=frame, headers=headers) as answer:
                return answer.status

    def say(self, *frames: bytes | str) -> int:
        """Sends frames over a link with the proved key, then closes it; returns the close code."""
        return asyncio.run(self._say(frames))

    async def _say(self, frames: tuple[bytes | str, ...]) -> int:
        url = f"http://{self.endpoint}/v1/link"
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(url, max_msg_size=0, protocols=(SUBPROTOCOL,)) as ws,
        ):
            await prove(ws, self.key)
            with suppress(ConnectionError, aiohttp.ClientError):
                for frame in frames:
                    await (ws.send_str(frame) if isinstance(frame, str) else ws.send_bytes(frame))
                await ws.close()
            return ws.close_code or 0


def dropped(swarm: Swarm) -> Counter[str]:
    """Returns how many messages the first node has dropped so far, by reason."""
    return Counter(swarm.status(0)["dropped"])


@contextmanager
def drops(swarm: Swarm, count: int, *why: str) -> Iterator[None]:
    """Checks that exactly `count` frames or requests are dropped, for these reasons, and no more."""
    kept = ("phase", "round", "base_digest", "generation")
    before = swarm.status(0)
    yield
    expected = sum(before["dropped"].values()) + count
    after = swarm.wait_status(0, lambda said: sum(said["dropped"].values()) >= expected)
    new = Counter(after["dropped"]) - Counter(before["dropped"])
    assert sum(new.values()) == count, new
    for text in why:
        assert any(text in reason for reason in new), (text, new)
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


class Held:
    """A swarm of three: its first node is held in a phase, and the third one has recorded all frames."""

    def __init__(self, nursery: Nursery, folder: Path, fate: Fate, phase: str) -> None:
        caps = [f"aggregation.{name}_timeout_s=600" for name in ("shares", "sums")]
        self.swarm = Swarm(nursery, folder, 3, ROUNDS, tuple(caps), waiting=True)
        self._records = {number: folder / f"record-{number}" for number in (1, 2)}
        stands_still = Orders(fate=replace(fate, sign=signal.SIGSTOP), record=self._records[2])
        self.nodes = self.swarm.start_all({1: Orders(record=self._records[1]), 2: stands_still})
        wanted = {"round": 1, "phase": phase, "waiting_for": [self.swarm.endpoints[2]]}
        self.swarm.wait_status(0, lambda said: wanted.items() <= said.items())
        self.port = Port(self.swarm.endpoints[0])

    def frames(self, kind: type, way: str, number: int = 2) -> list[bytes]:
        """Returns the recorded frames of a kind, the newest last."""
        wanted = (way, kind.__name__)
        return [frame for *what, frame in read_record(self._records[number]) if tuple(what) == wanted]

    def as_the_third(self) -> Port:
        """Returns the first node's port for the holder of the third node's key."""
        seed = (self.swarm.out(2) / "node.key").read_text().strip()
        return Port(self.swarm.endpoints[0], NodeKey(bytes.fromhex(seed)))

    def ends_aggregated(self) -> None:
        self.nodes[2].send(signal.SIGCONT)
        ends = [node.ends_well() for node in self.nodes]
        one_digest(ends)
        assert all(end["aggregated"] == ROUNDS and end["fallbacks"] == 0 for end in ends)
        assert all(end["offers"] == ROUNDS for end in ends)


@pytest.fixture(scope="module", params=["shares", "sums"])
def held(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    """Holds a swarm in a phase for all attacks; afterwards all its rounds must aggregate."""
    nursery, kind = Nursery(), {"shares": "Share", "sums": "Sum"}[request.param]
    try:
        found = Held(nursery, tmp_path_factory.mktemp("held"), Fate(kind, session=2), request.param)
        yield found
        found.ends_aggregated()
    finally:
        nursery.end_all()


in_shares = pytest.mark.parametrize("held", ["shares"], indirect=True)
in_sums = pytest.mark.parametrize("held", ["sums"], indirect=True)


@in_shares
def test_garbage_and_what_is_too_large(held: Held) -> None:
    """Bytes that are no HTTP, requests for nothing, malformed frames; limits apply before a read."""
    swarm, port = held.swarm, held.port
    with drops(swarm, 1, "not a request of this protocol"):
        assert b" 400 " in port.raw(b"\x00\xff" * 600 + b"\r\n\r\n")
    with drops(swarm, 1, "not a request of this protocol"):
        assert b" 400 " in port.raw(b"GET / HTTP/1.1\r\nno colon\r\n\r\n")
    with drops(swarm, 2, "not a request of this protocol"):
        assert get(port.endpoint, "/v1/link")[0] == 426
        assert port.post(b"", "/nothing/here") == 404
    with drops(swarm, 0):
        port.raw(b"")  # connected, and gone
    with drops(swarm, 5):
        port.say(b"", b"\x00", bytes(range(256)), b"\xff" * 4096, (100).to_bytes(4, "little") + bytes(100))
    with drops(swarm, 1, "not a binary frame"):
        port.say("hello?")
    with drops(swarm, 2):
        assert port.post(b"") == 400
        assert port.post(b"\x93" * 1000) == 400
    with drops(swarm, 1, "over the limit"):
        assert port.say(bytes(1 << 20)) in {0, 1006, 1009}  # the node closes it; 0: before all was sent
    with drops(swarm, 1, "over the limit"):
        assert port.post(bytes(MAX_FRAME_BYTES + 1)) == 413
    with drops(swarm, 1, "over the limit"):
        head = b"POST /v1/bulk HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n"
        assert b" 413 " in port.raw(head + b"x")
    with drops(swarm, 1, "a body without a length"):
        head = b"POST /v1/bulk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert b" 413 " in port.raw(head + b"5\r\nhello\r\n0\r\n\r\n")


@in_sums
def test_truncated_and_flipped_frames(held: Held) -> None:
    """Real frames of this session, cut off or with one flipped bit: each counts as one dropped frame."""
    hello, ready = held.frames(Hello, "out")[-1], held.frames(Ready, "out")[-1]
    total = held.frames(Sum, "out")[-1]
    cut = [frame[:length] for frame in (hello, ready, total) for length in (3, 40, len(frame) - 1)]
    with drops(held.swarm, len(cut)):
        held.port.say(*cut)
    places = [(frame, place) for frame in (hello, ready) for place in (0, 4, 5, 30, len(frame) // 2)]
    flipped = [_flipped(frame, place) for frame, place in [*places, (total, 60), (total, len(total) - 1)]]
    with drops(held.swarm, len(flipped)):
        held.port.say(*flipped)
    with drops(held.swarm, 1, "piece 0 of a sum is not what its header names"):
        assert held.as_the_third().post_beside_a_link(_flipped(total, len(total) - 5)) == 400


def _flipped(frame: bytes, place: int) -> bytes:
    return frame[:place] + bytes([frame[place] ^ 0x10]) + frame[place + 1 :]


@in_sums
def test_replayed_frames(held: Held) -> None:
    """Repeats what the others sent, also to the third node: nothing changes, and each sum counts once."""
    groups, shares = held.frames(Group, "in"), [*held.frames(Share, "out"), *held.frames(Share, "in")]
    *sent, unsent = held.frames(Sum, "out")
    sums = [*sent, *held.frames(Sum, "in"), *held.frames(Sum, "out", 1)]
    assert (len(groups), len(shares)) == (2, 8)
    assert len({codec.decode(frame).sid for frame in held.frames(Sum, "out", 1)}) == 2
    assert unsent not in sums
    with drops(held.swarm, 1):  # the GROUP of the running session is known: any member may pass it on
        held.port.say(*groups)
    for frames in (shares, sums):
        with drops(held.swarm, len(frames)):
            held.port.say(*frames)
    with drops(held.swarm, len(held.frames(Ready, "out")), "READY"):
        held.port.say(*held.frames(Ready, "out"))
    with drops(held.swarm, 0):
        held.port.say(*held.frames(Hello, "out"))  # old news, and signed: known already


@in_shares
def test_what_came_from_data_is_for_the_owner_alone(held: Held) -> None:
    said = held.swarm.status(0)
    assert said["waiting_for"] == [held.swarm.endpoints[2]]
    assert [(peer["endpoint"], peer["is_awaited"]) for peer in said["peers"]] == [
        (held.swarm.endpoints[1], False),
        (held.swarm.endpoints[2], True),
    ]
    assert said["history"]
    rebound, other_site = {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}
    for path in ("/v1/status", "/v1/events"):
        assert get(held.port.endpoint, path, rebound) == (421, b"this node has another name\n")
        assert get(held.port.endpoint, path, other_site) == (403, b"asked by the page of another site\n")
    assert get(held.port.endpoint, "/healthz")[0] == get(held.port.endpoint, "/readyz")[0] == 200
    for path in ("/private.safetensors", "/node.key", "/v1/../state.db", "/state.db", "/page.token"):
        assert get(held.port.endpoint, path)[0] == 404
    assert held.port.endpoint.startswith(HOST)
