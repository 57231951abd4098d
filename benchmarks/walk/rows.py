"""The rows of one walk: those that the three hospitals learn from, and new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.walk.hospitals import SITES, Rows, make_rows

_NEW = 100  # added to the seeds of new rows, so that no site's old rows are another's new ones


@dataclass(frozen=True)
class Hospitals:
    """Each site's rows to learn from, and its new rows."""

    old: tuple[Rows, ...]
    new: tuple[Rows, ...]


def hospitals(rows: int, seed: int) -> Hospitals:
    """Return the rows of walk `seed`: at each site `rows` old ones and as many new ones."""
    first = seed * 2 * _NEW
    old, new = (
        tuple(make_rows(site, rows, first + later + place) for place, site in enumerate(SITES))
        for later in (0, _NEW)
    )
    return Hospitals(old, new)


def features(sites: Sequence[Rows]) -> NDArray[np.float64]:
    """Return the rows of all sites as plain numbers (n, d)."""
    return np.concatenate([rows.features for rows in sites])


def ill(sites: Sequence[Rows]) -> NDArray[np.int64]:
    """Return the labels (n,) of all sites."""
    return np.concatenate([rows.ill for rows in sites])
