"""Criteo's display advertising rows for a wide and deep model: each field has an id and a weight.

A line has a label, 13 integers and 26 categories of 8 hex digits, separated by tabs; a missing value is
empty. The field of an integer has one id; its weight is the value over the largest one in the training rows,
0 if missing. A category has an id of its own if more than `threshold` training rows have it; all other and
missing categories of a field share one id. Categories have weight 1. The ids of the fields are consecutive,
so one embedding serves all fields.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.system.errors import reason, shown
from scenarios.data.dataset import UNREADABLE, Damaged

FILES = ("criteo/train.tsv.gz", "criteo/dev.tsv.gz", "criteo/test.tsv.gz")
NUMBERS, CATEGORIES = 13, 26
COLUMNS = 1 + NUMBERS + CATEGORIES
MOST_LINE = 4096
"""The longest line of a file, in bytes."""
MOST_ROWS = 50_000_000

_NUMBER = re.compile(r"-?[0-9]{1,12}")
_CATEGORY = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True)
class Fields:
    """The rows of one party: ids (n, fields) int64 below `vocabulary`, weights (n, fields) float32."""

    ids: NDArray[np.int64]
    weights: NDArray[np.float32]
    vocabulary: int


@dataclass(frozen=True)
class Part:
    """Rows divided between two parties: each has its fields, the leader also the labels (n,), 0 or 1."""

    leader: Fields
    follower: Fields
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Criteo:
    """All rows of the three files, divided between the parties."""

    train: Part
    dev: Part
    test: Part
    description: str


LEADER = (*range(7), *range(NUMBERS, NUMBERS + 13))
FOLLOWER = (*range(7, NUMBERS), *range(NUMBERS + 13, NUMBERS + CATEGORIES))
"""Leader: 7 numbers and 13 categories; follower: 6 and 13. The split of MindSpore Federated's example."""


@dataclass(frozen=True)
class _Table:
    """labels (n,), numbers (n, 13) with NaN where missing, and categories (n, 26) as text."""

    labels: NDArray[np.int64]
    numbers: NDArray[np.float64]
    categories: NDArray[np.str_]


def criteo(folder: Path, threshold: int) -> Criteo:
    """Read and encode the rows of the three files. Raises Damaged."""
    tables = [_read(folder / name) for name in FILES]
    rows = tables[0]
    largest = np.nanmax(np.concatenate([rows.numbers, np.ones((1, NUMBERS))]), axis=0)
    known = [_known(rows.categories[:, field], threshold) for field in range(CATEGORIES)]
    train, dev, test = (_part(table, largest, known) for table in tables)
    kept = sum(len(names) for names in known)
    description = (
        f"criteo: {len(train.labels)} training, {len(dev.labels)} dev and {len(test.labels)} test rows; "
        f"leader {len(LEADER)} fields, follower {len(FOLLOWER)}; {kept} categories seen more than "
        f"{threshold} times; {np.mean(test.labels):.1%} of the test rows clicked"
    )
    return Criteo(train, dev, test, description)


# -- reading -----------------------------------------------------------------------------------------------


def _read(path: Path) -> _Table:
    try:
        with gzip.open(path, "rb") as file:
            rows = [_row(path, number, line) for number, line in _lines(path, file)]
    except UNREADABLE as error:
        raise Damaged(f"{path} cannot be read ({reason(error)})") from None
    if not rows:
        raise Damaged(f"{path} has no rows")
    labels, numbers, categories = zip(*rows, strict=True)
    return _Table(np.array(labels), np.array(numbers), np.array(categories, "U8"))


def _lines(path: Path, file: gzip.GzipFile) -> Iterator[tuple[int, str]]:
    for number in range(1, MOST_ROWS + 2):
        line = file.readline(MOST_LINE + 1)
        if not line:
            return
        if len(line) > MOST_LINE or number > MOST_ROWS:
            raise Damaged(f"{path}, line {number}: longer than {MOST_LINE} bytes, or too many rows")
        yield number, line.decode("ascii").rstrip("\r\n")


def _row(path: Path, number: int, line: str) -> tuple[int, list[float], list[str]]:
    cells = line.split("\t")
    if len(cells) != COLUMNS:
        raise Damaged(f"{path}, line {number}: {len(cells)} columns; allowed: {COLUMNS}, tab-separated")
    label, numbers, categories = cells[0], cells[1 : 1 + NUMBERS], cells[1 + NUMBERS :]
    if label not in ("0", "1"):
        raise Damaged(f"{path}, line {number}: label {shown(label)}; allowed: 0 or 1")
    for allowed, what, group in (
        (_NUMBER, "a whole number", numbers),
        (_CATEGORY, "8 hex digits", categories),
    ):
        wrong = next((cell for cell in group if cell and not allowed.fullmatch(cell)), None)
        if wrong is not None:
            raise Damaged(f"{path}, line {number}: {shown(wrong)} is not {what}")
    return int(label), [float(cell) if cell else np.nan for cell in numbers], categories


# -- encoding ----------------------------------------------------------------------------------------------


def _known(cells: NDArray[np.str_], threshold: int) -> list[str]:
    counts = Counter(cells.tolist())
    return sorted(cell for cell, seen in counts.items() if cell and seen > threshold)


def _part(table: _Table, largest: NDArray[np.float64], known: Sequence[Sequence[str]]) -> Part:
    scale = np.where(largest > 0, largest, 1.0)
    values = np.nan_to_num(table.numbers / scale).astype(np.float32)
    places = [_places(table.categories[:, field], known[field]) for field in range(CATEGORIES)]
    own = np.concatenate([np.zeros((len(values), NUMBERS), np.int64), np.stack(places, axis=1)], axis=1)
    weights = np.concatenate([values, np.ones((len(values), CATEGORIES), np.float32)], axis=1)
    sizes = [1] * NUMBERS + [len(names) + 1 for names in known]
    leader, follower = (_fields(own, weights, sizes, fields) for fields in (LEADER, FOLLOWER))
    return Part(leader, follower, table.labels)


def _places(cells: NDArray[np.str_], names: Sequence[str]) -> NDArray[np.int64]:
    """The position of each cell in `names`, from 1; 0 if it is not there."""
    place = {name: number for number, name in enumerate(names, start=1)}
    return np.array([place.get(cell, 0) for cell in cells.tolist()], np.int64)


def _fields(
    own: NDArray[np.int64], weights: NDArray[np.float32], sizes: Sequence[int], fields: Sequence[int]
) -> Fields:
    """The columns `fields`; the ids of each field follow those of the fields before it."""
    begins = np.concatenate([[0], np.cumsum([sizes[field] for field in fields])])
    return Fields(own[:, list(fields)] + begins[:-1], weights[:, list(fields)], int(begins[-1]))
