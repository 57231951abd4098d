"""Spoilers: how many sums a swarm makes while one or two members spoil one step of every sum.

The simulator runs whole nodes under virtual time and one seed: first honest ones alone, then with each kind
of spoiler. One spoiler has the place of the first coordinator or one in the middle; the largest swarm has one
at each of the two. The figures do not depend on the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.spec import Benchmark, Figure, figure
from protocol.aggregation.masked.thresholds import MaskedSettings
from scenarios.simulator import spoilers
from scenarios.simulator.spoilers import network_of, sums

LEAST = 0.8
SEED = 7
SIZES, QUICK_SIZES = (5, 8, 10), (5,)
LASTS_S, QUICK_S = 300.0, 60.0
KINDS = {"tolerant": spoilers.TOLERANT, "all or none": spoilers.ALL_OR_NONE}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add no options."""


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield, for each size and kind of sum, the sums of an honest swarm and its pace beside each spoiler."""
    sizes, seconds = (QUICK_SIZES, QUICK_S) if arguments.quick else (SIZES, LASTS_S)
    for peers in sizes:
        for name, masked in KINDS.items():
            yield from _figures(peers, name, masked, seconds)


def _figures(peers: int, name: str, masked: MaskedSettings, seconds: float) -> Iterator[Figure]:
    swarm, middle = f"{peers} peers, {name}", peers // 2
    usual = sums(network_of(peers, masked, SEED), seconds)
    yield figure("spoilers", f"{swarm}, nobody", "sums", "1", [usual])
    places_of = ((0, middle),) if peers == max(SIZES) else ((0,), (middle,))
    for spoiler, lie in spoilers.SPOILERS.items():
        for places in places_of:
            made = sums(network_of(peers, masked, SEED, lie, places), seconds)
            pace = spoilers.pace(made, usual, len(places), seconds)
            case = f"{swarm}, {spoiler}, at {' and '.join(map(str, places))}"
            yield figure("spoilers", case, "pace", "x", [pace], at_least=LEAST)


SPOILERS = Benchmark(add_options, run)
