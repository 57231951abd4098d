"""The relay's costs, with the relay as a process of its own, on loopback with TLS.

Its CPU is what counts: it is that of its process alone, whatever the members and the rest of the machine do.
Paces and memory are those of a machine that does nothing else.

    bulk      ten members, each sends to all others at once: CPU by carried byte
    small     the same in frames of 200 bytes: CPU by frame, those of credit included
    beside    one member reads from another, alone and beside a reader that is stuck
    peers     ten whole transports do rounds' traffic, by the relay and directly by turns: a member's CPU
    many      thirty whole transports open their 870 links at once, and do rounds' traffic by the relay
    stuck     thirty members send to each other, and none reads: memory
    strangers ten whole transports do rounds' traffic, at rest and while strangers flood the relay's port
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.relay.members import Member, members
from benchmarks.relay.peers import Traffic, member_cpu_s
from benchmarks.relay.process import RelayProcess
from benchmarks.relay.strangers import FORCE, paces
from benchmarks.spec import Benchmark, Figure, check_counts, figure
from protocol.relay.frames import PIECE_BYTES

MEMBERS, MANY, STUCK, PARAMETERS = 10, 30, 30, 1_000_000
SMALL_BYTES = 200
SMALL_WINDOW_BYTES = 200_000
"""Of small frames: their queue at the relay counts 512 bytes more for each."""
MOST_S_PER_GB, MOST_US_PER_FRAME = 5.0, 50.0
MOST_MEMBERS_CPU = 3.0
MOST_STUCK_MB = 300.0
LEAST_PACE, LEAST_PACE_IN_SIEGE = 0.9, 0.8
PUSHED = 640
"""Pieces to each stuck reader, by all together: 39 MB, of which the system's buffers take a part."""


@dataclass(frozen=True)
class Plan:
    """How much is sent: bytes in all, small frames in all, bytes beside a stuck reader, rounds; how often."""

    bulk_bytes: int = 1_000_000_000
    small_frames: int = 180_000
    beside_bytes: int = 200_000_000
    rounds: int = 20
    repeats: int = 3


QUICK = Plan(90_000_000, 18_000, 20_000_000, 3, 1)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--repeats", type=int, help=f"times that each is measured (default {Plan.repeats})")
    parser.add_argument("--part", choices=PARTS, action="append", help="measure this alone; may be repeated")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the costs of a relay."""
    check_counts(arguments, "repeats")
    plan = QUICK if arguments.quick else Plan()
    repeats = plan.repeats if arguments.repeats is None else arguments.repeats
    return _figures(arguments.part or PARTS, replace(plan, repeats=repeats))


def _figures(parts: Iterable[str], plan: Plan) -> Iterator[Figure]:
    for part in parts:
        with tempfile.TemporaryDirectory() as folder, RelayProcess(Path(folder)) as relay:
            yield from PARTS[part](relay, plan)


def _bulk(relay: RelayProcess, plan: Plan) -> Iterator[Figure]:
    pieces = plan.bulk_bytes // (MEMBERS * (MEMBERS - 1) * PIECE_BYTES)
    took = [
        asyncio.run(_all_to_all(relay, memoryview(bytes(PIECE_BYTES)), pieces)) for _ in range(plan.repeats)
    ]
    gb = MEMBERS * (MEMBERS - 1) * pieces * PIECE_BYTES / 1e9
    case = f"n={MEMBERS}, {gb:.2g} GB"
    yield figure("relay", case, "relay's CPU", "s/GB", [each.cpu_s / gb for each in took], MOST_S_PER_GB)
    yield figure("relay", case, "carried", "MB/s", [1000 * gb / each.wall_s for each in took])


def _small(relay: RelayProcess, plan: Plan) -> Iterator[Figure]:
    count = plan.small_frames // (MEMBERS * (MEMBERS - 1))
    piece = memoryview(bytes(SMALL_BYTES))
    took = [asyncio.run(_all_to_all(relay, piece, count, SMALL_WINDOW_BYTES)) for _ in range(plan.repeats)]
    case = f"n={MEMBERS}, {SMALL_BYTES} B"
    values = [1e6 * each.cpu_s / each.frames for each in took]
    yield figure("relay", case, "relay's CPU", "µs/frame", values, MOST_US_PER_FRAME)
    yield figure("relay", case, "carried", "frames/s", [each.frames / each.wall_s for each in took])


@dataclass(frozen=True)
class _Took:
    cpu_s: float
    wall_s: float
    frames: int


async def _all_to_all(relay: RelayProcess, piece: memoryview, count: int, window: int = 1 << 20) -> _Took:
    """Each member sends a piece `count` times to each other."""
    async with members(relay, MEMBERS) as here:
        cpu_s, begun_s = relay.cpu_s, time.perf_counter()
        pairs = itertools.permutations(here, 2)
        await asyncio.gather(*(one.stream(other.key, piece, count, window) for one, other in pairs))
        frames = sum(member.frames_sent for member in here)
        return _Took(relay.cpu_s - cpu_s, time.perf_counter() - begun_s, frames)


def _beside(relay: RelayProcess, plan: Plan) -> Iterator[Figure]:
    alone, beside = [], []
    for _ in range(plan.repeats):
        alone.append(asyncio.run(_pace(relay, plan, is_beside=False)))
        beside.append(asyncio.run(_pace(relay, plan, is_beside=True)))
    shares = [stuck / free for free, stuck in zip(alone, beside, strict=True)]
    note = f"{min(beside):.0f} to {max(beside):.0f} MB/s beside it"
    yield figure("relay", "beside a stuck reader", "pace, beside / alone", "", shares, None, note, LEAST_PACE)
    yield figure("relay", "alone", "carried", "MB/s", alone)


async def _pace(relay: RelayProcess, plan: Plan, *, is_beside: bool) -> float:
    """Returns the MB/s from one member to another, while a third reads nothing of what the first sends it."""
    piece = memoryview(bytes(PIECE_BYTES))
    async with members(relay, 3, stuck=(2,)) as (sender, reader, stuck):
        pushing = asyncio.create_task(_push_on(sender, stuck, piece)) if is_beside else None
        count = plan.beside_bytes // PIECE_BYTES
        begun_s = time.perf_counter()
        await sender.stream(reader.key, piece, count)
        pace = count * PIECE_BYTES / 1e6 / (time.perf_counter() - begun_s)
        if pushing is not None:
            pushing.cancel()
            await asyncio.gather(pushing, return_exceptions=True)
        return pace


async def _push_on(sender: Member, stuck: Member, piece: memoryview) -> None:
    """Sends a window to a stuck reader, and again each second, as a stream does that goes back."""
    while True:
        await sender.push(stuck.key, piece, (1 << 20) // PIECE_BYTES)
        await asyncio.sleep(1)


def _stuck(relay: RelayProcess, plan: Plan) -> Iterator[Figure]:
    yield figure(
        "relay", f"{STUCK} stuck readers", "relay's memory", "MB", [asyncio.run(_fill(relay))], MOST_STUCK_MB
    )


async def _fill(relay: RelayProcess) -> float:
    """Returns the relay's memory after all have sent to all, and nobody has read."""
    piece = memoryview(bytes(PIECE_BYTES))
    async with members(relay, STUCK, stuck=range(STUCK)) as here:
        for one in here:
            for other in here:
                if other is not one:
                    await one.push(other.key, piece, PUSHED // STUCK)
        return relay.resident_mb


def _peers(relay: RelayProcess, plan: Plan) -> Iterator[Figure]:
    traffic = Traffic(MEMBERS, PARAMETERS, plan.rounds)
    direct, relayed, relay_ms = [], [], []
    for _ in range(plan.repeats):
        direct.append(1000 * member_cpu_s(traffic, None))
        before_s = relay.cpu_s
        relayed.append(1000 * member_cpu_s(traffic, relay))
        relay_ms.append(1000 * (relay.cpu_s - before_s) / (plan.rounds + 1))
    case = f"n={MEMBERS}, d={PARAMETERS:.0e}"
    shares = [by_relay / alone for alone, by_relay in zip(direct, relayed, strict=True)]
    yield figure("relay", case, "member's CPU, relay / direct", "", shares, MOST_MEMBERS_CPU)
    yield figure("relay", case, "member's CPU, direct", "ms/round", direct)
    yield figure("relay", case, "member's CPU, by the relay", "ms/round", relayed)
    yield figure("relay", case, "relay's CPU", "ms/round", relay_ms)


def _many(relay: RelayProcess, plan: Plan) -> Iterator[Figure]:
    traffic = Traffic(MANY, PARAMETERS, max(1, plan.rounds // 5))
    case = f"n={MANY}, d={PARAMETERS:.0e}"
    took = [1000 * member_cpu_s(traffic, relay)]
    yield figure("relay", case, "member's CPU, by the relay", "ms/round", took)


def _strangers(relay: RelayProcess, plan: Plan) -> Iterator[Figure]:
    traffic = Traffic(MEMBERS, PARAMETERS, max(1, plan.rounds // 2))
    found = [asyncio.run(paces(relay, traffic)) for _ in range(plan.repeats)]
    shares = [siege.per_s / rest.per_s for rest, siege in found]
    rounds = ", ".join(f"{rest.per_s:.2f} and {siege.per_s:.2f}" for rest, siege in found)
    cpu = ", ".join(
        f"{rest.relay_per_round_s:.2f} and {siege.relay_per_round_s:.2f}" for rest, siege in found
    )
    note = f"at rest and under siege: {rounds} rounds/s; {cpu} s of the relay's CPU a round"
    case = f"{FORCE.connections} strangers"
    yield figure("relay", case, "pace, siege / rest", "", shares, None, note, LEAST_PACE_IN_SIEGE)


PARTS: Mapping[str, Callable[[RelayProcess, Plan], Iterator[Figure]]] = {
    "bulk": _bulk,
    "small": _small,
    "beside": _beside,
    "peers": _peers,
    "many": _many,
    "stuck": _stuck,
    "strangers": _strangers,
}
"""What is measured, each with a relay of its own."""
RELAY = Benchmark(add_options, run)
