"""What persons add to sums: each the mean of what the own rows add, in whole units.

If a row adds a vector of at most `longest` in L2, so does a mean. Rounding to units may make it longer: then
it is shortened, by rounding towards zero. So a person added or removed moves the sums by exactly one vector
of whole units, at most `longest` in L2, which follows from the person's own rows alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SLACK = 1 - 2.0**-40
"""Below the rounding of a length and a product in float64."""


def person_means(
    places: NDArray[np.int64],
    amounts: NDArray[np.float64],
    persons: NDArray[np.int64],
    size: int,
    *,
    unit: float,
    longest: float,
) -> NDArray[np.float64]:
    """Returns sums (size,) over persons, whole numbers of units; `persons` (n,) are numbers from 0.

    A row adds `amounts` (n, k) at `places` (n, k).
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
