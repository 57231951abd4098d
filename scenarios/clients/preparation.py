"""The rows that clients train on, made once before the first round: first poisoned, then made private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from mechanisms.noise.randomness import Words
from node.errors import ConfigError, reason

if TYPE_CHECKING:
    from scenarios.clients.work import ClientWork


def prepared(work: ClientWork, words_of: Callable[[int], Words]) -> ClientWork:
    """Return `work` with the rows that each client trains on; `words_of` a client gives its noise.

    Clients without rows in this process are skipped. Raises ConfigError for rows that the attack or the
    mechanism rejects.
    """
    dataset = work.dataset
    x, y = dataset.train_x, dataset.train_y
    for client, part in enumerate(work.parts):
        if not len(part):
            continue
        own_x, own_y = dataset.train_x[part], dataset.train_y[part]
        try:
            poisoned = work.poisoned(client, own_x, own_y)
            new_x, new_y = work.mechanism.examples(*poisoned, client, words_of(client))
        except Exception as error:  # a user's mechanism may raise anything
            raise ConfigError(f"the rows of client {client}: {reason(error)}") from error
        if new_x is not own_x:
            x = x.copy() if x is dataset.train_x else x
            x[part] = new_x
        if new_y is not own_y:
            y = y.copy() if y is dataset.train_y else y
            y[part] = new_y
    return replace(work, taught=replace(dataset, train_x=x, train_y=y))


def check_attackers(work: ClientWork) -> None:
    """Raise ConfigError if there are more attackers than the server's aggregation withstands."""
    there, most = len(work.attackers), work.mechanism.withstands
    if most is not None and there > most:
        raise ConfigError(
            f"{there} of {len(work.parts)} clients attack, and {work.mechanism.name} withstands {most}; take "
            "fewer attackers, or an aggregator with a higher breakdown point"
        )
