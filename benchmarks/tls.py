"""TLS: what it adds to a masked round, with real peers on this machine.

Two groups of the same size, one with TLS and one without, run rounds by turns, so that other work on the
machine affects both. A round is timed as in `secagg`. Each process counts its CPU seconds and the bytes of
its frames, which TLS does not change. The bytes that TLS adds show in the counters of the loopback device.
These also count packet headers, acknowledgements and all other traffic, so they are valid only on a quiet
machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.secagg.cells import MASKED, Cell, RoundCost
from benchmarks.spec import Benchmark, Figure, check_counts, figure

if TYPE_CHECKING:
    from benchmarks.secagg.processes import Processes

CELLS = (Cell(MASKED, 10, 100_000), Cell(MASKED, 10, 1_000_000), Cell(MASKED, 4, 1_000_000))
QUICK_CELLS = (Cell(MASKED, 4, 20_000),)
ROUNDS, QUICK_ROUNDS = 15, 2
_DEVICES = Path("/proc/net/dev")

Connect = Callable[[Cell, bool], AbstractContextManager["Processes"]]
"""Starts the processes of a cell, and connects them with TLS (True) or without."""


@dataclass(frozen=True)
class TimedRound:
    """A round, and the bytes through the loopback device meanwhile; None if nobody counts them."""

    taken: RoundCost
    device_bytes: int | None


@dataclass(frozen=True)
class Side:
    """What one group took: its rounds without the first, and each peer's CPU seconds until all had met."""

    name: str
    rounds: Sequence[TimedRound]
    met_cpu_s: Sequence[float]

    @property
    def walls_s(self) -> list[float]:
        """The seconds of each round."""
        return [one.taken.wall_s for one in self.rounds]

    @property
    def cpu_s(self) -> list[float]:
        """The CPU seconds of each peer in each round."""
        return [sample.cpu_s for one in self.rounds for sample in one.taken.samples]

    @property
    def frame_bytes(self) -> list[float]:
        """The bytes of frames that each peer sent in each round."""
        return [sample.bytes_sent for one in self.rounds for sample in one.taken.samples]

    @property
    def device_bytes(self) -> list[float]:
        """The bytes through the loopback device per round and peer; empty if nobody counts them."""
        return [
            one.device_bytes / len(one.taken.samples) for one in self.rounds if one.device_bytes is not None
        ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument(
        "--rounds", type=int, help=f"counted rounds of each group (default {ROUNDS}; quick {QUICK_ROUNDS})"
    )


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield, for each cell, the figures without TLS and with it, and their ratios."""
    rounds = (QUICK_ROUNDS if arguments.quick else ROUNDS) if arguments.rounds is None else arguments.rounds
    check_counts(arguments, "rounds")
    from benchmarks.secagg.processes import connected_processes  # noqa: PLC0415 - loads aiohttp

    cells = QUICK_CELLS if arguments.quick else CELLS
    return (
        found for cell in cells for found in _figures(cell, *_run_by_turns(connected_processes, cell, rounds))
    )


def _run_by_turns(connect: Connect, cell: Cell, rounds: int) -> tuple[Side, Side]:
    """Let both groups of a cell run rounds by turns; return the sides without and with TLS."""
    with connect(cell, False) as bare, connect(cell, True) as covered:
        pairs = [(_run_round(bare, number), _run_round(covered, number)) for number in range(rounds + 1)]
        met = [[spent for spent in group.met_cpu_s if spent is not None] for group in (bare, covered)]
    without, under = zip(*pairs[1:], strict=True)
    return Side("without", without, met[0]), Side("under TLS", under, met[1])


def _run_round(group: Processes, number: int) -> TimedRound:
    before = loopback_bytes(_DEVICES)
    taken = group.run_round(number)
    after = loopback_bytes(_DEVICES)
    return TimedRound(taken, None if before is None or after is None else after - before)


def loopback_bytes(devices: Path) -> int | None:
    """Return the bytes that the loopback device has sent so far; None if the system does not say."""
    try:
        lines = devices.read_text("ascii").splitlines()
    except OSError:
        return None
    counts = (line.partition(":")[2].split() for line in lines if line.strip().startswith("lo:"))
    return next((int(found[8]) for found in counts), None)  # after eight counters of reception


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
        ("CPU", _cpu_s_by_round(without), _cpu_s_by_round(under)),
        ("bytes passed", without.device_bytes, under.device_bytes),
    )
    for name, less, more in of_pairs:
        if less:
            ratios = [one / other for one, other in zip(more, less, strict=True)]
            yield figure("tls", case, f"{name}, under TLS / without", "", ratios)


def _cpu_s_by_round(side: Side) -> list[float]:
    """Return the CPU seconds of all peers together in each round."""
    return [sum(sample.cpu_s for sample in one.taken.samples) for one in side.rounds]


TLS = Benchmark(add_options, run)
