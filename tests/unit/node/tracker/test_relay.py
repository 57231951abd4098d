"""A tracker that relays: one process and port, its first lines, its word, and whom it introduces."""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from node.relay.word_file import file_beside
from node.storage.key_file import own_key
from node.tracker.options import read_options
from node.tracker.serve import allowed_keys, live
from protocol.relay.admission import Admit, CarrierKind, Credentials, Licences, sign_members
from protocol.relay.frames import FrameKind
from protocol.relay.room_messages import Rooms
from protocol.relay.switch import LIMITS
from tests.patience import ENOUGH_S
from tests.relays import KEYS, SWARM, Inviter, Member, ask, dial, prove

A, B = KEYS[:2]


class Running:
    """A tracker that runs in this loop, as tests.relays knows a relay."""

    def __init__(self, url, key, word):
        self.url, self.key, self.word = url, key, word

    def admit(self):
        members = sign_members(A, SWARM, (A.public, B.public))
        return Admit(CarrierKind.BULK, 1, Credentials(members, Licences(self.key, self.word).give(A.public)))


def session():
    """Returns a client that takes any certificate, as members do."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False))


@asynccontextmanager
async def tracker(folder: Path, *words: str):
    """Runs a tracker with these options until the block ends."""
    options = read_options(["--listen", "127.0.0.1:0", "--key", str(folder / "tracker.key"), *words], {})
    listener = socket.create_server(("127.0.0.1", 0))
    begun, ended = asyncio.Event(), []

    def interrupted(stop):
        ended.append(stop)
        begun.set()

    with listener, own_key(options.key) as key:
        running = asyncio.create_task(live(options, key, allowed_keys(options), listener, interrupted))
        async with asyncio.timeout(ENOUGH_S):
            await begun.wait()
            word = file_beside(options.key)
            shown = word.read_text().strip() if word.exists() else ""
            scheme = "https" if options.tls == "on" else "http"
            yield Running(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", key, shown)
            ended[0]()
            assert await running == 0


async def test_members_talk_through_a_tracker_that_relays(tmp_path, capsys):
    async with tracker(tmp_path, "--relay") as relay, session() as client:
        ws, welcome = await ask(client, relay, A, relay.admit())
        assert welcome == LIMITS.welcome
        a, b = Member(ws, A), Member((await ask(client, relay, B, relay.admit()))[0], B)
        await a.send(B, b"hello")
        assert bytes((await b.receive()).data) == b"hello"
        async with client.get(f"{relay.url}/v1/status") as answer:
            shown = (await answer.json())["relay"]
        assert (shown["connected"], shown["carried_frames"]) == (2, 1)
        async with client.get(f"{relay.url}/metrics") as answer:
            assert "murmuration_relay_members 2.0" in await answer.text()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == (
        "relays: swarms whose inviter knows its word; it sees who talks to whom, when and how much, and "
        "nothing else"
    )
    port = relay.url.rpartition(":")[2]
    assert lines[2] == (
        f"to invite, give people this address:  127.0.0.1:{port}#WORD   "
        f"(WORD: the line in {tmp_path / 'tracker.key.word'})"
    )
    assert relay.word not in "\n".join(lines), "others read logs"


async def test_the_word_that_it_made_opens_rooms_and_so_it_does_after_a_restart(tmp_path):
    words = []
    for _ in range(2):
        async with tracker(tmp_path, "--relay") as relay, session() as client:
            ws = await dial(client, relay.url, "/v1/rooms")
            inviter = Inviter(ws, await prove(ws, A), A.public)
            assert isinstance(await inviter.ask(word=relay.word), Rooms)
            words.append(relay.word)
    assert words[0] == words[1]
    assert re.fullmatch("[0-9a-z]{4}-[0-9a-z]{4}", words[0])


async def test_the_word_is_shown_on_a_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    async with tracker(tmp_path, "--relay", "--announce", "relay.localhost:443", "--open") as relay:
        pass
    assert f"to invite, give people this address:  relay.localhost#{relay.word}\n" in capsys.readouterr().out


async def test_a_tracker_without_the_option_is_no_relay(tmp_path, capsys):
    async with tracker(tmp_path) as running, session() as client:
        assert running.word == ""
        for path in ("/v1/relay", "/v1/rooms", "/v1/room/12345"):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="404"):
                await dial(client, running.url, path)
        async with client.get(f"{running.url}/v1/status") as answer:
            assert (await answer.json())["relay"] is None
    assert "relays" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        ("--listen 127.0.0.1:1 --relay", None),
        ("--listen 0.0.0.0:1 --announce a.example --relay", frozenset()),
        ("--listen [::]:1 --announce [2001:db8::1]:443 --relay", frozenset()),
        ("--listen 127.0.0.1:1 --announce a.example --relay", frozenset()),
        ("--listen 127.0.0.1:1 --announce localhost --relay", None),
        ("--listen 0.0.0.0:1 --announce a.example --relay --open", None),
        ("--listen 0.0.0.0:1 --announce a.example --relay --allow keys.txt", frozenset((A.public,))),
    ],
)
def test_a_relay_that_others_reach_introduces_nobody_unless_it_is_told_to(
    words, allowed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("keys.txt").write_text(f"{A.public.hex()}\n")
    assert allowed_keys(read_options(words.split(), {})) == allowed


async def test_what_it_announces_is_the_name_that_it_was_given(tmp_path, capsys):
    async with tracker(tmp_path, "--announce", "tracker.localhost", "--open") as running:
        pass
    port = running.url.rpartition(":")[2]
    assert f"at https://tracker.localhost:{port}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "tls"), [("", "auto"), ("--relay", "on"), ("--relay --tls off", "off"), ("--tls off", "off")]
)
def test_members_reach_a_relay_by_https_on_loopback_too(words, tls):
    assert read_options(["--listen", "127.0.0.1:0", *words.split()], {}).tls == tls


async def test_the_operators_limits_are_told(tmp_path):
    words = ("--relay", "--relay-rate", "100", "--relay-day", "3")
    async with tracker(tmp_path, *words) as relay, session() as client:
        ws, welcome = await ask(client, relay, A, relay.admit())
        assert (welcome.bytes_per_s, welcome.burst_bytes) == (10**8, 10**8)
        assert welcome.bytes_per_day == 3 * 10**9
        await Member(ws, A).send(B)
        assert (await Member(ws, A).receive()).kind is FrameKind.AWAY
