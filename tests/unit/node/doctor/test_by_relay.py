"""The doctor on the way to a relay and through it to members: each step that may fail is named."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from node.doctor.__main__ import main
from node.doctor.by_relay import examine_folder
from node.doctor.finding import Finding
from node.doctor.table import advice, table
from node.invitation.key import key_file
from node.net.incoming.routes import answers
from node.net.relay.streams import RelayedStreams
from node.observe.health import health
from node.storage.key_file import held
from node.storage.swarm_file import Own, Swarm, write_swarm
from node.system.errors import UserError
from protocol.invitation.roster import Member as Listed
from protocol.relay.admission import Relay
from tests.e2e.processes import free_endpoint
from tests.e2e.proxy import proxied
from tests.e2e.swarm import write_key
from tests.invitations import closed
from tests.patience import ENOUGH_S
from tests.relays import RELAY_KEY, running
from tests.unit.node.links import ONE, OTHER
from tests.unit.node.net.relay.lines import Member, connected

WARD_B = Listed("Ward B", OTHER.public)


def swarm_folder(tmp_path, *relays):
    """Makes the folder of member one, who invited the other."""
    roster = closed((Listed("Ward A", ONE.public), WARD_B), ONE, relays=relays)
    folder = tmp_path / "ward"
    write_swarm(folder, Swarm(roster, Own("", "", "")))
    write_key(key_file(folder), bytes([1]) * 32)
    return folder, roster


@asynccontextmanager
async def a_relay():
    """Yields a relay under TLS, and how the list of member one names it."""
    async with running(tls="on") as (relay, _):
        endpoint = relay.url.removeprefix("https://")
        yield relay, Relay(endpoint, RELAY_KEY.public, relay.licences.give(ONE.public))


async def nothing_missing():
    return ()


def ward_b(roster):
    """Runs the other member's transport, with a node's health."""
    member = Member(OTHER, roster.admission, roster.relays)
    return connected(member, *answers(health(nothing_missing), []))


async def examined(folder):
    async with asyncio.timeout(ENOUGH_S):
        return await examine_folder(folder, 1)


async def test_a_swarm_that_is_well(tmp_path):
    async with a_relay() as (_, named):
        folder, roster = swarm_folder(tmp_path, named)
        async with ward_b(roster):
            (found,), (member,) = await examined(folder)
    key = RELAY_KEY.public.hex()[:8]
    assert [found.cell(column) for column in found.columns[:-1]] == [
        *("none", "yes", "yes", "1.3", "yes", f"{key} pinned", "yes")
    ]
    assert found.cell("round trip").endswith(" ms")
    assert [member.cell(column) for column in ("here", "key", "clock")] == [
        *("yes", f"{OTHER.public.hex()[:8]} pinned", "agrees")
    ]
    assert member.cell("upload").startswith(">= ")
    assert [str(line) for line in advice([found, member])] == [
        f"ok       {named.endpoint}: nothing to do",
        "ok       Ward B: nothing to do",
    ]
    assert table([found])[0].split()[:3] == ["relay", "proxy", "name"]
    assert table([member])[1].startswith("Ward B  yes")


async def test_who_is_away_is_named_and_is_no_fault_of_this_machine(tmp_path):
    async with a_relay() as (_, named):
        folder, _ = swarm_folder(tmp_path, named)
        _, (member,) = await examined(folder)
    assert (member.cell("here"), member.level) == ("away", "warning")
    assert member.findings[0].advice.startswith("away: its connection to the relay broke; look")


async def test_while_a_node_runs_in_the_folder_nothing_takes_its_place(tmp_path):
    async with a_relay() as (relay, named):
        folder, _ = swarm_folder(tmp_path, named)
        with held(key_file(folder), "node"):
            (found,), members = await examined(folder)
        assert not relay.relaying.view().connected, "it was not admitted"
    assert found.cell("key") == f"{RELAY_KEY.public.hex()[:8]} pinned"
    assert found.cell("admission") == "not asked"
    assert (found.level, members) == ("ok", [])


async def test_another_relay_and_one_that_refuses(tmp_path):
    async with a_relay() as (_, named):
        folder, _ = swarm_folder(tmp_path / "a", Relay(named.endpoint, OTHER.public, bytes(64)))
        (found,), members = await examined(folder)
        (line,) = advice([found])
        assert line.text == (
            f"the relay holds the key {RELAY_KEY.public.hex()[:16]}..., not {OTHER.public.hex()[:16]}...: "
            "another machine answers there"
        )
        assert (line.level, members) == ("problem", [])
        folder, _ = swarm_folder(tmp_path / "b", Relay(named.endpoint, RELAY_KEY.public, bytes(64)))
        (found,), members = await examined(folder)
    assert (found.cell("admission"), found.level, members) == ("refused", "problem", [])
    assert found.findings[-1].advice.startswith("the relay refuses this swarm: ")


async def test_a_proxy_with_its_password_leads_there(tmp_path, monkeypatch):
    async with (
        a_relay() as (_, named),
        proxied(monkeypatch, "ward:secret@", password="ward:secret") as (proxy, _),
    ):
        folder, _ = swarm_folder(tmp_path, named)
        (found,), _ = await examined(folder)
    assert [found.cell(column) for column in found.columns[:5]] == [
        *(proxy, "by the proxy", "by the proxy", "1.3", "yes")
    ]
    assert found.level == "ok"


async def test_a_proxy_that_ends_tls_is_named_and_harms_nobody(tmp_path, monkeypatch):
    async with a_relay() as (_, named), proxied(monkeypatch, intercepts=True):
        folder, roster = swarm_folder(tmp_path, named)
        async with ward_b(roster):
            (found,), (member,) = await examined(folder)
    assert (found.cell("TLS"), found.level, member.level) == ("intercepted", "ok", "ok")
    (line,) = advice([found])
    assert line.text.startswith("TLS ends before the relay, at a program with the certificate CN=proxy.exa")


@pytest.mark.parametrize(
    ("manners", "column", "cell", "text"),
    [
        ({"password": "a:b", "shows": "a:c@"}, "proxy", "password", "the proxy asks for a password (407)"),
        ({"intercepts": True, "websockets": False}, "websocket", "status 403", "lets no websocket through"),
    ],
)
async def test_what_a_proxy_refuses(tmp_path, monkeypatch, manners, column, cell, text):
    async with a_relay() as (_, named), proxied(monkeypatch, **manners):
        folder, _ = swarm_folder(tmp_path, named)
        (found,), members = await examined(folder)
    assert (found.cell(column), found.level, members) == (cell, "problem", [])
    assert text in found.findings[-1].advice


async def test_nobody_listens_no_such_name_and_another_program(tmp_path, monkeypatch):
    for number, (endpoint, column, cell) in enumerate(
        [(free_endpoint(), "port", "refused"), ("no.such.host.invalid:443", "name", "unknown")]
    ):
        relay = Relay(endpoint, RELAY_KEY.public, bytes(64))
        folder, _ = swarm_folder(tmp_path / str(number), relay)
        (found,), _ = await examined(folder)
        assert (found.cell(column), found.level) == (cell, "problem")
        assert "HTTPS_PROXY is not set" in found.findings[-1].advice
    monkeypatch.setenv("HTTPS_PROXY", f"http://{free_endpoint()}")
    (found,), _ = await examined(folder)
    assert (found.cell("proxy"), found.level) == ("no answer", "problem")
    monkeypatch.setenv("HTTPS_PROXY", "http://[")
    (found,), _ = await examined(folder)
    assert (found.cell("proxy"), found.level) == ("no address", "problem")
    assert found.findings[-1].advice.endswith(
        "HTTPS_PROXY is no address; allowed: http://NAME:PASSWORD@HOST:PORT"
    )


def test_the_command_wants_one_of_folder_peers_and_tracker(tmp_path, one_line):
    assert "exactly one of FOLDER, --peers" in one_line(main, [str(tmp_path), "--peers", "127.0.0.1:1"])
    assert "give the folder of a swarm that you joined" in one_line(main, [str(tmp_path)])
    folder, _ = swarm_folder(tmp_path, Relay(free_endpoint(), RELAY_KEY.public, bytes(64)))
    key_file(folder).unlink()
    assert "is gone: put a copy of it back" in one_line(main, [str(folder)])


def test_the_command_prints_a_table_and_what_to_do(tmp_path, capsys):
    relay = Relay(free_endpoint(), RELAY_KEY.public, bytes(64))
    folder, _ = swarm_folder(tmp_path, relay)
    assert main([str(folder)]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[1].startswith("relay")
    assert f"problem  {relay.endpoint}: no way to {relay.endpoint}: connection refused" in out


async def test_a_relay_that_changes_its_mind(tmp_path, monkeypatch):
    """It admitted the first carrier, and then refuses."""

    async def start(_):
        raise UserError("the relay refuses this swarm: its day is used up")

    monkeypatch.setattr(RelayedStreams, "start", start)
    async with a_relay() as (_, named):
        folder, _ = swarm_folder(tmp_path, named)
        _, (member,) = await examined(folder)
    assert member.findings == (
        Finding("here", "no relay", "problem", "the relay refuses this swarm: its day is used up"),
    )
