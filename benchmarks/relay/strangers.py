"""Strangers who flood a relay's port, as those of the siege of a node do, and what they cost a swarm."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import count

from benchmarks.relay.peers import Peer, Traffic, peers, play_round
from benchmarks.relay.process import RelayProcess
from benchmarks.siege.attacker import Force
from node.system.errors import UserError

FORCE = Force(bodies=770, idle=770, websockets=385, heads=75)
"""2,000 connections."""
_MOST_S = 300.0


@dataclass(frozen=True)
class Pace:
    """How fast rounds went, and what they cost the relay."""

    rounds: int
    wall_s: float
    relay_s: float

    @property
    def per_s(self) -> float:
        """Rounds per second."""
        return self.rounds / self.wall_s

    @property
    def relay_per_round_s(self) -> float:
        """The relay's CPU seconds of a round, with all else that it did meanwhile."""
        return self.relay_s / self.rounds

    def __add__(self, other: Pace) -> Pace:
        return Pace(self.rounds + other.rounds, self.wall_s + other.wall_s, self.relay_s + other.relay_s)


async def paces(relay: RelayProcess, traffic: Traffic) -> tuple[Pace, Pace]:
    """Returns a swarm's pace at rest, and while strangers flood its relay.

    Half of the rest is before the siege and half after it, so that a machine that gets slower changes both.
    """
    async with peers(traffic.members, relay) as swarm:
        numbers = count(1)
        await play_round(swarm, traffic, next(numbers))  # opens the links
        before = await _pace(relay, swarm, traffic, numbers)
        async with _attacked(relay.endpoint):
            siege = await _pace(relay, swarm, traffic, numbers)
        await play_round(swarm, traffic, next(numbers))  # the strangers go
        return before + await _pace(relay, swarm, traffic, numbers), siege


async def _pace(relay: RelayProcess, swarm: list[Peer], traffic: Traffic, numbers: Iterator[int]) -> Pace:
    begun_s, relay_s = time.perf_counter(), relay.cpu_s
    for _ in range(traffic.rounds):
        await play_round(swarm, traffic, next(numbers))
    return Pace(traffic.rounds, time.perf_counter() - begun_s, relay.cpu_s - relay_s)


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
