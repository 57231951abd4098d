import asyncio
import fcntl
import gzip
import hashlib
import os
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from scenarios.__main__ import main
from scenarios.data.disk import megabytes
from scenarios.data.downloads import fetch
from scenarios.data.images import FEMNIST_FILE, MNIST_FILES
from scenarios.data.overview import SOURCES_HEADER, overview, sources_table
from scenarios.data.published import PUBLISHED, Digest
from scenarios.data.sources import ALL
from tests.unit.scenarios.publisher import (
    CONTENT,
    FILE,
    NAME,
    SHA256,
    UNKNOWN,
    UNSUMMED,
    Publisher,
    get,
    nobody_there,
    publishing,
    put,
    refusal,
    there,
)


async def test_a_file_is_fetched_checked_and_put_in_its_place(tmp_path: Path) -> None:
    publisher = Publisher()
    async with publishing(publisher) as published:
        said = await get(published, tmp_path)
        assert "is there, sha256 as published" in await get(published, tmp_path)
    assert there(tmp_path) == {NAME: CONTENT}
    assert said.splitlines() == [f"{tmp_path / 'set' / NAME}: 0.1 MB, sha256 as published"]
    assert publisher.asked == [None]
    assert publisher.encodings == {"identity"}


async def test_a_whole_file_with_other_bytes_is_kept_and_a_damaged_one_replaced(tmp_path):
    other = gzip.compress(gzip.decompress(CONTENT), 1)
    put(tmp_path, NAME, other)
    publisher = Publisher()
    async with publishing(publisher) as published:
        said = await get(published, tmp_path)
    assert publisher.asked == []
    assert there(tmp_path) == {NAME: other}
    assert "whole, not the publisher's bytes, kept" in said
    put(tmp_path, NAME, CONTENT[:-20])
    async with publishing(Publisher()) as published:
        said = await get(published, tmp_path)
    assert there(tmp_path) == {NAME: CONTENT}
    assert "cannot be read (Compressed file ended" in said
    assert "it is fetched again" in said


async def test_without_a_checksum_the_structure_is_checked_and_an_md5_is_one(tmp_path):
    async with publishing(Publisher()) as published:
        unsummed = replace(published, files=(UNSUMMED,))
        first, again = await get(unsummed, tmp_path), await get(unsummed, tmp_path)
    assert "nobody states its checksum, its structure is whole" in first
    assert f"its sha256 {SHA256} is noted in {NAME}.sha256" in first
    assert f"sha256 as noted in {NAME}.sha256 at its first download" in again
    assert there(tmp_path) == {NAME: CONTENT, f"{NAME}.sha256": f"{SHA256}  {NAME}\n".encode()}
    md5 = Digest("md5", hashlib.md5(CONTENT, usedforsecurity=False).hexdigest(), "published")
    async with publishing(Publisher()) as published:
        said = await get(replace(published, files=(replace(FILE, digest=md5),)), tmp_path / "md5")
        wrong = replace(FILE, digest=replace(md5, digits="0" * 32), name="other.gz")
        assert f"with md5 {md5.digits}, not {'0' * 32} as published" in await refusal(
            replace(published, files=(wrong,)), tmp_path
        )
    assert "md5 as published" in said


async def test_without_a_terminal_there_is_no_bar_and_the_files_own_gzip_is_no_coding(tmp_path):
    said = StringIO()
    async with publishing(Publisher()) as published:
        await fetch(published, tmp_path, Console(file=said, force_terminal=True, width=120))
    assert NAME in said.getvalue()
    assert "━" in said.getvalue()
    async with publishing(Publisher(coding="gzip")) as published:
        await get(published, tmp_path / "coded")
    assert there(tmp_path / "coded") == {NAME: CONTENT}


async def test_a_file_of_unknown_size_and_digest_is_pinned_and_refused_once_it_has_changed(
    tmp_path: Path,
) -> None:
    other = gzip.compress(gzip.decompress(CONTENT), 1)
    async with publishing(Publisher()) as published:
        said = await get(replace(published, files=(UNKNOWN,)), tmp_path)
    assert there(tmp_path)[NAME] == CONTENT
    assert "and a later download must have it" in said
    (tmp_path / "set" / NAME).unlink()
    async with publishing(Publisher(other)) as published:
        said = await refusal(replace(published, files=(UNKNOWN,)), tmp_path)
    assert f"not {SHA256} as noted in {NAME}.sha256 at its first download" in said
    assert NAME not in there(tmp_path)


@pytest.mark.parametrize("noted", [b"", b"abc  labels.gz\n", b"\xff" * 64])
async def test_a_pin_that_is_none_is_one_line(noted: bytes, tmp_path: Path) -> None:
    put(tmp_path, f"{NAME}.sha256", noted)
    async with publishing(Publisher()) as published:
        said = await refusal(replace(published, files=(UNKNOWN,)), tmp_path)
    assert "labels.gz.sha256 does not begin with a SHA-256 of 64 hexadecimal digits; remove it" in said


async def test_a_folder_that_can_not_be_made_or_is_full_is_one_line_and_not_taken_for_a_bad_mirror(tmp_path):
    (tmp_path / "file").write_text("")
    async with publishing(Publisher()) as published:
        said = await refusal(published, tmp_path / "file")
    assert "cannot be written (Not a directory)" in said
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / f"{NAME}.partial").symlink_to("/dev/full")
    async with publishing(Publisher()) as published:
        said = await refusal(published, tmp_path)
    assert "cannot be written (No space left on device)" in said


async def test_a_folder_in_use_by_another_download_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    descriptor = os.open(tmp_path / "set", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        async with publishing(Publisher()) as published:
            said = await refusal(published, tmp_path)
    finally:
        os.close(descriptor)
    assert "in use by another download" in said
    assert there(tmp_path) == {}


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_file_is_one_that_is_loaded_or_made_from(name: str) -> None:
    published = PUBLISHED[name]
    assert published.files
    for file in published.files:
        assert file.digest is None or re.fullmatch("[0-9a-f]{32}|[0-9a-f]{64}", file.digest.digits)
        assert file.digest is None or hashlib.new(
            file.digest.algorithm, usedforsecurity=False
        ).digest_size == (len(file.digest.digits) // 2)
    made = tuple(target for recipe in published.recipes for target in recipe.files)
    fetched = tuple(f"{published.folder}/{file.name}" for file in published.files)
    assert ALL[name].files == (made or fetched)
    assert published.mirrors
    assert all(mirror.startswith("https://") and mirror.endswith("/") for mirror in published.mirrors)


async def test_the_command_fetches_into_the_folder_that_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MURMURATION_DATA", str(tmp_path / "a"))
    async with publishing(Publisher()) as published:
        monkeypatch.setitem(PUBLISHED, "mnist", published)
        assert await asyncio.to_thread(main, ["data", "mnist"]) == 0
        assert await asyncio.to_thread(main, ["data", "mnist", "--data-dir", str(tmp_path / "b")]) == 0
    assert there(tmp_path / "a") == there(tmp_path / "b") == {NAME: CONTENT}
    assert "sha256 as published" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["digits", "breast-cancer"])
def test_what_is_embedded_needs_no_download(name, tmp_path, capsys):
    assert main(["data", name, "--data-dir", str(tmp_path)]) == 0
    assert "there is nothing to get" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_what_was_made_elsewhere_is_judged_by_its_structure_and_kept(tmp_path, capsys):
    (tmp_path / FEMNIST_FILE).parent.mkdir()
    images = np.full((4, 28, 28), 255, np.uint8)
    np.savez(tmp_path / FEMNIST_FILE, images=images, labels=np.arange(4), client=np.arange(4))
    assert main(["data", "femnist-digits", "--data-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "no checksum is known, the structure is whole" in said
    assert "licence: NIST data licence https://www.nist.gov/open/license; cite: Grother" in said


@pytest.mark.parametrize("name", ["mnist", "femnist-digits"])
def test_what_can_not_be_fetched_is_one_line(name, tmp_path, monkeypatch, one_line):
    monkeypatch.setitem(PUBLISHED, name, replace(PUBLISHED[name], mirrors=(nobody_there(),)))
    line = one_line(main, ["data", name, "--data-dir", str(tmp_path)], status=1)
    assert f"scenarios: {PUBLISHED[name].files[0].name} could not be fetched: 127.0.0.1:" in line


def test_without_a_name_it_says_where_each_lies_and_how_large_it_is(tmp_path, capsys):
    for name in MNIST_FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(1_000_000))
    assert main(["data", "--data-dir", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "in scikit-learn" in said
    assert "4.0 MB" in said
    assert "CC BY-SA 3.0" in said
    assert "missing, 170.1 MB" in said
    assert "Data lies in" in said
    assert main(["data", "--data-dir", str(tmp_path / "empty")]) == 0
    assert "missing, 11.6 MB" in capsys.readouterr().out
    assert not (tmp_path / "empty").exists()


def test_the_table_of_sources_has_every_file_with_its_checksum_and_every_licence() -> None:
    rows = {row[0].strip("`"): dict(zip(SOURCES_HEADER, row, strict=True)) for row in sources_table()}
    assert list(rows) == list(ALL)
    assert {name for name, entry in ALL.items() if entry.files} == set(PUBLISHED)
    for name, entry in ALL.items():
        assert entry.origin.address in rows[name]["publisher"]
        assert entry.origin.licence.name in rows[name]["licence"]
        assert rows[name]["cite"] == entry.origin.citation
    for name, published in PUBLISHED.items():
        files = rows[name]["files and checksums"]
        for file in published.files:
            assert f"`{file.name}`" in files
            assert (file.digest is None) == ("no checksum known" in files)
            assert file.digest is None or f"{file.digest.algorithm} `{file.digest.digits}`" in files
        assert all(mirror in files for mirror in published.mirrors)
        assert bool(published.recipes) == bool(rows[name]["made by"])
    assert rows["digits"]["files and checksums"] == "in scikit-learn"


def test_sizes_are_readable_and_those_that_nobody_states_are_said(tmp_path: Path) -> None:
    sizes = {4_542: "4.5 kB", 100_000: "0.1 MB", 11_594_722: "11.6 MB"}
    assert [megabytes(size) for size in sizes] == [*sizes.values()]
    table = overview(tmp_path)
    names, places = (list(table.columns[column].cells) for column in (0, 3))
    said = dict(zip(names, places, strict=True))
    assert said["femnist-digits"] == "missing, 568.1 MB and more"  # NIST's list has an unknown size
    assert said["loan"] == "missing, size not stated"
    assert said["fashion-mnist"] == "missing, 30.9 MB"


@pytest.mark.parametrize("name", ["", "mnist", "femnist-digits"])
def test_a_folder_that_the_system_refuses_is_one_line(name, one_line, tmp_path):
    line = one_line(main, ["data", *name.split(), "--data-dir", str(tmp_path / ("x" * 300))], status=1)
    assert "File name too long" in line
    assert "--data-dir" in line
