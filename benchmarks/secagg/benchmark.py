"""Secure sums: the cost of a round with real peers on this machine, beside a sum without protection.

For each group size n and dimension d, the benchmark measures, one after another: the additive protocol with
ring shares, the same with seed shares, the masked protocol, and torch.distributed's all_reduce over gloo. All
peers receive the start signal of a round at once. The round ends when the last peer holds the mean, so it
includes the search for a group. The first round does not count.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.secagg.cells import CLIP, GLOO, MASKED, PROTOCOLS, RING, Cell, Exponents, Result, exponents
from benchmarks.secagg.flower import flower_cpu_s
from benchmarks.spec import Benchmark, Row, check_counts
from node.system.errors import ConfigError, UserError
from protocol.aggregation.masked.thresholds import LEAST_MEMBERS
from protocol.wire.limits import MAX_MEMBERS

SIZES, QUICK_SIZES = (4, 10, 20), (4, 10)
DIMENSIONS, QUICK_DIMENSIONS = (100_000, 1_000_000, 10_000_000), (100_000,)
ROUNDS, QUICK_ROUNDS = 5, 3
LEAST_N = 3
RING_WORDS_END = 200_000_000
"""Ring shares are left out if n d is as much or more: each peer sends 2 (n - 1) d words."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--n", help=f"group sizes, with commas (default {_list_text(SIZES)})")
    parser.add_argument("--d", help=f"dimensions, with commas (default {_list_text(DIMENSIONS)})")
    parser.add_argument("--rounds", type=int, help=f"rounds that count (default {ROUNDS})")
    parser.add_argument("--protocols", default=",".join(PROTOCOLS), help="with commas (default all)")
    parser.add_argument(
        "--flwr-python",
        type=Path,
        metavar="PATH",
        help="a python that has flwr: its SecAgg+ as a column, the compute of one client",
    )


def _list_text(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


def run(arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each cell, then the exponents of growth, then the targets of the measured cells."""
    quick = arguments.quick
    sizes = _numbers("--n", arguments.n, QUICK_SIZES if quick else SIZES, LEAST_N, MAX_MEMBERS)
    dimensions = _numbers("--d", arguments.d, QUICK_DIMENSIONS if quick else DIMENSIONS, 1, 10**9)
    rounds = (QUICK_ROUNDS if quick else ROUNDS) if arguments.rounds is None else arguments.rounds
    check_counts(arguments, "rounds")
    protocols = arguments.protocols.split(",")
    if not set(protocols) <= set(PROTOCOLS):
        raise ConfigError(f"--protocols {arguments.protocols}: allowed are {', '.join(PROTOCOLS)}")
    flower = arguments.flwr_python
    if flower is not None and not flower.is_file():
        raise ConfigError(f"--flwr-python {flower}: there is no such file")
    from benchmarks.secagg.processes import measure  # noqa: PLC0415 - loads aiohttp

    return _rows(measure, cells(protocols, sizes, dimensions), rounds, flower)


def _numbers(option: str, text: str | None, default: Sequence[int], least: int, most: int) -> Sequence[int]:
    if text is None:
        return default
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(least <= number <= most for number in numbers):
        raise ConfigError(f"{option} {text}: allowed are {least} to {most}, with commas between them")
    return tuple(sorted(set(numbers)))


def cells(protocols: Sequence[str], sizes: Sequence[int], dimensions: Sequence[int]) -> list[Cell]:
    """Return the cells to measure, by size, then dimension, without those that a protocol cannot run."""
    wanted = [Cell(protocol, n, d) for n in sizes for d in dimensions for protocol in protocols]
    return [cell for cell in wanted if _can_run(cell)]


def _can_run(cell: Cell) -> bool:
    if cell.ring is not None:
        return cell.n >= LEAST_MEMBERS
    return cell.protocol != RING or cell.n * cell.d < RING_WORDS_END


def _rows(
    measure: Callable[[Cell, int], Result], wanted: Sequence[Cell], rounds: int, flower: Path | None
) -> Iterator[Row]:
    yield Row(header(flower is not None))
    results: list[Result] = []
    failed: list[str] = []
    columns: dict[tuple[int, int], dict[str, object]] = {}
    for cell in wanted:
        if flower is not None and (cell.n, cell.d) not in columns:
            columns[cell.n, cell.d] = {"flower_cpu_s": flower_cpu_s(flower, cell.n, cell.d)}
        try:
            result = measure(cell, rounds)
        except UserError as error:
            failed.append(f"{cell.protocol} n={cell.n} d={cell.d}")
            yield Row(f"{cell.protocol:14} {cell.n:3} {cell.d:10}  failed: {error}")
            continue
        results.append(result)
        column = columns.get((cell.n, cell.d), {})
        yield Row(line(result, column), {**result.record(), **column})
    yield from _exponent_rows(exponents(results))
    yield from _target_rows(results)
    if failed:
        raise UserError(f"secagg: {len(failed)} cells failed: {', '.join(failed)}")


def header(with_flower: bool) -> str:
    """Return the header of the table."""
    flower = f"  {'Flower CPU s':>12}" if with_flower else ""
    return (
        f"{'protocol':14} {'n':>3} {'d':>10}  {'wall s':>8} {'[min to max]':>20}  {'sum s':>8}"
        f"  {'CPU s/peer':>10}  {'MB/peer':>9}  {'peak MB':>8} {'in 4d':>6} {'file MB':>8}"
        f"  {'error/B':>8}{flower}"
    )


def line(result: Result, column: Mapping[str, object]) -> str:
    """Return the line of a cell for the terminal. `column`: Flower's figure by name, or nothing."""
    cell, walls = result.cell, [taken.wall_s for taken in result.rounds]
    spread = f"[{min(walls):.3g} to {max(walls):.3g}]"
    return (
        f"{cell.protocol:14} {cell.n:3} {cell.d:10}  {result.wall_s:8.4f} {spread:>20}"
        f"  {result.aggregate_s:8.4f}  {result.cpu_s:10.4f}  {result.bytes_sent / 1e6:9.3f}"
        f"  {result.peak_bytes / 1e6:8.1f} {result.peak_vectors:6.2f} {result.file_bytes / 1e6:8.1f}"
        f"  {result.max_error / CLIP:8.1e}" + "".join(f"  {value:12.4f}" for value in column.values())
    )


def _exponent_rows(fits: Sequence[Exponents]) -> Iterator[Row]:
    """Yield how cost grows with n: exponent 0 if it is constant, 1 if linear."""
    for fit in fits:
        text = f"grows with n as n^e: bytes sent a peer e = {fit.bytes_sent:5.2f}, CPU e = {fit.cpu_s:5.2f}"
        yield Row(f"{fit.protocol:14}     {fit.d:10}  {text}")


def _target_rows(results: Sequence[Result]) -> Iterator[Row]:
    """Yield a row for each target whose cells were measured."""
    by_cell = {result.cell: result for result in results}
    for target in TARGETS:
        masked = by_cell.get(Cell(MASKED, target.n, target.d))
        gloo = by_cell.get(Cell(GLOO, target.n, target.d))
        if masked is None or (gloo is None and target.is_over_gloo):
            continue
        value = target.value(masked) / (target.value(gloo) if gloo and target.is_over_gloo else 1)
        mark = "✓" if value <= target.at_most else "✗"
        case = f"masked n={target.n} d={target.d}"
        yield Row(f"{case:26} {target.name:26} {value:12.4g} {mark} at most {target.at_most:g}")


@dataclass(frozen=True)
class Target:
    """The most that a figure of a masked cell may be; `is_over_gloo`: in multiples of gloo's figure."""

    n: int
    d: int
    name: str
    value: Callable[[Result], float]
    at_most: float
    is_over_gloo: bool = False


TARGETS = (
    Target(10, 1_000_000, "bytes sent a peer", lambda result: result.bytes_sent, 8e6),
    Target(10, 1_000_000, "CPU s a peer", lambda result: result.cpu_s, 0.08),
    Target(10, 1_000_000, "wall / gloo's", lambda result: result.wall_s, 10, True),
    Target(10, 1_000_000, "max error / B", lambda result: result.max_error / CLIP, 1e-6),
    Target(4, 10_000_000, "wall / gloo's", lambda result: result.wall_s, 12, True),
    Target(4, 10_000_000, "peak in vectors of 4 d", lambda result: result.peak_vectors, 6),
)
SECAGG = Benchmark(add_options, run)
