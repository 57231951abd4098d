"""Examines the way to each peer step by step, as a node would go it; a later step needs the earlier ones.

    name ──▶ port ──▶ TLS ──▶ answers ──▶ key ──▶ state, clock, round trip, throughput, upload

It asks only what every node tells everybody: its certificate, the challenge by which a link begins (this
machine shows no key of its own), its health, and the files of its page. All peers are examined side by side,
except for the throughput and the upload, which they would share.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from aiohttp import ClientError, ClientSession

from node.doctor.assess import (
    between,
    clock,
    is_healthy,
    round_trip,
    state,
    subject,
    throughput,
    upload,
)
from node.doctor.finding import Column, Examined, Finding
from node.doctor.reach import Address, look_up, reach
from node.doctor.requests import HEALTH, READY, Answer, Way, upload_bytes_per_s
from node.net.outgoing.dialling import CONNECT_CAP_S, connect, meet, new_client
from node.net.tls import Dialling, WrongPeer, make_dialling, url, vouched_for
from node.net.versions import OtherVersion
from node.system.addresses import PeerAddress
from node.system.errors import reason
from protocol.aggregation.masked.thresholds import LEAST_MEMBERS
from protocol.wire.handshake import NONCE_BYTES
from protocol.wire.ids import Key

_NETWORK = (ClientError, OSError, TimeoutError)
_UNCHANGED = "let the proxy pass TCP through unchanged"


async def examine_all(
    peers: Sequence[PeerAddress], choice: str, option: str, parameters: int
) -> list[Examined]:
    """Examines all peers; returns what was found, in their order.

    `choice` is the value of --tls; `option` names where the peers' keys stand, for advice. `parameters`:
    those of the model that the peers will sum.
    """
    turn = asyncio.Lock()
    client = new_client()
    try:
        size = parameters, max(LEAST_MEMBERS, 1 + len(peers))
        trips = [_Trip(peer, choice, option, client, turn, size) for peer in peers]
        return await asyncio.gather(*(trip.examined() for trip in trips))
    finally:
        await client.close()


class _Trip:
    """The way to one peer. The holder of `turn` is the only one that measures a throughput."""

    def __init__(
        self,
        peer: PeerAddress,
        choice: str,
        option: str,
        client: ClientSession,
        turn: asyncio.Lock,
        size: tuple[int, int],
    ) -> None:
        self._size = size
        self._endpoint, self._pin = peer.endpoint, peer.key
        self._option = option
        self._client = client
        self._turn = turn
        expected = frozenset(() if peer.key is None else (peer.key,))
        self._tls = make_dialling(choice, lambda _: expected)
        self._key: Key | None = None
        self._ahead_s: float | None = None

    async def examined(self) -> Examined:
        """Takes the steps up to the first one that is barred."""
        findings = tuple([finding async for finding in self._steps()])
        return Examined(self._endpoint, findings, self._key, self._ahead_s)

    async def _steps(self) -> AsyncIterator[Finding]:
        addresses, finding = await look_up(self._endpoint)
        yield finding
        if not addresses:
            return
        address, finding = await reach(self._endpoint, addresses)
        yield finding
        if address is None:
            return
        finding = await self._under_tls(address)
        yield finding
        if finding.level == "problem":
            return
        way = self._way(self._tls)
        answer, finding = await self._answers(way)
        yield finding
        if answer is None:
            return
        finding = await self._link()
        yield finding
        if finding.level == "problem":
            return
        for finding in await self._measured(way, answer):
            yield finding

    def _way(self, tls: Dialling) -> Way:
        return Way(self._client, url(tls.choice, self._endpoint), tls.dialling(self._endpoint))

    # -- TLS -----------------------------------------------------------------------------------------------

    async def _under_tls(self, address: Address) -> Finding:
        """Says whether the far end speaks TLS as a node does, and under an allowed key."""
        context = self._tls.dialling(self._endpoint)
        if context is None:
            return Finding("TLS", "none")
        try:
            async with asyncio.timeout(CONNECT_CAP_S):
                _, writer = await asyncio.open_connection(*address, ssl=context)
        except _NETWORK as error:
            return _problem("TLS", "fails", await self._unanswered(error))
        link: ssl.SSLObject = writer.get_extra_info("ssl_object")
        writer.transport.abort()  # the handshake is all that is asked for
        certificate = link.getpeercert(binary_form=True) or b""
        try:
            vouched_for(certificate)
        except WrongPeer:
            return _problem("TLS", "ends early", await self._who_ends_it(certificate))
        try:
            self._tls.check(self._endpoint, link)
        except WrongPeer as error:
            return _problem("TLS", "another key", self._wrong(error))
        return Finding("TLS", (link.version() or "").removeprefix("TLSv"))

    async def _unanswered(self, error: Exception) -> str:
        """Returns what to do if nothing answers the way that --tls asks for; it tries the other way."""
        if isinstance(error, TimeoutError):
            return f"connected, but no answer in {CONNECT_CAP_S:g} s: it is overloaded; try again in a minute"
        covered = self._tls.dialling(self._endpoint) is not None
        other = "off" if covered else "on"
        with suppress(*_NETWORK):
            if is_healthy(await self._way(make_dialling(other, self._tls.keys_at)).get(HEALTH)):
                how = "without TLS" if covered else "under TLS"
                return f"the node there answers {how}: use the same --tls at both ends (here: --tls {other})"
        what = "does not speak TLS 1.3" if covered else "does not answer HTTP"
        return (
            f"the program there {what}: a node that starts or ends, so try again in a minute; else no node, "
            "so correct the address, or end that program"
        )

    async def _who_ends_it(self, certificate: bytes) -> str:
        """Returns what to do if TLS does not end at a node: at something in between, or another program."""
        named = f"its certificate ({subject(certificate)}) is no node's"
        try:
            key = await self._proved(None)
        except _NETWORK:
            return (
                f"another program, or a proxy in between, ends TLS there, {named}: correct the address, or "
                f"{_UNCHANGED}"
            )
        return f"a proxy in between ends TLS ({named}), and node {_digits(key)} is behind it: {_UNCHANGED}"

    # -- HTTP and the link ---------------------------------------------------------------------------------

    async def _answers(self, way: Way) -> tuple[Answer | None, Finding]:
        """Asks for the health; says whether an HTTP proxy answers in between."""
        try:
            answer = await way.get(HEALTH)
        except _NETWORK as error:
            return None, _problem("answers", "no", await self._unanswered(error))
        named = between(answer.headers)
        if not is_healthy(answer):
            who = f" ({named})" if named else ""
            advice = (
                f"another program answers there{who}: correct the address, or look for a proxy in between"
            )
            return None, _problem("answers", "no node", advice)
        if named:
            advice = f"an HTTP proxy in between answers for the node ({named}): {_UNCHANGED}"
            return answer, Finding("answers", "by a proxy", "warning", advice)
        return answer, Finding("answers", "yes")

    async def _link(self) -> Finding:
        """Begins a link, up to the proof of the far end's key, and ends it."""
        try:
            self._key = await self._proved(self._tls)
        except WrongPeer as error:
            return _problem("key", "not proved", self._wrong(error))
        except OtherVersion as error:
            return _problem("key", "other version", f"it {error}")
        except ConnectionRefusedError as error:
            return Finding("key", "busy", "warning", f"{reason(error)}: try again in a minute")
        except _NETWORK as error:
            advice = (
                f"no link begins ({reason(error)}): a proxy in between may refuse websockets; {_UNCHANGED}"
            )
            return _problem("key", "no link", advice)
        if self._pin not in (None, self._key):
            text = f"the far end proves the key {_digits(self._key)}, not {_digits(self._pin or b'')}"
            return _problem("key", "another key", self._wrong(text))
        return Finding("key", self._key.hex()[:8] if self._pin is None else f"{self._key.hex()[:8]} pinned")

    async def _proved(self, tls: Dialling | None) -> Key:
        """Returns the key that the far end proves on a link; `tls` checks the certificate, unless None."""
        async with asyncio.timeout(CONNECT_CAP_S):
            ws = await connect(self._client, self._endpoint, self._tls)
            try:
                return (await meet(ws, self._endpoint, tls, os.urandom(NONCE_BYTES))).key
            finally:
                await ws.close()

    def _wrong(self, why: WrongPeer | str) -> str:
        return f"{why}; correct {self._option}, or find out who listens there"

    # -- how well ------------------------------------------------------------------------------------------

    async def _measured(self, way: Way, health: Answer) -> list[Finding]:
        """Returns the state, the clock and the three speeds, up to where the connection breaks."""
        self._ahead_s = health.ahead_s
        found = [clock(health.ahead_s)]
        try:
            found.insert(0, state(health, await way.get(READY)))
            async with self._turn:
                found.append(round_trip(await way.round_trip_s()))
                found.append(throughput(await way.bytes_per_s(), *self._size))
                if self._key is not None:
                    rate = await upload_bytes_per_s(self._client, self._endpoint, self._tls, CONNECT_CAP_S)
                    found.append(upload(rate, *self._size))
        except* _NETWORK as broken:
            text = f"the connection broke or stood still ({_first(broken)}): look at the network in between"
            column: Column = "upload" if found[-1].column == "throughput" else "throughput"
            found.append(_problem(column, "broken", text))
        return found


def _problem(column: Column, cell: str, advice: str) -> Finding:
    return Finding(column, cell, "problem", advice)


def _digits(key: Key) -> str:
    return f"{key.hex()[:16]}..."


def _first(errors: BaseExceptionGroup[BaseException]) -> str:
    """Returns the reason of the first error in a group."""
    first = errors.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return _first(first)
    return "no answer in time" if isinstance(first, TimeoutError) else reason(Exception(*first.args))
