"""The tables that readers expect, made from the files that publishers offer: Adult, LendingClub, Criteo."""

from __future__ import annotations

import csv
import gzip
import io
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from node.system.errors import reason
from scenarios.data.criteo import MOST_LINE
from scenarios.data.dataset import UNREADABLE, Damaged
from scenarios.data.tabular import LOAN

LOAN_ARCHIVE = "LoanStats3a.csv.zip"
CRITEO_ARCHIVE, CRITEO_MEMBER = "dac_sample.tar.gz", "dac_sample.txt"
CRITEO_ROWS = (7200, 409, 391)
"""The rows for training, development and tests."""
CRITEO_SEED = 0
MOST_BYTES = 1 << 30
MOST_MEMBERS = 100
_PREAMBLE = 10
"""LendingClub's notes stand above the header, which is one of the first lines."""


def pack(source: Path, target: Path) -> None:
    """Write the file `source` to `target`, gzipped."""
    with source.open("rb") as file, _packed(target) as out:
        shutil.copyfileobj(file, out)


@contextmanager
def _packed(target: Path) -> Iterator[gzip.GzipFile]:
    """A gzip file to write; without a name and a time in it, so that equal rows make equal files."""
    with target.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as out:
        yield out


# -- LendingClub -------------------------------------------------------------------------------------------


def make_loans(raw: Path, target: Path) -> None:
    """Write the closed loans of LendingClub's `LoanStats3a.csv.zip` in `raw` to the gzipped table `target`.

    The columns are those that `scenarios.data.tabular.LOAN` names. A row stays if its status is one of the
    two classes: a loan that did not meet the credit policy has a status of its own and goes. Raises Damaged.
    """
    path = raw / LOAN_ARCHIVE
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_table(path, archive)) as file:
            lines = csv.reader(io.TextIOWrapper(file, "utf-8", errors="replace", newline=""))
            rows = list(_closed(path, lines))
    except (*UNREADABLE, csv.Error) as error:
        raise Damaged(f"{path} cannot be read ({reason(error)})") from None
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([LOAN.header, *rows])
    with _packed(target) as out:
        out.write(text.getvalue().encode())


def check_loans(path: Path) -> None:
    """Raise Damaged unless `path` is a whole zip archive with one table."""
    try:
        with zipfile.ZipFile(path) as archive:
            _table(path, archive)
            damaged = archive.testzip()
    except UNREADABLE as error:
        raise Damaged(f"{path} cannot be read ({reason(error)})") from None
    if damaged is not None:
        raise Damaged(f"{path}: the checksum of {damaged} is wrong")


def _table(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The one entry of the archive that is a table. Raises Damaged."""
    tables = [entry for entry in archive.infolist() if entry.filename.lower().endswith(".csv")]
    if len(tables) != 1 or tables[0].file_size > MOST_BYTES:
        raise Damaged(f"{path} has {len(tables)} CSV files; allowed: one of at most {MOST_BYTES} bytes")
    return tables[0]


def _closed(path: Path, lines: Iterator[list[str]]) -> Iterator[list[str]]:
    """The cells of LOAN.header of each closed loan. Raises Damaged."""
    header = next((line for line in islice(lines, _PREAMBLE) if LOAN.target in line), None)
    if header is None:
        raise Damaged(f"{path}: none of the first {_PREAMBLE} lines has a column {LOAN.target}")
    missing = [name for name in LOAN.header if name not in header]
    if missing:
        raise Damaged(f"{path} lacks the column {missing[0]}")
    places = [header.index(name) for name in LOAN.header]
    for line in lines:
        if len(line) == len(header):  # notes between and below the loans have fewer cells
            cells = [line[place].strip() for place in places]
            if cells[-1] in LOAN.classes:
                yield cells


# -- Criteo ------------------------------------------------------------------------------------------------


def make_criteo(raw: Path, *targets: Path) -> None:
    """Write the first 8,000 rows of Criteo's sample in `raw` to the three gzipped tables `targets`.

    A fixed seed draws which rows are for training, development and tests; in each file they keep their order,
    which is that of time. Raises Damaged.
    """
    path = raw / CRITEO_ARCHIVE
    lines = _first_lines(path, sum(CRITEO_ROWS))
    drawn = np.random.default_rng(CRITEO_SEED).permutation(len(lines))
    parts = np.split(drawn, np.cumsum(CRITEO_ROWS)[:-1])
    for target, part in zip(targets, parts, strict=True):
        with _packed(target) as out:
            out.writelines(lines[row] for row in np.sort(part))


def check_criteo(path: Path) -> None:
    """Raise Damaged unless `path` is an archive with enough rows."""
    _first_lines(path, sum(CRITEO_ROWS))


def _first_lines(path: Path, count: int) -> list[bytes]:
    """The first `count` lines of the member dac_sample.txt, read inside the archive. Raises Damaged."""
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in islice(archive, MOST_MEMBERS):
                is_sample = member.isfile() and Path(member.name).name == CRITEO_MEMBER
                file = archive.extractfile(member) if is_sample else None
                if file is not None:
                    return _lines(path, file, count)
    except (*UNREADABLE, tarfile.TarError) as error:
        raise Damaged(f"{path} cannot be read ({reason(error)})") from None
    raise Damaged(f"{path} lacks {CRITEO_MEMBER}")


def _lines(path: Path, file: IO[bytes], count: int) -> list[bytes]:
    lines: list[bytes] = []
    for _ in range(count):
        line = file.readline(MOST_LINE + 1)
        if len(line) > MOST_LINE or not line.endswith(b"\n"):
            raise Damaged(
                f"{path}: {CRITEO_MEMBER} has {len(lines)} whole lines of at most {MOST_LINE} bytes; "
                f"needed: {count}"
            )
        lines.append(line)
    return lines
