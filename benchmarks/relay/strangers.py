"""Strangers who flood a relay's port, as those of the siege of a node do, and what they cost a swarm."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict

from benchmarks.relay.peers import Peer, Traffic, peers, play_round
from benchmarks.relay.process import RelayProcess
from benchmarks.siege.attacker import Force
from node.system.errors import UserError

FORCE = Force(bodies=770, idle=770, websockets=385, heads=75)
"""2,000 connections."""
_MOST_S = 300.0


async def paces(relay: RelayProcess, traffic: Traffic) -> tuple[float, float]:
    """Returns the rounds per second of a swarm at rest, and while strangers flood its relay."""
    async with peers(traffic.members, relay) as swarm:
        await play_round(swarm, traffic, 1)  # opens the links
        rest = await _pace(swarm, traffic, 1)
        async with _attacked(relay.endpoint):
            return rest, await _pace(swarm, traffic, 1 + traffic.rounds)


async def _pace(swarm: list[Peer], traffic: Traffic, played: int) -> float:
    begun_s = time.perf_counter()
    for number in range(traffic.rounds):
        await play_round(swarm, traffic, played + number + 1)
    return traffic.rounds / (time.perf_counter() - begun_s)


@asynccontextmanager
async def _attacked(endpoint: str) -> AsyncIterator[None]:
    """Attacks an endpoint while the context is entered, which is once all connections have been opened."""
    argv = ["-m", "benchmarks.siege.attacker", "--tls", "--endpoint", endpoint, "--seconds", str(_MOST_S)]
    argv += [part for kind, count in asdict(FORCE).items() for part in (f"--{kind}", str(count))]
    attacker = await asyncio.create_subprocess_exec(sys.executable, *argv, stdout=asyncio.subprocess.PIPE)
    try:
        if attacker.stdout is None or not await attacker.stdout.readline():
            raise UserError("relay: the attacker ended before it had opened its connections")
        yield
    finally:
        attacker.kill()
        await attacker.wait()
