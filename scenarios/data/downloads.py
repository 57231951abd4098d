"""`scenarios data NAME`: downloads published files into the data folder, each completely or not at all.

A file is downloaded as `NAME.partial`, checked, and then renamed in one step. An interrupted transfer resumes
from the partial file (HTTP Range, RFC 9110 sec. 14). Mirrors are tried in turn.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from rich import box
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress import TransferSpeedColumn as SpeedColumn
from rich.table import Table

from node.errors import UserError, reason
from scenarios.data.dataset import Damaged
from scenarios.data.images import read_images, read_labels
from scenarios.data.sources import ALL, Source, source

CONNECT_S, SILENCE_S = 20.0, 30.0
TRIES = 4
"""The tries for one file at one mirror; each try resumes where the last one broke off."""
CHUNK_BYTES = 1 << 16

OK, PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE = 200, 206, 416

Check = Callable[[Path], object]


@dataclass(frozen=True)
class PublishedFile:
    """A published file. `sha256` in hexadecimal; None if the publisher states none.

    `check` raises Damaged for a file whose structure is wrong.
    """

    name: str
    size_bytes: int
    sha256: str | None
    check: Check


@dataclass(frozen=True)
class Published:
    """The published files of a data set, for `folder`; each of `mirrors` (they end in a slash) has all."""

    folder: str
    mirrors: tuple[str, ...]
    files: tuple[PublishedFile, ...]


PUBLISHED: dict[str, Published] = {
    # LeCun et al. 1998. Their own server no longer offers the files; these two have the same bytes.
    "mnist": Published(
        "mnist",
        (
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
        (
            PublishedFile(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                read_images,
            ),
            PublishedFile(
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                read_labels,
            ),
            PublishedFile(
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                read_images,
            ),
            PublishedFile(
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                read_labels,
            ),
        ),
    )
}


def get(name: str, folder: Path, console: Console) -> None:
    """Make sure that `folder` has the data set `name`. Raises ConfigError, UserError."""
    found = source(name)
    with _refused(f"data folder {folder} cannot be used"):
        if name in PUBLISHED:
            asyncio.run(fetch(PUBLISHED[name], folder, console))
        elif found.files:
            _say(console, _kept(found, folder))
        else:
            _say(console, f"{name}: {found.remedy}")


def _kept(found: Source[Any], folder: Path) -> str:
    """Check a data set that is not downloaded by reading it; return what to print. Raises UserError."""
    try:
        found.read(folder, np.random.default_rng(0))
    except Damaged as error:
        raise UserError(f"data set {found.name}: {error}; {found.advice(folder)}") from None
    paths = " and ".join(str(folder / name) for name in found.files)
    return f"{paths}: there; no checksum is known, the structure is whole"


# ---- Overview


def overview(folder: Path) -> Table:
    """A table of all data sets: a summary, the folder, and the size on disk or of the download."""
    table = Table(title=f"Data lies in {folder}", title_justify="left", box=box.SIMPLE)
    for heading in ("name", "what it is", "where", "size"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("name", "size"))
    with _refused(f"data folder {folder} cannot be used"):
        for entry in ALL.values():
            table.add_row(entry.name, entry.summary, *_place(entry, folder))
    return table


def _place(entry: Source[Any], folder: Path) -> tuple[str, str]:
    if not entry.files:
        return "in scikit-learn", "-"
    paths = [folder / file for file in entry.files]
    there = f"{paths[0].parent.name}/"
    if all(path.exists() for path in paths):
        return there, megabytes(sum(path.stat().st_size for path in paths))
    if entry.name not in PUBLISHED:
        return there, "missing, unpublished"
    size_bytes = sum(file.size_bytes for file in PUBLISHED[entry.name].files)
    return there, f"missing, {megabytes(size_bytes)}"


def megabytes(size_bytes: int) -> str:
    """A size as text, in MB of 10^6 bytes, or in kB if it is small."""
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 100_000 else f"{size_bytes / 1e3:.1f} kB"


# ---- Getting files


async def fetch(published: Published, folder: Path, console: Console) -> None:
    """Make sure that all files of `published` are in its folder under `folder`.

    An intact file stays, even if its bytes are not the publisher's; a damaged file is replaced.
    Raises UserError.
    """
    at = folder / published.folder
    missing = [file for file in published.files if not _left_alone(file, at / file.name, console)]
    if not missing:
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        SpeedColumn(),
        TimeRemainingColumn(),
    )
    timeout = ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    with _held(at), Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        # The files are gzipped themselves and are checked as published, so the session must not unpack them.
        async with ClientSession(timeout=timeout, trust_env=True, auto_decompress=False) as session:
            for file in missing:
                said = await _obtain(session, published.mirrors, file, at, Bar(bars, file))
                _say(console, f"{at / file.name}: {megabytes(file.size_bytes)}, {said}")


def _left_alone(file: PublishedFile, path: Path, console: Console) -> bool:
    """Whether `path` exists and is intact; prints what it found."""
    if not path.exists():
        return False
    try:
        file.check(path)
    except Damaged as error:
        _say(console, f"{error}: it is fetched again")
        return False
    whose = (
        _judged(file) if file.sha256 in (None, _sha256(path)) else "whole, not the publisher's bytes, kept"
    )
    _say(console, f"{path}: is there, {whose}")
    return True


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Make the folder and lock it for one download. Raises UserError."""
    with _refused(f"{folder} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{folder} is in use by another download; wait for it to end") from None


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Turn an OSError into a UserError that begins with `what`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{what} ({reason(error)}); make room or give another --data-dir") from error


class Bar:
    """The progress bar of one file."""

    def __init__(self, bars: Progress, file: PublishedFile) -> None:
        self._bars = bars
        self._task = bars.add_task(file.name, total=file.size_bytes)

    def at(self, size_bytes: int) -> None:
        """Show that `size_bytes` of the file have arrived."""
        self._bars.update(self._task, completed=size_bytes)


class _Failed(Exception):
    """An attempt failed; `again` says whether another try at the same mirror may succeed."""

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.again = again


async def _obtain(
    session: ClientSession, mirrors: tuple[str, ...], file: PublishedFile, folder: Path, bar: Bar
) -> str:
    """Get one file from the first mirror that provides it; return how it was checked. Raises UserError."""
    partial, failures = folder / f"{file.name}.partial", {}
    for mirror in mirrors:
        for _ in range(TRIES):
            try:
                await _attempt(session, mirror + file.name, file, partial, bar)
            except _Failed as error:
                failures[urlsplit(mirror).netloc] = str(error)
                if not error.again:
                    break
            else:
                with _refused(f"{folder} cannot be written"):
                    partial.replace(folder / file.name)
                return _judged(file)
    raise UserError(_given_up(file, folder, partial, failures))


def _judged(file: PublishedFile) -> str:
    """A text that says how a file was found intact."""
    return "sha256 as published" if file.sha256 else "its publisher gives no checksum, its structure is whole"


def _given_up(file: PublishedFile, folder: Path, partial: Path, failures: Mapping[str, str]) -> str:
    tried = "; ".join(f"{host} {why}" for host, why in failures.items())
    kept = _size(partial) if file.sha256 else 0
    go_on = f", which goes on after {megabytes(kept)}" if kept else ""
    return (
        f"{file.name} could not be fetched: {tried}. Run the command again when there is a network{go_on}; "
        f"or copy the file from elsewhere into {folder}; or name a folder that has it with --data-dir"
    )


async def _attempt(session: ClientSession, url: str, file: PublishedFile, partial: Path, bar: Bar) -> None:
    """Complete `partial` and check it. Raises _Failed, UserError."""
    resumed = _resumable(file, partial)
    if resumed < file.size_bytes:
        await _transfer(session, url, file, partial, resumed, bar)
    _judge(file, partial, again=resumed > 0)


def _resumable(file: PublishedFile, partial: Path) -> int:
    """The bytes of `partial` to resume from; 0 without a checksum, as nothing would detect foreign bytes."""
    return _size(partial) if file.sha256 is not None else 0


async def _transfer(
    session: ClientSession, url: str, file: PublishedFile, partial: Path, resumed: int, bar: Bar
) -> None:
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={resumed}-"} if resumed else {})
    answered = False
    try:
        async with session.get(url, headers=headers) as response:
            answered = True
            with _opened(partial, _start(response, partial, resumed)) as out:
                await _receive(response, file, out, bar)
    except (ClientError, OSError) as error:  # TimeoutError is an OSError
        if not answered:
            raise _Failed(f"cannot be reached ({reason(error)})", again=False) from None
        raise _Failed(f"broke off ({reason(error)}){_so_far(file, partial)}", again=True) from None


def _start(response: ClientResponse, partial: Path, resumed: int) -> int:
    """The byte at which to write the response; 0 if the mirror does not support ranges. Raises _Failed."""
    if response.status == PARTIAL_CONTENT and resumed:
        begins = response.headers.get("Content-Range", "").partition("-")[0]
        if begins != f"bytes {resumed}":
            raise _Failed(f"sent another range than from byte {resumed} on", again=False)
        return resumed
    if response.status == RANGE_NOT_SATISFIABLE:
        partial.unlink(missing_ok=True)
        raise _Failed(f"has no byte {resumed}", again=True)
    if response.status != OK:
        raise _Failed(f"answered {response.status} {response.reason}", again=False)
    return 0


async def _receive(response: ClientResponse, file: PublishedFile, out: FileIO, bar: Bar) -> None:
    """Write the response to `out`, at most the file's size. Raises _Failed, UserError."""
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        _append(chunk, file, out)
        bar.at(out.tell())


def _append(chunk: bytes, file: PublishedFile, out: FileIO) -> None:
    if out.tell() + len(chunk) > file.size_bytes:
        Path(out.name).unlink()
        raise _Failed(f"sent more than the {file.size_bytes} bytes that are published", again=False)
    with _refused(f"{Path(out.name)} cannot be written"):
        left = memoryview(chunk)
        while left:
            left = left[out.write(left) :]


def _opened(partial: Path, start: int) -> FileIO:
    """Open `partial` for writing from byte `start`: its end, or 0 to begin again. Raises UserError."""
    with _refused(f"{partial} cannot be written"):
        # Unbuffered: closing the file must not try again to write bytes that could not be written.
        return partial.open("ab" if start else "wb", buffering=0)


def _judge(file: PublishedFile, partial: Path, *, again: bool) -> None:
    """Raise _Failed unless `partial` is the published file; remove it if more bytes cannot help."""
    size = _size(partial)
    if size < file.size_bytes:
        raise _Failed(f"ended{_so_far(file, partial)}", again=True)
    found = _sha256(partial)
    if file.sha256 not in (None, found):
        partial.unlink()
        raise _Failed(f"sent a file with sha256 {found}, not {file.sha256} as published", again=again)
    try:
        file.check(partial)
    except Damaged as error:
        partial.unlink()
        raise _Failed(f"sent a damaged file: {error}", again=again) from None


def _so_far(file: PublishedFile, partial: Path) -> str:
    return f" at {_size(partial)} of {file.size_bytes} bytes"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
