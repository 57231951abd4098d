"""Trains one client after another by a plain torch loop, beside which training in blocks stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters

from mechanisms.gradients.objective import Loss
from node.data.partition import RowNumbers
from scenarios.clients.training import AfterBatch, Floats, LocalTraining, Seed

AfterOwn = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From one client's weights (1, d) and start (d,) to its weights (1, d) for the next batch."""


def train_one_by_one(
    model: nn.Module,
    start: Floats,
    rows_of_clients: Sequence[RowNumbers],
    x: Floats,
    y: NDArray[np.generic],
    loss: Loss,
    training: LocalTraining,
    seeds: Sequence[Seed],
    after_batch: AfterBatch | None,
) -> tuple[Floats, Floats]:
    """Return what `scenarios.clients.training.train_clients` returns, by autograd and torch.optim.SGD."""
    worker = _Worker(
        model, torch.from_numpy(start), (torch.from_numpy(x), torch.from_numpy(y)), loss, training
    )
    weights, losses = np.empty((len(seeds), len(start)), start.dtype), np.empty(len(seeds), start.dtype)
    for client, (rows, seed) in enumerate(zip(rows_of_clients, seeds, strict=True)):
        own = None if after_batch is None else _client_hook(after_batch, client)
        weights[client], losses[client] = worker.train(np.asarray(rows), seed, own)
    return weights, losses


def _client_hook(after_batch: AfterBatch, client: int) -> AfterOwn:
    return lambda weights, start: after_batch(weights, start, np.array([client]))


class _Worker:
    def __init__(
        self,
        model: nn.Module,
        start: torch.Tensor,
        data: tuple[torch.Tensor, torch.Tensor],
        loss: Loss,
        training: LocalTraining,
    ) -> None:
        self._model = deepcopy(model).to(start.dtype).train()
        self._parameters = [value for value in self._model.parameters() if value.requires_grad]
        self._start, self._data, self._loss, self._training = start, data, loss, training

    def train(
        self, rows: NDArray[np.integer], seed: Seed, after_batch: AfterOwn | None
    ) -> tuple[NDArray[np.floating], float]:
        training, rng = self._training, np.random.default_rng(seed)
        vector_to_parameters(self._start.clone(), self._parameters)
        rate, momentum, decay = training.learning_rate, training.momentum, training.weight_decay
        optimizer = torch.optim.SGD(self._parameters, rate, momentum, weight_decay=decay)
        loss = 0.0
        for _ in range(training.epochs):
            order = torch.from_numpy(rows[rng.permutation(len(rows))])
            batches = list(torch.split(order, training.batch_size))
            if training.batch_size > 1 and len(batches) > 1 and len(batches[-1]) == 1:
                batches[-2:] = [torch.cat(batches[-2:])]
            loss = sum(self._step(optimizer, batch, after_batch) for batch in batches) / len(rows)
        with torch.no_grad():
            return parameters_to_vector(self._parameters).numpy(), loss

    def _step(
        self, optimizer: torch.optim.Optimizer, rows: torch.Tensor, after_batch: AfterOwn | None
    ) -> float:
        """Take one step on a batch; return the sum of its rows' losses."""
        x, y = self._data
        mean = self._loss(self._model(x[rows]), y[rows])
        whole = mean
        if self._training.proximal_mu:
            away = parameters_to_vector(self._parameters) - self._start
            whole = mean + self._training.proximal_mu / 2 * away.square().sum()
        whole.backward()  # type: ignore[no-untyped-call]
        if self._training.grad_clip is not None:
            clip_grad_norm_(self._parameters, self._training.grad_clip)
        optimizer.step()
        optimizer.zero_grad()
        if after_batch is not None:
            with torch.no_grad():
                weights = after_batch(parameters_to_vector(self._parameters).unsqueeze(0), self._start)
                vector_to_parameters(weights[0].clone(), self._parameters)
        return mean.item() * len(rows)
