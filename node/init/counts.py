"""Tells a target that counts something from other numbers.

With more than a few different values, it is a count if it is

- whole numbers from 0 on, none above `_LARGEST`, some below a tenth of the mean: no year, age or code;
- skewed to the right by at least `_SKEWED`, as few ratings are;
- dense: each whole number up to the median occurs, as no price or income has it;
- not different in every row, and not named like an age, a year, a code, a rating or an amount of money.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from node.task.scaling import Scale, from_zero

WHY = "the target is whole numbers from 0 on, most of them small: it counts something"
"""No number of somebody's: it stands in a task that is shared."""
COUNT_REMARK = "whole numbers from 0 on, most of them small: loss poisson; else --target-kind number"
FEWEST = 6
"""Different values from which classes may be a count instead."""
_LARGEST = 10_000
_SKEWED = 1.0
_NO_COUNT = re.compile(
    r"(?i:(^|[^a-z])(id|key|index|age|alter|year|jahr|code|icd|ops|zip|plz|postcode|rating|score|grade|stars?"
    r"|note|price|preis|cost|costs|kosten|income|einkommen|salary|gehalt|amount|betrag)($|[^a-z]))|[a-z](Id|ID)$"
)


def are_whole(values: NDArray[np.float64]) -> bool:
    """Returns whether all values (n,) are whole numbers from 0 on."""
    return bool(len(values) and values.min() >= 0 and np.all(values == np.floor(values)))


def is_count(name: str, values: NDArray[np.float64]) -> bool:
    """Returns whether a column of numbers (n,) with this name counts something."""
    if not are_whole(values) or values.max() > _LARGEST or _NO_COUNT.search(name):
        return False
    mean, spread, different = float(values.mean()), float(values.std()), np.unique(values)
    if not FEWEST <= len(different) < len(values) or values.min() * 10 > mean:
        return False
    skewness = float(((values - mean) ** 3).mean()) / spread**3
    low = different[different <= np.median(values)]
    return skewness >= _SKEWED and len(low) == low.max() - low.min() + 1


def count_scale(scale: Scale) -> Scale:
    """Returns `scale` from 0 on."""
    return Scale(*from_zero(scale.mean, scale.std), scale.low, scale.high)
