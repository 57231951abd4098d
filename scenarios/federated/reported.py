"""The facts and series that every federated cell has besides its mechanism's: clients, partition, costs.

The server knows what was sent and which test rows are correct; the labels of the clients' rows are known to
whoever divided them. So `server_facts` and `server_series` come from the rounds, and `with_clients` adds the
rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.servers.server import ServerMechanism
from scenarios.clients.work import ClientWork
from scenarios.study.cells import METRIC, Fact, Outcome
from scenarios.study.client_accuracy import accuracy_facts, by_label
from scenarios.study.costs import DOWN, MEASURED, TRAFFIC, UP, event_facts
from scenarios.study.skew import Counts, label_counts, skew_facts

FLOAT_BYTES = 4
"""Models and uploads travel as float32, whatever the mechanism: hooks turn a (d,) vector into another."""


@dataclass(frozen=True)
class Census:
    """Who has which labels: of all clients, and which of these are honest (clients,)."""

    counts: Counts
    honest: NDArray[np.bool_]


def census_of(work: ClientWork) -> Census:
    """The census of a cell's clients, from the original rows."""
    labels = [work.dataset.train_y[part] for part in work.parts]
    honest = np.array([client not in work.attackers for client in range(len(work.parts))])
    return Census(label_counts(labels, work.dataset.classes), honest)


def with_clients(outcome: Outcome, census: Census) -> Outcome:
    """`outcome` with the facts about its clients; accuracies are those of honest ones."""
    accuracy = accuracy_facts(outcome.series, census.counts[census.honest])
    return replace(outcome, facts={**outcome.facts, **skew_facts(census.counts), **accuracy})


@dataclass(frozen=True)
class Exchange:
    """What a server moved in a round: the bytes `down` to its clients and `up` from them.

    `got` clients were sent the model, uploads of `sent` clients arrived.
    """

    number: int
    down: int
    up: int
    got: int
    sent: int


def as_measured(outcome: Outcome, exchanges: Sequence[Exchange]) -> Outcome:
    """`outcome` with the bytes that the server's node counted in place of those of vectors.

    A round without an exchange moved none. Without any exchange, or any upload, the outcome is unchanged.
    """
    got, sent = (sum(getattr(one, name) for one in exchanges) for name in ("got", "sent"))
    if not got or not sent:
        return outcome
    moved = np.zeros(len(outcome.figures))
    for one in exchanges:
        moved[one.number - 1] = one.down + one.up
    up, down = (sum(getattr(one, name) for one in exchanges) for name in ("up", "down"))
    return replace(
        outcome,
        facts={**outcome.facts, UP: up / sent, DOWN: down / got, MEASURED: True},
        series={**outcome.series, TRAFFIC: tuple(moved.tolist())},
    )


def server_facts(mechanism: ServerMechanism, rounds: int, dimension: int) -> dict[str, Fact]:
    """The facts about what a client sends and receives in a round, and what the mechanism spends."""
    spends = {} if mechanism.guarantee is None else event_facts(mechanism.events, rounds)
    vector = FLOAT_BYTES * dimension
    return {METRIC: "accuracy", UP: vector, DOWN: vector, MEASURED: False, **spends}


def server_series(
    answers: tuple[torch.Tensor, torch.Tensor],
    classes: int,
    exchanged: Sequence[tuple[int, int]],
    dimension: int,
) -> dict[str, tuple[float, ...]]:
    """The series of correct test rows and of bytes.

    `answers`: outputs (n, ...) of the last model for the test rows, and their labels (n,). `exchanged`: for
    each round, how many clients got the model (d,), and how many sent an upload (d,).
    """
    vector = FLOAT_BYTES * dimension
    return {
        **by_label(*answers, classes),
        TRAFFIC: tuple(float(vector * (got + sent)) for got, sent in exchanged),
    }
