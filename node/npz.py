"""Arrays in an npz file: sizes are looked at before anything is allocated, and nothing is unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from node.errors import ConfigError, shown
from node.regular import check_regular

MOST_BYTES = 16 << 30
"""Of one array, unpacked."""


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray]:
    """The arrays called `names`. ConfigError, or what numpy and zipfile raise for a damaged file."""
    check_regular(path)
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ConfigError(f"data file {shown(str(path))} is not an npz file; numpy.savez makes one")
        with zipfile.ZipFile(file) as members:
            for name in names:
                _check_member(path, members, name)
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}


def array_names(path: Path) -> list[str]:
    """Which arrays there are; [] for a file that is none, which is told when it is read."""
    try:
        check_regular(path)
        with zipfile.ZipFile(path) as members:
            return [member.removesuffix(".npy") for member in members.namelist()]
    except (OSError, zipfile.BadZipFile):
        return []


def _check_member(path: Path, members: zipfile.ZipFile, name: str) -> None:
    """ConfigError for an array that is not there, or is larger than allowed or than its own bytes."""
    there = [member.removesuffix(".npy") for member in members.namelist()]
    if name not in there:
        told = shown(", ".join(there))
        raise ConfigError(f"data file {shown(str(path))} has no array {shown(name)}; it has {told}")
    information = members.getinfo(f"{name}.npy")
    with members.open(information) as member:
        size, dtype = _declared(member)
    if dtype.hasobject:
        raise ConfigError(
            f"data file {shown(str(path))}: array {shown(name)} holds Python objects, which are not read; "
            "allowed: numbers, or text for labels; save it as such, as with array.astype(str)"
        )
    if size > MOST_BYTES or size > information.file_size:
        most = min(MOST_BYTES, information.file_size)
        raise ConfigError(
            f"data file {shown(str(path))}: array {shown(name)} says that it has {size} bytes; "
            f"allowed: at most {most}"
        )


def _declared(member: IO[bytes]) -> tuple[int, np.dtype]:
    """The bytes that an array's header announces, and of what; ValueError for a header that is none."""
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(member)
    return prod(shape) * int(dtype.itemsize), dtype


def finite(path: Path, name: str, array: NDArray) -> NDArray:
    """`array`, if its numbers are finite as float32."""
    if array.dtype.kind not in "biuf":
        raise ConfigError(
            f"data file {shown(str(path))}: array {shown(name)} holds {array.dtype}, not numbers"
        )
    with np.errstate(over="ignore"):
        bad = np.argwhere(~np.isfinite(array.astype(np.float32)))
    if len(bad):
        place = tuple(int(index) for index in bad[0])
        raise ConfigError(
            f"data file {shown(str(path))}: {name}{list(place)} = {array[place]:g} is not a finite float32 "
            "number"
        )
    return array


def labels(path: Path, name: str, array: NDArray) -> NDArray:
    """`array`, if it can name classes: finite numbers, or text. ConfigError."""
    if array.dtype.kind in "US":
        return array
    if array.dtype.kind not in "biuf":
        raise ConfigError(
            f"data file {shown(str(path))}: array {shown(name)} holds {array.dtype}; allowed: numbers or text"
        )
    return finite(path, name, array)
