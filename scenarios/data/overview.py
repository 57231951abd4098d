"""All data sets in a table: for the terminal with what is on disk, for a document with their sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from scenarios.data.disk import megabytes, refused
from scenarios.data.published import PUBLISHED, Published, PublishedFile
from scenarios.data.sources import ALL, Source

SOURCES_HEADER = ("name", "what it is", "publisher", "licence", "files and checksums", "made by", "cite")
_EMBEDDED = "in scikit-learn"


def overview(folder: Path) -> Table:
    """A table of all data sets: a summary, the licence, and the folder with its size, or the download's."""
    table = Table(title=f"Data lies in {folder}", title_justify="left", box=box.SIMPLE)
    for heading in ("name", "what it is", "licence", "where"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "name")
    with refused(f"data folder {folder} cannot be used"):
        for entry in ALL.values():
            table.add_row(entry.name, entry.summary, entry.origin.licence.name, _place(entry, folder))
    return table


def _place(entry: Source[Any], folder: Path) -> str:
    if not entry.files:
        return _EMBEDDED
    paths = [folder / file for file in entry.files]
    there = f"{paths[0].parent.name}/"
    if all(path.exists() for path in paths):
        return f"{there} {megabytes(sum(path.stat().st_size for path in paths))}"
    sizes = [file.size_bytes for file in PUBLISHED[entry.name].files]
    known = sum(size for size in sizes if size is not None)
    more = " and more" if known and None in sizes else ""
    return f"missing, {megabytes(known)}{more}" if known else "missing, size not stated"


def sources_table() -> list[tuple[str, ...]]:
    """A row of Markdown cells for each data set, under SOURCES_HEADER: where it comes from."""
    return [_source_row(entry) for entry in ALL.values()]


def _source_row(entry: Source[Any]) -> tuple[str, ...]:
    origin, published = entry.origin, PUBLISHED.get(entry.name)
    licence = origin.licence
    return (
        f"`{entry.name}`",
        entry.summary,
        f"[{origin.publisher}]({origin.address})",
        f"[{licence.name}]({licence.address})" if licence.address else licence.name,
        _EMBEDDED if published is None else _files(published),
        "" if published is None else "; ".join(dict.fromkeys(made.words for made in published.recipes)),
        origin.citation,
    )


def _files(published: Published) -> str:
    files = "; ".join(map(_file, published.files))
    return f"{files}; from {' or '.join(published.mirrors)}"


def _file(file: PublishedFile) -> str:
    size = "size not stated" if file.size_bytes is None else f"{file.size_bytes:,} bytes"
    digest = file.digest
    if digest is None:
        return f"`{file.name}`, {size}, no checksum known: pinned at the first download"
    return f"`{file.name}`, {size}, {digest.algorithm} `{digest.digits}` as {digest.known}"
