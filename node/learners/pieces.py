"""A list of arrays as one vector and back, and as a file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from node.learners.learner import Vector
from node.system.errors import UserError, shown


def joined(arrays: Sequence[NDArray[Any]]) -> Vector:
    """Returns the numbers of all arrays, one after the other, as float32 (d,)."""
    return np.concatenate([np.asarray(part).ravel() for part in arrays]).astype(np.float32, copy=False)


def cut(vector: Vector, like: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Returns new arrays of the shapes and types of `like` from `vector` (d,).

    Whole numbers, whose mean need not be whole, are rounded. Raises UserError if d does not fit.
    """
    sizes = [prod(np.shape(part)) for part in like]
    if vector.shape != (sum(sizes),):
        raise UserError(f"a vector of shape {shown(vector.shape)} for {sum(sizes)} numbers")
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    return [_as_type(part, np.asarray(one)) for part, one in zip(parts, like, strict=True)]


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes named arrays as an npz, which `numpy.load` reads without pickle."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, part, allow_pickle=False)


def _as_type(part: Vector, like: NDArray[Any]) -> NDArray[Any]:
    rounded = np.rint(part) if like.dtype.kind in "iub" else part
    return rounded.reshape(like.shape).astype(like.dtype)
