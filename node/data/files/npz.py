"""Reads arrays from an npz file, for training, checking, predicting and node.init.

Before it allocates memory, the reader compares the size that an array declares with the size of its archive
member, with the largest size to which that can decompress, and with the free memory. It unpickles nothing.
"""

from __future__ import annotations

import unicodedata
import zipfile
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO, NoReturn

import numpy as np
from numpy.typing import NDArray

from node.data.persons import Persons, persons_of
from node.data.sides import RowDraws
from node.data.text.cells import FINITE, MISSING_WORDS, all_numbers, no_numbers, number_text
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, reason, shown
from node.system.free_memory import free_bytes

MOST_BYTES = 16 << 30
"""The most bytes of all requested arrays, decompressed; less if less memory is free."""
_MOST_INFLATED = 1032
"""The largest compression factor of deflate (https://zlib.net/zlib_tech.html); `_SLACK_BYTES` allows for the
end of a short member."""
_SLACK_BYTES = 4096
_PACKINGS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 1
_VERSIONS = {(1, 0), (2, 0), (3, 0)}
_SHOWN = 40  # characters of a type in messages
_NUMBERS, _TEXT = "biuf", "US"
_UNREADABLE = (
    *(OSError, EOFError, ValueError, MemoryError, RuntimeError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error),
)


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray]:
    """Returns the arrays called `names`, of numbers or text; raises a one-line ConfigError on any error."""
    try:
        return _read(path, names)
    except _UNREADABLE as error:
        _fail(path, f" cannot be read: {reason(error)}")


def array_names(path: Path) -> list[str]:
    """Returns the names of the arrays; [] for another kind of file, for which `read_arrays` raises."""
    try:
        check_regular(path)
        with zipfile.ZipFile(path) as members:
            return _names(members)
    except _UNREADABLE:
        return []


def _read(path: Path, names: Sequence[str]) -> dict[str, NDArray]:
    check_regular(path)
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            _fail(path, " is not an npz file; numpy.savez makes one")
        with zipfile.ZipFile(file) as members:
            found = {name: _member(path, members, name) for name in names}
            free = free_bytes()
            left = MOST_BYTES if free is None else max(0, min(MOST_BYTES, free))
            for name, member in found.items():
                left -= _checked(path, members, name, member, left)
            arrays: dict[str, NDArray] = {}
            for name, member in found.items():
                with members.open(member) as data:
                    arrays[name] = np.lib.format.read_array(data, allow_pickle=False)
            return arrays


def _fail(path: Path, text: str) -> NoReturn:
    raise ConfigError(f"data file {shown(str(path))}{text}")


def _names(members: zipfile.ZipFile) -> list[str]:
    """Returns the names of the arrays in the order of the file."""
    return [name.removesuffix(".npy") for name in members.namelist() if name.endswith(".npy")]


def _member(path: Path, members: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """Returns an array's archive member; raises ConfigError if it is missing or there twice."""
    there = _names(members)
    if name not in there:
        _fail(path, f" has no array {shown(name)}; it has {shown(', '.join(there))}")
    if there.count(name) > 1:
        _fail(path, f" has two arrays {shown(name)}; allowed: one of each name")
    return members.getinfo(f"{name}.npy")


def _checked(path: Path, members: zipfile.ZipFile, name: str, member: zipfile.ZipInfo, left: int) -> int:
    """Returns an array's size in bytes; ConfigError if it must not be read. `left`: the bytes available."""
    where = f": array {shown(name)}"
    if member.compress_type not in _PACKINGS or member.flag_bits & _ENCRYPTED:
        _fail(path, f"{where} is encrypted, or not packed as numpy.savez does; save it with that")
    with members.open(member) as data:
        shape, dtype = _declared(data)
        held = member.file_size - data.tell()
    if dtype.hasobject:
        _fail(
            path,
            f"{where} holds Python objects, which are not read; allowed: numbers, or text for labels; save "
            "it as such, as with array.astype(str)",
        )
    if dtype.kind not in _NUMBERS + _TEXT or dtype.itemsize == 0:
        _fail(path, f"{where} holds {str(dtype)[:_SHOWN]}; allowed: numbers or text")
    size = prod(shape) * dtype.itemsize
    most = member.compress_size  # what the compressed bytes can become
    if member.compress_type == zipfile.ZIP_DEFLATED:
        most = _MOST_INFLATED * member.compress_size + _SLACK_BYTES
    if size != held or size > most:
        _fail(
            path,
            f"{where} says that it has {size} bytes, and the file holds {min(held, most)} for it; take "
            "the file as it was written",
        )
    if size > left:
        _fail(path, f"{where} has {size} bytes; allowed: at most {left}, by what is free; take fewer rows")
    return size


def _declared(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Returns shape and type from an array's header; raises ValueError for an invalid header."""
    version = np.lib.format.read_magic(member)
    if version not in _VERSIONS:
        raise ValueError(f"an array of version {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = read(member)
    except (SyntaxError, TokenError) as error:  # numpy reads it as Python
        raise ValueError("the header of an array is none") from error
    if any(length < 0 for length in shape):
        raise ValueError(f"an array of shape {shape}")
    return shape, dtype


def finite(path: Path, name: str, array: NDArray) -> NDArray:
    """Returns `array`; raises ConfigError unless it holds numbers as defined in node.data.text.cells."""
    if array.dtype.kind not in _NUMBERS:
        _fail(path, f": array {shown(name)} holds {array.dtype}, not numbers")
    if not all_numbers(array):
        place = tuple(int(index) for index in np.argwhere(no_numbers(array))[0])
        _fail(path, f": {name}{list(place)} = {array[place]:g} is not {FINITE}")
    return array


def persons_of_array(path: Path, rows: int, drawing: RowDraws | None) -> Persons | None:
    """Returns whose rows they are, by the array that data.person names; None if nobody asks."""
    name = None if drawing is None else drawing.person
    if drawing is None or name is None:
        return None
    found = read_arrays(path, (name,))[name]
    if found.shape != (rows,):
        _fail(path, f": {name} is {found.shape}; allowed for data.person: a text or number for each row")
    names = [_name(value) for value in labels(path, name, found).tolist()]
    words, codes = np.unique(names, return_inverse=True)
    blank = int(words[0] == "")  # the empty one is first
    return persons_of(path, name, words[blank:].tolist(), codes - blank, blank_is_own=drawing.blank_is_own)


def _name(value: object) -> str:
    if isinstance(value, float):
        return number_text(value)
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    bare = unicodedata.normalize("NFC", text).strip()
    return "" if bare in MISSING_WORDS else bare


def labels(path: Path, name: str, array: NDArray) -> NDArray:
    """Returns `array`; raises ConfigError unless it can name classes: finite numbers, or text."""
    if array.dtype.kind in _TEXT:
        return array
    if array.dtype.kind not in _NUMBERS:
        _fail(path, f": array {shown(name)} holds {array.dtype}; allowed: numbers or text")
    return finite(path, name, array)
