"""Partitions rows among peers, and splits a peer's rows for training and testing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DRAWS = 20

RowNumbers = NDArray[np.int64]


def dirichlet(
    labels: NDArray[np.integer], parts: int, alpha: float, rng: np.random.Generator, *, min_rows: int = 0
) -> list[RowNumbers]:
    """Returns sorted row numbers of `parts` disjoint parts that together hold every row of `labels` (n,).

    Proportions drawn from Dirichlet(alpha) divide each label's rows: the smaller alpha, the fewer labels
    dominate a part (Hsu et al. 2019, arXiv:1909.06335). The function draws again until each part has
    `min_rows`; after 20 draws it moves rows from the largest part to the smallest. Raises ValueError if there
    are fewer than parts * min_rows rows.
    """
    if parts < 1 or parts * min_rows > len(labels):
        raise ValueError(f"{len(labels)} rows cannot make {parts} parts of at least {min_rows}")
    divided = _draw(labels, parts, alpha, rng)
    for _ in range(_DRAWS - 1):
        if min(map(len, divided)) >= min_rows:
            break
        divided = _draw(labels, parts, alpha, rng)
    while min(map(len, divided)) < min_rows:
        low, high = (chosen(range(parts), key=lambda part: len(divided[part])) for chosen in (min, max))
        moved = min(min_rows - len(divided[low]), len(divided[high]) - min_rows)
        divided[low] = np.concatenate([divided[low], divided[high][:moved]])
        divided[high] = divided[high][moved:]
    return [np.sort(part) for part in divided]


def _draw(
    labels: NDArray[np.integer], parts: int, alpha: float, rng: np.random.Generator
) -> list[RowNumbers]:
    """Draws one partition, each part in random order; parts may be empty."""
    pieces: list[list[RowNumbers]] = [[] for _ in range(parts)]
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        shares = rng.dirichlet(np.full(parts, alpha))
        cuts = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
        for own, piece in zip(pieces, np.split(rows, cuts), strict=True):
            own.append(piece)
    return [rng.permutation(np.concatenate(own)) if own else np.empty(0, np.int64) for own in pieces]


def even(rows: int, parts: int, rng: np.random.Generator) -> list[RowNumbers]:
    """Returns sorted row numbers of `parts` disjoint random parts of `rows` rows, equal to within one row."""
    return [np.sort(part) for part in np.array_split(rng.permutation(rows), parts)]


def hold_out(targets: NDArray, fraction: float, rng: np.random.Generator) -> tuple[RowNumbers, RowNumbers]:
    """Returns (kept, held out) row numbers of `targets` (n,), n >= 2, stratified by target.

    It holds out about n * fraction rows, at least one and at most n - 1, at equal distances in the order of
    their targets; rows with equal targets are in random order.
    """
    count = min(max(1, round(len(targets) * fraction)), len(targets) - 1)
    shuffled = rng.permutation(len(targets))
    ordered = shuffled[np.argsort(targets[shuffled], kind="stable")]
    picked = ((np.arange(count) + 0.5) * len(targets) / count).astype(np.int64)
    return np.sort(np.delete(ordered, picked)), np.sort(ordered[picked])
