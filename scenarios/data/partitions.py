"""Partitions of rows among clients, each row to exactly one: they decide how similar clients' data are.

Every partition is `(labels or keys (n,), parts, rng, ...) -> row numbers of each part`, sorted, none empty.
Raises ValueError or TypeError for bad arguments; the text names the argument, its value and what is allowed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import count, positive
from node.data import partition
from node.data.partition import RowNumbers

Parts = tuple[RowNumbers, ...]

LEAST_ALPHA, MOST_ALPHA = 1e-3, 1e6
"""The bounds of alpha: below, one client gets all rows of a label; above, proportions are equal."""


def iid(labels: NDArray, parts: int, rng: np.random.Generator) -> Parts:
    """Random parts of equal size, to within one row; of `labels` (n,) only the length matters."""
    _enough(labels, parts, 1)
    return tuple(partition.even(len(labels), parts, rng))


def dirichlet(
    labels: NDArray[np.integer], parts: int, rng: np.random.Generator, *, alpha: float, min_rows: int = 1
) -> Parts:
    """Label skew: each label's rows are divided in proportions from Dirichlet(alpha), Hsu et al. 2019.

    The draw is repeated until each part has `min_rows`; after 20 draws rows move from the largest part to the
    smallest.
    """
    _enough(labels, parts, min_rows)
    return tuple(partition.dirichlet(labels, parts, _alpha(alpha), rng, min_rows=min_rows))


def shards(
    labels: NDArray[np.integer], parts: int, rng: np.random.Generator, *, shards_per_part: int = 2
) -> Parts:
    """Rows sorted by label, cut into equal shards; each part gets `shards_per_part` random shards.

    McMahan et al. 2017 (arXiv:1602.05629), sec. 3: 200 shards of 300 rows, two to each of 100 clients.
    Shards are equal to within one row. Rows of one label are in random order before the cut.
    """
    dealt = count("shards_per_part", shards_per_part)
    _enough(labels, parts, 1, dealt)
    shuffled = rng.permutation(len(labels))
    ordered = shuffled[np.argsort(labels[shuffled], kind="stable")]
    cut = np.array_split(ordered, parts * dealt)
    hands = rng.permutation(len(cut)).reshape(parts, dealt)
    return tuple(np.sort(np.concatenate([cut[shard] for shard in hand])) for hand in hands)


def natural(keys: NDArray, parts: int, rng: np.random.Generator) -> Parts:
    """Parts by the owner of each row: `keys` (n,) are numbers or text; parts are in the order of the keys.

    With fewer parts than owners, owners are assigned to parts evenly and at random, each with all its rows.
    """
    owners, owner = np.unique(keys, return_inverse=True)
    if count("parts", parts) > len(owners):
        raise ValueError(f"parts = {parts} is not allowed: 1 to {len(owners)}, one for each owner of rows")
    part_of = np.arange(len(owners))
    if parts < len(owners):
        part_of = rng.permutation(len(owners)) % parts
    return _grouped(part_of[owner], parts)


def pieces(keys: NDArray, parts: int, rng: np.random.Generator) -> Parts:
    """Parts by owner, as in `natural`, with more parts than owners: a part is a piece of one owner's rows.

    Every owner has at least one piece. Each further piece goes to the owner with the largest pieces, so that
    sizes stay similar. Parts are in the order of their owners; the rows of a piece are random.
    """
    _enough(keys, parts, 1)
    owners, owner = np.unique(keys, return_inverse=True)
    if parts <= len(owners):
        return natural(keys, parts, rng)
    rows = np.bincount(owner)
    cuts = np.ones_like(rows)
    for _ in range(parts - len(owners)):
        cuts[np.argmax(rows / cuts)] += 1
    shuffled = (rng.permutation(own) for own in _grouped(owner, len(owners)))
    return tuple(
        np.sort(piece)
        for own, number in zip(shuffled, cuts, strict=True)
        for piece in np.array_split(own, number)
    )


def _grouped(part_of_row: RowNumbers, parts: int) -> Parts:
    """The row numbers of each part, by one sort, as there may be thousands of parts."""
    ordered = np.argsort(part_of_row, kind="stable")
    return tuple(np.split(ordered, np.searchsorted(part_of_row[ordered], np.arange(1, parts))))


def quantity(
    labels: NDArray, parts: int, rng: np.random.Generator, *, alpha: float, min_rows: int = 1
) -> Parts:
    """Quantity skew: random rows; the sizes of the parts are in proportions from Dirichlet(alpha).

    Li et al. 2022 (arXiv:2102.02079), sec. IV, "quantity skew". It equals label skew with one label for all
    rows; of `labels` (n,) only the length matters.
    """
    _enough(labels, parts, min_rows)
    alike = np.zeros(len(labels), np.int64)
    return tuple(partition.dirichlet(alike, parts, _alpha(alpha), rng, min_rows=min_rows))


def _alpha(value: object) -> float:
    alpha = positive("alpha", value)
    if not LEAST_ALPHA <= alpha <= MOST_ALPHA:
        raise ValueError(f"alpha = {value!r} is not allowed: {LEAST_ALPHA:g} to {MOST_ALPHA:g}")
    return alpha


def _enough(labels: NDArray, parts: object, min_rows: object, dealt: int = 1) -> None:
    """Raise ValueError if the parts (or shards, `dealt` to each part) cannot all have `min_rows` rows."""
    least, asked = count("min_rows", min_rows), count("parts", parts) * dealt
    name = "parts" if dealt == 1 else "parts * shards_per_part"
    if asked * least > len(labels):
        raise ValueError(
            f"{name} = {asked} is not allowed: 1 to {len(labels) // least}, as there are {len(labels)} rows "
            f"and each is to have at least {least}"
        )
