"""Examines the way to the members of a swarm by invitation: to each of its relays, then through them.

    proxy ──▶ name ──▶ port ──▶ TLS ──▶ websocket ──▶ key ──▶ admission      of each relay
    here ──▶ key ──▶ clock, round trip, upload                               of each member

A relay learns from it what a node shows it, and members see this machine for a moment. A relay leads a key to
one process only, so while a node runs with the folder's key, nothing is asked that would take its place.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientWebSocketResponse

from node.doctor.assess import clock, no_way, presence, round_trip, tls_to_relay, upload
from node.doctor.finding import TO_MEMBER, TO_RELAY, Column, Examined, Finding
from node.doctor.requests import HEALTH, Way, upload_bytes_per_s
from node.invitation.key import key_file, own_key
from node.net.outgoing.dialling import connect, meet, new_client
from node.net.relay.carrier import PATH
from node.net.relay.client import (
    CONNECT_S,
    NoWay,
    RelayClient,
    next_message,
    proxy_for,
    without_password,
)
from node.net.relay.streams import RelayedStreams
from node.net.tls import ON, make_dialling, url
from node.storage.key_file import held
from node.storage.locks import InUse
from node.storage.swarm_file import Swarm, read_swarm
from node.system.addresses import split_endpoint
from node.system.errors import UserError, reason
from node.system.streams import KERNEL
from protocol.aggregation.masked.thresholds import LEAST_MEMBERS
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.invitation.roster import Member
from protocol.relay.admission import Admit, CarrierKind, Refused, Relay, read_answer, write_admission
from protocol.relay.frames import MAX_FRAME_BYTES
from protocol.wire import handshake
from protocol.wire.endpoints import of_key

_NETWORK = (ClientError, OSError, TimeoutError)
_RUNS = "a node runs in this folder: its page shows who is here, or stop it and examine again"
_PROCESS_BYTES = 8
MEMBER_S = 15.0
"""The time limit for each step to a member."""
_AWAY_S, _LOOK_S = 2.0, 0.1
"""A member that no relay leads to for so long is away; how often to look."""


async def examine_folder(folder: Path, parameters: int) -> list[list[Examined]]:
    """Examines the swarm in a run's folder; returns what was found of its relays, and of its other members.

    `parameters`: those of the model. Raises ConfigError for a folder without a swarm, or with a damaged one.
    """
    swarm, key = read_swarm(folder), own_key(folder)
    try:
        with held(key_file(folder), "node"):
            relays = await _relays(swarm, key)
            is_open = any(each.level != "problem" for each in relays)
            return [relays, await _members(swarm, key, parameters) if is_open else []]
    except InUse:
        return [await _relays(swarm, None), []]


# -- relays ------------------------------------------------------------------------------------------------


async def _relays(swarm: Swarm, key: NodeKey | None) -> list[Examined]:
    """`key`: this node's own; None: it is shown to no relay, as a node runs with it."""
    client = RelayClient(KERNEL)
    try:
        return list(
            await asyncio.gather(*(_relay(relay, swarm, key, client) for relay in swarm.roster.relays))
        )
    finally:
        await client.close()


async def _relay(relay: Relay, swarm: Swarm, key: NodeKey | None, client: RelayClient) -> Examined:
    trip = _ToRelay(relay, swarm, key, client)
    findings = tuple([finding async for finding in trip.steps()])
    return Examined(relay.endpoint, findings, None, None, TO_RELAY)


class _ToRelay:
    def __init__(self, relay: Relay, swarm: Swarm, key: NodeKey | None, client: RelayClient) -> None:
        self._relay, self._swarm, self._key, self._client = relay, swarm, key, client

    async def steps(self) -> AsyncIterator[Finding]:
        """Takes the steps up to the first one that is barred."""
        host, _ = split_endpoint(self._relay.endpoint)
        proxy = proxy_for(host)
        way = "none" if proxy is None else without_password(proxy)
        try:
            async with asyncio.timeout(CONNECT_S):
                ws = await self._client.open(self._relay.endpoint, PATH, MAX_FRAME_BYTES)
        except (NoWay, TimeoutError) as error:
            column, cell = no_way(error.__cause__)
            text = str(error) or f"no way to {self._relay.endpoint}: no answer in time"
            for passed in _before(column, way):
                yield passed
            yield Finding(column, cell, "problem", text)
            return
        link = ws.get_extra_info("ssl_object")
        for passed in _before("TLS", way):
            yield passed
        yield tls_to_relay(link.getpeercert(binary_form=True) or b"")
        yield Finding("websocket", "yes")
        try:
            async with asyncio.timeout(CONNECT_S):
                for finding in await self._met(ws):
                    yield finding
        except RemoteProtocolError as error:
            advice = f"what answers at {self._relay.endpoint} is no relay of this version ({error})"
            yield Finding("key", "not proved", "problem", advice)
        except _NETWORK as error:
            advice = f"{self._relay.endpoint} ends the connection ({_text(error)}): look at what is between"
            yield Finding("key", "no answer", "problem", advice)
        finally:
            await ws.close()

    async def _met(self, ws: ClientWebSocketResponse) -> list[Finding]:
        """Has the relay prove its key; asks it to carry if this node's key may be shown."""
        relay, loop, nonce = self._relay, asyncio.get_running_loop(), os.urandom(handshake.NONCE_BYTES)
        begun = loop.time()
        await ws.send_bytes(handshake.knock(nonce))
        challenged = handshake.read_challenge(await next_message(ws), nonce, handshake.RELAY)
        trip = round_trip(loop.time() - begun)
        if challenged.key != relay.key:
            shown, meant = challenged.key.hex()[:16], relay.key.hex()[:16]
            advice = f"the relay holds the key {shown}..., not {meant}...: another machine answers there"
            return [Finding("key", "another key", "problem", advice)]
        proved = Finding("key", f"{relay.key.hex()[:8]} pinned")
        if self._key is None:
            return [proved, Finding("admission", "not asked", advice=_RUNS), trip]
        await ws.send_bytes(handshake.proof(self._key, nonce, challenged, handshake.RELAY))
        process = int.from_bytes(os.urandom(_PROCESS_BYTES), "big")
        admit = Admit(CarrierKind.CONTROL, process, self._swarm.roster.credentials(relay))
        await ws.send_bytes(write_admission(admit))
        answer = read_answer(await next_message(ws))
        if isinstance(answer, Refused):
            advice = f"the relay refuses this swarm: {answer.why}"
            return [proved, Finding("admission", "refused", "problem", advice)]
        return [proved, Finding("admission", "yes"), trip]


def _before(failed: Column, proxy: str) -> list[Finding]:
    """The steps that were taken before one, in a try that shows no more of them."""
    cell = "yes" if proxy == "none" else "by the proxy"
    known: dict[Column, str] = {"proxy": proxy, "name": cell, "port": cell, "TLS": "yes"}
    passed = TO_RELAY[: TO_RELAY.index(failed)]
    return [Finding(column, known[column]) for column in passed]


# -- members -----------------------------------------------------------------------------------------------


async def _members(swarm: Swarm, key: NodeKey, parameters: int) -> list[Examined]:
    roster = swarm.roster
    others = [each for each in roster.everyone if each.key in swarm.learned_with and each.key != key.public]
    streams = RelayedStreams(key, roster.admission, roster.relays, passes=roster.passes)
    try:
        async with asyncio.timeout(CONNECT_S):
            await streams.start()
    except (UserError, TimeoutError) as error:
        advice = str(error) or "the relay stopped answering: examine again"
        away = (Finding("here", "no relay", "problem", advice),)
        return [Examined(member.name, away, None, None, TO_MEMBER) for member in others]
    client = new_client(streams, MEMBER_S)
    size, turn = (parameters, max(LEAST_MEMBERS, len(others) + 1)), asyncio.Lock()
    try:
        trips = [_ToMember(member, streams, client, size, turn).examined() for member in others]
        return list(await asyncio.gather(*trips))
    finally:
        await client.close()
        await streams.close()


class _ToMember:
    """The holder of `turn` is the only one that measures how fast its data arrive."""

    def __init__(
        self,
        member: Member,
        streams: RelayedStreams,
        client: ClientSession,
        size: tuple[int, int],
        turn: asyncio.Lock,
    ) -> None:
        self._member, self._endpoint = member, of_key(member.key)
        self._streams, self._client, self._size, self._turn = streams, client, size, turn
        self._tls = make_dialling(ON, lambda _: frozenset())
        self._ahead_s: float | None = None

    async def examined(self) -> Examined:
        """Takes the steps up to the first one that is barred."""
        findings = [finding async for finding in self._steps()]
        has_proved = any(finding.column == "key" and finding.level == "ok" for finding in findings)
        key = self._member.key if has_proved else None
        return Examined(self._member.name, tuple(findings), key, self._ahead_s, TO_MEMBER)

    async def _steps(self) -> AsyncIterator[Finding]:
        linking = asyncio.create_task(self._link())
        away_at = asyncio.get_running_loop().time() + _AWAY_S
        while not linking.done() and (self._why_away is None or asyncio.get_running_loop().time() < away_at):
            await asyncio.wait((linking,), timeout=_LOOK_S)
        linking.cancel()
        (ended,) = await asyncio.gather(linking, return_exceptions=True)
        if ended is not None:
            yield presence(self._why_away)
            if self._why_away is None and isinstance(ended, Exception):
                advice = f"the relay leads there, and no link begins ({_text(ended)}): look at its node"
                yield Finding("key", "no link", "problem", advice)
            return
        yield Finding("here", "yes")
        yield Finding("key", f"{self._member.key.hex()[:8]} pinned")
        try:
            for finding in await self._measured():
                yield finding
        except _NETWORK as error:
            advice = f"the way stood still or broke ({_text(error)}): look at both lines, and at the relay"
            yield Finding("round trip", "broken", "problem", advice)

    @property
    def _why_away(self) -> str | None:
        return self._streams.why_away(self._member.key)

    async def _link(self) -> None:
        """Begins a link, up to the proof of the member's key, and ends it."""
        async with asyncio.timeout(MEMBER_S):
            ws = await connect(self._client, self._endpoint, self._tls)
            try:
                await meet(ws, self._endpoint, self._tls, os.urandom(handshake.NONCE_BYTES))
            finally:
                await ws.close()

    async def _measured(self) -> list[Finding]:
        way = Way(self._client, url(ON, self._endpoint), self._tls.dialling(self._endpoint))
        self._ahead_s = (await way.get(HEALTH)).ahead_s
        async with self._turn:
            trip = await way.round_trip_s()
            rate = await upload_bytes_per_s(self._client, self._endpoint, self._tls, MEMBER_S)
        return [clock(self._ahead_s), round_trip(trip), upload(rate, *self._size)]


def _text(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    cause = getattr(error, "os_error", None) or error
    return reason(cause)
