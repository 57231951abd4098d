"""Sums over persons: each person adds the mean of what the person's rows add, in whole units.

If no row adds a vector longer than `longest` (L2), no mean is longer. Rounding to whole units may lengthen a
mean; it is then scaled down and rounded towards zero. So adding or removing a person moves the
sums by one vector of whole units, at most `longest` in L2, which depends on this person's rows alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SLACK = 1 - 2.0**-40
"""Less than 1 by more than float64 rounds a length and a product."""


def person_means(
    places: NDArray[np.int64],
    amounts: NDArray[np.float64],
    persons: NDArray[np.int64],
    size: int,
    *,
    unit: float,
    longest: float,
) -> NDArray[np.float64]:
    """Returns sums (size,) over persons, in whole numbers of `unit`.

    `persons` (n,): whose each row is, as numbers from 0. A row adds its `amounts` (n, k) at its `places`
    (n, k) of the sums, a vector of at most `longest` in L2.
    """
    rows = np.bincount(persons)
    cells, own = np.unique(persons[:, None] * size + places, return_inverse=True)
    person, place = np.divmod(cells, size)
    means = np.bincount(own.ravel(), amounts.ravel()) / rows[person]
    units = np.rint(means / unit)
    lengths = np.sqrt(np.bincount(person, units**2, len(rows)))
    most = longest / unit
    shrunk = most / np.maximum(lengths, most) * _SLACK
    units = np.where(lengths[person] > most, np.trunc(units * shrunk[person]), units)
    return np.bincount(place, units, size).astype(np.float64)
