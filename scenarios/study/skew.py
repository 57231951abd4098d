"""How unequal the rows of clients are: by their labels, and by their number.

The label distance of a client is the total variation distance between the distribution of its labels and that
of all clients' labels together: the share of its labels that would have to change. Zhao et al. 2018
(arXiv:1806.00582, sec. 3.2) explain the loss of accuracy with twice this value, which they call the earth
mover's distance. Small clients are at some distance even if rows are dealt at random; `chance_distances` says
at which.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from scenarios.study.cells import Fact

Counts = NDArray[np.int64]
"""(clients, labels): how many rows with each label a client has."""

CLIENTS = "clients"
DISTANCE, FARTHEST = "label distance, mean of the clients", "label distance of the farthest client"
BY_CHANCE = "label distance by chance"
FEWEST, MOST, SIZE_SPREAD = "rows of the smallest client", "rows of the largest client", "spread of sizes"
"""Names of facts. SIZE_SPREAD: the standard deviation of the numbers of rows, divided by their mean."""


def label_counts(labels: Sequence[NDArray[np.int64]], classes: int) -> Counts:
    """Count the labels (n,) of each client, each in 0..classes-1."""
    return np.array([np.bincount(own, minlength=classes) for own in labels], np.int64)


def label_distances(counts: Counts) -> NDArray[np.float64]:
    """(clients,) total variation distances to all rows, in [0, 1)."""
    pooled = counts.sum(axis=0) / counts.sum()
    own = counts / counts.sum(axis=1, keepdims=True)
    distances: NDArray[np.float64] = np.abs(own - pooled).sum(axis=1) / 2
    return distances


def chance_distances(counts: Counts) -> NDArray[np.float64]:
    """(clients,) expected distances if rows were dealt at random to clients of these sizes.

    A client's number of rows with a label is then hypergeometric; expectations add up over the labels.
    """
    rows, totals = counts.sum(axis=1), counts.sum(axis=0)
    by_size = {int(size): _chance_distance(int(size), totals) for size in np.unique(rows)}
    return np.array([by_size[int(size)] for size in rows])


def _chance_distance(size: int, totals: NDArray[np.int64]) -> float:
    in_all = int(totals.sum())
    drawn = np.arange(size + 1)[:, None]  # (size + 1, labels) with the probabilities
    probabilities = hypergeom.pmf(drawn, in_all, totals[None, :], size)
    return float((np.abs(drawn / size - totals / in_all) * probabilities).sum() / 2)


def skew_facts(counts: Counts) -> dict[str, Fact]:
    """The facts about a partition with labels."""
    distances = label_distances(counts)
    return {
        **size_facts(counts.sum(axis=1)),
        DISTANCE: float(distances.mean()),
        FARTHEST: float(distances.max()),
        BY_CHANCE: float(chance_distances(counts).mean()),
    }


def size_facts(rows: Sequence[int] | NDArray[np.int64]) -> dict[str, Fact]:
    """The facts about clients with these numbers of rows, whatever their labels."""
    sizes = np.asarray(rows)
    return {
        CLIENTS: len(sizes),
        FEWEST: int(sizes.min()),
        MOST: int(sizes.max()),
        SIZE_SPREAD: float(sizes.std() / sizes.mean()),
    }
