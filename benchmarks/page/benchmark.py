"""Page: how soon it paints and shows news, its speed with many rounds, and what watching costs a swarm."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.spec import Benchmark, Figure, check_counts, figure
from node.system.errors import ConfigError

SIZE_AT_MOST_KB = 500.0
LEAST_PEERS, MOST_PEERS = 3, 64
MANY_ROUNDS, QUICK_ROUNDS = 120, 24


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--peers", type=int, default=50, help="how many peers the page shows (default 50)")
    parser.add_argument("--history", type=int, default=1000, help="how many rounds it shows (default 1000)")
    parser.add_argument("--nodes", type=int, default=5, help="nodes that are watched (default 5)")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the page's size, figures from a browser, the cost of a log, and that of watching a swarm."""
    check_counts(arguments, "peers", "history")
    if not LEAST_PEERS <= arguments.nodes <= MOST_PEERS:
        raise ConfigError(f"--nodes {arguments.nodes}: allowed are {LEAST_PEERS} to {MOST_PEERS}")
    from benchmarks.page.browser import browser_figures  # noqa: PLC0415 - loads playwright and aiohttp
    from benchmarks.page.overhead import logging_figure, overhead_figure  # noqa: PLC0415
    from node.observe.page import FRONT, PARTS, asset  # noqa: PLC0415

    def findings() -> Iterator[Figure]:
        own = [name for name in (FRONT, *PARTS) if not name.startswith("uPlot")]
        kilobytes = sum(len(asset(name)) for name in own) / 1000
        yield figure("page", "files", "size besides the library", "kB", [kilobytes], SIZE_AT_MOST_KB)
        yield from browser_figures(arguments.peers, arguments.history, arguments.quick)
        yield logging_figure()
        yield overhead_figure(arguments.nodes, QUICK_ROUNDS if arguments.quick else MANY_ROUNDS)

    return findings()


PAGE = Benchmark(add_options, run)
