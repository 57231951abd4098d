"""The rows of one walk: what the three hospitals have, and rows that nobody learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.walk.hospitals import SITES, Rows, make_rows

_NEW = 100  # the seeds of new rows start this much later, so that no site's old rows are another's new ones


@dataclass(frozen=True)
class Hospitals:
    """Each site's own rows, and its new ones."""

    old: tuple[Rows, ...]
    new: tuple[Rows, ...]


def hospitals(rows: int, seed: int) -> Hospitals:
    """Return the sites of walk number `seed`, each with so many old rows and as many new ones."""
    first = seed * 2 * _NEW
    old, new = (
        tuple(make_rows(site, rows, first + later + place) for place, site in enumerate(SITES))
        for later in (0, _NEW)
    )
    return Hospitals(old, new)


def features(sites: Sequence[Rows]) -> NDArray[np.float64]:
    """Return (n, d): the rows of all sites as plain numbers."""
    return np.concatenate([rows.features for rows in sites])


def ill(sites: Sequence[Rows]) -> NDArray[np.int64]:
    """Return (n,): the labels of all sites."""
    return np.concatenate([rows.ill for rows in sites])
