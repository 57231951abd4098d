"""Rows in memory: a pair of arrays, or a data set in torch's sense."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from node.data.rows import Rows, bare_rows
from node.data.text.cells import FINITE, no_numbers
from node.system.errors import ConfigError, reason, shown

if TYPE_CHECKING:
    import pyarrow as pa

IN_MEMORY = "rows in memory"
_ALLOWED = "a pair (x, y) of arrays with shapes (n, ...) and (n,), or a data set whose items are such pairs"


@dataclass(frozen=True, eq=False)
class FrameRows:
    """A node's own rows as an Arrow table; `names` are those of the classes if its labels were text."""

    table: pa.Table
    names: tuple[str, ...] = ()


InMemory = Rows | FrameRows


def is_frame(data: object) -> bool:
    """Whether `data` is a data frame: it has columns, and is no pair."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__")


def rows_of(data: object) -> Rows:
    """Returns `data` as Rows. Targets that are all whole numbers become class labels, as in a file.

    A pair is a tuple of two objects that numpy can convert to arrays: arrays, tensors on the CPU, lists, data
    frames. The function reads anything else with a length and items, such as a torch Dataset, item by item.
    Raises ConfigError.

    >>> rows_of(([[0.5, 1.0], [1.5, 2.0]], [0, 1])).x.shape
    (2, 2)
    """
    x, y = data if isinstance(data, tuple) and len(data) == 2 else _items(data)
    features, targets = _array("x", x), _targets(y)
    if features.ndim < 2 or targets.shape != features.shape[:1]:
        raise ConfigError(
            f"data: x is {features.shape} and y is {targets.shape}; allowed: shapes (n, ...) and (n,)"
        )
    if len(features) < 2:
        raise ConfigError(f"data has {len(features)} rows; at least 2 are needed, to train and to validate")
    numbers = targets.dtype.kind != "U"
    return bare_rows(
        IN_MEMORY, features.astype(np.float32), targets.astype(np.float64) if numbers else targets
    )


def _targets(values: object) -> NDArray:
    """Returns numbers or, of labels that are all text, text."""
    with suppress(Exception):  # told of below
        array = np.asarray(values)
        if array.dtype.kind in "UO" and array.size and all(isinstance(one, str) for one in array.flat):
            return array.astype(str)
    return _array("y", values)


def _items(data: object) -> tuple[object, object]:
    """Returns the items of a data set as two stacked arrays."""
    try:
        items = [data[number] for number in range(len(data))]  # type: ignore[index,arg-type]
        pairs = [(np.asarray(x), np.asarray(y)) for x, y in items]
        return np.stack([x for x, _ in pairs]), np.stack([y for _, y in pairs])
    except Exception as error:  # noqa: BLE001 - whatever a data set of the user's raises
        raise ConfigError(
            f"data = {shown(data)} cannot be read ({reason(error)}); allowed: {_ALLOWED}"
        ) from None


def _array(name: str, values: object) -> NDArray:
    """Returns `values` as an array; raises ConfigError unless it holds numbers as in node.data.text.cells."""
    try:
        array = np.asarray(values)
    except Exception as error:  # noqa: BLE001 - a tensor on a device, one that needs a gradient, a ragged list
        raise ConfigError(f"data: {name} is no array ({reason(error)}); allowed: {_ALLOWED}") from None
    if array.dtype.kind not in "biuf":
        raise ConfigError(f"data: {name} holds {array.dtype}, not numbers; allowed: {_ALLOWED}")
    bad = np.argwhere(no_numbers(array))
    if len(bad):
        place = tuple(int(index) for index in bad[0])
        raise ConfigError(f"data: {name}{list(place)} = {array[place]:g} is not {FINITE}")
    return array
