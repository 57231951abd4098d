"""TLS: what it adds to a masked round, with real peers on this machine.

Two groups of the same size are there at the same time, one with links under TLS and one without, and have
their rounds by turns: what else the machine does meets both. A round is timed as in `secagg`. A process
counts its own CPU seconds, and the bytes of its frames, which TLS does not change; what TLS adds to them is
seen where they pass, in the counters of the loopback device. These hold packet headers and acknowledgements,
and whatever else passes meanwhile: they say something on a quiet machine only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.secagg.cells import MASKED, Cell, Taken
from benchmarks.spec import Benchmark, Figure, figure
from node.errors import ConfigError

if TYPE_CHECKING:
    from benchmarks.secagg.processes import Processes

CELLS = (Cell(MASKED, 10, 100_000), Cell(MASKED, 10, 1_000_000), Cell(MASKED, 4, 1_000_000))
QUICK_CELLS = (Cell(MASKED, 4, 20_000),)
ROUNDS, QUICK_ROUNDS = 15, 2
_DEVICES = Path("/proc/net/dev")

Gather = Callable[[Cell, bool], AbstractContextManager["Processes"]]
"""A cell's processes, all connected, with TLS or without."""


@dataclass(frozen=True)
class Passed:
    """A round, and the bytes that passed the loopback device meanwhile; None where nobody counts them."""

    taken: Taken
    device_bytes: int | None


@dataclass(frozen=True)
class Side:
    """One of the two groups: its rounds without the first, and the CPU seconds of each peer's meeting."""

    name: str
    passed: Sequence[Passed]
    met_cpu_s: Sequence[float]

    @property
    def walls_s(self) -> list[float]:
        """Of each round."""
        return [one.taken.wall_s for one in self.passed]

    @property
    def cpu_s(self) -> list[float]:
        """Of each peer in each round."""
        return [sample.cpu_s for one in self.passed for sample in one.taken.samples]

    @property
    def frame_bytes(self) -> list[float]:
        """Sent by each peer in each round."""
        return [sample.bytes_sent for one in self.passed for sample in one.taken.samples]

    @property
    def device_bytes(self) -> list[float]:
        """A peer's share, round by round; nothing where nobody counts them."""
        return [
            one.device_bytes / len(one.taken.samples) for one in self.passed if one.device_bytes is not None
        ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument(
        "--rounds", type=int, help=f"rounds of each that count (default {ROUNDS}; quick {QUICK_ROUNDS})"
    )


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """For each cell: without, with, and the one over the other."""
    rounds = (QUICK_ROUNDS if arguments.quick else ROUNDS) if arguments.rounds is None else arguments.rounds
    if rounds < 1:
        raise ConfigError(f"--rounds {rounds}: allowed are 1 and more")
    from benchmarks.secagg.processes import gathered  # noqa: PLC0415 - loads aiohttp

    cells = QUICK_CELLS if arguments.quick else CELLS
    return (found for cell in cells for found in _figures(cell, *_by_turns(gathered, cell, rounds)))


def _by_turns(gathered: Gather, cell: Cell, rounds: int) -> tuple[Side, Side]:
    """A round without TLS, one with, and so on; the first of each is not counted."""
    with gathered(cell, False) as bare, gathered(cell, True) as covered:
        pairs = [(_round(bare, number), _round(covered, number)) for number in range(rounds + 1)]
        met = [[spent for spent in group.met_cpu_s if spent is not None] for group in (bare, covered)]
    without, under = zip(*pairs[1:], strict=True)
    return Side("without", without, met[0]), Side("under TLS", under, met[1])


def _round(group: Processes, number: int) -> Passed:
    before = loopback_bytes(_DEVICES)
    taken = group.round(number)
    after = loopback_bytes(_DEVICES)
    return Passed(taken, None if before is None or after is None else after - before)


def loopback_bytes(devices: Path) -> int | None:
    """What the loopback device has sent since it is there; None where the system does not say."""
    try:
        lines = devices.read_text("ascii").splitlines()
    except OSError:
        return None
    counts = (line.partition(":")[2].split() for line in lines if line.strip().startswith("lo:"))
    return next((int(found[8]) for found in counts), None)  # eight counters of what came, then of what went


def _figures(cell: Cell, without: Side, under: Side) -> Iterator[Figure]:
    case = f"masked n={cell.n} d={cell.d}"
    for side in (without, under):
        yield figure("tls", case, f"{side.name}: wall", "s", side.walls_s)
        yield figure("tls", case, f"{side.name}: CPU a peer", "s", side.cpu_s)
        yield figure("tls", case, f"{side.name}: frames a peer", "bytes", side.frame_bytes)
        if side.device_bytes:
            yield figure("tls", case, f"{side.name}: passed a peer", "bytes", side.device_bytes)
        yield figure("tls", case, f"{side.name}: CPU of meeting", "s", side.met_cpu_s)
    of_pairs = (
        ("wall", without.walls_s, under.walls_s),
        ("CPU", _by_round(without), _by_round(under)),
        ("bytes passed", without.device_bytes, under.device_bytes),
    )
    for name, less, more in of_pairs:
        if less:
            ratios = [one / other for one, other in zip(more, less, strict=True)]
            yield figure("tls", case, f"{name}, under TLS / without", "", ratios)


def _by_round(side: Side) -> list[float]:
    """CPU seconds of all peers together."""
    return [sum(sample.cpu_s for sample in one.taken.samples) for one in side.passed]


TLS = Benchmark(add_options, run)
