"""A carrier: one websocket to a relay that is opened again whenever it breaks, and brings frames.

It asks the hub for the next frame only when the last one is on its way, so that no frame waits behind many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from aiohttp import ClientError, ClientWebSocketResponse, WSMsgType

from node.cli.logs import Log
from node.net.relay.client import CLOSE_S, CONNECT_S, NoWay, RelayClient, WrongRelay, next_message, prove
from node.system.errors import UserError, reason
from node.system.pauses import LONGEST_PAUSE_S, Pauses
from node.system.system import Entropy
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import Admit, Refused, Relay, Welcome, read_answer, write_admission
from protocol.relay.frames import MAX_FRAME_BYTES, Frame, read_frame
from protocol.relay.ways import CarrierId

PATH = "/v1/relay"

log = Log("relay")


class Hub(Protocol):
    """Whoever owns the streams."""

    def connected(self, carrier: CarrierId, welcome: Welcome) -> None:
        """A carrier is up."""

    def disconnected(self, carrier: CarrierId) -> None:
        """A carrier broke."""

    def failed(self, carrier: CarrierId, error: UserError) -> None:
        """A carrier could not be opened; it is tried again."""

    def next_frame(self, carrier: CarrierId) -> Frame | None:
        """Returns the frame to send next; None if there is none now."""

    def receive(self, carrier: CarrierId, frame: Frame) -> None:
        """Takes a frame."""


class CarrierTask:
    """Keeps one carrier up."""

    def __init__(
        self,
        hub: Hub,
        carrier: CarrierId,
        relay: Relay,
        key: NodeKey,
        admit: Callable[[], Admit],
        client: RelayClient,
        entropy: Entropy,
    ) -> None:
        """`run` opens it. `admit`: returns what this node asks of the relay."""
        self._hub = hub
        self._carrier = carrier
        self._relay = relay
        self._key = key
        self._admit = admit
        self._client = client
        self._entropy = entropy
        self._has_frames = asyncio.Event()

    def ready(self) -> None:
        """Frames wait."""
        self._has_frames.set()

    async def run(self) -> None:
        """Opens the carrier, again and again, until it is cancelled."""
        pauses, clock = Pauses(), asyncio.get_running_loop().time
        while True:
            try:
                ws, welcome = await self._open()
            except UserError as error:
                self._hub.failed(self._carrier, error)
            else:
                begun_s = clock()
                await self._serve(ws, welcome)
                if clock() - begun_s > LONGEST_PAUSE_S:
                    pauses.reset()
            part = (1 + self._entropy(1)[0] / 255) / 2  # not all members at once
            await asyncio.sleep(pauses.take() * part)

    async def _open(self) -> tuple[ClientWebSocketResponse, Welcome]:
        """Opens a websocket, proves both keys and is admitted. Raises NoWay, WrongRelay or UserError."""
        endpoint = self._relay.endpoint
        try:
            async with asyncio.timeout(CONNECT_S):
                ws = await self._client.open(endpoint, PATH, MAX_FRAME_BYTES)
                try:
                    return ws, await self._enter(ws)
                except BaseException:
                    await _close(ws)
                    raise
        except (ClientError, OSError) as error:  # TimeoutError is one
            why = "no answer in time" if isinstance(error, TimeoutError) else reason(error)
            raise NoWay(f"no way to {endpoint}: {why}, after a connection had opened") from error
        except RemoteProtocolError as error:
            raise NoWay(
                f"no way to {endpoint}: what answers is no relay of this version ({error})"
            ) from error

    async def _enter(self, ws: ClientWebSocketResponse) -> Welcome:
        shown = await prove(ws, self._key, self._entropy)
        if shown != self._relay.key:
            raise WrongRelay(
                f"the relay {self._relay.endpoint} holds the key {shown.hex()[:16]}..., not "
                f"{self._relay.key.hex()[:16]}...: another machine answers there"
            )
        await ws.send_bytes(write_admission(self._admit()))
        answer = read_answer(await next_message(ws))
        if isinstance(answer, Refused):
            line = f"the relay {self._relay.endpoint} refuses this swarm: {answer.why}"
            raise UserError(line) if answer.is_final else NoWay(line)
        return answer

    async def _serve(self, ws: ClientWebSocketResponse, welcome: Welcome) -> None:
        """Sends and receives until the websocket ends."""
        self._hub.connected(self._carrier, welcome)
        writing = asyncio.create_task(self._write(ws), name="a carrier's frames")
        reading = asyncio.create_task(self._read(ws), name="a carrier's arrivals")
        try:
            await asyncio.wait((writing, reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.disconnected(self._carrier)
            for task in (writing, reading):
                task.cancel()
            ends = await asyncio.gather(writing, reading, return_exceptions=True)
            for error in ends:
                if isinstance(error, Exception):  # a fault of this node ends the carrier, not the node
                    log.warning("carrier-ended", relay=self._relay.endpoint, why=reason(error))
            await _close(ws)

    async def _write(self, ws: ClientWebSocketResponse) -> None:
        with suppress(ClientError, OSError):
            while True:
                self._has_frames.clear()
                while (frame := self._hub.next_frame(self._carrier)) is not None:
                    await ws.send_bytes(b"".join(frame.parts))
                await self._has_frames.wait()

    async def _read(self, ws: ClientWebSocketResponse) -> None:
        with suppress(RemoteProtocolError):  # what breaks its rules is no relay
            async for message in ws:
                if message.type is WSMsgType.BINARY:
                    self._hub.receive(self._carrier, read_frame(memoryview(message.data)))


async def _close(ws: ClientWebSocketResponse) -> None:
    with suppress(ClientError, OSError):
        async with asyncio.timeout(CLOSE_S):
            await ws.close()
