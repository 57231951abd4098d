"""Downloads published files into the data folder, each completely or not at all.

A file is downloaded as `NAME.partial`, checked, and then renamed in one step. An interrupted transfer resumes
from the partial file (HTTP Range, RFC 9110 sec. 14). Mirrors are tried in turn.

A file whose digest nobody states is pinned at its first download: its SHA-256 is written beside it to
NAME.sha256, in the format of `sha256sum`, and a later download must have it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from io import FileIO
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress import TransferSpeedColumn as SpeedColumn

from node.system.errors import UserError, reason
from scenarios.data.dataset import Damaged
from scenarios.data.disk import megabytes, refused
from scenarios.data.published import Digest, Published, PublishedFile

CONNECT_S, SILENCE_S = 20.0, 30.0
TRIES = 4
"""The tries for one file at one mirror; each try resumes where the last one broke off."""
CHUNK_BYTES = 1 << 16

MOST_BYTES = 300_000_000
"""The most bytes that are taken of a file whose size nobody states."""

OK, PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE = 200, 206, 416

_PIN = re.compile(r"([0-9a-f]{64})\s")


async def fetch(published: Published, folder: Path, console: Console) -> None:
    """Make sure that all files of `published` are in its folder under `folder`.

    An intact file stays, even if its bytes are not the publisher's; a damaged file is replaced.
    Raises UserError.
    """
    at = folder / published.folder
    files = [_pinned(file, at) for file in published.files]
    missing = [file for file in files if not _left_alone(file, at / file.name, console)]
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
    with held(at), Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        # The files are gzipped themselves and are checked as published, so the session must not unpack them.
        async with ClientSession(timeout=timeout, trust_env=True, auto_decompress=False) as session:
            for file in missing:
                said = await _obtain(session, published.mirrors, file, at, Bar(bars, file))
                say(console, f"{at / file.name}: {megabytes(_size(at / file.name))}, {said}")


def _left_alone(file: PublishedFile, path: Path, console: Console) -> bool:
    """Whether `path` exists and is intact; prints what it found."""
    if not path.exists():
        return False
    try:
        file.check(path)
    except Damaged as error:
        say(console, f"{error}: it is fetched again")
        return False
    known = file.digest is None or _digits(path, file.digest.algorithm) == file.digest.digits
    whose = _checked_by(file) if known else "whole, not the publisher's bytes, kept"
    say(console, f"{path}: is there, {whose}")
    return True


def _pin(at: Path, name: str) -> Path:
    return at / f"{name}.sha256"


def _pinned(file: PublishedFile, at: Path) -> PublishedFile:
    """`file`, with the digest of its first download if nobody states one. Raises UserError."""
    pin = _pin(at, file.name)
    if file.digest is not None or not pin.exists():
        return file
    with pin.open("rb") as noted:
        found = _PIN.match(noted.read(100).decode("ascii", "replace"))
    if found is None:
        raise UserError(f"{pin} does not begin with a SHA-256 of 64 hexadecimal digits; remove it")
    return replace(file, digest=Digest("sha256", found[1], f"noted in {pin.name} at its first download"))


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make the folder and lock it for one download. Raises UserError."""
    with refused(f"{folder} cannot be written"):
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
                # Without a checksum nothing is resumed, as nothing would detect foreign bytes.
                resumed = _size(partial) if file.digest is not None else 0
                if not _complete(file, partial):
                    await _transfer(session, mirror + file.name, file, partial, resumed, bar)
                _check_download(file, partial, again=resumed > 0)
            except _Failed as error:
                failures[urlsplit(mirror).netloc] = str(error)
                if not error.again:
                    break
            else:
                return _put(partial, file, folder)
    raise UserError(_given_up(file, folder, partial, failures))


def _put(partial: Path, file: PublishedFile, folder: Path) -> str:
    """Put a file that was judged in its place, and pin it if nobody states its digest; how it was checked."""
    with refused(f"{folder} cannot be written"):
        if file.digest is not None:
            partial.replace(folder / file.name)
            return _checked_by(file)
        digits = _digits(partial, "sha256")
        _pin(folder, file.name).write_text(f"{digits}  {file.name}\n", encoding="ascii")
        partial.replace(folder / file.name)
    return (
        f"{_checked_by(file)}; its sha256 {digits} is noted in {_pin(folder, file.name).name}, and a later "
        "download must have it"
    )


def _checked_by(file: PublishedFile) -> str:
    """A text that says how a file was found intact."""
    if file.digest is None:
        return "nobody states its checksum, its structure is whole"
    return f"{file.digest.algorithm} as {file.digest.known}"


def _given_up(file: PublishedFile, folder: Path, partial: Path, failures: Mapping[str, str]) -> str:
    tried = "; ".join(f"{host} {why}" for host, why in failures.items())
    kept = _size(partial) if file.digest else 0
    go_on = f", which goes on after {megabytes(kept)}" if kept else ""
    return (
        f"{file.name} could not be fetched: {tried}. Run the command again when there is a network{go_on}; "
        f"or copy the file from elsewhere into {folder}; or name a folder that has it with --data-dir"
    )


def _complete(file: PublishedFile, partial: Path) -> bool:
    """Whether `partial` was downloaded to its end: it is only judged then."""
    if file.digest is None or not partial.exists():
        return False
    if file.size_bytes is not None:
        return _size(partial) >= file.size_bytes
    return _digits(partial, file.digest.algorithm) == file.digest.digits


async def _transfer(
    session: ClientSession, url: str, file: PublishedFile, partial: Path, resumed: int, bar: Bar
) -> None:
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={resumed}-"} if resumed else {})
    answered = False
    try:
        async with session.get(url, headers=headers) as response:
            answered = True
            if not stays_private(url, str(response.url)):
                raise _Failed(f"leads to {response.url.host} without https", again=False)
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


def stays_private(url: str, final: str) -> bool:
    """Whether redirections from `url` led to no answer that anybody on the way can change."""
    return urlsplit(url).scheme != "https" or urlsplit(final).scheme == "https"


async def _receive(response: ClientResponse, file: PublishedFile, out: FileIO, bar: Bar) -> None:
    """Write the response to `out`, at most the file's size. Raises _Failed, UserError."""
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        _append(chunk, file, out)
        bar.at(out.tell())


def _append(chunk: bytes, file: PublishedFile, out: FileIO) -> None:
    most, whose = (MOST_BYTES, "allowed") if file.size_bytes is None else (file.size_bytes, "published")
    if out.tell() + len(chunk) > most:
        Path(out.name).unlink()
        raise _Failed(f"sent more than the {most} bytes that are {whose}", again=False)
    with refused(f"{Path(out.name)} cannot be written"):
        left = memoryview(chunk)
        while left:
            left = left[out.write(left) :]


def _opened(partial: Path, start: int) -> FileIO:
    """Open `partial` for writing from byte `start`: its end, or 0 to begin again. Raises UserError."""
    with refused(f"{partial} cannot be written"):
        # Unbuffered: closing the file must not try again to write bytes that could not be written.
        return partial.open("ab" if start else "wb", buffering=0)


def _check_download(file: PublishedFile, partial: Path, *, again: bool) -> None:
    """Raise _Failed unless `partial` is the published file; remove it if more bytes cannot help."""
    if _size(partial) < (file.size_bytes or 0):
        raise _Failed(f"ended{_so_far(file, partial)}", again=True)
    digest = file.digest
    if digest is not None and (found := _digits(partial, digest.algorithm)) != digest.digits:
        partial.unlink()
        raise _Failed(
            f"sent a file with {digest.algorithm} {found}, not {digest.digits} as {digest.known}", again=again
        )
    try:
        file.check(partial)
    except Damaged as error:
        partial.unlink()
        raise _Failed(f"sent a damaged file: {error}", again=again) from None


def _so_far(file: PublishedFile, partial: Path) -> str:
    of = "" if file.size_bytes is None else f" of {file.size_bytes}"
    return f" at {_size(partial)}{of} bytes"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _digits(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def say(console: Console, text: str) -> None:
    """Print a line as it is, without colours."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
