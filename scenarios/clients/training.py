"""Local training of many clients at once: k models of one shape, each on its own rows, step by step.

A client's result depends on the start, its rows and its seed. It does not depend on the block in which the
client is trained, up to the rounding of float sums. The steps are those of `node.training.trainer.Trainer`
with plain SGD: seed [s, r] here gives the training of a node with seed s in round r.

Each of torch's threads trains whole blocks: threads that shared the operations of one block would mostly wait
for each other, especially on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mechanisms.arguments import at_least_zero, count, positive
from mechanisms.gradients.objective import Loss
from node.data.partition import RowNumbers
from node.system.errors import ConfigError
from node.task.sections import TrainSection
from scenarios.clients.gradients import Gradients, Part, Whole

Floats = NDArray[np.floating]
Seed = int | Sequence[int]
AfterBatch = Callable[[torch.Tensor, torch.Tensor, NDArray[np.int64]], torch.Tensor]
"""Called after every batch with the weights (k, d), the start (d,) and the clients' positions (k,) among all
clients; returns the weights (k, d) for the next batch."""

_CLIP_MARGIN = 1e-6  # as in torch.nn.utils.clip_grad_norm_
_BLOCK_BYTES = 1 << 30
_TRIAL_STEPS = 3
_TRIALS = 3
_LARGEST_BLOCK = 1024


@dataclass(frozen=True)
class LocalTraining:
    """Plain SGD on batches, with the results of torch.optim.SGD and clip_grad_norm_.

    A step adds to the gradient of the mean loss `proximal_mu` (w - w0), w0 being the start, for the proximal
    term (mu/2) ||w - w0||^2 (Li et al. 2020, "Federated Optimization in Heterogeneous Networks", section
    3.2). It clips this sum to L2 norm `grad_clip`, then adds weight decay and momentum, which each call
    starts at 0.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal_mu: float = 0.0
    grad_clip: float | None = None

    def __post_init__(self) -> None:
        count("epochs", self.epochs)
        count("batch_size", self.batch_size)
        positive("learning_rate", self.learning_rate)
        at_least_zero("weight_decay", self.weight_decay)
        at_least_zero("proximal_mu", self.proximal_mu)
        if at_least_zero("momentum", self.momentum) >= 1:
            raise ValueError(f"momentum = {self.momentum!r} is not allowed: a number from 0 to below 1")
        if self.grad_clip is not None:
            positive("grad_clip", self.grad_clip)


def training_of(section: TrainSection) -> LocalTraining:
    """The training that the section [train] describes; its optimiser is the caller's matter. ConfigError."""
    if section.seconds is not None:
        raise ConfigError(
            f"train.seconds = {section.seconds:g} is refused where one process stands for all clients: "
            "they share its time; set train.epochs"
        )
    return LocalTraining(
        epochs=section.epochs,
        batch_size=section.batch_size,
        learning_rate=section.learning_rate,
        momentum=section.momentum,
        weight_decay=section.weight_decay,
        proximal_mu=section.proximal,
        grad_clip=section.grad_clip,
    )


def train_clients(
    model: nn.Module,
    start: Floats,
    rows_of_clients: Sequence[RowNumbers],
    x: Floats,
    y: NDArray,
    loss: Loss,
    training: LocalTraining,
    seeds: Sequence[Seed],
    after_batch: AfterBatch | None,
    block: int,
) -> tuple[Floats, Floats]:
    """Train the clients, at most `block` at a time.

    Returns the trained parameters (k, d) and the mean losses of the last epoch (k,). All clients begin at
    `start` (d,), in the order of `node.training.trainer`; float32, or float64 for checks. Client i trains on
    rows_of_clients[i] (n_i,), n_i > 0, of x (n, ...) and y (n, ...), in an order that depends on seeds[i]
    alone. A client that diverges ends in NaN or infinity and does not affect the others. `after_batch` must
    be a pure function: torch's threads call it concurrently. `loss` is a mean over rows. Memory: the result,
    and for each thread about `block` vectors (d,), twice that with momentum or a proximal term, three times
    with both. Raises ValueError for a model that mixes rows (batch norm) or draws (dropout).
    """
    _check(start, rows_of_clients, x, y, seeds)
    data = _Data(model, start, x, y, loss, training, after_batch)
    size = data.gradients().size
    if start.shape != (size,):
        raise ValueError(f"start has shape {start.shape}; allowed: ({size},), as many as the model has")
    weights, losses = np.empty((len(seeds), size), start.dtype), np.empty(len(seeds), start.dtype)

    def train(members: NDArray[np.int64]) -> None:
        schedules = [_schedule(rows_of_clients[i], training, seeds[i]) for i in members]
        weights[members], losses[members] = _Block(data, members, schedules).run()

    steps = np.array([len(_starts(len(rows), training)) for rows in rows_of_clients])
    threads = torch.get_num_threads()
    _each(train, _blocks(np.argsort(-steps, kind="stable"), count("block", block), threads), threads)
    return weights, losses


def steps_of(rows: int, training: LocalTraining) -> int:
    """The number of steps of a client with `rows` rows in a round."""
    return training.epochs * len(_starts(rows, training))


def best_block(
    model: nn.Module, start: Floats, x: Floats, y: NDArray, loss: Loss, training: LocalTraining, clients: int
) -> int:
    """The fastest block size of 1, 2, 4, ... clients within 1 GiB, measured with a few steps of each.

    Rounding may depend on the block size: keep one size if figures must be equal bit by bit.
    """
    rows = np.arange(min(len(x), _TRIAL_STEPS * training.batch_size))
    trial = replace(training, epochs=1)
    threads = torch.get_num_threads()
    most = min(-(-clients // threads), _LARGEST_BLOCK, _BLOCK_BYTES // (4 * start.nbytes * threads))
    sizes = [1 << power for power in range(max(1, most).bit_length())]

    def seconds(size: int) -> float:
        """Seconds per client while every thread trains a block of this size."""
        many, begun = size * threads, time.perf_counter()
        train_clients(model, start, [rows] * many, x, y, loss, trial, range(many), None, size)
        return (time.perf_counter() - begun) / many

    taken = [[seconds(size) for size in sizes] for _ in range(_TRIALS)]
    return min(zip(np.min(taken, 0), sizes, strict=True))[1]


@dataclass(frozen=True)
class _Schedule:
    """A client's batches. rows: (steps, width), padded with rows of the same batch; counts: (steps,)."""

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    steps_an_epoch: int


@dataclass(frozen=True)
class _Data:
    """The arguments of `train_clients` that all blocks share."""

    model: nn.Module
    start: Floats
    x: Floats
    y: NDArray
    loss: Loss
    training: LocalTraining
    after_batch: AfterBatch | None

    def gradients(self) -> Gradients:
        """A new `Gradients`: each thread has its own."""
        return Gradients(self.model, self.loss, torch.from_numpy(np.array(self.x[:1])))


class _Block:
    """Clients that train side by side: their weights (k, d), those with the most steps first.

    members: (k,) their positions among all clients.
    """

    def __init__(self, data: _Data, members: NDArray[np.int64], schedules: Sequence[_Schedule]) -> None:
        self._data, self._members, self._training = data, members, data.training
        self._gradients = data.gradients()
        self._start = torch.from_numpy(np.array(data.start))
        self._weights = self._start.expand(len(schedules), -1).clone()
        self._velocity = torch.zeros_like(self._weights) if self._training.momentum else None
        self._from_start = torch.empty_like(self._weights) if self._training.proximal_mu else None
        self._rows, self._counts = _aligned(schedules)
        steps = np.array([len(schedule.counts) for schedule in schedules])
        self._last_epoch = steps - [schedule.steps_an_epoch for schedule in schedules]

    def run(self) -> tuple[Floats, NDArray[np.float64]]:
        """Run all steps; return the weights (k, d) and the mean losses (k,)."""
        totals, seen = np.zeros(len(self._weights)), np.zeros(len(self._weights))
        for step in range(self._counts.shape[1]):
            counts = self._counts[: np.count_nonzero(self._counts[:, step]), step]
            losses = self._step(self._rows[: len(counts), step, : counts.max()], counts)
            counted = np.where(step >= self._last_epoch[: len(counts)], counts, 0)
            totals[: len(counts)] += np.where(counted, losses * counts, 0)
            seen[: len(counts)] += counted
        return self._weights.numpy(), totals / seen

    def _step(self, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> Floats:
        """Do one step of the first a = len(counts) clients on `rows` (a, width); return their losses (a,)."""
        weights, shares, data = self._weights[: len(counts)], None, self._data
        if counts.min() < rows.shape[1]:
            there = np.arange(rows.shape[1]) < counts[:, None]
            shares = torch.from_numpy((there / counts[:, None]).astype(data.x.dtype))
        x, y = torch.from_numpy(data.x[rows]), torch.from_numpy(data.y[rows])
        parts, losses = self._gradients(weights, x, y, shares)
        self._descend(weights, parts)
        if data.after_batch is not None:
            weights.copy_(data.after_batch(weights, self._start, self._members[: len(counts)]))
        return losses.numpy()

    def _descend(self, weights: torch.Tensor, parts: Sequence[Part]) -> None:
        training, rate = self._training, self._training.learning_rate
        if self._from_start is not None:  # the gradient plus mu (w - w0)
            whole = self._from_start[: len(weights)]
            torch.sub(weights, self._start, out=whole)
            for part in parts:
                part.add_to(whole, training.proximal_mu, 1.0)
            parts = [Whole(slice(None), whole)]
        if training.grad_clip is not None:
            norms = torch.stack([part.squares() for part in parts]).sum(0).sqrt()
            for part in parts:
                part.scale((training.grad_clip / (norms + _CLIP_MARGIN)).clamp_(max=1.0))
        if self._velocity is None:
            for part in parts:
                part.add_to(weights, 1 - rate * training.weight_decay, -rate)
            return
        velocity = self._velocity[: len(weights)]
        for part in parts:
            part.add_to(velocity, training.momentum, 1.0)
        if training.weight_decay:
            velocity.add_(weights, alpha=training.weight_decay)
        weights.sub_(velocity, alpha=rate)


def _blocks(members: NDArray[np.int64], most: int, threads: int) -> list[NDArray[np.int64]]:
    """Cut `members` into blocks of at most `most`, equally many for each thread if there are enough."""
    blocks = -(-len(members) // most)
    blocks = min(len(members), -(-blocks // threads) * threads)
    return np.array_split(members, blocks)


def _each(train: Callable[[NDArray[np.int64]], None], blocks: list[NDArray[np.int64]], threads: int) -> None:
    if threads == 1 or len(blocks) == 1:
        for members in blocks:
            train(members)
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            for done in [workers.submit(train, members) for members in blocks]:
                done.result()
    finally:
        torch.set_num_threads(threads)  # a thread's setting also applies to later threads


def _aligned(schedules: Sequence[_Schedule]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows (k, steps, width) and counts (k, steps); a count is 0 after a client's last step."""
    steps = max(len(schedule.counts) for schedule in schedules)
    width = max(schedule.rows.shape[1] for schedule in schedules)
    rows = np.zeros((len(schedules), steps, width), np.int64)
    counts = np.zeros((len(schedules), steps), np.int64)
    for client, schedule in enumerate(schedules):
        own = schedule.rows
        rows[client, : len(own), : own.shape[1]] = own
        rows[client, : len(own), own.shape[1] :] = own[:, :1]
        counts[client, : len(own)] = schedule.counts
    return rows, counts


def _schedule(rows: RowNumbers, training: LocalTraining, seed: Seed) -> _Schedule:
    """The batches of all epochs, each epoch in a new order."""
    rng = np.random.default_rng(seed)
    starts = _starts(len(rows), training)
    counts = np.diff(starts, append=len(rows))
    places = np.arange(counts.max())
    inside = starts[:, None] + np.where(places < counts[:, None], places, 0)  # (steps per epoch, width)
    epochs = [np.asarray(rows)[rng.permutation(len(rows))[inside]] for _ in range(training.epochs)]
    return _Schedule(np.concatenate(epochs), np.tile(counts, training.epochs), len(starts))


def _starts(rows: int, training: LocalTraining) -> NDArray[np.int64]:
    """The first row of each batch of an epoch. A last single row joins the batch before, as in a node."""
    starts = np.arange(0, rows, training.batch_size)
    alone = training.batch_size > 1 and rows > 1 and rows % training.batch_size == 1
    return starts[:-1] if alone else starts


def _check(
    start: Floats, rows_of_clients: Sequence[RowNumbers], x: Floats, y: NDArray, seeds: Sequence[Seed]
) -> None:
    if start.dtype not in (np.float32, np.float64):
        raise TypeError(f"start holds {start.dtype}; allowed: float32, or float64 to check by")
    if x.dtype != start.dtype:
        raise TypeError(f"x holds {x.dtype}; allowed: {start.dtype}, as start does")
    if not len(x) or len(x) != len(y):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}; allowed: as many, at least one")
    if not len(seeds) or len(rows_of_clients) != len(seeds):
        raise ValueError(
            f"seeds has {len(seeds)} values for {len(rows_of_clients)} clients; allowed: one each, not none"
        )
    for client, rows in enumerate(rows_of_clients):
        if not len(rows):
            raise ValueError(f"rows_of_clients[{client}] is empty; allowed: at least one row")
        if np.min(rows) < 0 or np.max(rows) >= len(x):
            held = f"rows_of_clients[{client}] holds {np.min(rows)} to {np.max(rows)}"
            raise ValueError(f"{held}; allowed: 0 to {len(x) - 1}")
