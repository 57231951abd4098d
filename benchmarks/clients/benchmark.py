"""Clients: how fast they train in blocks, beside one after another; and the memory of 10,000 clients.

Each of 100 clients trains a 784-256-10 perceptron on 600 rows for one epoch, with plain SGD and batches of 10
(the model of Wei et al. 2020, section VI). The rows are MNIST's if MURMURATION_DATA is set, else random rows
of that shape, which take the same time. Both forms run by turns, with one thread and with all threads of
torch. The ratio compares both forms, each at its faster number of threads.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.spec import Benchmark, Figure, check_counts
from node.system.errors import ConfigError

REPEATS = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--repeats", type=int, help=f"timings of each form (default {REPEATS})")
    parser.add_argument("--block", type=int, help="clients of a block (default: by measurement)")
    parser.add_argument("--momentum", type=float, default=0.0, help="of SGD (default 0)")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the clients per second of both forms, their ratio, and the peak of memory."""
    check_counts(arguments, "repeats", "block")
    if not 0 <= arguments.momentum < 1:
        raise ConfigError(f"--momentum {arguments.momentum}: allowed are 0 to below 1")
    from benchmarks.clients.contest import findings  # noqa: PLC0415 - loads torch

    repeats = arguments.repeats or (1 if arguments.quick else REPEATS)
    return findings(arguments.momentum, repeats, arguments.block, arguments.quick)


CLIENTS = Benchmark(add_options, run)
