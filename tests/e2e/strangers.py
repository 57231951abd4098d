"""A stranger with keys on no list: it proves each key, and sends a Hello that names any endpoint.

python -m tests.e2e.strangers HOST:PORT SECONDS TASK
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from contextlib import suppress

import aiohttp

from node.net.versions import SUBPROTOCOL
from protocol.crypto.node_key import NodeKey
from protocol.wire import codec, handshake, signing
from protocol.wire.messages import NO_SID, Announce, Base, Hello

AT_ONCE = 16
HELLOS_PER_LINK = 20


def hello(key: NodeKey, task: str, random_: random.Random) -> bytes:
    """Makes a Hello that names a port of this machine where nobody listens."""
    unsigned = Announce(
        key=key.public,
        endpoint=f"127.0.0.1:{random_.randrange(33000, 60000)}",
        task=task,
        parameters=bytes(32),
        min_participants=3,
        instance=os.urandom(16),
        epoch=1,
        counter=1,
        round=0,
        base=Base(0, bytes(32), 0, NO_SID),
        leaving=False,
        following=False,
    )
    return codec.encode(Hello(signing.sign(unsigned, key), os.urandom(16), True, "{}")).join()


async def visit(session: aiohttp.ClientSession, where: str, task: str, random_: random.Random) -> int:
    """Opens a link under a new key and sends some Hellos; returns the number of answers."""
    key, nonce, answers = NodeKey(os.urandom(32)), os.urandom(32), 0
    url = f"http://{where}/v1/link"
    async with session.ws_connect(url, protocols=(SUBPROTOCOL,), max_msg_size=1 << 20) as ws:
        await ws.send_bytes(handshake.knock(nonce))
        challenged = handshake.read_challenge(await ws.receive_bytes(), nonce)
        await ws.send_bytes(handshake.proof(key, nonce, challenged))
        await ws.receive_bytes()
        for _ in range(HELLOS_PER_LINK):
            await ws.send_bytes(hello(key, task, random_))
            await ws.receive_bytes()
            answers += 1
    return answers


async def keep_visiting(where: str, until_s: float, task: str, seed: int) -> int:
    random_, answers = random.Random(seed), 0
    async with aiohttp.ClientSession() as session:
        while asyncio.get_running_loop().time() < until_s:
            with suppress(aiohttp.ClientError, OSError, TypeError, ValueError):
                answers += await visit(session, where, task, random_)
    return answers


async def main(where: str, seconds: float, task: str) -> None:
    until_s = asyncio.get_running_loop().time() + seconds
    some = await asyncio.gather(*(keep_visiting(where, until_s, task, seed) for seed in range(AT_ONCE)))
    print(f"refused {sum(some)} times", flush=True)


if __name__ == "__main__":
    os.nice(19)
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3]))
