"""Times both forms of training by turns on the same clients; measures the memory of many clients."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benchmarks.clients.sequential import train_one_by_one
from benchmarks.memory.residence import resident_bytes
from benchmarks.spec import Figure, figure
from node.models import MLP
from node.system.errors import UserError
from node.training.trainer import read_vector
from scenarios.clients.training import LocalTraining, best_block, train_clients
from scenarios.data.sources import data_folder, load

MNIST_CLIENTS, MNIST_ROWS = 100, 600
SAMPLE = 10
RATIO_AT_LEAST = 2.5
TRAINING = LocalTraining(epochs=1, batch_size=10, learning_rate=0.002)
MANY, MANY_ROWS, MANY_BYTES = 10_000, 20, 4 << 30
_PATIENCE_S = 600.0


@dataclass(frozen=True)
class Case:
    """A perceptron with layers of these `sizes`, and clients with `rows` rows each."""

    name: str
    sizes: tuple[int, ...]
    clients: int
    rows: int

    def model(self) -> MLP:
        """Return the model, the same at every call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return MLP(self.sizes)

    def parts(self) -> list[NDArray[np.int64]]:
        """Return the numbers (rows,) of each client's rows."""
        order = np.random.default_rng(0).permutation(self.clients * self.rows)
        return np.split(order, self.clients)

    def random_rows(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return random rows x (n, d) and labels y (n,) of all clients."""
        rng, n = np.random.default_rng(1), self.clients * self.rows
        return rng.random((n, self.sizes[0]), np.float32), rng.integers(0, self.sizes[-1], n)


MNIST = Case("784-256-10", (784, 256, 10), MNIST_CLIENTS, MNIST_ROWS)
QUICK = replace(MNIST, clients=16, rows=50)
DIGITS = Case("64-64-10", (64, 64, 10), MANY, MANY_ROWS)


def findings(momentum: float, repeats: int, block: int | None, quick: bool) -> Iterator[Figure]:
    """Yield the clients per second of both forms, their ratio, and the peak of memory.

    `block`: how many clients train at a time; None: what is fastest by measurement.
    """
    case, training = QUICK if quick else MNIST, replace(TRAINING, momentum=momentum)
    contest = _Contest(case, training, block)
    rates: dict[tuple[str, int], list[float]] = {}
    for repeat in range(repeats):
        for threads in sorted({1, torch.get_num_threads()}):
            with _torch_threads(threads):
                rates.setdefault(("in blocks", threads), []).append(contest.rate_in_blocks(threads))
                rates.setdefault(("one by one", threads), []).append(contest.rate_one_by_one(repeat))
    for (form, threads), values in rates.items():
        note = f"at most {contest.blocks[threads]} at a time" if form == "in blocks" else ""
        yield figure("clients", case.name, f"{form}, {threads} threads", "clients/s", values, note=note)
    best = {
        form: max(median(values) for (of, _), values in rates.items() if of == form)
        for form in ("in blocks", "one by one")
    }
    ratio = best["in blocks"] / best["one by one"]
    yield figure("clients", case.name, "in blocks / one by one", "x", [ratio], at_least=RATIO_AT_LEAST)
    many = replace(DIGITS, clients=500) if quick else DIGITS
    yield figure(
        "clients", many.name, f"peak of {many.clients} clients", "bytes", [_peak(many)], MANY_BYTES, "RSS"
    )


class _Contest:
    """Both forms on the same clients. `blocks`: how many train at a time, by number of threads."""

    def __init__(self, case: Case, training: LocalTraining, block: int | None) -> None:
        self._model, self._training, self._block = case.model(), training, block
        self._start = read_vector(self._model, "*")
        self._x, self._y = _mnist_rows(case) or case.random_rows()
        self._parts = case.parts()
        self.blocks: dict[int, int] = {}
        self._train_one_by_one([self._parts[0][:1]], [0])  # loads what torch loads at first use

    def rate_in_blocks(self, threads: int) -> float:
        """Train all clients in blocks; return the clients per second."""
        common = (self._x, self._y, functional.cross_entropy, self._training)
        clients = len(self._parts)
        if threads not in self.blocks:
            self.blocks[threads] = self._block or best_block(self._model, self._start, *common, clients)
        block, seeds = self.blocks[threads], range(clients)
        return clients / _seconds(
            lambda: train_clients(self._model, self._start, self._parts, *common, seeds, None, block)
        )

    def rate_one_by_one(self, repeat: int) -> float:
        """Train the next SAMPLE clients one by one; return the clients per second."""
        count = min(SAMPLE, len(self._parts))
        chosen = [(repeat * count + i) % len(self._parts) for i in range(count)]
        parts = [self._parts[i] for i in chosen]
        return count / _seconds(lambda: self._train_one_by_one(parts, chosen))

    def _train_one_by_one(self, parts: Sequence[NDArray[np.int64]], seeds: Sequence[int]) -> None:
        common = (self._x, self._y, functional.cross_entropy, self._training)
        train_one_by_one(self._model, self._start, parts, *common, seeds, None)


def _seconds(train: Callable[[], object]) -> float:
    begun = time.perf_counter()
    train()
    return time.perf_counter() - begun


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _mnist_rows(case: Case) -> tuple[NDArray[np.float32], NDArray[np.int64]] | None:
    """Return MNIST's first training rows, (n, 784) and (n,); None if MURMURATION_DATA is not set."""
    if not os.environ.get("MURMURATION_DATA"):
        return None
    table = load("mnist", data_folder(None, os.environ), np.random.default_rng(0))
    n = case.clients * case.rows
    return table.train_x[:n].reshape(n, -1), table.train_y[:n]


def _peak(case: Case) -> int:
    """Return the peak of resident memory, in bytes, of a new process that trains `case`. Raises UserError."""
    context = multiprocessing.get_context("spawn")
    results, sender = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(case, sender), daemon=True)
    process.start()
    sender.close()
    try:
        if not results.poll(_PATIENCE_S):
            raise UserError(f"clients: no result for {case.name} within {_PATIENCE_S:.0f} s")
        return int(results.recv())
    except EOFError as ended:
        raise UserError(f"clients: the process for {case.name} ended without a result") from ended
    finally:
        process.kill()
        process.join()


def measure(case: Case, results: Connection) -> None:
    """Run the measured process: train `case`, then send its peak of memory, libraries and rows included."""
    model, (x, y) = case.model(), case.random_rows()
    start, training = read_vector(model, "*"), replace(TRAINING, momentum=0.9, learning_rate=0.1)
    block = best_block(model, start, x, y, functional.cross_entropy, training, case.clients)
    seeds = range(case.clients)
    train_clients(model, start, case.parts(), x, y, functional.cross_entropy, training, seeds, None, block)
    results.send(resident_bytes("self", "VmHWM"))
