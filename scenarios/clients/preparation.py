"""The rows that clients train on: poisoned and made private before the first round, or in each round anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import Labels
from node.system.errors import ConfigError, reason
from scenarios.data.dataset import FederatedDataset

if TYPE_CHECKING:
    from scenarios.clients.work import ClientWork

Change = Callable[[Floats, Labels, int], tuple[Floats, Labels]]
"""Called with a client's rows x (n, ...), their labels y (n,) and its number; returns what replaces them."""


def prepared(work: ClientWork, words_of: Callable[[int], Words]) -> ClientWork:
    """Return `work` with the rows that each client trains on; `words_of` a client gives its noise.

    Clients without rows in this process are skipped. Raises ConfigError for rows that the attack or the
    mechanism rejects.
    """

    def first_poisoned(x: Floats, y: Labels, client: int) -> tuple[Floats, Labels]:
        return work.mechanism.examples(*work.poisoned(client, x, y), client, words_of(client))

    taught = _changed(work, work.dataset, range(len(work.parts)), first_poisoned)
    return replace(work, taught=taught)


def taught_in_round(work: ClientWork, words: Mapping[int, Words]) -> FederatedDataset:
    """Return the rows that the clients of `words` train on in one round; each has its own random words.

    It is `work.taught` itself if the mechanism changes nothing. Raises ConfigError for rows that the
    mechanism rejects.
    """

    def anew(x: Floats, y: Labels, client: int) -> tuple[Floats, Labels]:
        return work.mechanism.examples_of_round(x, y, client, words[client])

    return _changed(work, work.taught, words, anew)


def _changed(
    work: ClientWork, dataset: FederatedDataset, clients: Iterable[int], change: Change
) -> FederatedDataset:
    """`dataset` with the rows of `clients` changed; rows that nobody changed are not copied."""
    x, y = dataset.train_x, dataset.train_y
    for client in clients:
        part = work.parts[client]
        if not len(part):
            continue
        own_x, own_y = dataset.train_x[part], dataset.train_y[part]
        try:
            new_x, new_y = change(own_x, own_y, client)
        except Exception as error:  # a user's mechanism may raise anything
            raise ConfigError(f"the rows of client {client}: {reason(error)}") from error
        if new_x is not own_x:
            x = x.copy() if x is dataset.train_x else x
            x[part] = new_x
        if new_y is not own_y:
            y = y.copy() if y is dataset.train_y else y
            y[part] = new_y
    return (
        dataset if x is dataset.train_x and y is dataset.train_y else replace(dataset, train_x=x, train_y=y)
    )


def check_attackers(work: ClientWork) -> None:
    """Raise ConfigError if there are more attackers than the server's aggregation withstands."""
    there, most = len(work.attackers), work.mechanism.withstands
    if most is not None and there > most:
        raise ConfigError(
            f"{there} of {len(work.parts)} clients attack, and {work.mechanism.name} withstands {most}; take "
            "fewer attackers, or an aggregator with a higher breakdown point"
        )
