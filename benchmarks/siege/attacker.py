"""A process that floods an endpoint: it keeps connections open, and opens a new one for each that is closed.

    python -m benchmarks.siege.attacker --endpoint 127.0.0.1:9001 --seconds 30 --bodies 2000 --idle 2000

It runs at the lowest priority, connects only to loopback, opens a bounded number of connections, and ends
when its time is over. It prints a line of JSON when it has opened all connections once, and another one at
the end. Both count how many connections it opened, how many the node closed, and how many tries failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from node.net.incoming.doors import raise_descriptors
from node.net.versions import SUBPROTOCOL
from node.system.addresses import is_loopback, split_endpoint

NICENESS = 19
MOST_SECONDS = 1200.0
MOST_OPENED = 2_000_000
DRIP_S = 1.0
"""Seconds between two bytes on a slow connection."""
AT_ONCE = 64
"""How many connections may be opening at the same time."""
AGAIN_S = 0.01
"""Seconds to wait after a try that failed."""
_HOST = b"Host: 127.0.0.1\r\n"
_GREETINGS: Mapping[str, bytes] = {
    "bodies": b"POST /v1/bulk HTTP/1.1\r\n" + _HOST + b"Content-Length: 1300000\r\n\r\n" + bytes(10),
    "idle": b"",
    "websockets": b"GET /v1/link HTTP/1.1\r\n"
    + _HOST
    + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    + b"Sec-WebSocket-Protocol: "
    + SUBPROTOCOL.encode()
    + b"\r\n\r\n",
    "heads": b"GET / HTTP/1.1\r\n" + _HOST + b"X-Slow: ",
}
_DROPS: Mapping[str, bytes] = {"bodies": b"\0", "heads": b"a"}


@dataclass(frozen=True)
class Force:
    """How many connections of each kind are kept open at once."""

    bodies: int = 2000
    idle: int = 2000
    websockets: int = 1000
    heads: int = 200

    @property
    def connections(self) -> int:
        """The connections of all kinds together."""
        return self.bodies + self.idle + self.websockets + self.heads


class Connection(asyncio.Protocol):
    """One connection. It sends `greeting` when it opens, and `drop` at each call of `drip`."""

    def __init__(self, greeting: bytes, drop: bytes) -> None:
        self._greeting = greeting
        self._drop = drop
        self._transport: asyncio.Transport | None = None
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the greeting."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            if self._greeting:
                transport.write(self._greeting)

    def drip(self) -> None:
        """Send the drop, so that the connection is not silent."""
        if self._drop and self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._drop)

    def connection_lost(self, error: Exception | None) -> None:
        """Note that either end has closed the connection."""
        if not self.over.done():
            self.over.set_result(None)

    def close(self) -> None:
        """Close the connection from this end."""
        if self._transport is not None:
            self._transport.abort()


class Attack:
    """An attack on one endpoint, with all its connections."""

    def __init__(self, endpoint: str, force: Force, seconds: float, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._host, self._port = split_endpoint(endpoint)
        self._force = force
        self._until_s = asyncio.get_running_loop().time() + seconds
        self._opening = asyncio.Semaphore(AT_ONCE)
        self._open_connections: set[Connection] = set()
        self._opened_once = 0
        self.counts: Counter[str] = Counter()
        self.all_opened = asyncio.Event()

    async def run(self) -> None:
        """Keep all connections open until the time is over, then close them."""
        kinds = [kind for kind, count in asdict(self._force).items() for _ in range(count)]
        tasks = [asyncio.create_task(self._keep_open(kind)) for kind in kinds]
        dripping = asyncio.create_task(self._drip_all())
        await asyncio.wait((*tasks, dripping), timeout=self._until_s - asyncio.get_running_loop().time())
        for task in (*tasks, dripping):
            task.cancel()
        for held in tuple(self._open_connections):
            held.close()
        await asyncio.gather(*tasks, dripping, return_exceptions=True)

    async def _keep_open(self, kind: str) -> None:
        """Keep a connection of this kind open: open another one whenever the node closes it."""
        is_first = True
        while self.counts["opened"] < MOST_OPENED:
            held = await self._open_connection(kind)
            if held is None:
                continue
            if is_first:
                is_first = False
                self._opened_once += 1
                if self._opened_once == self._force.connections:
                    self.all_opened.set()
            await held.over
            self._open_connections.discard(held)
            self.counts["closed by the node"] += 1

    async def _open_connection(self, kind: str) -> Connection | None:
        loop = asyncio.get_running_loop()
        async with self._opening:
            try:
                _, held = await loop.create_connection(
                    lambda: Connection(_GREETINGS[kind], _DROPS.get(kind, b"")),
                    self._host,
                    self._port,
                    ssl=self._context,
                )
            except OSError:
                self.counts["not opened"] += 1
                await asyncio.sleep(AGAIN_S)
                return None
        self.counts["opened"] += 1
        self._open_connections.add(held)
        self.counts["most at once"] = max(self.counts["most at once"], len(self._open_connections))
        return held

    async def _drip_all(self) -> None:
        while True:
            await asyncio.sleep(DRIP_S)
            for held in tuple(self._open_connections):
                held.drip()


async def attack(endpoint: str, force: Force, seconds: float, context: ssl.SSLContext | None) -> None:
    """Attack an endpoint for `seconds`, by TLS if there is a context; print the counts."""
    here = Attack(endpoint, force, min(seconds, MOST_SECONDS), context)
    running = asyncio.create_task(here.run())
    opened = asyncio.create_task(here.all_opened.wait())
    await asyncio.wait((running, opened), return_when=asyncio.FIRST_COMPLETED)
    print(json.dumps({"opened": dict(here.counts)}), flush=True)
    await running
    opened.cancel()
    print(json.dumps({"ended": dict(here.counts)}), flush=True)


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def main() -> None:
    """Run the attack that the command line describes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.siege.attacker", description=__doc__)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--tls", action="store_true", help="speak TLS, and accept any certificate")
    for kind, count in asdict(Force()).items():
        parser.add_argument(f"--{kind}", type=int, default=count)
    asked = parser.parse_args()
    if not is_loopback(asked.endpoint):
        sys.exit(f"--endpoint {asked.endpoint}: allowed are endpoints on loopback, such as 127.0.0.1:9001")
    force = Force(asked.bodies, asked.idle, asked.websockets, asked.heads)
    os.nice(NICENESS)
    raise_descriptors(force.connections + AT_ONCE + 256)
    asyncio.run(attack(asked.endpoint, force, asked.seconds, _any_certificate() if asked.tls else None))


if __name__ == "__main__":
    main()
