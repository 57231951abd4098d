"""Malformed or hostile input at an open port is dropped and counted; the node goes on, and rounds aggregate.

Of three nodes the third records every frame that it sends and receives, and stops (SIGSTOP) at a chosen
message, which holds the first node in that phase during the attack. Then the third one goes on.
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
from protocol.wire import codec, signing
from protocol.wire.limits import MAX_FRAME_BYTES
from protocol.wire.messages import Group, Hello, Ready, Share, Sum
from tests.e2e.dying_peer import Fate, Orders, read_record
from tests.e2e.processes import HOST
from tests.e2e.swarm import Swarm, get, one_digest
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
        with closing(socket.create_connection((host, int(port)), timeout=20)) as connection:
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
    after = swarm.wait_status(0, lambda said: sum(said["dropped"].values()) >= expected, within_s=20)
    new = Counter(after["dropped"]) - Counter(before["dropped"])
    assert sum(new.values()) == count, new
    for text in why:
        assert any(text in reason for reason in new), (text, new)
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


class Held:
    """A swarm of three: its first node is held in a phase, and the third one has recorded all frames."""

    def __init__(self, make_swarm, tmp_path: Path, fate: Fate, phase: str) -> None:
        caps = [f"aggregation.{name}_timeout_s=60" for name in ("shares", "sums")]
        self.swarm: Swarm = make_swarm(3, ROUNDS, *caps)
        self._records = {number: tmp_path / f"record-{number}" for number in (1, 2)}
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


IN_SHARES = Fate("Share", nth=1, session=2)
IN_SUMS = Fate("Sum", nth=1, session=2)


def test_garbage(make_swarm, tmp_path: Path) -> None:
    """Bytes that are no HTTP, requests for nothing, and malformed frames."""
    held = Held(make_swarm, tmp_path, IN_SHARES, "shares")
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
    held.ends_aggregated()


def test_truncated_and_flipped_frames(make_swarm, tmp_path: Path) -> None:
    """Real frames of this session, cut off or with one flipped bit: each counts as one dropped frame."""
    held = Held(make_swarm, tmp_path, IN_SUMS, "sums")
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
    held.ends_aggregated()


def _flipped(frame: bytes, place: int) -> bytes:
    return frame[:place] + bytes([frame[place] ^ 0x10]) + frame[place + 1 :]


def test_oversized(make_swarm, tmp_path: Path) -> None:
    """Limits apply before anything is read or built; a POST without a length is refused."""
    held = Held(make_swarm, tmp_path, IN_SHARES, "shares")
    swarm, port = held.swarm, held.port
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
    held.ends_aggregated()


def test_replayed_frames(make_swarm, tmp_path: Path) -> None:
    """Repeats what the others sent, also to the third node: nothing changes, and each sum counts once."""
    held = Held(make_swarm, tmp_path, IN_SUMS, "sums")
    groups, shares = held.frames(Group, "in"), [*held.frames(Share, "out"), *held.frames(Share, "in")]
    *sent, unsent = held.frames(Sum, "out")
    sums = [*sent, *held.frames(Sum, "in"), *held.frames(Sum, "out", 1)]
    assert (len(groups), len(shares)) == (2, 8)
    assert len({codec.decode(frame).sid for frame in held.frames(Sum, "out", 1)}) == 2
    assert unsent not in sums
    for frames in (groups, shares, sums):
        with drops(held.swarm, len(frames)):
            held.port.say(*frames)
    with drops(held.swarm, len(held.frames(Ready, "out")), "READY"):
        held.port.say(*held.frames(Ready, "out"))
    with drops(held.swarm, 0):
        held.port.say(*held.frames(Hello, "out"))  # old news, and signed: known already
    held.ends_aggregated()


def test_frames_in_anothers_name(make_swarm, tmp_path: Path) -> None:
    """A sum, a READY and an announcement in the third node's name, signed by a stranger."""
    held = Held(make_swarm, tmp_path, IN_SUMS, "sums")
    total = codec.decode(held.frames(Sum, "out")[-1])
    share = codec.decode(held.frames(Share, "out")[-1])
    ready = codec.decode(held.frames(Ready, "out")[-1])
    assert isinstance(total, Sum)
    assert isinstance(ready, Ready)
    other = held.swarm.keys[2]
    assert (total.sender, share.sender) == (other, other)
    forged = signing.sign(replace(total, pieces=(bytes(32),)), STRANGER)
    news = replace(ready.announce, counter=ready.announce.counter + 1000, leaving=True)
    news = signing.sign(news, STRANGER)
    claims = [
        forged,
        replace(total, sender=STRANGER.public),
        signing.sign(replace(total, sender=STRANGER.public), STRANGER),
        replace(total, sender=held.swarm.keys[1]),
        replace(total, sender=held.swarm.keys[0]),
        replace(share, sender=STRANGER.public),
        signing.sign(replace(ready, announce=news), STRANGER),
        Hello(news, bytes(16), False, ""),
    ]
    with drops(held.swarm, len(claims), "from somebody who is not in it", "on the link of another"):
        held.port.say(*(codec.encode(claim).join() for claim in claims))
    held.ends_aggregated()


@pytest.mark.parametrize("fate", [IN_SHARES, IN_SUMS], ids=["in shares", "in sums"])
def test_forged_shares(make_swarm, tmp_path: Path, fate: Fate) -> None:
    """A share of this session in the third node's name that it did not seal must not count as its share."""
    held = Held(make_swarm, tmp_path, fate, "shares" if fate is IN_SHARES else "sums")
    share = codec.decode(held.frames(Share, "in")[-1])
    assert isinstance(share, Share)
    first, third = held.swarm.keys[0], held.swarm.keys[2]
    claims = [
        replace(share, sender=third, recipient=first),
        replace(share, sender=third, recipient=first, payload=bytes(len(share.payload))),
        replace(share, sender=third, recipient=first, index=1),
        replace(share, sender=third, recipient=STRANGER.public),
    ]
    with drops(held.swarm, len(claims), "in the name of another"):
        held.port.say(*(codec.encode(claim).join() for claim in claims))
    with drops(held.swarm, len(claims)):
        held.as_the_third().say(*(codec.encode(claim).join() for claim in claims))
    held.ends_aggregated()


def test_what_came_from_data_is_for_the_owner_alone(make_swarm, tmp_path: Path) -> None:
    held = Held(make_swarm, tmp_path, IN_SHARES, "shares")
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
    held.ends_aggregated()
